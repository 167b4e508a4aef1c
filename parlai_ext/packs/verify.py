"""
What of a pack can be proven without a model: that its files are what they were, that
all ids follow from what they stand for, and that the ranking follows from the scores.

A forger who makes all checksums anew is not stopped by checksums. Then ids still have
to fit systems and openers, and the ranking the scores; scores and dialogues themselves
are believed only where they are made again (`regenerate.py`).
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, fields
from functools import partial
from itertools import islice
from pathlib import Path
from typing import Any

from parlai_ext.collect.manifest import dialogue_signature
from parlai_ext.collect.plan import plan_of_run
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue, Opener, Pairing, content_id
from parlai_ext.core.pairings import SCHEMES, pairings
from parlai_ext.core.records import WrongType, record_to_json
from parlai_ext.core.schedule import dialogue_id
from parlai_ext.packs.pack import (
    INDEX,
    Pack,
    PackIndex,
    make_index,
    member_problems,
    open_pack,
    readable,
)
from parlai_ext.packs.publish import ranking_data
from parlai_ext.results import ranking as rankings
from parlai_ext.store import RunFolder, imported
from parlai_ext.store.lines import decode_shard

PROVEN, WRONG, SELF_REPORTED = 'proven', 'wrong', 'self-reported'
DIGEST = re.compile('[0-9a-f]{64}')
# what a pack without texts cannot show
NEEDS_TEXT = ('baselines', 'baseline_reference')
MOST_PROBLEMS = 1000  # that are listed of one part
CLOSE = 1e-9  # numbers of a ranking may differ by so much, for other libraries' sums


@dataclass(frozen=True)
class Finding:
    """
    What is known of one part of a pack.

    :param about: the part: ``files``, ``ranking``, …
    :param state: ``proven``, ``wrong`` or ``self-reported``.
    :param text: what was proven, or what was not looked at and why.
    :param problems: what is wrong, each with its place.
    """

    about: str
    state: str
    text: str
    problems: tuple[str, ...] = ()


def finding_of(about: str, proven: str, problems: Sequence[str]) -> Finding:
    """
    Return the finding of a check that was made.
    """
    state = WRONG if problems else PROVEN
    s = 's' if len(problems) != 1 else ''
    text = f'{len(problems)} problem{s}' if problems else proven
    return Finding(about, state, text, tuple(problems))


def file_finding(folder: Path, index: PackIndex) -> Finding:
    """
    Compare every file of an unpacked pack with its sha256.
    """
    proven = f'all {len(index.members)} have the sha256 that {INDEX} says'
    return finding_of('files', proven, member_problems(folder, index))


def content_findings(
    folder: Path, index: PackIndex, run: RunFolder, path: Path
) -> Iterator[Finding]:
    """
    Yield what follows from the content of an unpacked pack, part by part.
    """

    def problems(check: Callable[[], Iterator[str]]) -> list[str]:
        lines: list[str] = []
        try:
            with readable(path, folder):
                lines += islice(check(), MOST_PROBLEMS)
        except UserError as error:
            lines.append(str(error).removeprefix(f'{path}: '))
        return lines

    n_partners, n_openers = len(index.partners), index.openers.n
    yield finding_of(
        'partners',
        f'{n_partners}, lock {index.partner_lock}, {n_openers} openers '
        f'{index.openers.hash}, protocol and signature follow from the manifest',
        problems(partial(manifest_problems, index, run)),
    )
    n_dialogues = sum(shard.n_dialogues for shard in run.dialogue_shards())
    yield finding_of(
        'dialogues',
        f'{n_dialogues:,} are of these pairs and openers, each in its place',
        problems(partial(dialogue_problems, run, index.withheld_text)),
    )
    for signature in index.scores.values():
        yield finding_of(
            'scores',
            f'{_scorer(signature)}: each is of a judged utterance of these dialogues',
            problems(partial(score_problems, run, signature)),
        )
        yield finding_of(
            'ranking',
            f'{_scorer(signature)}: follows from the scores{_but(index)}',
            problems(partial(ranking_problems, run, signature, index)),
        )


@contextmanager
def open_right_pack(path: str | Path) -> Iterator[Pack]:
    """
    Unpack a pack in which nothing is wrong, as far as can be told without a model.

    :raises UserError: names the first thing that is wrong.
    """
    with open_pack(path) as pack:
        for finding in content_findings(pack.run.root, pack.index, pack.run, pack.path):
            for problem in finding.problems[:1]:
                raise UserError(
                    f'{path}: {finding.about}: {problem}; `parlai verify_run {path}` '
                    'says more'
                )
        yield pack


def _scorer(signature: str) -> str:
    return signature.partition('|')[0].removeprefix('scorer:')


def _but(index: PackIndex) -> str:
    withheld = ', but for trivial baselines, which need the text'
    return withheld if index.withheld_text else ''


def manifest_problems(index: PackIndex, run: RunFolder) -> Iterator[str]:
    """
    Yield what of the manifest does not follow from the rest of it, or from the index.
    """
    manifest = run.manifest
    yield from _index_problems(index, run)
    collect = manifest['collect']
    for name, partner in manifest['partners'].items():
        signed = collect.get(f'partners.{name}')
        if imported.NAME not in manifest and signed != partner['identity']:
            yield (
                f'partner {name!r}: manifest.json says {partner["identity"]}, its '
                f'signed settings {signed}'
            )
    if imported.NAME in manifest:
        return
    plan = plan_of_run(run)
    version = manifest['versions'].get('parlai_ext', 'absent')
    derived = dialogue_signature(plan.protocol, collect, version)
    if manifest.get('signature') != derived:
        yield (
            f'signature: manifest.json says {manifest.get("signature")}, its settings '
            f'give {derived}'
        )
    ids = [opener['id'] for opener in manifest['openers']]
    if content_id(ids) != collect.get('openers.content'):
        yield 'openers: they are others than those that the signature is about'
    for opener in run.openers:
        own = Opener.from_utterances(opener.utterances, opener.source).id
        if not index.withheld_text and opener.id != own:
            yield f'opener {opener.id}: its text was changed (its hash is {own})'
    yield from _pairing_problems(run, manifest)


def _index_problems(index: PackIndex, run: RunFolder) -> Iterator[str]:
    """
    Yield what the index says otherwise than the manifest and the scores.
    """
    scores = {
        path.parent.name: path.read_text(encoding='utf-8').rstrip('\n')
        for path in sorted(run.root.glob('scores/*/signature.txt'))
    }
    derived = make_index(run.manifest, scores, index.members, index.withheld_text)
    for field in fields(PackIndex):
        says = record_to_json(getattr(index, field.name))
        gives = record_to_json(getattr(derived, field.name))
        if field.name not in ('members', 'format', 'schema'):
            for place, a, b in json_differences(says, gives, field.name):
                yield f'{place}: {INDEX} says {a}, the files give {b}'
    for folder, signature in scores.items():
        if content_id(signature) != folder:
            yield (
                f'scorer signature: scores/{folder}/signature.txt was changed (its '
                f'hash is {content_id(signature)})'
            )


def _pairing_problems(run: RunFolder, manifest: Mapping[str, Any]) -> Iterator[str]:
    """
    Yield the pairs whose id does not follow from names and hashes of their systems.
    """
    plan = plan_of_run(run)
    everybody = {**manifest['targets'], **manifest['partners']}
    identities = {name: one['identity'] for name, one in everybody.items()}
    derived = {
        (p.first, p.second): p.id
        for p in pairings(plan.roster, plan.protocol.pairing, identities)
    }
    given = {(p.first, p.second): p.id for p in plan.pairings}
    for pair in {**derived, **given}:
        if derived.get(pair) != given.get(pair):
            yield (
                f'pair {pair[0]!r} – {pair[1]!r}: its id is {given.get(pair)}, the '
                f'hashes of its systems give {derived.get(pair)}'
            )


def dialogue_problems(run: RunFolder, withheld_text: bool) -> Iterator[str]:
    """
    Yield the dialogues that are not of their pair and opener.
    """
    plan = plan_of_run(run)
    num_turns = plan.protocol.num_turns
    by_id = {opener.id: opener for opener in plan.openers}
    for shard in run.dialogue_shards():
        pairing = run.pairing(shard.pairing_id)
        place = f'dialogues/{shard.pairing_id}/{shard.index:05d}.jsonl'
        path = run.root / place
        records = decode_shard(path.read_bytes(), shard.index, path)
        dialogues = run.read_dialogues(shard.pairing_id, shard.index)
        if plan.protocol.pairing in SCHEMES:
            ids = [o.id for o in run.openers[shard.start : shard.stop]]
            if [dialogue.opener_id for dialogue in dialogues] != ids:
                yield f'{place}: its dialogues are not over the openers of its place'
        for n, dialogue in enumerate(dialogues):
            opener = by_id.get(dialogue.opener_id)
            problem = _dialogue_problem(dialogue, pairing, opener, num_turns)
            if withheld_text and not DIGEST.fullmatch(str(records[n].get('digest'))):
                problem = 'it has no digest'
            if problem and not (withheld_text and problem == OPENER):
                yield f'{place} line {n + 1}, dialogue {dialogue.id}: {problem}'


OPENER = 'its given utterances are not those of its opener'


def _dialogue_problem(
    dialogue: Dialogue, pairing: Pairing, opener: Opener | None, num_turns: int
) -> str | None:
    """
    Return what is wrong with a dialogue; `None` if nothing.
    """
    if pairing.scheme not in SCHEMES:
        return None
    if opener is None:
        return f'there is no opener {dialogue.opener_id}'
    if dialogue.id != dialogue_id(pairing.id, opener.id):
        return 'its id does not follow from its pair and opener'
    speakers = (pairing.first, pairing.second)
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


def score_problems(run: RunFolder, signature: str) -> Iterator[str]:
    """
    Yield the scores that are not of an utterance of the dialogue that they name.
    """
    store = run.scores(signature)
    for shard in run.dialogue_shards():
        place = f'scores/{store.root.name}/{shard.pairing_id}/{shard.index:05d}.jsonl'
        dialogues = run.read_dialogues(shard.pairing_id, shard.index)
        scored = store.read(shard.pairing_id, shard.index)
        ids = [one.dialogue_id for one in scored]
        if ids != [dialogue.id for dialogue in dialogues]:
            yield f'{place}: these are scores of other dialogues'
            continue
        for n, (dialogue, one) in enumerate(zip(dialogues, scored, strict=True)):
            speakers = {u.speaker for u in dialogue.utterances}
            for score in one.scores:
                at = score.utterance_index
                if at is None:
                    is_right = score.system in speakers
                else:
                    inside = 0 <= at < len(dialogue.utterances)
                    is_right = (
                        inside and dialogue.utterances[at].speaker == score.system
                    )
                if not is_right:
                    yield (
                        f'{place} line {n + 1}, dialogue {dialogue.id}: a score of '
                        f'utterance {at} of {score.system!r}, which is not there'
                    )


def ranking_problems(run: RunFolder, signature: str, index: PackIndex) -> Iterator[str]:
    """
    Yield what the ranking in a pack says otherwise than the scores give.
    """
    place = f'rankings/{content_id(signature)}/{rankings.NAME}'
    try:
        says = run.read_json(place, 'publish the run again')
        rankings.from_json(says)
    except WrongType as error:
        yield f'{place} is damaged: {error}'
        return
    gives = ranking_data(run, signature)
    left_out = NEEDS_TEXT if index.withheld_text else ()
    says, gives = (
        {k: v for k, v in data.items() if k not in left_out} for data in (says, gives)
    )
    differences = list(json_differences(says, gives))
    # ranks and intervals follow from scores
    for where, a, b in sorted(differences, key=lambda one: '.score' not in one[0]):
        yield f'{where}: the pack says {a}, its scores give {b}'


def json_differences(
    says: Any, gives: Any, where: str = ''
) -> Iterator[tuple[str, Any, Any]]:
    """
    Yield each place at which two values of JSON data differ, with both values there.
    A place in a list of standings is named by the system. Numbers may differ by 1e-9.
    """
    if isinstance(says, Mapping) and isinstance(gives, Mapping):
        for key in sorted({*says, *gives}):
            inner = f'{where}.{key}' if where else key
            yield from json_differences(
                says.get(key, 'nothing'), gives.get(key, 'nothing'), inner
            )
    elif isinstance(says, list) and isinstance(gives, list) and len(says) == len(gives):
        for i, (a, b) in enumerate(zip(says, gives, strict=True)):
            name = a.get('system', i) if isinstance(a, Mapping) else i
            yield from json_differences(a, b, f'{where}[{name}]')
    elif says != gives and not _close(says, gives):
        yield where, says, gives


def _close(a: Any, b: Any) -> bool:
    numbers = (int, float)
    if not (isinstance(a, numbers) and isinstance(b, numbers)):
        return False
    if isinstance(a, bool) or isinstance(b, bool):
        return False
    return abs(a - b) <= CLOSE * max(1.0, abs(a), abs(b))
