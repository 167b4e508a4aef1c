"""
The pass marks: which perturbed copies a judge must score below their originals.

`MARKS` has them, but for those of parrots (zoo_configs/parrots.yaml); docs/judges.md
shows all with the reasons.
"""

import math
from collections.abc import Mapping, Sequence
from statistics import fmean, pstdev

from parlai_ext.judge_check.perturbations import PARROTS
from parlai_ext.judge_check.record import (
    FAIL,
    PASS,
    SOURCES,
    UNTESTED,
    WEAK,
    Biases,
    DimensionCheck,
    HumanAnchor,
    KindResult,
    PromptProbes,
)
from parlai_ext.ranking.intervals import wilson_interval
from parlai_ext.view import number, percent

Values = Mapping[str, float]  # scores by dimension, without missing ones
SAME = 1e-6  # relative difference below which two scores are one: noise of float32
MIN_PAIRS = 10  # fewer pairs of a kind say nothing
ALL_PARROTS = 'parrots'  # all kinds of parrots together
MAX_BIAS = 0.7  # |Spearman| of score and length or overlap: from here a judge is weak
# biases that are held against a judge: in words, and what is measured
FOLLOWED = (
    ('length', 'length', 'the number of words'),
    ('overlap', 'the overlap with the partner', 'the share of his last words'),
)


# what a judge owes to the copies of a kind: one that could not be tried, or cannot be
# told from the originals, makes a judge weak where it must pass; losing to it fails the
# judge where it must not fail
MUST_PASS, MUST_NOT_FAIL = 'must pass', 'must not fail'
# they may be better than what a bad system says, but not than what people say
NOT_OF_PEOPLE = "must not fail on people's replies"
AT_MOST_WEAK = 'makes a judge weak at most'
MARKS = {
    'shuffled_words': MUST_PASS,  # word order is most of what makes sense
    'other_dialogue': MUST_PASS,  # a fluent reply to something else
    'punctuation': MUST_PASS,  # says nothing; short text is not good text
    'repeat_partner': MUST_NOT_FAIL,  # a parrot would come first
    'repeat_self': MUST_NOT_FAIL,  # a stuck system would come first
    'generic': AT_MOST_WEAK,  # may really be better than what a system says
    'truncated': AT_MOST_WEAK,  # half a reply may carry its sense
    'injected': MUST_NOT_FAIL,  # a system could write its own score
    'padded': AT_MOST_WEAK,  # length is no merit
    **{kind: parrot.mark for kind, parrot in PARROTS.items()},
    ALL_PARROTS: NOT_OF_PEOPLE,  # together they are many pairs
}


# how a sentence names the authors of originals, and what they did
AUTHORS = {'systems': 'the systems', 'people': 'people'}
VERBS = {'systems': 'said', 'people': 'wrote'}
# what a perturbed copy of each kind is, as the object of a sentence
KIND_WORDS = {
    'shuffled_words': 'shuffled words',
    'other_dialogue': 'replies from other dialogues',
    'repeat_partner': "repetitions of the partner's last turn",
    'repeat_self': 'repetitions of an own earlier turn',
    'punctuation': 'punctuation alone',
    'generic': 'generic replies',
    'truncated': 'replies cut in the middle',
    'injected': 'replies with an instruction to the judge',
    'padded': 'replies with empty words behind them',
    **{kind: parrot.words for kind, parrot in PARROTS.items()},
    ALL_PARROTS: 'parrots of any kind',
}


def sign(score: float, other: float = 0.0, noise: float = 0.0) -> int:
    """
    Return 1 where a score is higher than another one, -1 where it is lower, and 0 where
    they differ by the noise of float32 at most.

    :param noise: a difference that is none, too.
    """
    if math.isclose(score, other, rel_tol=SAME, abs_tol=noise):
        return 0
    return 1 if score > other else -1


def kind_result(
    kind: str, source: str, n: int, n_higher: int, n_ties: int
) -> KindResult:
    """
    Return how the originals of one source do against the copies of one kind, from the
    number of pairs, of those in which the original is higher, and of ties.

    A pass needs the whole interval above a half, a fail has all of it below; an
    interval that holds a half is weak, as a judge that cannot see the difference is.
    """
    share = low = high = None
    mark, outcome = MARKS[kind], UNTESTED
    if n:
        share = (n_higher + n_ties / 2) / n
        low, high = wilson_interval(n_higher + n_ties / 2, n)
        if n >= MIN_PAIRS:
            outcome = PASS if low > 0.5 else FAIL if high < 0.5 else WEAK
    return KindResult(
        kind,
        source,
        n=n,
        n_higher=n_higher,
        n_ties=n_ties,
        share=share,
        low=low,
        high=high,
        required=mark in (MUST_PASS, MUST_NOT_FAIL)
        or (mark == NOT_OF_PEOPLE and source == 'people'),
        outcome=outcome,
    )


def dimension_check(
    dimension: str,
    kinds: Sequence[KindResult],
    human_anchor: HumanAnchor | None = None,
    biases: Biases | None = None,
) -> DimensionCheck:
    """
    Return the outcome on a judge in one dimension, with its reasons.

    It fails if a required kind fails, whoever wrote the originals. It is weak if any
    kind does not pass, if a needed kind could not be tried, or if its scores go with
    length or with the overlap with the partner. A single kind of parrot has few pairs:
    it is held against a judge only where the original is not ahead at all; all of them
    together are a kind that is added.
    """
    kinds = [kind for kind in kinds if kind.kind != ALL_PARROTS]
    kinds += parrot_results(kinds)
    failed = [kind for kind in kinds if kind.required and kind.outcome == FAIL]
    doubtful = [
        kind
        for kind in kinds
        if kind not in failed
        and (kind.outcome == FAIL or (kind.outcome == WEAK and not is_below(kind)))
    ]
    failed.sort(key=lambda kind: (kind.share or 0.0, kind.kind))
    doubtful.sort(key=lambda kind: (kind.outcome != FAIL, kind.share or 0.0))
    reasons = [_reason(kind) for kind in (*failed, *doubtful)]
    tried = {kind.kind for kind in kinds if kind.outcome != UNTESTED}
    reasons += [
        f'{KIND_WORDS[name]} could not be tried: fewer than {MIN_PAIRS} pairs'
        for name, mark in MARKS.items()
        if mark == MUST_PASS and name not in tried
    ]
    reasons += [
        f'its scores follow {name} (Spearman {number(value)} with {what})'
        for key, name, what in FOLLOWED
        if abs(value := getattr(biases, key, None) or 0.0) >= MAX_BIAS
    ]
    outcome = FAIL if failed else WEAK if reasons else PASS
    return DimensionCheck(
        dimension, outcome, tuple(reasons), tuple(kinds), human_anchor, biases
    )


def parrot_results(kinds: Sequence[KindResult]) -> list[KindResult]:
    """
    Return how the originals of each source do against all kinds of parrots together.
    """
    results = []
    for source in SOURCES:
        own = [k for k in kinds if k.kind in PARROTS and k.source == source]
        if own:
            counts = [
                sum(getattr(k, n) for k in own) for n in ('n', 'n_higher', 'n_ties')
            ]
            results.append(kind_result(ALL_PARROTS, source, *counts))
    return results


def is_below(kind: KindResult) -> bool:
    """
    True for a single kind of parrot that scores below the originals more often than
    not: it has few pairs, so that a weak outcome is not held against the judge.
    """
    return kind.kind in PARROTS and (kind.share or 0.0) > 0.5


def _reason(kind: KindResult) -> str:
    """
    Return how often a judge puts the copy above the original, or that it may be chance.
    """
    words = KIND_WORDS[kind.kind]
    original = f'what {AUTHORS[kind.source]} {VERBS[kind.source]}'
    if kind.outcome == FAIL:
        above = percent(1 - (kind.share or 0.0))
        half = ', ties counted as half' if kind.n_ties else ''
        return f'it scores {words} above {original} in {above} of {kind.n} cases{half}'
    interval = f'{number(kind.share)} [{number(kind.low)}, {number(kind.high)}]'
    return (
        f'it can hardly tell {words} from {original}: the original is higher in a '
        f'share of {interval}'
    )


def repeats(scores: Sequence[Values], second: Sequence[Values]) -> PromptProbes:
    """
    Return how the first and second scores of responses differ. The second ones are
    asked for anew, also where the replies of an endpoint are kept.

    :param scores: of all responses by dimension, which say how large a difference is.
    :param second: of as many of the first responses as were scored a second time.
    """
    pairs = list(zip(scores, second, strict=False))
    same = sum(  # but for rounding
        first.keys() == second.keys()
        and all(math.isclose(v, second[d], rel_tol=SAME) for d, v in first.items())
        for first, second in pairs
    )
    changes = []
    for name in {name for first, _ in pairs for name in first}:
        own = [values[name] for values in scores if name in values]
        spread = pstdev(own) if len(own) > 1 else 0.0
        if spread > 0:
            changes += [
                abs(first[name] - second[name]) / spread
                for first, second in pairs
                if name in first and name in second
            ]
    return PromptProbes(
        len(pairs), len(pairs) - same, mean_change=fmean(changes) if changes else None
    )
