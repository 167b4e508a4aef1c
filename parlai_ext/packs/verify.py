"""
What of a pack can be proven without a model: that its files are what they were, that
all ids follow from what they stand for, and that the ranking follows from the scores.

A forger who makes all checksums anew is not stopped by checksums. Then ids still have
to fit systems and openers, and the ranking the scores; scores and dialogues themselves
are believed only where they are made again (`check_pack.py`). So are the counts of a
judge check (in how many pairs a judge scores an original above its perturbed copy);
its outcomes follow from them.
"""

import re
from collections import defaultdict
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

from parlai_ext.core import (
    CLOSE,
    GIVEN_JUDGED,
    SCHEMES,
    Dialogue,
    JsonObject,
    Opener,
    Pairing,
    Score,
    UserError,
    content_id,
    differences,
    frozen,
    grouped,
    options_of,
    record_to_json,
    scorer_name,
    signature_line,
)
from parlai_ext.core.records import WrongType, record_from_json
from parlai_ext.judge_check.perturbations import dimension_check, kind_result
from parlai_ext.judge_check.record import DimensionCheck, JudgeCheck, read_check
from parlai_ext.packs.pack import Pack, open_pack, readable
from parlai_ext.packs.publish import ranking_data
from parlai_ext.results import ranking as rankings
from parlai_ext.scoring.base import NO_MODEL, judged_indices, unscored_systems
from parlai_ext.scoring.registry import DEFAULT, SCORERS, find_scorer, is_outside
from parlai_ext.store import (
    SCORER_FILE,
    ScorerRecord,
    ScoreStore,
    dialogue_id,
    pairings,
)
from parlai_ext.view import count_of

DIGEST = re.compile('[0-9a-f]{64}')
# what a pack without texts cannot show
NEEDS_TEXT = ('baselines', 'baseline_reference')
LARGEST_SCORE = 1e100
MOST_PROBLEMS = 1000  # that are listed of one part


@frozen
class PackFinding:
    """
    What is known of one part of a pack.

    :param about: the part: ``files``, ``ranking``, …
    :param state: ``proven``, ``wrong`` or ``self-reported``.
    :param text: what was proven, or what was not looked at and why.
    :param problems: what is wrong, each with its place.
    """

    about: str
    text: str
    state: str = 'self-reported'
    problems: tuple[str, ...] = ()


def finding_of(about: str, proven: str, problems: Sequence[str]) -> PackFinding:
    """
    Return the finding of a check that was made.
    """
    state = 'wrong' if problems else 'proven'
    text = count_of(len(problems), 'problem') if problems else proven
    return PackFinding(about, text, state, tuple(problems))


def content_findings(pack: Pack) -> Iterator[PackFinding]:
    """
    Yield what follows from the content of a pack, part by part.
    """
    run, manifest = pack.run, pack.manifest
    yield part_finding(
        pack,
        'partners',
        f'{len(manifest.partners)}, lock {manifest.partner_lock}, '
        f'{count_of(len(run.openers), "opener")} {manifest.openers_hash}; the '
        'signature follows from the settings',
        manifest_problems(pack),
    )
    yield part_finding(
        pack,
        'scorer',
        'protocol.scorer is the one beside its scores, and its name and options are '
        'those of their signature; names of its models are the publisher’s word',
        scorer_problems(pack),
    )
    n_dialogues = f'{run.n_dialogues:,} are of these pairs and openers'
    proven = f'{n_dialogues}, each in its place'
    yield part_finding(pack, 'dialogues', proven, dialogue_problems(pack))
    baselines = ', but for trivial baselines, which need the text'
    ranked = f'follows from the scores{baselines if pack.index.withheld_text else ""}'
    for store in map(run.scores, pack.signatures):
        name = scorer_name(store.signature)
        proven = f'{name}: each judged utterance has one in each dimension'
        yield part_finding(pack, 'scores', proven, score_problems(store))
        problems = ranking_problems(pack, store.signature)
        yield part_finding(pack, 'ranking', f'{name}: {ranked}', problems)
        yield judge_finding(pack, store)


def part_finding(
    pack: Pack, about: str, proven: str, lines: Iterator[str]
) -> PackFinding:
    """
    Return what is known of a part of a pack.

    :param lines: what is wrong; making them may fail on a stranger's files.
    """
    problems: list[str] = []
    try:
        with readable(pack.path, pack.run.root):
            problems += islice(lines, MOST_PROBLEMS)
    except UserError as error:
        problems.append(str(error).removeprefix(f'{pack.path}: '))
    return finding_of(about, proven, problems)


def judge_finding(pack: Pack, store: ScoreStore) -> PackFinding:
    """
    Return what is known of the check of a judge, whose counts are taken as they are.
    """
    about, name = 'judge check', scorer_name(store.signature)
    problems = judge_problems(store)
    finding = part_finding(pack, about, '', (f'{name}: {line}' for line in problems))
    if finding.problems:
        return finding
    check = read_check(store)
    if check is None:
        return PackFinding(about, f'{name}: none; this judge is unchecked')
    by_outcome = grouped((own.outcome, d) for d, own in check.dimensions.items())
    outcomes = '; '.join(f'{o} on {", ".join(n)}' for o, n in by_outcome.items())
    return replace(finding, text=f'{name}: {outcomes}; follows from its counts')


def judge_problems(store: ScoreStore) -> Iterator[str]:
    """
    Yield where the check of a judge is not that of these scores, or its outcomes do not
    follow from its counts.
    """
    check = read_check(store)
    if check is None:
        return
    if check.signature != store.signature:
        both = f'{check.signature:.80}, not {store.signature:.80}'
        yield f'it is the check of other scores: {both}'
    if shards := store.run.dialogue_shards():
        of_scores = {s.dimension for one in store.read(shards[0]) for s in one.scores}
        if {*check.dimensions} != of_scores:
            ours, others = (', '.join(sorted(n)) for n in (check.dimensions, of_scores))
            yield f'it is about {ours}, the scores about {others}'
    for name, own in all_checks(check).items():
        kinds = [
            kind_result(k.kind, k.source, k.n, k.n_higher, k.n_ties) for k in own.kinds
        ]
        derived = dimension_check(own.dimension, kinds, own.human_anchor, own.biases)
        gives = record_to_json(derived)
        for where, a, b in differences(record_to_json(own), gives, name, CLOSE):
            yield f'{where}: the pack says {a}, its counts give {b}'


@contextmanager
def open_right_pack(path: str | Path) -> Iterator[Pack]:
    """
    Unpack a pack in which nothing is wrong, as far as can be told without a model.

    :raises UserError: names the first thing that is wrong.
    """
    with open_pack(path) as pack:
        for finding in content_findings(pack):
            for problem in finding.problems[:1]:
                raise UserError(
                    f'{path}: {finding.about}: {problem}; `parlai verify_run {path}` '
                    'says more'
                )
        yield pack


def manifest_problems(pack: Pack) -> Iterator[str]:
    """
    Yield what of the manifest does not follow from the rest of it.
    """
    run, manifest = pack.run, pack.manifest
    if manifest.signature != (derived := manifest.dialogue_signature()):
        yield (
            f'signature: manifest.json says {manifest.signature}, its settings '
            f'give {derived}'
        )
    if not manifest.scheme.is_played:
        return
    for opener in run.openers:
        own = Opener.from_utterances(opener.utterances, opener.source).id
        is_shown = opener.utterances or not pack.index.withheld_text
        if is_shown and opener.id != own:
            yield f'opener {opener.id}: its text was changed (its hash is {own})'
    plan = run.plan
    identities = {name: one.identity for name, one in manifest.everybody.items()}
    derived_pairs = pairings(plan.roster, plan.protocol.pairing, identities)
    given, gives = (
        {f'{one.first!r} – {one.second!r}': one.id for one in some}
        for some in (plan.pairings, derived_pairs)
    )
    for pair, a, b in differences(given, gives):
        yield f'pair {pair}: its id is {a}, the hashes of its systems give {b}'


def scorer_problems(pack: Pack) -> Iterator[str]:
    """
    Yield where the scorer of the manifest, that beside scores and the signature of
    these scores differ. A pack without scores by the protocol's scorer names none.
    """
    section = pack.manifest.protocol.scorer
    beside = {
        signature: pack.run.scores(signature).about() for signature in pack.signatures
    }
    configs = [about.config or section for about in beside.values()]
    if section and section not in configs:
        named = [c for c in configs if c.get('name') == section.get('name')]
        for key, says, gives in differences(section, (named or configs)[0]):
            yield (
                f'protocol.scorer.{key}: manifest.json says {says!r:.100}, the scores '
                f'were made with {gives!r:.100}'
            )
    for (signature, about), config in zip(beside.items(), configs, strict=True):
        folder = f'scores/{content_id(signature)}'
        for key, problem in _config_problems(config, signature, about):
            yield f'{folder}: scorer.{key}: {problem}'


def _config_problems(
    config: JsonObject, signature: str, about: ScorerRecord
) -> Iterator[tuple[str, str]]:
    """
    Yield the keys in which a ``scorer:`` section, if there is one, is not that of
    scores with this signature, and why. Nothing of it is loaded; of options with files
    or models only the names are compared.
    """
    if not config:
        return
    name = str(config.get('name') or DEFAULT)
    signed = dict(part.partition(':')[::2] for part in reversed(signature.split('|')))
    if is_outside(name):
        if 'code' not in signed:
            problem = 'is code from outside the package, and their signature is of none'
            yield 'name', f'{name!r:.100} {problem}'
        return
    if name not in SCORERS:
        yield 'name', f'there is no scorer {name!r:.100}'
        return
    cls = find_scorer(name)
    if cls.name != signed.get('scorer'):
        of_other = f'while their signature is of {signed.get("scorer", "")!r:.100}'
        yield 'name', f'{name!r:.100}, {of_other}'
        return
    models = {model.name for model in about.models}
    for key, option in options_of(cls.options_class).items():
        value = config.get(key)
        if value is None:
            continue
        if option.model is not None:
            if models and value not in {*models, *NO_MODEL}:
                yield key, f'{value!r:.100} is none of the models that made them'
        elif key in signed and isinstance(value, bool | int | float):
            says = f'their signature says {signed[key]:.100}'
            if signature_line({key: value}) != f'{key}:{signed[key]}':
                yield key, f'{value!r:.100}, while {says}'


def dialogue_problems(pack: Pack) -> Iterator[str]:
    """
    Yield the dialogues that are not of their pair and opener.
    """
    run, plan, withheld_text = pack.run, pack.run.plan, pack.index.withheld_text
    num_turns = plan.protocol.num_turns
    by_id = {opener.id: opener for opener in plan.openers}
    for shard in run.dialogue_shards():
        pairing = run.pairing(shard.pairing_id)
        place = f'dialogues/{shard.file}'
        records = run.dialogue_records(shard)
        # which are over the openers of their place
        for n, dialogue in enumerate(run.read_dialogues(shard)):
            opener = by_id[dialogue.opener_id]
            problem = _dialogue_problem(dialogue, pairing, opener, num_turns)
            has_digest = bool(DIGEST.fullmatch(str(records[n].get('digest'))))
            has_text = any(u.text or u.references for u in dialogue.utterances)
            if has_digest != withheld_text or (withheld_text and has_text):
                problem = 'a digest stands for withheld texts, and for no others'
            if problem and not (withheld_text and problem == OPENER):
                yield f'{place} line {n + 1}, dialogue {dialogue.id}: {problem}'


OPENER = 'its given utterances are not those of its opener'


def _dialogue_problem(
    dialogue: Dialogue, pairing: Pairing, opener: Opener, num_turns: int
) -> str | None:
    """
    Return what is wrong with a dialogue; `None` if nothing.
    """
    if not SCHEMES[pairing.scheme].is_played:
        return None
    if dialogue.id != dialogue_id(pairing.id, opener.id):
        return 'its id does not follow from its pair and opener'
    speakers = pairing.speakers
    if any(u.speaker != speakers[i % 2] for i, u in enumerate(dialogue.utterances)):
        return f'its speakers are not {pairing.first!r} and {pairing.second!r} in turn'
    if len(dialogue.utterances) > num_turns:
        return f'it has more than {num_turns} utterances'
    if dialogue.ended_by is None and len(dialogue.utterances) < num_turns:
        return f'it has fewer than {num_turns} utterances, and nobody ended it'
    if dialogue.ended_by not in (None, *speakers):
        return f'it was ended by {dialogue.ended_by!r}, who took no part'
    given = tuple(u.text for u in dialogue.utterances if u.given)
    return OPENER if given != opener.utterances[:num_turns] else None


def score_problems(store: ScoreStore) -> Iterator[str]:
    """
    Yield where scores are not those that a scorer gives to these dialogues: one of each
    judged utterance (or of each judged speaker) in each dimension, and no others.
    """
    run, expected = store.run, ExpectedScores(store)
    for shard in run.dialogue_shards():
        place = f'scores/{store.root.name}/{shard.file}'
        dialogues = run.read_dialogues(shard)
        scored = store.read(shard)
        if [one.dialogue_id for one in scored] != [one.id for one in dialogues]:
            yield f'{place}: these are scores of other dialogues'
            continue
        for n, (dialogue, one) in enumerate(zip(dialogues, scored, strict=True)):
            if problem := expected.problem_of(dialogue, one.scores):
                yield f'{place} line {n + 1}, dialogue {dialogue.id}: {problem}'
    about, dimensions = store.about(), sorted(expected.ways)
    place = f'scores/{store.root.name}/{SCORER_FILE}'
    said = about.dimensions or dimensions
    if dimensions and {*said} != {*dimensions}:
        yield (
            f'{place}: dimensions {", ".join(said)}, its scores have '
            f'{", ".join(dimensions)}'
        )
    if 'given' in about.model_fields_set and about.given != expected.include_given:
        yield f'{place}: given is not as in the signature'


class ExpectedScores:
    """
    Which scores dialogues must have. A dimension is scored for each judged utterance,
    for the last one of each speaker, or for each speaker as a whole: in the same way
    in all dialogues.
    """

    def __init__(self, store: ScoreStore):
        manifest = store.run.manifest
        self.include_given = store.signature.endswith(GIVEN_JUDGED)
        self.first_only, self.unjudged = manifest.first_only, manifest.people
        self.ways: dict[str, set[str]] = {}  # by dimension, those not ruled out

    def problem_of(self, dialogue: Dialogue, scores: Sequence[Score]) -> str | None:
        """
        Return what is wrong with the scores of a dialogue; `None` if nothing.
        """
        places = defaultdict(list)
        for score in scores:
            value, place = score.value, score.utterance_index
            if value is not None and not (
                type(value) in (int, float) and abs(value) <= LARGEST_SCORE
            ):
                problem = f'its score {value!r:.40} is no number, or too large a one'
                return f'utterance {place}: {problem}'
            places[score.dimension].append((place, score.system))
        judged = self._judged_places(dialogue)
        if judged['all'] and not places:
            return 'it has no score'
        if judged['all'] and {*places} != {*(self.ways or places)}:
            here, others = (', '.join(sorted(names)) for names in (places, self.ways))
            return f'it has scores in {here}, others in {others or "no dimension"}'
        for dimension, given in places.items():
            if len({*given}) < len(given):
                return f'it has two scores of one utterance in {dimension!r}'
            ways = {way for way, wanted in judged.items() if wanted == {*given}}
            if not ways & self.ways.setdefault(dimension, {*judged}):
                lacking = judged['all'].symmetric_difference(given)
                at, name = min(lacking or judged['all'], key=str)
                return (
                    f'its scores in {dimension!r} are not those of the utterances that '
                    f'are judged: see utterance {at} of {name!r}'
                )
            self.ways[dimension] &= ways
        return None

    def _judged_places(
        self, dialogue: Dialogue
    ) -> dict[str, set[tuple[int | None, str]]]:
        """
        Return, for each way to score, the places that get a score, and the speakers of
        whom nothing is judged, whose missing score is one of the whole dialogue.
        """
        choice = self.first_only, self.include_given
        silent_names = unscored_systems(dialogue, *choice).keys() - self.unjudged
        silent = {(None, name) for name in silent_names}
        names = dialogue.speakers
        places = [
            (i, names[i])
            for i in judged_indices(dialogue, *choice)
            if names[i] not in self.unjudged
        ]
        last = {i % 2: (i, name) for i, name in places}
        return {
            'all': {*places, *silent},
            'last': {*last.values(), *silent},
            'whole': {*((None, name) for _, name in places), *silent},
        }


def ranking_problems(pack: Pack, signature: str) -> Iterator[str]:
    """
    Yield what the ranking in a pack says otherwise than the scores give.
    """
    place = f'rankings/{content_id(signature)}/{rankings.NAME}'
    try:
        says = pack.run.read_json(place, 'publish the run again')
        record_from_json(rankings.Ranking, says)
    except WrongType as error:
        yield f'{place} is damaged: {error}'
        return
    gives = ranking_data(pack.run, signature)
    left_out = NEEDS_TEXT if pack.index.withheld_text else ()
    says, gives = (
        {k: v for k, v in data.items() if k not in left_out} for data in (says, gives)
    )
    changes = differences(says, gives, tolerance=CLOSE)
    # ranks and intervals follow from scores
    for where, a, b in sorted(changes, key=lambda one: '.score' not in one[0]):
        yield f'{where}: the pack says {a}, its scores give {b}'


# ------------------------------------------------------------------ checks of judges


def all_checks(check: JudgeCheck) -> dict[str, DimensionCheck]:
    """
    Return the checks of dimensions by their names, and that of a tournament.
    """
    games = {} if check.tournament is None else {'tournament': check.tournament}
    return {**check.dimensions, **games}
