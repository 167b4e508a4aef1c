"""
Pairs of a good and a bad response, from which a judge learns to tell them apart.

The good response is the next utterance of a dialogue between people. The bad one is of
one of six kinds:

    random        an utterance of another dialogue
    adversarial   written by people to look relevant and be wrong (DailyDialog++)
    repeated      an earlier turn of the same dialogue, said again
    speaker       a turn of the other speaker: the turn after the good response
    shuffled      the words of the good response in random order
    swapped       the good response itself, after the context of another dialogue

The first two are those of PairEval (Park et al. 2024, section 3.3). The others are
ours, and are made only when they are asked for: `repeated` and `speaker` for the
failures of its section 4.3, `shuffled` and `swapped` to see whether a judge reads the
order of words, and the context at all.
Each response is a candidate in its own dialogue: PairEval compares conversations.
"""

import random
from collections.abc import Iterator, Sequence
from pathlib import Path

from parlai_ext.core import UserError, frozen, grouped, option, optional, require_known
from parlai_ext.core.records import user_record
from parlai_ext.data.corpora import AnnotatedContext, Turns
from parlai_ext.files import json_lines
from parlai_ext.judge_check.perturbations import same_text
from parlai_ext.ranking.intervals import wilson_interval
from parlai_ext.scoring.base import Scorer, ScoringItem
from parlai_ext.scoring.llm_judges import JudgedResponse
from parlai_ext.scoring.score_run import score_items
from parlai_ext.view.progress import bar_of

KINDS = ('random', 'adversarial', 'repeated', 'speaker', 'shuffled', 'swapped')
MOST_PAIRS = 80_000  # of DailyDialog, in the paper


@frozen
class ResponsePair:
    """
    A good and a bad response, each after its own context.

    :param kind: how the bad response was made, one of `KINDS`.
    """

    good: JudgedResponse
    bad: JudgedResponse
    kind: str


@frozen
class PairOptions:
    """
    How many pairs are made, of which kinds, and how long they may be.
    """

    num_pairs: int | None = optional(
        low=1,
        help=f'pairs in all (default: {MOST_PAIRS}, as in the paper with DailyDialog, '
        'or fewer, as far as adversarial responses go; ConvAI2: 65000)',
    )
    kinds: tuple[str, ...] | None = optional(
        help='kinds of bad responses in equal parts, one named twice counts twice: '
        f'{", ".join(KINDS)} (default: random, and adversarial with --adversarial)',
    )
    same_context: float = option(
        0.5,
        low=0,
        high=1,
        help='the part of pairs whose responses follow one context; in the others the '
        'bad response stands in another dialogue, as in scoring',
    )
    per_context: int = option(
        1,
        low=1,
        help='bad responses for each good one; training shares what they have in '
        'common, and a judge sees right and wrong side by side',
    )
    context_turns: int = option(4, low=1, help='utterances before a response')
    max_words: int = option(
        0, low=0, help='leave out pairs with more words in all; 0: none'
    )
    seed: int = option(0, low=0, help='of all that is drawn')


def build_pairs(
    dialogues: Sequence[Turns],
    annotated: Sequence[AnnotatedContext],
    options: PairOptions,
) -> list[ResponsePair]:
    """
    Return pairs of all kinds in random order, those with one good response together.

    Without a number in the options, there may be fewer adversarial pairs than of the
    other kinds: each pair of texts that people wrote is used once at most.

    :param annotated: the contexts with adversarial responses.
    :raises UserError: when a kind cannot be made, or not so many pairs of it.
    """
    maker = PairMaker(dialogues, annotated, options)
    planned = dict(maker.missing)
    groups = [*maker.groups()]
    for kind, number in maker.missing.items():
        enough = kind == 'adversarial' and options.num_pairs is None
        if number and not (enough and number < planned[kind]):
            made = sum(planned.values()) - sum(maker.missing.values())
            raise UserError(
                f'--num-pairs: {number} of the {kind} pairs cannot be made of these '
                f'dialogues; {made or "others, or a larger --max-words,"} would do'
            )
    random.Random(f'{options.seed} order').shuffle(groups)
    return [pair for group in groups for pair in group]


def planned_pairs(
    annotated: Sequence[AnnotatedContext], options: PairOptions
) -> dict[str, int]:
    """
    Return how many pairs of each kind are asked for.

    :raises UserError: for an unknown kind, and adversarial pairs without their file.
    """
    kinds = options.kinds or ('random', *(('adversarial',) if annotated else ()))
    for kind in kinds:
        require_known(kind, KINDS, f'--kinds: {kind!r}')
    if 'adversarial' in kinds and not any(one.adversarial for one in annotated):
        raise UserError(
            '--kinds: adversarial pairs need --adversarial FILE of DailyDialog++ '
            '(dev.json or train.json)'
        )
    total = MOST_PAIRS if options.num_pairs is None else options.num_pairs
    planned = {kind: total * kinds.count(kind) // len(kinds) for kind in kinds}
    planned[kinds[0]] += total - sum(planned.values())
    return planned


class PairMaker:
    """
    Draws pairs from dialogues; equal seeds give equal pairs.

    Each place of a dialogue is used once before any is used again.
    """

    def __init__(
        self,
        dialogues: Sequence[Turns],
        annotated: Sequence[AnnotatedContext],
        options: PairOptions,
    ):
        self.missing = planned_pairs(annotated, options)  # counts down
        self.dialogues = [turns for turns in dialogues if len(turns) >= 2]
        if len(self.dialogues) < 2:
            raise UserError('--path: two dialogues of two utterances are the least')
        self.annotated = [one for one in annotated if one.adversarial]
        self.options = options
        self.rng = random.Random(f'{options.seed} pairs')

    def groups(self) -> Iterator[list[ResponsePair]]:
        """
        Yield groups of pairs that are missing, one good response each.
        """
        kinds = [kind for kind in self.missing if kind != 'adversarial']
        places = [
            (d, i)
            for d, turns in enumerate(self.dialogues)
            for i in range(1, len(turns))
        ]
        made = True
        while made and any(self.missing[kind] for kind in kinds):
            self.rng.shuffle(places)
            made = False
            for d, i in places:
                if group := self._group(d, i, kinds):
                    made = True
                    yield group
        # good and adversarial responses of DailyDialog++, each two texts once at most
        rounds = [
            (one, good, shift)
            for one in self.annotated
            for good in one.positive
            for shift in range(0, len(one.adversarial), self.options.per_context)
        ]
        self.rng.shuffle(rounds)
        for one, response, shift in rounds:
            good = JudgedResponse(one.context, response)
            pairs: list[ResponsePair] = []
            for text in one.adversarial[shift : shift + self.options.per_context]:
                if self.missing.get('adversarial') and not same_text(text, response):
                    self._add(pairs, self._pair(good, text, 'adversarial'))
            if pairs:
                yield pairs

    def _group(self, d: int, i: int, kinds: Sequence[str]) -> list[ResponsePair]:
        """
        Return pairs with the response at one place of a dialogue, of kinds that are
        still missing.
        """
        turns = self.dialogues[d]
        good = JudgedResponse(turns[:i], turns[i])
        pairs: list[ResponsePair] = []
        wrong: set[str] = set()
        for _ in range(self.options.per_context):
            weights = [self.missing[kind] for kind in kinds]
            if not any(weights):
                break
            [kind] = self.rng.choices(kinds, weights)
            if kind == 'swapped':
                pair = self._swapped_pair(good)
                if pair is not None and pair not in pairs:
                    self._add(pairs, pair)
                continue
            if kind == 'repeated':
                # the last turns of both speakers most of all
                places = [i - 1, max(0, i - 2), self.rng.randrange(i)]
                text = turns[self.rng.choice(places)]
            elif kind == 'speaker':
                # where there is none, the good one, which is left out below
                text = turns[i + 1] if i + 1 < len(turns) else good.response
            elif kind == 'shuffled':
                words = turns[i].split()
                text = ' '.join(self.rng.sample(words, len(words)))
            else:
                other = self.rng.randrange(len(self.dialogues) - 1)
                text = self.rng.choice(self.dialogues[other + (other >= d)])
            if text not in wrong and not same_text(text, good.response):
                wrong.add(text)
                self._add(pairs, self._pair(good, text, kind))
        return pairs

    def _add(self, pairs: list[ResponsePair], pair: ResponsePair) -> None:
        """
        Add a pair to its group, if both its conversations are short enough.
        """
        n_words = sum(
            len(text.split())
            for one in (pair.good, pair.bad)
            for text in (*one.context, one.response)
        )
        if not self.options.max_words or n_words <= self.options.max_words:
            pairs.append(pair)
            self.missing[pair.kind] -= 1

    def _swapped_pair(self, good: JudgedResponse) -> ResponsePair | None:
        """
        Return a pair of a response in its own place, and in as late a place of another
        dialogue; `None` where the one that is drawn is shorter, or goes on alike.
        """
        i = len(good.context)
        other = self.rng.choice(self.dialogues)
        if len(other) <= i or same_text(other[i], good.response):
            return None
        context, swapped = (self._cut(turns) for turns in (good.context, other[:i]))
        if swapped == context:
            return None
        one, two = (
            JudgedResponse(turns, good.response) for turns in (context, swapped)
        )
        return ResponsePair(one, two, 'swapped')

    def _pair(self, good: JudgedResponse, wrong: str, kind: str) -> ResponsePair:
        """
        Return the pair whose bad response follows the context of the good one, or whose
        good response follows one of another dialogue.
        """
        bad = JudgedResponse(self._cut(good.context), wrong)
        if self.rng.random() < self.options.same_context:
            return ResponsePair(JudgedResponse(bad.context, good.response), bad, kind)
        if kind == 'adversarial':  # good and bad by the same writers
            one = self.rng.choice(self.annotated)
            context, response = one.context, self.rng.choice(one.positive)
        else:
            turns = self.rng.choice(self.dialogues)
            i = self.rng.randrange(1, len(turns))
            context, response = turns[:i], turns[i]
        return ResponsePair(JudgedResponse(self._cut(context), response), bad, kind)

    def _cut(self, context: Turns) -> Turns:
        return context[-self.options.context_turns :]


# --- files of pairs -------------------------------------------------------------------


def read_response_pairs(path: str | Path) -> list[ResponsePair]:
    """
    Return the pairs of a file that `parlai build_pairs` wrote.

    :raises UserError: names the file, line and key that is wrong.
    """
    place = Path(path).expanduser()
    if not place.is_file():
        raise UserError(f'there is no file {place}; parlai build_pairs makes one')
    pairs = [
        user_record(ResponsePair, row, f'{place}:{number}')
        for number, row in json_lines(place)
    ]
    if not pairs:
        raise UserError(f'{place}: no pairs in it')
    return pairs


# --- how often does a scorer give the good response of a pair the higher score? -------

ALL = 'all'


@frozen
class PairAccuracy:
    """
    The part of pairs in which the good response has the higher score, with its 95%
    interval (Wilson); equal scores count one half; `None` where no pair has scores.

    :param num_unscored: pairs of which a response has no score; they are left out.
    """

    kind: str
    num_pairs: int
    accuracy: float | None
    low: float | None
    high: float | None
    num_unscored: int


def pair_accuracy(kind: str, wins: Sequence[float | None]) -> PairAccuracy:
    """
    Return the accuracy on pairs of a kind.

    :param wins: 1, one half or 0 for each pair; `None` without scores.
    """
    known = [win for win in wins if win is not None]
    accuracy = low = high = None
    if known:
        accuracy = sum(known) / len(known)
        low, high = wilson_interval(sum(known), len(known))
    return PairAccuracy(kind, len(known), accuracy, low, high, len(wins) - len(known))


def pair_accuracies(
    scorer: Scorer, pairs: Sequence[ResponsePair]
) -> list[PairAccuracy]:
    """
    Return the accuracy of a scorer on each kind of pairs, and on all of them.

    :raises UserError: when no pair has scores.
    """
    items = [
        ScoringItem(one.context, one.response)
        for pair in pairs
        for one in (pair.good, pair.bad)
    ]
    with bar_of('score', len(items), unit='response') as bar:
        scores = score_items(scorer, items, None, bar)
    values = [score.values[scorer.dimensions[0]] for score in scores]
    wins = [
        None if good is None or bad is None else (good > bad) + (good == bad) / 2
        for good, bad in zip(values[::2], values[1::2], strict=True)
    ]
    by_kind = grouped(zip((pair.kind for pair in pairs), wins, strict=True))
    accuracies = [pair_accuracy(*own) for own in sorted(by_kind.items())]
    accuracies.append(pair_accuracy(ALL, wins))
    if not accuracies[-1].num_pairs:
        reasons = {why for score in scores for why in score.reasons.values() if why}
        raise UserError(f'no pair has scores: {"; ".join(sorted(reasons))}')
    return accuracies
