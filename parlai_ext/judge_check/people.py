"""
People's replies to a run's openers: originals to perturb, and an anchor for scores.
"""

from collections.abc import Mapping, Sequence
from statistics import fmean, stdev

from scipy import stats

from parlai_ext.core.display import join_names, number
from parlai_ext.core.nouns import Dialogue, Opener, Utterance, content_id
from parlai_ext.judge_check.record import HumanAnchor
from parlai_ext.judge_check.sample import JudgedPart, Values

PEOPLE = 'people'
PARTNER = 'their partner'
FAR = 0.5  # standard deviations of people's scores; "medium" of Cohen (1988)
MIN_CONTEXTS = 10


def people_parts(openers: Sequence[Opener]) -> list[JudgedPart]:
    """
    Return the replies that people gave to openers, in an order that depends on content
    alone. They have no scores yet.
    """
    parts = []
    for opener in sorted(openers, key=lambda o: content_id('people', o.id)):
        if opener.reply is None:
            continue
        texts = (*opener.utterances, opener.reply)
        place = len(opener.utterances)
        turns = tuple(
            Utterance((PEOPLE, PARTNER)[(place - i) % 2], text, i < place)
            for i, text in enumerate(texts)
        )
        id = content_id('people', opener.id, opener.reply)
        dialogue = Dialogue(id, '', opener.id, turns)
        parts.append(JudgedPart(dialogue, (place,), (place,), PEOPLE, {}, False))
    return parts


def human_anchor(
    dimension: str,
    people: Mapping[str, Values],
    replies: Mapping[str, Mapping[str, Sequence[Values]]],
) -> HumanAnchor | None:
    """
    Return how the systems' replies to openers compare with those of people.

    A system is far above people if the 95 % interval of its mean difference (Student's
    t, over openers) is above 0 and the mean is above half a standard deviation of
    people's scores.

    :param people: opener -> scores of the person's reply.
    :param replies: opener -> system -> scores of its replies, one with each partner.
    :returns: `None` where fewer than ten openers have both.
    """
    own = {opener: v[dimension] for opener, v in people.items() if dimension in v}
    differences: dict[str, list[float]] = {}
    values: dict[str, list[float]] = {}
    compared = set()
    for opener, person in own.items():
        for system, scores in replies.get(opener, {}).items():
            known = [score[dimension] for score in scores if dimension in score]
            if known:
                compared.add(opener)
                values.setdefault(system, []).append(fmean(known))
                differences.setdefault(system, []).append(fmean(known) - person)
    if len(compared) < MIN_CONTEXTS:
        return None
    scores_of_people = [own[opener] for opener in sorted(compared)]
    spread = stdev(scores_of_people)
    means = {system: fmean(own) for system, own in sorted(values.items())}
    far = [name for name in means if _far_above(differences[name], spread)]
    warning = None
    if far:
        listed = [f'{name} ({number(means[name])})' for name in far]
        warning = (
            f'the judge scores {join_names(listed)} far above people '
            f'({number(fmean(scores_of_people))}) on the same {len(compared)} contexts'
        )
    return HumanAnchor(
        len(compared), fmean(scores_of_people), fmean(means.values()), means, warning
    )


def _far_above(differences: Sequence[float], spread: float) -> bool:
    n = len(differences)
    if n < MIN_CONTEXTS:
        return False
    mean = fmean(differences)
    half = float(stats.t.ppf(0.975, n - 1)) * stdev(differences) / n**0.5
    return mean - half > 0 and mean > FAR * spread
