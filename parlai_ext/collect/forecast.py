"""
What a run will cost: dialogues, utterances, scorings, disk.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from parlai_ext.collect.amounts import totals
from parlai_ext.collect.plan import protocol_of_options
from parlai_ext.collect.timing import SETTINGS, read_forecast
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import System
from parlai_ext.core.pairings import pairings
from parlai_ext.core.protocol import Protocol
from parlai_ext.scoring.score_run import model_systems
from parlai_ext.store import RunFolder

# utterances of an opener, as all shipped opener tasks have them
GIVEN = 2
# bytes on disk, measured on the demo run; longer replies cost more
BYTES_PER_UTTERANCE = 200
BYTES_PER_SCORED_UTTERANCE = 700


def forecast(opt: Mapping[str, Any], *, judge: bool = False) -> dict[str, Any]:
    """
    Return how much there is to do, how much of it is done, and what is not here yet.

    Loads no model and no openers, so that it answers at once and offline.

    :param judge: the scorer's model has to be here too.
    """
    protocol = protocol_of_options(opt)
    _check(protocol, opt.get('run_dir'))
    roster = protocol.roster
    systems = roster.targets + roster.partners
    named = bool(opt.get('config'))
    judges = model_systems(protocol.scorer, named_by_user=named) if judge else []
    pairs = pairings(roster, protocol.pairing, {s.name: s.name for s in systems})
    dialogues = len(pairs) * protocol.num_dialogues
    made = protocol.num_turns - GIVEN
    judged = n_judged(protocol, GIVEN)
    disk = dialogues * protocol.num_turns * BYTES_PER_UTTERANCE
    disk += dialogues * judged * BYTES_PER_SCORED_UTTERANCE
    return {
        'protocol': protocol.name,
        'targets': len(roster.targets),
        'partners': len(roster.partners),
        'pairings': len(pairs),
        'dialogues': dialogues,
        'utterances_to_generate': dialogues * made,
        'utterances_to_score': dialogues * judged,
        'disk_bytes': disk,
        'dialogues_done': _done(opt.get('run_dir')),
        'pilot': read_forecast(opt.get('run_dir')),
        **_absent((*systems, *judges), opt.get('datapath')),
    }


def n_judged(protocol: Protocol, given: int) -> int:
    """
    Return how many utterances of a full dialogue are judged: both speakers' own, or the
    first one's.
    """
    if protocol.score == 'both':
        return max(0, protocol.num_turns - given)
    return len(range(given + given % 2, protocol.num_turns, 2))


def in_words(found: Mapping[str, Any]) -> str:
    """
    Return a forecast as lines to print.
    """
    lines = [
        f'protocol   {found["protocol"]}',
        f'systems    {found["targets"]} targets, {found["partners"]} partners',
        f'dialogues  {found["dialogues"]:,} in {found["pairings"]} pairings',
        f'utterances {found["utterances_to_generate"]:,} to generate, '
        f'{found["utterances_to_score"]:,} to score',
        f'disk       about {found["disk_bytes"] / 1e6:,.0f} MB',
        f'done       {found["dialogues_done"]:,} dialogues',
    ]
    if found['pilot']:
        lines += ['as a pilot found:', *totals(found['pilot'])]
    for kind, word in (('to_download', 'to download'), ('missing', 'missing')):
        if names := found[kind]:
            lines.append(f'{word:10} {len(names)} systems: {", ".join(names)}')
    return '\n'.join(lines)


def _check(protocol: Protocol, run_dir: str | None) -> None:
    """
    Refuse what the run that is there would refuse.
    """
    run = RunFolder.existing_or_none(run_dir)
    if run is None:
        return
    made = run.manifest['collect']
    asked = {key: getattr(protocol, key) for key in SETTINGS}
    other = [f'{k}: {made[k]!r} → {v!r}' for k, v in asked.items() if made[k] != v]
    if other:
        raise UserError(f'{run_dir} was made with other settings: {"; ".join(other)}')


def _absent(systems: Sequence[System], datapath: str | None) -> dict[str, list[str]]:
    """
    Return the names of the systems that are not on this machine.
    """
    from parlai_ext.systems.resolve import DOWNLOAD, MISSING, resolve

    found = [resolve(system, datapath) for system in systems]
    return {
        'to_download': [r.name for r in found if r.status == DOWNLOAD],
        'missing': [r.name for r in found if r.status == MISSING],
    }


def _done(run_dir: str | None) -> int:
    """
    Count the dialogues that a run folder holds.
    """
    paths = Path(run_dir).glob('dialogues/*/*.jsonl') if run_dir else ()
    return sum(path.read_bytes().count(b'\n') for path in paths)
