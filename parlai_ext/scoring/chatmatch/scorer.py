"""
ChatMatch as a `Scorer`: raw values of every game, and what each turn adds to the seven
dimensions, or why it does not count. Larger is better everywhere: perplexities and
penalties are negated.

The paper's text and the authors' script differ, so a reading is part of every number's
signature: `paper` is the text, `released` what the script computes, `released_fixed`
the script with its swapped specificity mended. docs/chatmatch.md lists the differences.

Algorithms 1 and 2: who repeats, and who answers a repeated question otherwise. How
alike two turns are is the cosine of their tf-idf vectors, which are scikit-learn's: idf
is smoothed, ``log((1 + turns) / (1 + turns with it)) + 1``. Algorithm 3: a concept that
comes back after a while is a bonus.
"""

import math
import operator
import re
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from itertools import accumulate, pairwise

import numpy as np

from parlai_ext.core import (
    Dialogue,
    LanguageModel,
    Question,
    Score,
    ScoredDialogue,
    Utterance,
    computed_once,
    frozen,
    mean,
    option,
)
from parlai_ext.ranking.games import Game, award_points
from parlai_ext.scoring.base import (
    Items,
    ItemScore,
    Scorer,
    ScoringItem,
    judged_speakers,
)
from parlai_ext.scoring.chatmatch.concepts import (
    distinct,
    load_dictionaries,
    stems,
    words,
)
from parlai_ext.scoring.chatmatch.entities import load_recogniser
from parlai_ext.scoring.likelihood import finite_sum, judge_option

DIMENSIONS = (
    'fluency',
    'knowledge',
    'proactivity',
    'specificity',
    'diversity',
    'consistency',
    'relevance',
)
READINGS = ('released_fixed', 'released', 'paper')
UNITS = ('character', 'token')


@frozen
class ChatMatchOptions:
    """
    A reading with its thresholds, and where entities, concepts and perplexities come
    from. The defaults are those of reading ``released_fixed``.
    """

    reading: str = option(
        'released_fixed',
        help='the text, the released script, or that with its swapped point mended; '
        'it sets the defaults of the thresholds',
        choices=READINGS,
    )
    repetition: float = option(
        0.95, help='similarity from which a turn is a repetition (σ_r)', low=0, high=1
    )
    contradiction: float = option(
        0.8, help='similarity below which an answer is another one (σ_c)', low=0, high=1
    )
    recall_distance: int = option(
        1, help='a concept is recalled after more than this many turns (d)', low=0
    )
    concept_share: float = option(
        0.5,
        help='share of concepts, rarest first, that can be recalled (p)',
        low=0,
        high=1,
    )
    perplexity_cap: float = option(
        50.0, help='no perplexity counts as more; 0 is no cap', low=0
    )
    perplexity_unit: str = option(
        'character',
        help="perplexity per character, as the script's model, or per token",
        choices=UNITS,
    )
    distinct_unit: str = option(
        'character', help='what distinct-1 and distinct-2 count', choices=UNITS
    )
    first_judged: int = option(
        3, help='first place whose repetition and fluency are judged', low=1
    )
    entities: str = option(
        'gazetteer',
        help='gazetteer, capitals, spacy[:MODEL], stanza[:LANGUAGE] or none',
    )
    concepts: str = option(
        'content_words',
        help='content_words, nltk, or a file or folder of dictionaries',
        path=True,
    )
    judge_model_file: str = judge_option(
        'zoo:mini/judge/model', 'the language model for fluency, or none'
    )

    presets = {
        'reading': {
            'paper': {
                'perplexity_cap': 0.0,
                'perplexity_unit': 'token',
                'distinct_unit': 'token',
                'first_judged': 1,
            }
        }
    }

    @property
    def released(self) -> bool:
        """
        True for what the released script does otherwise than the text of the paper.

        A turn may repeat its own speaker only; a lone last ``?`` alone makes a repeated
        question; two questions in a turn count once; a similarity equal to the
        threshold is no contradiction; concepts are looked up as they are written,
        capitals and all; what a repeated turn does otherwise, the last turn of an even
        number of turns, and a side's worst perplexity do not count; an empty turn is a
        repetition; an entity counts once a game, for who names it first; entities
        behind a turn's first colon are not seen; specificity and knowledge look at
        uncounted turns, too.
        """
        return self.reading != 'paper'


# equal turns have a cosine of 1 only up to rounding
ROUNDING = 1e-9


def find_echoes(
    texts: Sequence[str], rules: ChatMatchOptions
) -> tuple[list[int | None], list[int | None]]:
    """
    Return, for each turn, the earlier turn that it is penalised for repeating, and the
    speaker's own earlier answer that it is penalised for contradicting, or `None`.
    """
    alike = similarities(texts)
    step = 2 if rules.released else 1  # the script's turns repeat their own speaker's
    close = (alike >= rules.repetition - ROUNDING).tolist()
    same = [  # the earlier turns that each turn repeats: Rep(t)
        [j for j in range(i % step, i, step) if row[j] and i >= rules.first_judged]
        for i, row in enumerate(close)
    ]
    # of the script, a lone last mark alone makes a repeated question
    asks = [
        text.split()[-1:] == ['?'] if rules.released else '?' in text for text in texts
    ]
    differs = operator.lt if rules.released else operator.le
    repeats: list[int | None] = []
    contradicts: list[int | None] = []
    asked_before: list[int] = []  # where the turn before this one was asked before
    for i, row in enumerate(alike):
        # what the other speaker answered, nobody is bound to
        own = [j + 1 for j in asked_before if (i - j) % 2]
        others = (j for j in own if differs(row[j], rules.contradiction))
        contradicts.append(next(others, None))
        questions = [j for j in same[i] if asks[i] and asks[j]]
        # an answer to a repeated question may be the same again
        free = asked_before and not questions
        repeats.append(None if free or not same[i] else (questions or same[i])[-1])
        asked_before = questions
    return repeats, contradicts


def similarities(texts: Sequence[str]) -> np.ndarray:
    """
    Return the cosine of every two turns; a turn without words is like no other.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(map(stems, texts)):
        return np.zeros((len(texts), len(texts)))
    rows = TfidfVectorizer(analyzer=stems).fit_transform(texts)
    return (rows @ rows.T).toarray()


QUESTION = re.compile(r'\?[?!]*')  # the end of one question


def rarest_concepts(
    texts: Sequence[str], concepts: Mapping[str, str], share: float
) -> set[str]:
    """
    Return a share of the concepts: those that the fewest turns mention. Rare first is
    high inverse document frequency first. Among equals, the concept that was found
    first goes first.
    """
    num_turns = dict.fromkeys(concepts.values(), 0)
    for text in texts:
        for root in num_turns.keys() & stems(text):
            num_turns[root] += 1
    ordered = sorted(num_turns, key=lambda concept: num_turns[concept])
    most = len(ordered) * share
    return {concept for rank, concept in enumerate(ordered) if rank < most}


def find_recalls(
    texts: Sequence[str], concepts: Mapping[str, str], rules: ChatMatchOptions
) -> list[int | None]:
    """
    Return, for each turn, the earlier turn whose concept it recalls, or `None`. Only
    the rarest concepts can be recalled.

    :param concepts: word to concept, in the order in which they were found.
    """
    rarest = rarest_concepts(texts, concepts, rules.concept_share)
    last: dict[str, int] = {}
    recalls: list[int | None] = []
    for i, text in enumerate(texts):
        recalled = None
        # the script does not look at the first turn
        for word in words(text) if not rules.released else text.split() if i else ():
            concept = concepts.get(word)
            if concept is None or concept not in rarest:
                continue
            before = last.get(concept, i)
            if i - before > rules.recall_distance and recalled is None:
                recalled = before
            last[concept] = i
        recalls.append(recalled)
    return recalls


@frozen
class Material:
    """
    What a game needs beside its turns; `None` where nobody was asked.

    :param concepts: word to concept, in the order in which they were found.
    :param names: the entities of each turn.
    :param perplexities: of each turn; `None` for a turn without one.
    """

    concepts: Mapping[str, str] | None = field(default_factory=dict)
    names: Sequence[Sequence[str]] | None = None
    perplexities: Sequence[float | None] | None = None


def turn_scores(
    dialogue: Dialogue, rules: ChatMatchOptions, material: Material
) -> list[ItemScore]:
    """
    Return the values of each turn; the evidence is the earlier turns that it repeats,
    contradicts and recalls, and its perplexity.
    """
    texts, unit = dialogue.texts, rules.distinct_unit
    repeats, contradicts = find_echoes(texts, rules)
    recalls = find_recalls(texts, material.concepts or {}, rules)
    columns: dict[str, Sequence[float | None]] = {
        'fluency': fluency(texts, material.perplexities, rules),
        'knowledge': knowledge(material.names, len(texts), rules),
        # the script tells only whether a turn asks
        'proactivity': [
            '?' in text if rules.released else len(QUESTION.findall(text))
            for text in texts
        ],
        'specificity': [sum(distinct(text, unit)) / 2 for text in texts],
        'diversity': [
            0 - (j is not None or (rules.released and text == ''))
            for j, text in zip(repeats, texts, strict=True)
        ],
        'consistency': [0 - (j is not None) for j in contradicts],
        'relevance': [
            None if material.concepts is None else j is not None for j in recalls
        ],
    }
    missing = {
        'fluency': 'no language model was asked'
        if material.perplexities is None
        else 'the language model gives the turn no finite perplexity',
        'knowledge': 'no entity recogniser was asked',
        'relevance': 'there is no dictionary of concepts',
    }
    perplexities = material.perplexities or [None] * len(texts)
    evidence = zip(repeats, contradicts, recalls, perplexities, strict=True)
    rows = zip(*columns.values(), strict=True)
    scores = []
    for i, (row, reasons) in enumerate(zip(rows, evidence, strict=True)):
        uncounted = why_not_counted(dialogue, i, repeats[i], rules)
        values = dict(zip(columns, row, strict=True)) | dict.fromkeys(uncounted)
        score = ItemScore(values, missing | uncounted, reasons)
        scores.append(score.completed(DIMENSIONS))
    return scores


def why_not_counted(
    dialogue: Dialogue, i: int, repeated_turn: int | None, rules: ChatMatchOptions
) -> dict[str, str]:
    """
    Return why turn ``i`` does not count, by each dimension for which it does not.

    A turn may not count because of where it stands (it is given, or the last of an even
    number), or because it is repeated.
    """
    n = len(dialogue.utterances)
    place = repeated = None
    if i == 0 or dialogue.utterances[i].given:
        place = 'not counted: given'
    if rules.released and n % 2 == 0 and i == n - 1:
        place = 'not counted: the last of an even number of turns'
    if repeated_turn is not None and rules.released:
        repeated = 'not counted: repeated'
    either = place or repeated
    reasons = {
        **dict.fromkeys(DIMENSIONS, either),
        'knowledge': None if rules.released else place,
        'specificity': repeated if rules.released else either,
        'diversity': place,
    }
    return {name: reason for name, reason in reasons.items() if reason}


def fluency(
    texts: Sequence[str],
    perplexities: Sequence[float | None] | None,
    rules: ChatMatchOptions,
) -> list[float | None]:
    """
    Return the negated perplexities; `None` where there is no finite one.

    Turns before the first that is judged count as 0, as the script has it, and a text
    of one character or none as the cap, where there is one.
    """
    if perplexities is None:
        return [None] * len(texts)
    cap = rules.perplexity_cap
    values: list[float | None] = []
    for i, (text, perplexity) in enumerate(zip(texts, perplexities, strict=True)):
        if cap and len(text) <= 1:
            perplexity = cap
        if i < rules.first_judged:
            values.append(0)
        elif perplexity is None or not math.isfinite(perplexity):
            values.append(None)
        else:
            values.append(-min(perplexity, cap or math.inf))
    return values


def knowledge(
    names: Sequence[Sequence[str]] | None, n: int, rules: ChatMatchOptions
) -> Sequence[int | None]:
    """
    Return how many entities each turn names, or, as the released script counts, how
    many that no turn before has named; `None` for each turn without entities.

    :param n: how many turns there are.
    """
    if names is None:
        return [None] * n
    if not rules.released:
        return [len(turn_names) for turn_names in names]
    counted: set[str] = set()
    values = []
    for turn_names in names:
        new = set(turn_names) - counted
        counted |= new
        values.append(len(new))
    return values


def perplexities(
    likelihood: LanguageModel, texts: Sequence[str], unit: str
) -> list[float | None]:
    """
    Return the perplexity of each text, without context, its end token included.

    Per token, or per character (the end token counts as one more), where models with
    different vocabularies compare. `None` for an empty text, or where it is not finite.
    Equal texts are asked once, and all at once, the shortest first: they share batches.
    """
    asked = sorted({text for text in texts if text.strip()}, key=lambda t: (len(t), t))
    answers = likelihood.answer([Question((), (text,)) for text in asked])
    by_text = {}
    for text, answer in zip(asked, answers, strict=True):
        logprobs = answer.continuations[0]
        total = finite_sum(logprobs)
        if total is not None:
            n = len(text) + 1 if unit == 'character' else len(logprobs)
            with suppress(OverflowError):
                by_text[text] = math.exp(-total / n)
    return [by_text.get(text) for text in texts]


SIDES, EXCHANGES = 2, 100
MEANS = ('fluency', 'specificity')


@frozen
class JudgedGame:
    """
    The scores of a dialogue.

    :param turns: of each turn; none in a dialogue that is no game.
    :param sides: of each speaker in the whole game.
    :param nothing: the scores of all in a dialogue that is no game, with the reason.
    """

    turns: Sequence[ItemScore] = ()
    sides: Mapping[str, ItemScore] = field(default_factory=dict)
    nothing: ItemScore | None = None

    def score(self, item: ScoringItem) -> ItemScore:
        """
        Return the score of an item's turn, or of its speaker in the whole game.
        """
        if self.nothing:
            return self.nothing
        if item.response is not None:
            return self.turns[len(item.context)]
        return self.sides.get(item.speaker, ItemScore({}))


def speakers(dialogue: Dialogue) -> list[str]:
    """
    Return the speakers' names in their order of speaking.
    """
    return list(dict.fromkeys(dialogue.speakers))


def why_no_game(dialogue: Dialogue) -> str | None:
    """
    Return why a dialogue is no game of two sides in turns; `None` when it is one.

    One name alone is a self-chat: its even turns are one side, its odd ones the other.
    """
    utterances, names = dialogue.utterances, speakers(dialogue)
    if len(utterances) < SIDES:
        return f'{len(utterances)} turn(s): a game has at least one exchange of two'
    if len(names) > SIDES:
        return f'{len(names)} speakers ({", ".join(names)}): a game has two'
    for i, (before, now) in enumerate(pairwise(dialogue.speakers), 1):
        if len(names) > 1 and now == before:
            return f'turn {i}: {now} speaks twice running; sides take turns'
    return None


def judged_game(
    dialogue: Dialogue, rules: ChatMatchOptions, material: Material
) -> JudgedGame:
    """
    Return the scores of a dialogue.

    In a self-chat both sides are one: counts are added, means averaged.
    """
    if reason := why_no_game(dialogue):
        nothing = dict.fromkeys(DIMENSIONS), dict.fromkeys(DIMENSIONS, reason)
        return JudgedGame(nothing=ItemScore(*nothing))
    turns = turn_scores(dialogue, rules, material)
    halves = [turns[start::SIDES] for start in range(SIDES)]
    swapped: Sequence[str] = ()
    if rules.reading == 'released':
        # the script's slips: each side gets the other's specificity, and fluency, too,
        # where only the first speaker has one unrepeated turn
        n_even, n_odd = (
            sum(turn.values['proactivity'] is not None for turn in half)
            for half in halves
        )
        swapped = ('specificity', 'fluency')[: 1 + (n_even == 1 and n_odd > 1)]
    sides = [
        side_score({d: other if d in swapped else own for d in DIMENSIONS}, rules)
        for own, other in (halves, halves[::-1])
    ]
    names = speakers(dialogue)
    if len(names) > 1:
        return JudgedGame(turns, dict(zip(names, sides, strict=True)))
    values = {}
    for name in DIMENSIONS:
        average = mean([side.values[name] for side in sides])
        if average is not None and name not in MEANS:
            average *= SIDES
        values[name] = average
    even, odd = sides
    whole = ItemScore(values, {**odd.reasons, **even.reasons})
    return JudgedGame(turns, {names[0]: whole})


def side_score(
    turns: Mapping[str, Sequence[ItemScore]], rules: ChatMatchOptions
) -> ItemScore:
    """
    Return one side's raw values.

    :param turns: by dimension, those that count for the side.
    """
    values: dict[str, float | None] = {}
    reasons = {}
    for name, column in turns.items():
        told = dict.fromkeys(turn.reasons.get(name) or '' for turn in column)
        known = [v for turn in column if (v := turn.values[name]) is not None]
        total, count = math.fsum(known), len(known)
        if name == 'fluency' and rules.released and count > 1:
            total, count = total - min(known), count - 1
        elif name == 'knowledge' and not rules.released:
            total = total * EXCHANGES / len(column)
        values[name] = total / count if known and name in MEANS else total
        if not known:
            values[name], reasons[name] = None, '; '.join(told)
    return ItemScore(values, reasons)


# --- the scorers ----------------------------------------------------------------------

REMEMBERED = 64  # games
UNNAMED = ('one', 'other')  # speakers of a game that names none
OVERALL = 'Overall'
NO_NAMES = ('', '')  # where it is not known who says what
ALONE = 'ChatMatch scores a game by comparing its two sides; a response has no game'


class ChatMatch(Scorer):
    """
    Judges whole games. A game's own values have no utterance index.

    Which concepts are important and how alike two turns are depends on the whole game,
    so an item without ``later`` turns is judged as if the game ended with it. The
    evidence of a turn names the earlier turns behind its penalty or bonus, and its
    perplexity. Without a judge, fluency has no score; without entities, knowledge.
    """

    name = 'chatmatch'
    version = 2
    options_class = ChatMatchOptions
    options: ChatMatchOptions
    dimensions = DIMENSIONS
    evidence_labels = ('repeats_turn', 'contradicts_turn', 'recalls_turn', 'perplexity')

    def prepare(self) -> None:
        """
        Read the dictionaries of concepts, and load the recogniser of entities.
        """
        self.dictionaries = load_dictionaries(self.options.concepts)
        self.recogniser = load_recogniser(self.options.entities)
        self.signed = {
            'entities': self.recogniser.signature if self.recogniser else 'none',
            'concepts': self.dictionaries.signature,
        }
        self.remembered: dict[Dialogue, JudgedGame] = {}

    def score_dialogues(
        self, dialogues: Sequence[Dialogue], indices: Sequence[Sequence[int]]
    ) -> list[ScoredDialogue]:
        """
        Judge, in ``dialogues[i]``, the utterances ``indices[i]`` and their speakers.
        One that is no game has only the reason why its speakers have no score.
        """
        scored = []
        for dialogue, game, counted in zip(
            dialogues, self.judged(dialogues), indices, strict=True
        ):
            judged, sides = judged_speakers(dialogue, counted), game.sides
            if game.nothing:
                counted, sides = (), dict.fromkeys(judged, game.nothing)
            rows: list[tuple[int | None, str, ItemScore]] = [
                (i, dialogue.speakers[i], game.turns[i]) for i in counted
            ]
            rows += [(None, name, sides[name]) for name in sides if name in judged]
            scores = tuple(
                Score(dialogue.id, index, system, name, value, score.reasons.get(name))
                for index, system, score in rows
                for name, value in score.values.items()
            )
            evidence = {i: game.turns[i].evidence for i in counted}
            scored.append(ScoredDialogue(dialogue.id, scores, evidence))
        return scored

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return what each item's turn adds to its game. The turns of a game are judged
        together, and a game that was judged lately is remembered.
        """
        games = [game_of(item, UNNAMED) for item in items]
        new = [game for game in dict.fromkeys(games) if game not in self.remembered]
        self.remembered |= dict(zip(new, self.judged(new), strict=True))
        scores = [
            self.remembered[game].score(item)
            for game, item in zip(games, items, strict=True)
        ]
        self.remembered = dict(list(self.remembered.items())[-REMEMBERED:])
        return scores

    def judged(self, dialogues: Sequence[Dialogue]) -> list[JudgedGame]:
        """
        Return the scores of each dialogue.
        """
        games = zip(dialogues, self.materials(dialogues), strict=True)
        return [judged_game(game, self.options, material) for game, material in games]

    def materials(self, dialogues: Sequence[Dialogue]) -> list[Material]:
        """
        Return the perplexities, entities and concepts of these games; the model is
        asked once.
        """
        texts = [text for dialogue in dialogues for text in dialogue.texts]
        names = fluent = None
        if self.recogniser is not None:
            cut = self.options.released  # behind the first colon
            seen = [text.partition(':')[0] if cut else text for text in texts]
            names = computed_once(self.recogniser.find, seen)
        for _, name in self.named_models():  # one, or none
            unit = self.options.perplexity_unit
            fluent = perplexities(self.models.likelihood(name), texts, unit)
        ends = accumulate((len(one.utterances) for one in dialogues), initial=0)
        return [
            Material(
                self.dictionaries.find(dialogue),
                names and names[start:stop],
                fluent and fluent[start:stop],
            )
            for dialogue, (start, stop) in zip(dialogues, pairwise(ends), strict=True)
        ]


def game_of(item: ScoringItem, sides: tuple[str, str]) -> Dialogue:
    """
    Return the game of an item.

    :param sides: its speakers, where the item does not say who spoke.
    """
    texts = (*item.utterances, *item.extras.get('later', ()))
    names = item.speakers or [sides[i % 2] for i in range(len(texts))]
    return Dialogue('', '', '', tuple(map(Utterance, names, texts)))


class ChatMatchGame(Scorer):
    """
    Judges a speaker's side of a whole dialogue against the other side.

    `Overall` is the number of points; the other dimensions are the side's raw values,
    as in `ChatMatch`. The evidence is the points of the speaker by dimension. Of a
    judged response, there are only the values that its turn adds; ``Overall`` has none.
    """

    name = 'chatmatch_game'
    level = 'dialogue'
    also_level = 'turn'
    version = ChatMatch.version
    options_class = ChatMatchOptions
    options: ChatMatchOptions
    dimensions = (OVERALL, *DIMENSIONS)

    def prepare(self) -> None:
        """
        Read what the raw values need.
        """
        self.chatmatch = ChatMatch(self.options, self.models)
        self.signed = self.chatmatch.signed

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each side; both sides of a dialogue are worked out at once.
        """
        of_responses = iter(
            self.chatmatch.score([item for item in items if item.response is not None])
        )
        wholes = [game_of(item, NO_NAMES) for item in items if item.response is None]
        games = zip(wholes, computed_once(self.chatmatch.judged, wholes), strict=True)
        scores = []
        for item in items:
            if item.response is None:
                scores.append(_points(item.speaker, *next(games)))
            else:
                score = next(of_responses)
                reasons = {OVERALL: ALONE, **score.reasons}
                scores.append(ItemScore(score.values, reasons))
        return scores


def _points(speaker: str, dialogue: Dialogue, game: JudgedGame) -> ItemScore:
    """
    Return the points of a speaker's side against the other, with its raw values; or
    why it has none.
    """
    names = speakers(dialogue)
    reason = why_no_game(dialogue)
    if not all(names) or not names:
        reason = 'it is not known who says what, so there are no two sides to compare'
    elif len(names) < 2:
        reason = reason or 'a self-chat has no other side to compare with'
    elif speaker not in names:
        reason = reason or f'{speaker!r} says nothing in this dialogue'
    if reason:
        return ItemScore({}, dict.fromkeys((OVERALL, *DIMENSIONS), reason))
    raw = {name: side.values for name, side in game.sides.items()}
    first, second = names
    [result] = award_points([Game(first, second, raw)]).results
    points = result.totals[speaker] if result.has_points else None
    no_points = 'the two sides have a raw score on no common dimension'
    side = game.sides[speaker]
    return ItemScore(
        {OVERALL: points, **side.values},
        {OVERALL: no_points, **side.reasons},
        dict(result.points[speaker]),
    )
