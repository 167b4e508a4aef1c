"""
Dry run: how much a run has to do, how much of it is done, and what is not here yet.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from parlai_ext.collect.options import PlanOptions
from parlai_ext.collect.plan import protocol_of_options
from parlai_ext.collect.resolved import systems_of
from parlai_ext.collect.timing import SETTINGS, Forecast, read_forecast
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


@dataclass(frozen=True)
class DryRun:
    """
    What a run has to do. `to_download` and `missing` name systems.
    """

    protocol: str
    targets: int
    partners: int
    pairings: int
    dialogues: int
    utterances_to_generate: int
    utterances_to_score: int
    disk_bytes: int
    dialogues_done: int
    to_download: tuple[str, ...]
    missing: tuple[str, ...]
    pilot: Forecast | None = None

    def lines(self) -> list[str]:
        """
        Return lines to print.
        """
        lines = [
            f'protocol   {self.protocol}',
            f'systems    {self.targets} targets, {self.partners} partners',
            f'dialogues  {self.dialogues:,} in {self.pairings} pairings',
            f'utterances {self.utterances_to_generate:,} to generate, '
            f'{self.utterances_to_score:,} to score',
            f'disk       about {self.disk_bytes / 1e6:,.0f} MB',
            f'done       {self.dialogues_done:,} dialogues',
        ]
        if self.pilot:
            lines += ['forecast of the pilot:', *self.pilot.totals()]
        for names, word in (
            (self.to_download, 'to download'),
            (self.missing, 'missing'),
        ):
            if names:
                lines.append(f'{word:10} {len(names)} systems: {", ".join(names)}')
        return lines


def dry_run(options: PlanOptions, datapath: str | None, *, judge: bool) -> DryRun:
    """
    Return what the run has to do, without loading a model or reading openers.

    :param judge: the scorer's model has to be here too.
    :raises UserError: when the run folder holds a run with other settings.
    """
    from parlai_ext.systems.resolve import DOWNLOAD, MISSING

    protocol = protocol_of_options(options)
    _refuse_other_settings(protocol, options.run_dir)
    systems = systems_of(protocol)
    named = bool(options.config)
    models = model_systems(protocol.scorer, named_by_user=named) if judge else []
    status = _status([*systems, *models], datapath)
    pairs = pairings(
        protocol.roster, protocol.pairing, {s.name: s.name for s in systems}
    )
    dialogues = len(pairs) * protocol.num_dialogues
    judged = dialogues * judged_utterances(protocol, GIVEN)
    return DryRun(
        protocol=protocol.name,
        targets=len(protocol.roster.targets),
        partners=len(protocol.roster.partners),
        pairings=len(pairs),
        dialogues=dialogues,
        utterances_to_generate=dialogues * (protocol.num_turns - GIVEN),
        utterances_to_score=judged,
        disk_bytes=bytes_on_disk(dialogues * protocol.num_turns, judged),
        dialogues_done=_dialogues_done(options.run_dir),
        to_download=tuple(name for name, state in status if state == DOWNLOAD),
        missing=tuple(name for name, state in status if state == MISSING),
        pilot=read_forecast(options.run_dir),
    )


def judged_utterances(protocol: Protocol, given: int) -> int:
    """
    Return how many utterances of a full dialogue are judged: both speakers' own, or the
    first one's.
    """
    if protocol.score == 'both':
        return max(0, protocol.num_turns - given)
    return len(range(given + given % 2, protocol.num_turns, 2))


def bytes_on_disk(utterances: int, judged: int) -> int:
    """
    Return about how many bytes dialogues and scores take.
    """
    return utterances * BYTES_PER_UTTERANCE + judged * BYTES_PER_SCORED_UTTERANCE


def _refuse_other_settings(protocol: Protocol, run_dir: str | None) -> None:
    run = RunFolder.existing_or_none(run_dir)
    if run is None:
        return
    made = run.manifest['collect']
    asked = {key: getattr(protocol, key) for key in SETTINGS}
    other = [f'{k}: {made[k]!r} → {v!r}' for k, v in asked.items() if made[k] != v]
    if other:
        raise UserError(f'{run_dir} was made with other settings: {"; ".join(other)}')


def _status(systems: Sequence[System], datapath: str | None) -> list[tuple[str, str]]:
    """
    Return for each system whether it is present, to be downloaded or missing.
    """
    from parlai_ext.systems.resolve import resolve

    resolved = [resolve(system, datapath) for system in systems]
    return [(resolution.name, resolution.status) for resolution in resolved]


def _dialogues_done(run_dir: str | None) -> int:
    paths = Path(run_dir).glob('dialogues/*/*.jsonl') if run_dir else ()
    return sum(path.read_bytes().count(b'\n') for path in paths)
