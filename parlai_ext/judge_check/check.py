"""
The check of a judge: its scores of originals against its scores of perturbed copies.

The originals' scores are those that the run has already; copies, and people's replies,
are scored through the scorer's own `score_dialogues`.
"""

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import partial
from itertools import zip_longest
from operator import itemgetter
from statistics import fmean, stdev
from typing import Any, NamedTuple, TypeVar

import numpy as np
import scipy

from parlai_ext.core import (
    Dialogue,
    Opener,
    ScoredDialogue,
    System,
    UserError,
    Utterance,
    bytes_hash,
    chunks,
    content_id,
    dialogue_means,
    first_line,
    frozen,
    grouped,
    is_floor,
    known_values,
)
from parlai_ext.core.protocol import IMPORTED
from parlai_ext.judge_check.perturbations import (
    OF_PROMPTED_JUDGES,
    PARROTS,
    PERTURBATIONS,
    SAME,
    Perturbations,
    Values,
    dimension_check,
    kind_result,
    perturbed_dialogue,
    repeats,
    sign,
    turns_before,
)
from parlai_ext.judge_check.record import (
    SAMPLE,
    SOURCES,
    Biases,
    DimensionCheck,
    HumanAnchor,
    JudgeCheck,
    OrderSwap,
    PromptProbes,
    check_basis,
    read_check,
    write_check,
)
from parlai_ext.models.handle import model_system
from parlai_ext.models.watch import Kept, Watch
from parlai_ext.ranking.agreement import known_spearman
from parlai_ext.ranking.baselines import mean_overlap
from parlai_ext.ranking.intervals import Floats, wilson_interval
from parlai_ext.scoring.base import (
    OTHER,
    Items,
    ItemScore,
    Scorer,
    ScoringItem,
    dialogue_items,
    swapped_item,
    turn_items,
)
from parlai_ext.scoring.score_run import score_signature
from parlai_ext.store import Manifest, PartialWork, RunFolder, ScoreStore
from parlai_ext.systems.model_origin import model_origin
from parlai_ext.view import join_names, number
from parlai_ext.view.progress import PartProgress, bar_of

# --- the sample, and what scores follow besides quality -------------------------------
# What a judge has scored: the sample whose copies are perturbed, and the table of
# biases.
#
# One pass over the scored dialogues gathers both, so that a large run is read once.


# dialogues with their scores, or with none
ScoredPairs = Iterable[tuple[Dialogue, ScoredDialogue | None]]


@frozen
class JudgedPart:
    """
    What one score is about: a response, or one speaker's part of a dialogue.

    :param places: the response, or all judged utterances of the speaker.
    :param indices: what the scorer is asked to judge: the response, or every judged
        utterance of the dialogue.
    :param values: the stored scores by dimension, without missing ones.
    """

    dialogue: Dialogue
    places: tuple[int, ...]
    indices: tuple[int, ...]
    system: str
    values: Values
    is_whole: bool

    @property
    def texts(self) -> list[str]:
        """
        The texts that were judged.
        """
        return [self.dialogue.texts[place] for place in self.places]


def judged_parts(dialogue: Dialogue, scored: ScoredDialogue) -> list[JudgedPart]:
    """
    Return what was scored in a dialogue, as it counts in a ranking: the parts of its
    speakers if they have scores of their own, else the responses.

    Left out is what has no score at all, and the system that broke the dialogue off.
    """
    whole = any(
        s.utterance_index is None and s.value is not None for s in scored.scores
    )
    by_place = grouped(
        (s.utterance_index, (s.dimension, s.value)) for s in scored.scores
    )
    # a scorer of whole dialogues names no utterances: those that were not given
    judged = sorted(place for place in by_place if place is not None) or [
        i for i, utterance in enumerate(dialogue.utterances) if not utterance.given
    ]
    parts = []
    for name in dict.fromkeys(s.system for s in scored.scores):
        places = tuple(i for i in judged if dialogue.speakers[i] == name)
        if name == dialogue.ended_by or not places:
            continue
        for own in [places] if whole else [(place,) for place in places]:
            indices, values = own, dict(by_place.get(own[0], ()))
            if whole:
                indices = tuple(judged)
                values = dialogue_means(dialogue, scored, name)
            if known := known_values(values):
                parts.append(JudgedPart(dialogue, own, indices, name, known, whole))
    return parts


class ScoreRow(NamedTuple):
    """
    What the biases are computed from, of one judged part.

    :param length: mean words of its utterances.
    :param overlap: mean overlap with what the speaker heard.
    :param position: in the dialogue; NaN of a whole part.
    """

    system: str
    partner: str
    opener: str
    length: float
    overlap: float
    position: float
    values: Values


class JudgedDialogues:
    """
    What the check needs from scored dialogues.

    Of the judged parts it keeps a sample that depends on content alone: as many of each
    system as there are, one of each of its dialogues before a second one of any.

    :param pairs: the dialogues with their scores; those without any are left out.
    :param openers: those of the run; some may have a person's reply.
    :param sample: the largest sample that may be drawn.
    """

    def __init__(
        self,
        pairs: ScoredPairs,
        openers: Sequence[Opener] = (),
        sample: int = SAMPLE,
    ):
        self.most = sample
        self.kept: dict[str, list[tuple[int, str, JudgedPart]]] = {}
        self.rows: list[ScoreRow] = []
        self.openers = [opener for opener in openers if opener.reply is not None]
        self.n_dialogues = 0
        self.is_whole = False
        for dialogue, scored in pairs:
            if scored is not None:
                self.n_dialogues += 1
                parts = judged_parts(dialogue, scored)
                self._add_to_sample(parts)
                for part in parts:
                    self._add_row(part)

    def _add_row(self, part: JudgedPart) -> None:
        """
        Add a judged part to the table of biases.
        """
        dialogue = part.dialogue
        heard = [turns_before(dialogue, place)[1] for place in part.places]
        overlap = mean_overlap(part.texts, heard)
        others = (name for name in dialogue.speakers if name != part.system)
        row = ScoreRow(
            part.system,
            next(others, part.system),  # in self-play the system itself
            dialogue.opener_id,
            fmean(len(text.split()) for text in part.texts),
            math.nan if overlap is None else overlap,
            math.nan if part.is_whole else part.places[0],
            part.values,
        )
        self.rows.append(row)
        self.is_whole = part.is_whole

    def _add_to_sample(self, parts: Sequence[JudgedPart]) -> None:
        """
        Add the judged parts of one dialogue, but for those of floors, which are bad on
        purpose: copies of what they say are no test of a judge.
        """
        by_system = grouped((p.system, p) for p in parts if not is_floor(p.system))
        for system, own in by_system.items():
            names = [f'{part.dialogue.id} {part.places}' for part in own]
            hashes = [bytes_hash(name.encode()) for name in names]
            hashed = sorted(zip(hashes, own, strict=True), key=itemgetter(0))
            every = [(turn, *entry) for turn, entry in enumerate(hashed)]
            every += self.kept.get(system, ())
            self.kept[system] = sorted(every, key=itemgetter(0, 1))[: self.most]

    def draw(self, n: int) -> list[JudgedPart]:
        """
        Return up to ``n`` parts of the sample, spread evenly over the systems.
        """
        queues = (self.kept[system] for system in sorted(self.kept))
        rounds = zip_longest(*queues)
        return [entry[-1] for entries in rounds for entry in entries if entry][:n]

    @property
    def replies(self) -> list[ScoreRow]:
        """
        The rows of replies to an opener that a person has answered, too.
        """
        places = {opener.id: len(opener.utterances) for opener in self.openers}
        return [row for row in self.rows if row.position == places.get(row.opener)]

    @property
    def n_scorings(self) -> int:
        """
        How many times the scorer judged something.
        """
        return self.n_dialogues if self.is_whole else len(self.rows)


def biases(rows: Sequence[ScoreRow], dimension: str) -> Biases | None:
    """
    Return what the scores of a dimension follow besides quality; `None` where there
    are none.
    """
    rows = [row for row in rows if dimension in row.values]
    if not rows:
        return None
    systems, partners, openers, *numbers, values = zip(*rows, strict=True)
    scores = np.array([own[dimension] for own in values])
    length, overlap, position = (known_spearman(scores, np.array(n)) for n in numbers)
    # every imported dialogue has an opener of its own
    origins = ['' if one.startswith(f'{IMPORTED}-') else one for one in openers]
    return Biases(
        n=len(rows),
        length=length,
        position=position,
        system_share=variance_share(scores, systems),
        partner_share=variance_share(scores, partners),
        opener_share=variance_share(scores, origins),
        overlap=overlap,
    )


def variance_share(scores: Floats, groups: Sequence[str]) -> float | None:
    """
    Return the sum of squares between groups over the whole sum of squares (eta
    squared); `None` where there is one group or no variance.
    """
    names, places = np.unique(np.asarray(groups, dtype=str), return_inverse=True)
    if len(names) < 2:
        return None
    total = float(((scores - scores.mean()) ** 2).sum())
    if total <= 0:
        return None
    counts = np.bincount(places)
    means = np.bincount(places, weights=scores) / counts
    between = float((counts * (means - scores.mean()) ** 2).sum())
    return min(1.0, between / total)


FAR = 0.5  # standard deviations of people's scores; "medium" of Cohen (1988)
MIN_CONTEXTS = 10


def human_anchor(
    dimension: str, people: Mapping[str, Values], replies: Iterable[ScoreRow]
) -> HumanAnchor | None:
    """
    Return how the systems' replies to openers compare with those of people.

    A system is far above people if the 95 % interval of its mean difference (Student's
    t, over openers) is above 0 and the mean is above half a standard deviation of
    people's scores.

    :param people: opener -> scores of the person's reply.
    :param replies: those of the systems, one with each partner.
    :returns: `None` where fewer than ten openers have both.
    """
    own = {opener: v[dimension] for opener, v in people.items() if dimension in v}
    scores = grouped(
        ((row.system, row.opener), row.values[dimension])
        for row in replies
        if row.opener in own and dimension in row.values
    )
    compared = {opener for _, opener in scores}
    if len(compared) < MIN_CONTEXTS:
        return None
    of_people = [own[opener] for opener in compared]
    by_system = grouped(
        (system, (opener, fmean(values))) for (system, opener), values in scores.items()
    )
    means, far, spread = {}, [], stdev(of_people)
    for name, over in sorted(by_system.items()):
        means[name] = fmean(value for _, value in over)
        differences = [value - own[opener] for opener, value in over]
        n = len(differences)
        if n < MIN_CONTEXTS:
            continue
        half = float(scipy.special.stdtrit(n - 1, 0.975)) * stdev(differences) / n**0.5
        if fmean(differences) > max(half, FAR * spread):
            far.append(f'{name} ({number(means[name])})')
    people_mean = fmean(of_people)
    warning = None
    if far:
        warning = (
            f'the judge scores {join_names(far)} far above people '
            f'({number(people_mean)}) on the same {len(compared)} contexts'
        )
    systems_mean = fmean(means.values())
    return HumanAnchor(len(compared), people_mean, systems_mean, means, warning)


# --- the check ------------------------------------------------------------------------

VERSION = 3  # raise it when the same run gives another check
SHARE_OF_SCORING = 0.25  # the cost of the check, measured by scoring the run
MIN_SAMPLE = 40
MIN_WHOLE = 20  # whole parts, each of which has several responses
MIN_PEOPLE = 20
BLOCK = 32  # scorings that are kept or lost together when a check is killed
N_REPEATED = 20
PARROTS_EACH = 3  # kinds of parrots tried with one response of a system, in turn

PEOPLE = 'people'
PARTNER = 'their partner'
GAMES = 'dimensions won'  # all dimensions together: a game with a match in each
ScoreParts = Callable[[Sequence[JudgedPart]], list[Values]]
# of a copy: kind and source, and by dimension the sign of original against copy
Compared = tuple[tuple[str, str], Mapping[str, int]]
One = TypeVar('One')


@frozen
class Copy:
    """
    One thing to score for the check: a perturbed copy, or a person's reply itself.

    :param kind: of perturbation; `None` for the reply.
    :param part: what is scored.
    """

    source: str
    kind: str | None
    original: JudgedPart
    part: JudgedPart


def check_on_dialogues(
    scorer: Scorer,
    pairs: ScoredPairs,
    openers: Sequence[Opener] = (),
    sample: int = SAMPLE,
    *,
    people_source: str | None = None,
    score: ScoreParts | None = None,
) -> JudgeCheck | None:
    """
    Return the check of a judge; `None` where it has scored nothing, or without sample.

    :param pairs, openers, sample: as for `JudgedDialogues`.
    :param people_source: where the openers' replies come from.
    :param score: scores the copies (default: as the scorer scores dialogues).
    """
    judged = JudgedDialogues(pairs if sample else (), openers, sample)
    if not judged.n_scorings:
        return None
    kinds = perturbations_for(scorer)
    people = [] if judged.is_whole else people_parts(judged.openers)
    size = sample_size(judged, len(kinds), bool(people))
    systems, people = judged.draw(size), people[: max(MIN_PEOPLE, size // 2)]
    copies = list(all_copies(systems, 'systems', kinds))
    copies += all_copies(people, 'people', kinds)
    again = systems[:N_REPEATED] if is_prompted(scorer) else []
    parts = [copy.part for copy in copies]
    score = score or partial(part_scores, scorer)
    scored = score_blocks(scorer, parts, again, score, unit='response')
    compared, replies = compared_scores(copies, scored[: len(copies)])
    probes = repeats([part.values for part in systems], scored[len(copies) :])
    checks, of_systems = {}, judged.replies
    for name in scorer.dimensions:
        about = human_anchor(name, replies, of_systems), biases(judged.rows, name)
        checks[name] = kinds_check(name, compared, kinds, *about)
    check = JudgeCheck(
        signature=scorer.signature,
        n_responses=len(systems),
        n_people=len(people),
        people_source=people_source if people else None,
        n_scored=len(scored),
        cost=len(scored) / judged.n_scorings,
        dimensions=checks,
        tournament=kinds_check(GAMES, compared, kinds) if len(checks) > 1 else None,
        probes=probes if is_prompted(scorer) else None,
    )
    return replace(check, notes=tuple(_notes(check, judged.is_whole)))


def sample_size(judged: JudgedDialogues, n_kinds: int, with_people: bool) -> int:
    """
    Return how many originals of systems are perturbed, so that the check costs the
    affordable share of the scoring, or has the least that says something.
    """
    cost = n_kinds - len(PARROTS) + PARROTS_EACH + 0.0
    if with_people:
        # their replies, half as many as the systems', must be scored themselves, too
        cost += (n_kinds + 1) / 2
    least = MIN_WHOLE if judged.is_whole else MIN_SAMPLE
    affordable = int(SHARE_OF_SCORING * judged.n_scorings / cost)
    return min(judged.most, max(least, affordable))


def people_parts(openers: Sequence[Opener]) -> list[JudgedPart]:
    """
    Return the replies that people gave to these openers, in an order that depends on
    content alone. They have no scores yet.
    """
    parts = []
    for opener in sorted(openers, key=lambda o: content_id('people', o.id)):
        texts = (*opener.utterances, opener.reply or '')
        place = len(opener.utterances)
        turns = tuple(
            Utterance((PEOPLE, PARTNER)[(place - i) % 2], text, i < place)
            for i, text in enumerate(texts)
        )
        id = content_id('people', opener.id, opener.reply)
        dialogue = Dialogue(id, '', opener.id, turns)
        parts.append(JudgedPart(dialogue, (place,), (place,), PEOPLE, {}, False))
    return parts


def compared_scores(
    copies: Iterable[Copy], values: Iterable[Values]
) -> tuple[list[Compared], dict[str, Values]]:
    """
    Return the signs of originals against their copies, and the scores of people's
    replies by opener.

    :param values: the scores of each copy.
    """
    compared: list[Compared] = []
    replies: dict[str, Values] = {}
    for copy, own in zip(copies, values, strict=True):
        opener = copy.original.dialogue.opener_id
        if copy.kind is None:
            replies[opener] = own
            continue
        known = copy.original.values or replies[opener]
        signs = {name: sign(known[name], own[name]) for name in known if name in own}
        if signs:
            signs[GAMES] = sign(sum(signs.values()))
        compared.append(((copy.kind, copy.source), signs))
    return compared, replies


def kinds_check(
    name: str, compared: Iterable[Compared], kinds: Iterable[str], *more: Any
) -> DimensionCheck:
    """
    Return the check of a dimension, with a result for each kind of each source that
    has any pair at all.

    :param more: of `dimension_check`.
    """
    signs = grouped((about, own[name]) for about, own in compared if name in own)
    present = {source for _, source in signs} or {'systems'}
    results = []
    for source in SOURCES:
        if source not in present:
            continue
        for kind in kinds:
            own = signs.get((kind, source), [])
            counts = len(own), own.count(1), own.count(0)
            results.append(kind_result(kind, source, *counts))
    return dimension_check(name, results, *more)


def is_prompted(scorer: Scorer) -> bool:
    """
    True if the scorer asks a model in words: it says so, or has a chat model.
    """
    return scorer.prompted or any(kind == 'chat' for kind, _ in scorer.models.loaded)


def perturbations_for(scorer: Scorer) -> Perturbations:
    """
    Return the perturbations that this judge is checked with.
    """
    more = OF_PROMPTED_JUDGES if is_prompted(scorer) else {}
    return {**PERTURBATIONS, **more}


def all_copies(
    parts: Sequence[JudgedPart], source: str, kinds: Perturbations
) -> Iterator[Copy]:
    """
    Yield everything that must be scored of the originals of one source, the copies of
    one original together: they have one context, which a model need read only once.

    They are of all kinds, but of a system's response some of the parrots only, in turn:
    of the parrots all together is asked more than of any kind. Replies of another
    dialogue are those of the next part of the same system.
    """
    for i, part in enumerate(parts):
        parrots = list(PARROTS)
        if source == 'people':
            yield Copy(source, None, part, part)
        else:
            places = range(PARROTS_EACH * i, PARROTS_EACH * (i + 1))
            parrots = [parrots[place % len(parrots)] for place in places]
        # whole parts go far beyond their opener; others are over another one, if known
        mine = part.dialogue
        may_share = part.is_whole or not mine.opener_id
        others = next(
            (
                other.texts
                for other in (*parts[i + 1 :], *parts[:i])
                if other.system == part.system
                and other.dialogue.id != mine.id
                and (may_share or other.dialogue.opener_id != mine.opener_id)
            ),
            [],
        )
        for kind, perturb in kinds.items():
            if kind in PARROTS and kind not in parrots:
                continue
            dialogue = perturbed_dialogue(mine, part.places, perturb, others)
            if dialogue is not None:
                yield Copy(source, kind, part, replace(part, dialogue=dialogue))


def score_blocks(
    scorer: Scorer,
    first: Sequence[One],
    again: Sequence[One],
    score: Callable[[Sequence[One]], list[Values]],
    unit: str,
) -> list[Values]:
    """
    Return the scores of everything by dimension, without missing ones. It is scored in
    blocks that depend on the check alone, so that one which goes on after it was killed
    gives the same numbers.

    :param again: what has scores, and is scored as if nothing of them were kept.
    :raises UserError: also instead of other exceptions of a scorer over copies, which
        it may never have met in a dialogue.
    """
    scored: list[Values] = []
    with bar_of('judge check', len(first) + len(again), unit=unit) as bar:
        parts = PartProgress(bar, 'inputs read')
        for items, anew in ((first, False), (again, True)):
            for block in chunks(items, BLOCK):
                parts.begin(len(block))
                changed = scorer.models.changed(watch=Watch(parts.tell), asks_anew=anew)
                try:
                    with changed:
                        scored += score(block)
                except (UserError, OSError):
                    raise
                except Exception as error:  # which foreign code may raise
                    raise UserError(
                        f'judge check: scorer {scorer.name} fails on a perturbed copy '
                        f'({type(error).__name__}: {first_line(error)}); '
                        '--check-sample 0 leaves the check out'
                    ) from error
                parts.end()
    return scored


def part_scores(scorer: Scorer, parts: Sequence[JudgedPart]) -> list[Values]:
    """
    Return the scores of parts of dialogues, by dimension, without missing ones.
    """
    dialogues, indices = ([p.dialogue for p in parts], [p.indices for p in parts])
    scored = zip(parts, scorer.score_dialogues(dialogues, indices), strict=True)
    return [
        next(
            (
                judged.values
                for judged in judged_parts(part.dialogue, own)
                if (judged.system, judged.is_whole) == (part.system, part.is_whole)
            ),
            {},
        )
        for part, own in scored
    ]


def _notes(check: JudgeCheck, is_whole: bool) -> Iterator[str]:
    """
    Yield what could not be checked, or not by people.
    """
    if not check.n_responses:
        yield 'no response of a system could be perturbed: there are floors only'
    if not check.n_people and is_whole:
        yield 'no replies of people: whole dialogues are judged'
    elif not check.n_people:
        yield 'no replies of people: the source of the openers has none'
    elif check.people_source and check.people_source.startswith('ext:smalltalk'):
        yield 'the generator of ext:smalltalk stands for people'


# --- the check of a scored run: done once, resumed when killed, renewed when it grows

PARTS = 'judge_check.partial'
ASKED = ('likelihood', 'chat')  # the kinds of models that are prompted


def check_run(
    run: RunFolder, scorer: Scorer, *, sample: int = SAMPLE, include_given: bool = False
) -> JudgeCheck | None:
    """
    Check the judge of a scored run, and write the result beside its scores.

    A check that is there stays if nothing it rests on has changed.

    :param sample: responses at most; 0 leaves the check out and removes an old one that
        rests on other dialogues.
    :returns: the check; `None` where there is nothing to check.
    """
    store = run.scores(score_signature(scorer, include_given))
    basis = basis_of(store, sample)
    kept = PartialWork(store.root / PARTS, basis)
    if check_basis(store) == basis:
        kept.remove()  # a kill may have come between the check and this
        return read_check(store)
    check = None
    if sample:
        with kept.saved_at_exit():
            check = make_check(scorer, store, sample, kept)
    if check is not None and check.probes is not None:
        check = replace(check, probes=with_kin(check.probes, scorer, run.manifest))
    write_check(store, check, basis)
    kept.remove()
    return check


def make_check(
    scorer: Scorer, store: ScoreStore, sample: int, kept: Kept | None = None
) -> JudgeCheck | None:
    """
    Return the check of the judge behind these scores of a run; nothing is written but
    what ``kept`` keeps, and nothing that the run names is looked up.

    :returns: `None` where there is nothing to check.
    """
    run = store.run

    def score(parts: Sequence[JudgedPart]) -> list[Values]:
        key = content_id([part.dialogue.id for part in parts])
        return Watch(kept=kept).results(key, partial(part_scores, scorer, parts))

    check = check_on_dialogues(
        scorer,
        store.scored_dialogues(),
        run.openers,
        sample,
        people_source=run.manifest.protocol.openers,
        score=score,
    )
    return check and replace(check, signature=store.signature)


def with_kin(probes: PromptProbes, scorer: Scorer, manifest: Manifest) -> PromptProbes:
    """
    Return the probes of a judge with the ranked systems that are its own model, and
    others of the family of a model inside the scorer, each with what the two have in
    common: such judges tend to like what their own kind writes (Panickssery et al.
    2024, "LLM Evaluators Recognize and Favor Their Own Generations").
    """
    judges = [
        model_origin(model_system(kind, name))
        for kind, name in scorer.models.loaded
        if kind in ASKED
    ]
    same, family = [], {}
    for name, target in sorted(manifest.targets.items()):
        if target.identity in scorer.signature:
            same.append(name)
            continue
        origin = model_origin(System(name, manifest.systems[name]))
        common = [likeness for j in judges if (likeness := j.likeness(origin))]
        if common:
            family[name] = common[0]
    return replace(probes, same_model=tuple(same), same_family=family)


def basis_of(store: ScoreStore, sample: int) -> str:
    """
    Return the hash of what a check with a sample of this size rests on: the scored
    shards and people's replies.
    """
    run = store.run
    shards = [
        [shard.pairing_id, shard.index, run.dialogues_checksum(shard)]
        for shard in run.dialogue_shards()
        if store.has(shard)
    ]
    replies = [opener.reply for opener in run.openers]
    return content_id('judge check', VERSION, sample, [replies, *shards])


# --- the check of a scorer on the items of a judged set -------------------------------
# The check of a judge on the items of a judged set, instead of a run's dialogues.
#
# Each item is seen as a dialogue: its context, and its response. Copies keep the item's
# references, facts and persona, so that scorers that need them can be checked, too.

REFERENCES = 'the references of the judged set'


def check_items(
    scorer: Scorer, items: Items, scores: Sequence[ItemScore], *, sample: int = SAMPLE
) -> JudgeCheck | None:
    """
    Return the check of a judge that has scored these items.

    The first reference of each context stands for a person's reply, unless the scorer
    itself needs references, facts or a persona.

    :param scores: of each item, as `Scorer.checked_scores` returns them.
    :param sample: responses that are perturbed, at most.
    :returns: `None` where there is nothing to check.
    """
    if scorer.level == 'pair':
        return check_pairs(scorer, items, sample=sample)
    parts = [item_part(item, n, scorer.level) for n, item in enumerate(items)]
    scored = (
        (part.dialogue, scorer.scored_dialogue(part.dialogue, part.indices, [score]))
        for part, score in zip(parts, scores, strict=True)
    )
    openers = {
        item.context: Opener.from_utterances(
            item.context, REFERENCES, item.references[0]
        )
        for item in items
        if item.references
        and item.context
        and item.response is not None
        and not scorer.needs
    }
    ask = partial(copied_item_scores, scorer, items)
    return check_on_dialogues(
        scorer,
        scored,
        list(openers.values()),
        sample,
        people_source=REFERENCES,
        score=ask,
    )


def copied_item_scores(
    scorer: Scorer, items: Items, copies: Sequence[JudgedPart]
) -> list[Values]:
    """
    Return the scores of copies of items, and of people's replies.
    """
    asked = []
    for copy in copies:
        make = dialogue_items if copy.is_whole else turn_items
        [item] = make(copy.dialogue, copy.places)
        if copy.dialogue.pairing_id:  # it is of an item, and no person's reply
            original = items[int(copy.dialogue.pairing_id)]
            item = replace(
                item,
                references=original.references,
                facts=original.facts,
                persona=original.persona,
            )
        asked.append(item)
    return [known_values(one.values) for one in scorer.checked_scores(asked)]


def item_part(item: ScoringItem, number: int, level: str) -> JudgedPart:
    """
    Return what is judged of an item in a dialogue that ends with the judged speaker's
    utterance: this response or, at the level ``dialogue``, all that he says.

    Where the item does not say who spoke, two speakers took turns.

    :param number: of the item, the dialogue's `pairing_id`; it leads back to it.
    """
    texts = item.utterances
    last = len(texts) - 1
    names = item.speakers or [
        (item.speaker or 'A', 'partner')[(last - i) % 2] for i in range(len(texts))
    ]
    turns = zip(names, texts, strict=False)  # `speakers` may know later utterances
    context = texts[:-1] if item.response is not None else texts
    dialogue = Dialogue(
        f'item {number}',
        str(number),
        Opener.from_utterances(context, '').id,
        tuple(Utterance(name, text) for name, text in turns),
    )
    speaker, is_whole = names[last], level == 'dialogue'
    own = tuple(i for i, name in enumerate(dialogue.speakers) if name == speaker)
    places = own if is_whole else (last,)
    return JudgedPart(dialogue, places, places, speaker, {}, is_whole)


def check_pairs(
    scorer: Scorer, items: Items, *, sample: int = SAMPLE
) -> JudgeCheck | None:
    """
    Return the check of a scorer of pairs on originals that are responses after their
    contexts; `None` without any.

    :param items: the originals; which other response they have does not matter.
    :param sample: originals that are perturbed, at most.
    """
    originals = drawn_items(items, sample)
    kinds = perturbations_for(scorer)
    parts = [item_part(item, n, 'turn') for n, item in enumerate(originals)]
    copies = list(all_copies(parts, 'systems', kinds))
    if not copies:
        return None
    both = copied_pairs(originals, copies)
    asked = scorer.in_given_order()
    again = both[: 2 * N_REPEATED] if scorer.prompted else []
    scored = score_blocks(asked, both, again, partial(preferences, asked), unit='pair')
    scores, second_scores = scored[: len(both)], scored[len(both) :]
    compared = []
    for copy, own, swapped in zip(copies, scores[::2], scores[1::2], strict=True):
        if asked is not scorer:  # the scorer itself asks in both orders
            own = {d: (own[d] - swapped[d]) / 2 for d in own if d in swapped}
        signs = {d: sign(value, noise=SAME) for d, value in own.items()}
        compared.append(((copy.kind or '', copy.source), signs))
    return JudgeCheck(
        signature=scorer.signature,
        n_responses=len(originals),
        n_people=0,
        people_source=None,
        n_scored=len(scored),
        cost=len(scored) / len(items),
        dimensions={
            name: kinds_check(name, compared, kinds) for name in scorer.dimensions
        },
        probes=replace(repeats(scores, second_scores), order=order_swap(scores)),
        notes=('a scorer of pairs: it chooses between original and copy',),
    )


def copied_pairs(originals: Items, copies: Iterable[Copy]) -> list[ScoringItem]:
    """
    Return the pair of each copy with its original, in both orders.
    """
    pairs = []
    for copy in copies:
        item = originals[int(copy.part.dialogue.pairing_id)]
        pair = replace(item, extras={**item.extras, OTHER: copy.part.texts[0]})
        pairs += [pair, swapped_item(pair)]
    return pairs


def preferences(scorer: Scorer, pairs: Items) -> list[Values]:
    """
    Return the scores of pairs less that of a tie.
    """
    return [
        {d: v - scorer.even for d, v in known_values(one.values).items()}
        for one in scorer.checked_scores(pairs)
    ]


def drawn_items(items: Items, sample: int) -> list[ScoringItem]:
    """
    Return up to so many items that have a response, drawn by their content alone.
    """
    known = [item for item in items if item.response and item.response.strip()]
    known.sort(key=lambda item: content_id(list(item.context), item.response))
    return known[:sample]


def order_swap(scores: Sequence[Values]) -> OrderSwap:
    """
    Return how often a choice changes with the order, over pairs and dimensions.

    :param scores: of each pair two: the preference for the response, which is shown
        first, and that for the other one, which is then shown first.
    """
    signs = [
        (sign(one[name], noise=SAME), sign(other[name], noise=SAME))
        for one, other in zip(scores[::2], scores[1::2], strict=True)
        for name in one
        if name in other
    ]
    changed = sum(one != -other for one, other in signs)
    made = [choice for both in signs for choice in both if choice]
    low, high = wilson_interval(changed, len(signs)) if signs else (None, None)
    share = sum(choice > 0 for choice in made) / len(made) if made else None
    return OrderSwap(len(signs), changed, low, high, share)
