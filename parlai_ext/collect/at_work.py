"""
Whose code runs, on disk, for the case that it ends the process.

Code of a system can end the process in which it runs (`os._exit`, a fault in native
code, memory taken until the kernel ends it), and nobody is left to name it. So while a
run is collected, ``RUN/.at_work`` names the system whose code runs now; the end of
collecting removes it. The next start finds it, and says what it finds.

A system is only said to have been at work: whoever kills a process leaves the same
file.
"""

import json
import logging
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

from parlai_ext.core.json_text import parse_json
from parlai_ext.core.nouns import System
from parlai_ext.store import RunFolder
from parlai_ext.store.atomic import write_file
from parlai_ext.systems.players import Player

logger = logging.getLogger(__name__)

NAME = '.at_work'
LOADED, TALKING = 'being loaded', 'talking'
MOST = 2  # cuts in a row after which a system may be left out
CAUSES = "killed, out of memory, or ended by a system's code"


class Cuts(NamedTuple):
    """
    How many runs in a row were cut off while a system was at work, and how many shards
    of dialogues it had then.
    """

    times: int
    n_shards: int


@dataclass(frozen=True)
class Note:
    """
    What ``.at_work`` holds: cuts by system, and which system was doing what, if any.
    """

    cuts: Mapping[str, Cuts] = field(default_factory=dict)
    system: str | None = None
    doing: str = ''


class AtWork:
    """
    The open note of a run that is being collected.

    :param left_out: why systems are to be left out, by name.
    """

    def __init__(self, handle: int, start: int, left_out: Mapping[str, str]):
        self.left_out = left_out
        self._handle = handle
        self._start = start

    def noting(self, load: Callable[[System], Player]) -> Callable[[System], Player]:
        """
        Return a loader whose systems are named while they are loaded and while they
        talk.
        """

        def load_noted(system: System) -> Player:
            with self._naming(_line(system.name, LOADED)):
                player = load(system)
            player.naming = partial(self._naming, _line(system.name, TALKING))
            return player

        return load_noted

    @contextmanager
    def _naming(self, line: bytes) -> Iterator[None]:
        """
        Let the file hold a line while code runs. It need not outlive the machine, so
        that a write is a copy into the system's cache.
        """
        with suppress(OSError):  # a run does not end for its note
            os.pwrite(self._handle, line, self._start)
        try:
            yield
        finally:
            with suppress(OSError):
                os.pwrite(self._handle, b'\n', self._start)


@contextmanager
def noting_who_works(run: RunFolder, skip_missing: bool | None) -> Iterator[AtWork]:
    """
    Say whether the last run was cut off, and keep a note while this one is collected.

    :param skip_missing: leave out systems that were at work when two runs in a row were
        cut off, without a new shard of theirs in between; `None`: the command has no
        such option.
    """
    path = run.root / NAME
    note = _read_note(path, run)
    cuts = _cuts_so_far(note, run)
    left_out = {
        name: f'system {name!r}: {cut.times} runs in a row were cut off while it was '
        'at work; without --skip-missing it is tried again'
        for name, cut in cuts.items()
        if skip_missing and cut.times >= MOST
    }
    if note.system is not None:
        logger.warning('%s', _cut_line(note, cuts[note.system].times, skip_missing))
    first = _json_line(cuts)
    write_file(path, first)
    handle = os.open(path, os.O_WRONLY)
    try:
        yield AtWork(handle, len(first), left_out)
        cuts = {name: cuts[name] for name in left_out}
    finally:
        os.close(handle)
        if cuts:
            write_file(path, _json_line(cuts))
        else:
            path.unlink(missing_ok=True)


def _cut_line(note: Note, times: int, skip_missing: bool | None) -> str:
    """
    Return the line about the run before this one.
    """
    runs = 'run was' if times == 1 else f'{times} runs were'
    line = f'the last {runs} cut off ({CAUSES}) while system {note.system!r} was '
    line += note.doing if times == 1 else 'at work, without a new dialogue of it'
    if times < MOST and skip_missing is not None:
        line += '; after a second time in a row, --skip-missing leaves it out'
    elif times >= MOST and skip_missing is False:
        line += '; --skip-missing leaves it out'
    return line


def _cuts_so_far(note: Note, run: RunFolder) -> dict[str, Cuts]:
    """
    Return the cuts that a note tells of, without those of systems that have got further
    since.
    """
    if not note.cuts and note.system is None:
        return {}  # as mostly: the folder need not be listed
    shards = run.dialogue_shards()

    def n_shards(name: str) -> int:
        pairs = (run.pairing(shard.pairing_id) for shard in shards)
        return sum(name in pair.speakers for pair in pairs)

    cuts = {n: cut for n, cut in note.cuts.items() if n_shards(n) == cut.n_shards}
    if note.system is not None:
        before = cuts.get(note.system, Cuts(0, 0)).times
        cuts[note.system] = Cuts(before + 1, n_shards(note.system))
    return cuts


def _read_note(path: Path, run: RunFolder) -> Note:
    """
    Return what a note holds; a damaged one, and one about other systems, holds nothing.
    """
    try:
        first, second, *_ = path.read_bytes().split(b'\n')
        cuts = {
            name: Cuts(*map(int, counts)) for name, counts in parse_json(first).items()
        }
        now = parse_json(second) if second else {}
        note = Note(cuts, now.get('system'), str(now.get('doing')))
        if {*cuts, note.system} <= {None, *run.manifest.systems}:
            return note
    except (OSError, ValueError, TypeError, AttributeError):
        pass
    return Note()


def _line(system: str, doing: str) -> bytes:
    return _json_line({'system': system, 'doing': doing})


def _json_line(data: Any) -> bytes:
    return json.dumps(data).encode('ascii') + b'\n'
