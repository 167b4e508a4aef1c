"""
Scorers of whether a response goes with what was said before, and of how it is said, by
embeddings and language models: relevance, Deep AM-FM, HolisticEval and human-centred
metrics.

Relevance is the cosine of the sentence embeddings of a response and its context.

A response that repeats the last turn has cosine 1, so relevance alone is no judge.
Source: the AM part of the baseline of DSTC10 Track 5 (Zhang et al. 2022), with an
encoder that was not adapted.
"""

import math
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import chain
from statistics import fmean
from typing import TYPE_CHECKING

import numpy as np
from scipy.special import softmax

from parlai_ext.core import LanguageModel, UserError, frozen, mean, option, optional
from parlai_ext.ranking.agreement import spearman
from parlai_ext.ranking.baselines import words_of
from parlai_ext.ranking.intervals import Floats
from parlai_ext.scoring.base import (
    EncoderScorer,
    Items,
    ItemScore,
    ScoringItem,
    encoder_option,
    in_groups,
    model_option,
    row_cosines,
    tied,
    unit_rows,
)
from parlai_ext.scoring.likelihood import (
    NO_PROBABILITY,
    JudgeScorer,
    Strings,
    context_turns_option,
    judge_option,
    mean_logprob,
    response_answers,
)
from parlai_ext.scoring.references import NO_REFERENCE

if TYPE_CHECKING:  # which imports torch
    from parlai_ext.models.encoders import MeanPooling

LAST_TURNS = 4  # of a context, which `context` and `nearest` compare with
NO_CONTEXT = 'there is no context'
ZERO = 'the embedding of the response or of the context is zero'


@frozen
class RelevanceOptions:
    """
    The sentence encoder, and what a response is compared with.
    """

    encoder: str = encoder_option()
    against: str = option(
        'last_turn',
        help='what a response is compared with: the last utterance before it, the last '
        'four joined by spaces (context), or the most similar one of the last four '
        '(nearest)',
        choices=('last_turn', 'context', 'nearest'),
    )


class Relevance(EncoderScorer):
    """
    Cosine between the embeddings of a response and of what was said before it.

    One score a response, from -1 to 1; higher is better. A response without a context
    has none.
    """

    name = 'relevance'
    version = 2
    unit = 'a cosine, at most 1'
    dimensions = ('Relevance',)
    options_class = RelevanceOptions
    options: RelevanceOptions

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the cosine of each response and its context.
        """
        against = self.options.against
        cosines = context_cosines(self.encoder, items, against)
        texts = [[item.text, *compared_turns(item, against)] for item in items]
        cut_tokens = in_groups(self.encoder.cut_tokens, texts)
        return [
            ItemScore(
                {'Relevance': tied(cosine)},
                {'Relevance': ZERO if item.context else NO_CONTEXT},
                cut=sum(cut),
            )
            for item, cosine, cut in zip(items, cosines, cut_tokens, strict=True)
        ]


def compared_turns(item: ScoringItem, against: str) -> Sequence[str]:
    """
    Return the texts of its context with which a response is compared.

    :param against: ``last_turn``, ``context`` or ``nearest`` (`RelevanceOptions`).
    """
    turns = item.context[-(1 if against == 'last_turn' else LAST_TURNS) :]
    return [' '.join(turns)] if turns and against == 'context' else turns


def context_cosines(
    encoder: 'MeanPooling', items: Items, against: str
) -> list[float | None]:
    """
    Return the cosine between each response and the end of its context; `None` where
    there is no context or an embedding is zero.

    :param against: as for `compared_turns`.
    """
    compared = [compared_turns(item, against) for item in items]
    return best_cosines(encoder.encode, items, compared)


def best_cosines(
    encode: Callable[[Sequence[str]], np.ndarray],
    items: Items,
    compared: Sequence[Sequence[str]],
) -> list[float | None]:
    """
    Return the largest cosine of each response and one of its texts; `None` where there
    is no text or an embedding is zero.

    :param encode: gives one row for each text.
    """

    def cosines(pairs: Sequence[tuple[str, str]]) -> list[float | None]:
        vectors = encode(list(chain(*pairs)))
        return row_cosines(vectors[::2], vectors[1::2])

    pairs = [
        [(item.text, other) for other in others]
        for item, others in zip(items, compared, strict=True)
    ]
    return [
        max((cosine for cosine in some if cosine is not None), default=None)
        for some in in_groups(cosines, pairs)
    ]


# --- Deep AM-FM -----------------------------------------------------------------------
# Deep AM-FM without references: adequacy by sentence embeddings, fluency by a language
# model. The baseline of DSTC10 Track 5 (Zhang et al. 2022, section 2.2).
#
#     AM      = cosine of the embeddings of the response and of the last turn before it
#     FM      = mean log-probability of the response's tokens after that turn
#     Overall = (scaled(AM) + scaled(FM)) / 2
#     scaled(x) = (max(x, cutoff) - cutoff) / width
#
# The baseline's programs (compute_wor.py, compute_dial.py of its repository) take as
# cutoff the 5 % quantile over the set that they score and as width the cutoff without
# its sign, and embed texts by BERT's pooling layer: ``scale: quantile``, ``am_state:
# pooler``. By default cutoff and width are options, so that a score does not depend on
# what else is scored; docs/amfm.md says where their defaults come from.
#
# A dialogue has the mean of its turns' scores, or, as in compute_dial.py (``dialogues:
# whole``), scales of its own for the means of AM and of FM, of which AM counts against
# it: Overall = (scaled(FM) - scaled(AM)) / 2.
#
# With references (Zhang, D'Haro et al. 2021; compute_wr.py), `AmFmReferences`:
#
#     AM      = the largest cosine of the embeddings of the response and of a reference
#     FM      = the largest ratio of two losses: the response's and a reference's, each
#               without context, the smaller one above
#     Overall = (AM + FM) / 2
#
# The program mixes the references of neighbouring items up where an item has several;
# with one reference each, the numbers are the same.

QUANTILE = 0.05  # of scores, below which differences do not count


@frozen
class AmFmReferencesOptions:
    """
    The two models, and what of the encoder is compared.
    """

    encoder: str = encoder_option()
    judge_model_file: str = judge_option()
    am_state: str = option(
        'mean',
        help='what of the encoder AM compares: the mean of the last hidden states, or '
        "what the model's pooling layer makes of the first token, as the baseline's "
        'programs do (pooler)',
        choices=('mean', 'pooler'),
        signed='if changed',
    )


@frozen
class AmFmOptions(AmFmReferencesOptions):
    """
    The two models, how FM writes a pair of turns, and the two scales.
    """

    scale: str = option(
        'fixed',
        help="from where AM and FM count, and how much counts 1: the four options' "
        'numbers (fixed), or the 0.05 quantile of the set and its size (quantile)',
        choices=('fixed', 'quantile'),
        signed='if changed',
    )
    dialogues: str = option(
        'turns',
        help='what the score of a dialogue is: the mean of its turns, or of the means '
        'of AM and of FM, less the former (whole)',
        choices=('turns', 'whole'),
        signed='if changed',
    )
    fm_format: str = option(
        'joined',
        help='what FM asks the judge: by how much the string of both turns is less '
        "likely than that of the first, as the baseline's program does (joined), or "
        'how likely the response is as the next turn, as other scorers do (turns)',
        choices=('joined', 'turns'),
    )
    am_cutoff: float = option(0.08, help='AM below this counts as this')
    am_width: float = option(0.24, above=0, help='AM so much above its cutoff counts 1')
    fm_cutoff: float = option(-5.9, help='FM below this counts as this')
    fm_width: float = option(2.0, above=0, help='FM so much above its cutoff counts 1')

    # a judge that was not trained on the format finds every response less likely in it
    presets = {'fm_format': {'turns': {'fm_cutoff': -8.9, 'fm_width': 3.4}}}


class AmFmScorer(JudgeScorer):
    """
    Three scores a response: AM, FM and Overall, which joins both.

    :cvar no_cosine: why there is no AM where there are texts to compare with.
    :cvar no_text: why there is none, nor FM, without such texts.
    """

    dimensions = ('Overall', 'AM', 'FM')
    no_cosine = ZERO
    no_text = NO_CONTEXT

    def cosines(
        self, items: Items, compared: Sequence[Sequence[str]]
    ) -> list[float | None]:
        """
        Return AM: the best cosine of each response with the texts that it is compared
        with.
        """
        is_mean = self.options.am_state == 'mean'
        encode = self.encoder.encode if is_mean else self.encoder.pooler_states
        return best_cosines(encode, items, compared)

    def item_score(
        self,
        compared: Sequence[str],
        overall: float | None,
        am: float | None,
        fm: float | None,
        cut: int = 0,
    ) -> ItemScore:
        """
        Return the scores of one response, with the reasons for those that are missing.

        :param compared: the texts with which the response is compared.
        """
        values = {'Overall': overall, 'AM': am, 'FM': fm}
        missing = {'AM': self.no_cosine, 'FM': NO_PROBABILITY}
        if not compared:
            missing = dict.fromkeys(missing, self.no_text)
        lacking = [missing[name] for name in missing if values[name] is None]
        lacking.append(
            'the 5 % quantile of the set is 0, so that nothing can be divided by it'
        )
        return ItemScore(values, {**missing, 'Overall': lacking[0]}, cut=cut)


class AmFm(AmFmScorer):
    """
    Three scores a response: AM (from -1 to 1), FM (at most 0), and Overall, the mean of
    both on their scales (at least 0). Higher is better.

    A response that repeats the last turn has the highest AM there is, so that AM-FM
    does not see through repetition.
    """

    name = 'amfm'
    version = 2
    options_class = AmFmOptions
    options: AmFmOptions

    def prepare(self) -> None:
        """
        Say what depends on the options: whether items are compared, and how a dialogue
        is given.
        """
        self.compares_items = self.options.scale == 'quantile'
        if self.options.dialogues == 'whole':
            self.level, self.also_level = 'dialogue', 'turn'

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response, or of each speaker's part of a dialogue.
        """
        parts = list(map(spoken_turns, items))
        measured = in_groups(self._measured, parts)
        columns = {
            'AM': [mean([am for am, _, _ in turns]) for turns in measured],
            'FM': [mean([fm for _, fm, _ in turns]) for turns in measured],
        }
        scaled = [self._scaled(name, column) for name, column in columns.items()]
        scores = []
        for item, part, turns, am, fm, *both in zip(
            items, parts, measured, *columns.values(), *scaled, strict=True
        ):
            if item.response is None and both[0] is not None:
                both[0] = -both[0]
            compared = [text for turn in part for text in turn.context]
            cut = sum(tokens for _, _, tokens in turns)
            scores.append(self.item_score(compared, mean(both), am, fm, cut))
        return scores

    def _measured(
        self, turns: Items
    ) -> Iterator[tuple[float | None, float | None, int]]:
        """
        Yield AM and FM of each turn, and how many of its tokens are not read.
        """
        before = [turn.context[-1:] for turn in turns]
        cosines = self.cosines(turns, before)
        coherence = coherences(self.judge, turns, self.options.fm_format)
        texts = [(*one, turn.text) for one, turn in zip(before, turns, strict=True)]
        unread = in_groups(self.encoder.cut_tokens, texts)
        for am, (fm, cut), beyond in zip(cosines, coherence, unread, strict=True):
            yield am, fm, cut + sum(beyond)

    def _scaled(self, name: str, values: Sequence[float | None]) -> list[float | None]:
        """
        Return how far each value of AM or FM is above the cutoff, in widths; 0 below
        the cutoff; `None` without a value or a width.
        """
        given = self.options
        cutoff, width = given.fm_cutoff, given.fm_width
        if name == 'AM':
            cutoff, width = given.am_cutoff, given.am_width
        if given.scale == 'quantile':
            known = [value for value in values if value is not None]
            # the quantile of no value is nothing
            cutoff = float(np.quantile(known or [0], QUANTILE))
            width = abs(cutoff)
        return [
            None if value is None or width == 0 else max(0.0, value - cutoff) / width
            for value in values
        ]


def spoken_turns(item: ScoringItem) -> list[ScoringItem]:
    """
    Return the judged turns of one speaker in a whole dialogue, each after the utterance
    before it, but for one that begins it; a response as it is.
    """
    if item.response is not None:
        return [item]
    every = range(len(item.context))
    speakers = item.speakers or (item.speaker,) * len(every)
    judged = item.extras.get('judged', every)
    return [
        ScoringItem(item.context[i - 1 : i], text)
        for i, text in enumerate(item.context)
        if i and i in judged and speakers[i] == item.speaker
    ]


def coherences(
    judge: LanguageModel, items: Items, fm_format: str
) -> list[tuple[float | None, int]]:
    """
    Return FM of each response, and how many tokens of its context were cut.

    ``joined`` is FM as the baseline's program (compute_wor.py) works it out:

        (log P(turn + ' ' + response + end) - log P(turn + end)) / (more tokens)

    The first token of a string has no probability and counts nowhere. The two strings
    share most of their tokens, which the judge reads once.

    :param fm_format: ``joined`` or ``turns`` (`AmFmOptions`).
    """
    if fm_format == 'turns':
        answers = response_answers(judge, items, context_turns=1)
        return [
            (mean_logprob(answer) if item.context else None, answer.num_truncated)
            for item, answer in zip(items, answers, strict=True)
        ]
    strings = Strings(judge)
    joined = []
    for item in items:
        turn = ''.join(item.context[-1:])
        joined.append(strings.kept_ids(f'{turn} {item.text}', turn, end=True))
    logprobs = in_groups(strings.logprobs, [pair for pair, _ in joined])
    coherence: list[tuple[float | None, int]] = []
    for item, ((both, alone), cut), rows in zip(items, joined, logprobs, strict=True):
        of_both, of_turn = map(math.fsum, rows)
        total = of_both - of_turn
        # of the first turn, a long response leaves nothing
        n_tokens = len(both) - max(1, len(alone))
        exists = bool(item.context) and n_tokens > 0 and math.isfinite(total)
        coherence.append((total / n_tokens if exists else None, cut))
    return coherence


def measured_scale(values: Sequence[float]) -> tuple[float, float]:
    """
    Return cutoff and width of the scale on which the 5 % quantile of these scores
    counts 0 and their median counts 1.

    The baseline divides by the cutoff without its sign. Cosines of sentence encoders
    lie about zero, so that this would divide by almost nothing, and FM count no more.
    """
    cutoff, median = np.quantile(values, [QUANTILE, 0.5])
    return float(cutoff), float(median - cutoff)


class AmFmReferences(AmFmScorer):
    """
    Three scores a response: AM (from -1 to 1), FM (above 0, at most 1) and their mean.
    FM says how alike the two losses are, not which is better.
    """

    name = 'amfm_references'
    version = 2
    needs = ('references',)
    no_cosine = 'the embedding of the response or of every reference is zero'
    no_text = NO_REFERENCE
    options_class = AmFmReferencesOptions
    options: AmFmReferencesOptions

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        cosines = map(tied, self.cosines(items, [item.references for item in items]))
        texts = [(item.text, *item.references) for item in items]
        unread = in_groups(self.encoder.cut_tokens, texts)
        strings = Strings(self.judge)
        kept = {t: strings.kept_ids(t, end=True) for some in texts for t in some}
        losses: dict[str, float | None] = {}
        ids = [text_ids for [text_ids], _ in kept.values()]
        for text, row in zip(kept, strings.logprobs(ids), strict=True):
            loss = -math.fsum(row) / len(row) if row else 0.0
            losses[text] = loss if 0 < loss < math.inf else None
        scores = []
        for item, am, some, beyond in zip(items, cosines, texts, unread, strict=True):
            own, *others = (losses[text] for text in some)
            ratios = [min(own, one) / max(own, one) for one in others if own and one]
            fm = max(ratios, default=None)
            cut = sum(beyond) + sum(kept[text][1] for text in some)
            scores.append(self.item_score(item.references, mean([am, fm]), am, fm, cut))
        return scores


# --- HolisticEval ---------------------------------------------------------------------
# HolisticEval's four metrics of a response (Pang et al. 2020).
#
#     Coherence    log P(context, response) - log P(context), by a language model
#     Fluency      mean log-probability of the response's tokens without a context
#     Diversity    entropy of the n-grams of the responses to one context, reworded
#     Consistency  1 - P(contradiction) of the speaker's last utterance and the response
#
# The paper scales the first two to 0 … 1 by their 5 % quantile over the set; a quantile
# of one's own, found beforehand, does so here (`coherence_cutoff`, `fluency_cutoff`).

CONTRADICTION = 'contradiction'
NO_CLASSIFIER = 'no classifier is named (classifier: of natural-language inference)'
NOTHING_BEFORE = 'the speaker said nothing before'
ONE_TOKEN = 'the response has one token or none, and the first is not counted'


@frozen
class HolisticOptions:
    """
    The language model, the classifier, and how raw scores are scaled.
    """

    judge_model_file: str = judge_option()
    classifier: str = model_option(
        'none',
        'classifier',
        'a classifier of natural-language inference, one of whose labels is '
        'contradiction, such as hf:roberta-large-mnli; none: no consistency',
    )
    context_turns: int = context_turns_option()
    ngram: int = option(2, low=1, help='words of an n-gram, for diversity')
    coherence_cutoff: float | None = optional(
        high=-1e-9,
        help='log-probability that counts 0, as anything below it; 0 counts 1',
    )
    fluency_cutoff: float | None = optional(
        high=-1e-9,
        help='mean log-probability that counts 0, as anything below it; 0 counts 1',
    )


class Holistic(JudgeScorer):
    """
    Four scores a response; higher is better.

    Diversity is of a response and of the system's responses to rewordings of the same
    context, which an item has in its extras as ``responses``; without these, of the
    response alone.
    """

    name = 'holistic'
    dimensions = ('Coherence', 'Fluency', 'Diversity', 'Consistency')
    options_class = HolisticOptions
    options: HolisticOptions

    def load_models(self) -> None:
        """
        Load the models.

        :raises UserError: for a classifier without the label.
        """
        super().load_models()
        self.contradiction: int | None = None
        if self.options.classifier != 'none':
            labels = self.models.classifier(self.options.classifier).labels
            names = [label.lower() for label in labels]
            if CONTRADICTION not in names:
                raise UserError(
                    f'scorer: classifier: its labels are {", ".join(labels)}; one of '
                    f'natural-language inference has the label {CONTRADICTION}'
                )
            self.contradiction = names.index(CONTRADICTION)

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        likelihoods = self._likelihoods(Strings(self.judge), items)
        consistencies = self._consistencies(items)
        not_named = self.contradiction is None
        scores = []
        for item, (coherence, fluency, cut), consistency in zip(
            items, likelihoods, consistencies, strict=True
        ):
            reworded = item.extras.get('responses', ())
            values = {
                'Coherence': scaled(coherence, self.options.coherence_cutoff),
                'Fluency': scaled(fluency, self.options.fluency_cutoff),
                'Diversity': diversity([item.text, *reworded], self.options.ngram),
                'Consistency': consistency,
            }
            reasons = {
                'Coherence': NO_PROBABILITY if item.context else NO_CONTEXT,
                'Fluency': ONE_TOKEN if fluency is None else NO_PROBABILITY,
                'Diversity': 'the response is empty',
                'Consistency': NO_CLASSIFIER if not_named else NOTHING_BEFORE,
            }
            scores.append(ItemScore(values, reasons, cut=cut))
        return scores

    def _likelihoods(
        self, strings: Strings, items: Items
    ) -> list[tuple[float | None, float | None, int]]:
        """
        Return raw coherence and fluency of each response, and the tokens that were cut,
        as the authors' program works them out: no end token, the first token not
        counted, turns parted by new lines and a blank before the response.
        """
        triples = []
        cuts = []
        for item in items:
            context = '\n'.join(item.context[-self.options.context_turns :])
            pair, cut = strings.kept_ids(f'{context} {item.text}', context, end=False)
            [single], _ = strings.kept_ids(item.text, end=False)
            cuts.append(cut)
            triples.append((*pair, single))
        likelihoods = []
        for item, cut, rows in zip(
            items, cuts, in_groups(strings.logprobs, triples), strict=True
        ):
            both_row, alone_row, single_row = rows
            coherence = math.fsum(both_row) - math.fsum(alone_row)
            known = bool(item.context and item.response) and len(both_row) > 0
            likelihoods.append((coherence if known else None, mean(single_row), cut))
        return likelihoods

    def _consistencies(self, items: Items) -> list[float | None]:
        """
        Return 1 - P(contradiction) of each speaker's last utterance and the response.
        """
        if self.contradiction is None:
            return [None] * len(items)
        earlier = {}  # what the speaker of an item said last, by the item's place
        for k, item in enumerate(items):
            names = item.speakers
            if not names:  # two speakers take turns
                own = item.context[-2::-2]
            else:
                said = zip(item.context, names, strict=False)
                own = tuple(text for text, name in said if name == item.speaker)[::-1]
                if all(name == item.speaker for name in names):  # self-play
                    own = own[1::2]
            if own:
                earlier[k] = own[0]
        classifier = self.models.classifier(self.options.classifier)
        rows = classifier.probabilities(
            list(earlier.values()), [items[k].text for k in earlier]
        )
        known = dict(zip(earlier, rows, strict=True))
        return [
            1.0 - float(known[k][self.contradiction]) if k in known else None
            for k in range(len(items))
        ]


def scaled(value: float | None, cutoff: float | None) -> float | None:
    """
    Return a log-probability between a cutoff, which counts 0, and 0, which counts 1
    (Equations 2 and 4 of the paper); as it is where there is no cutoff.
    """
    if value is None or cutoff is None or not math.isfinite(value):
        return value
    return (max(value, cutoff) - cutoff) / -cutoff


def diversity(texts: Iterable[str], ngram: int) -> float | None:
    """
    Return the entropy (natural) of the n-grams of texts, words parted by blanks; a text
    of no more words than that is one n-gram. `None` where no text has a word.
    """
    counts = Counter[tuple[str, ...]]()
    for text in texts:
        words = text.split()
        last = max(1, len(words) - ngram + 1) if words else 0
        counts.update(tuple(words[i : i + ngram]) for i in range(last))
    total = counts.total()
    if not total:
        return None
    return math.fsum(n / total * math.log(total / n) for n in counts.values())


# --- human-centred metrics ------------------------------------------------------------
# Five human-centred metrics: emotional entropy, matching of style and of emotions,
# agreeableness, empathy.
#
# Source: team 4 of DSTC10 Track 5; Giorgi et al. (2023), "Psychological Metrics for
# Dialog System Evaluation". They use a classifier of emotions, LIWC's function words,
# and models of personality and empathy that are not to be had. Here a sentence encoder
# compares texts with a few sentences of ours, and the word lists are ours. The numbers
# are not theirs.

# one for each emotion of Plutchik: joy, trust, fear, surprise, sadness, disgust, anger
# and anticipation
EMOTIONS = (
    'I am so happy, this is wonderful.',
    'I trust you and I feel safe.',
    'I am afraid, this is scary.',
    'Wow, I did not expect that.',
    'I am sad and I feel like crying.',
    'That is disgusting.',
    'I am angry, this makes me furious.',
    'I cannot wait, I look forward to it.',
)
# texts at the upper and at the lower end
AGREEABLE = (
    ('Thank you, that is very kind of you.', 'I like to help other people.'),
    ('You are wrong and you annoy me.', 'I do not care about other people.'),
)
EMPATHIC = (
    ('I am sorry to hear that, it must be hard for you.', 'I am so glad for you.'),
    ('That is not my problem.', 'I do not care how you feel.'),
)
FUNCTION_WORDS = tuple(
    frozenset(line.split())
    for line in """
i me my mine myself we us our you your yours he him his she her they them their
it its this that these those what which who something anything
a an the
and but or so because if while although
in on at to of for with from by about after before into over
am is are was were be been do does did have has had will would can could should
very really just too also now then here there again
no not never none nothing don't isn't can't won't didn't doesn't
all some many much more most few any every both
""".strip().split('\n')
)
SMALL = 0.0001


@frozen
class HumanCenteredOptions:
    """
    The encoder, and how sharp emotions are.
    """

    encoder: str = encoder_option()
    temperature: float = option(
        0.1, above=0, help='cosines with emotions are divided by it before the softmax'
    )


class HumanCentered(EncoderScorer):
    """
    Five scores a response: the entropy of its emotions in nats (at most ln 8), the
    likeness of its function words to those of the last turn (0 to 1), Spearman's
    coefficient of both turns' emotions, and how much nearer it is to agreeable and to
    empathic sentences than to their opposites (cosines). More is better by convention.
    """

    name = 'human_centered'
    dimensions = (
        'Emotional Entropy',
        'Style Matching',
        'Emotion Matching',
        'Agreeableness',
        'Empathy',
    )
    no_score = 'there is no word, or none before it'
    options_class = HumanCenteredOptions
    options: HumanCenteredOptions

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        from scipy.stats import entropy  # which takes half a second to load

        def cosines(texts: Sequence[str], others: Sequence[str]) -> Floats:
            rows, columns = (
                unit_rows(np.asarray(self.encoder.encode(some)), SMALL)
                for some in (texts, others)
            )
            return np.asarray(rows @ columns.T, np.float64)

        texts = [item.text for item in items]
        before = [item.context[-1] if item.context else '' for item in items]
        own, theirs = cosines(texts, EMOTIONS), cosines(before, EMOTIONS)
        ends = [
            cosines(texts, high).mean(axis=1) - cosines(texts, low).mean(axis=1)
            for high, low in (AGREEABLE, EMPATHIC)
        ]
        matching = spearman(own, theirs)
        scores = []
        for k, (text, other) in enumerate(zip(texts, before, strict=True)):
            alone = bool(words_of(text))
            both = alone and bool(words_of(other))
            rho = float(matching[k])
            shares = softmax(own[k] / self.options.temperature)
            values = (
                float(entropy(shares)) if alone else None,
                style_matching(text, other) if both else None,
                None if np.isnan(rho) or not both else rho,
                *(float(end[k]) if alone else None for end in ends),
            )
            scores.append(ItemScore(dict(zip(self.dimensions, values, strict=True))))
        return scores


def style_matching(text: str, other: str) -> float:
    """
    Return the language style matching of two texts: 1 minus the difference of the
    shares of a class of function words, by their sum, as a mean over classes.
    """
    shares = [
        [sum(word in kind for word in words) / max(1, len(words)) for words in texts]
        for kind in FUNCTION_WORDS
        for texts in [(words_of(text), words_of(other))]
    ]
    return fmean(1 - abs(a - b) / (a + b + SMALL) for a, b in shares)
