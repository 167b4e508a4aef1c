"""
Which records this user made, and which files they trust: notes in the user's own
configuration folder.

A run folder or a pack may come from anybody, and its checksums fit whatever it holds.
So that a user's own run goes on without being asked about its systems again, the
commands that write a record note, outside of the run folder, which parts of it the user
named. A note is a small file, named by the hash of what it is about: two commands never
write the same name at once. Trust in the code of models and agents is noted by the hash
of their files; nothing in a run says so.
"""

import logging
import os
import tempfile
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from parlai_ext.core import parse_json
from parlai_ext.files.option_files import sha256
from parlai_ext.store.lines import dumps
from parlai_ext.store.manifest import Manifest, ScorerRecord, record_hash

logger = logging.getLogger(__name__)

SCORER = 'protocol.scorer'  # the part of a manifest that says how a run is scored
CONFIG = 'config'  # the same part of the record beside scores
LARGEST_NOTE = 2**20  # bytes
TRUSTED = 'trusted'  # the folder with a note for each file
# what this process noted, where the folder cannot be written or is another machine's
_noted: dict[str, frozenset[str]] = {}
_trusted_here: set[str] = set()  # hashes of files, likewise


def configuration_folder() -> Path:
    """
    Return the user's configuration folder of this package, which need not exist; one
    that cannot be made where the user has none.
    """
    named = os.environ.get('XDG_CONFIG_HOME', '')
    # a relative one would lie in whatever folder a command is started from
    if os.path.isabs(named):
        return Path(named) / 'parlai_ext'
    with suppress(RuntimeError):
        return Path.home() / '.config' / 'parlai_ext'
    return Path(os.devnull, 'parlai_ext')


def named_parts(digest: str) -> frozenset[str]:
    """
    Return the parts of a record that this user named when it was made.

    :param digest: its `record_hash`.
    """
    return _noted.get(digest, frozenset()) | _read_note(digest)


def is_own_scorer(manifest: Manifest) -> bool:
    """
    True if this user named the scorer of a run when it was made.
    """
    return SCORER in named_parts(record_hash(manifest))


def note_parts(
    record: Manifest | ScorerRecord, parts: Iterable[str], *, on_disk: bool = True
) -> None:
    """
    Note that this user named these parts of a record, beside those noted before.

    :param on_disk: `False` for a worker, to which the process that gives it work says
        so: the notes of its own machine stay as they are.
    """
    digest, parts = record_hash(record), frozenset(parts)
    _noted[digest] = _noted.get(digest, frozenset()) | parts
    before = _read_note(digest)
    if on_disk and not parts <= before:
        what = (
            'this run is yours (to go on with systems from outside the package, pass '
            '--config again)'
        )
        _write_note(_path(digest), dumps({'parts': sorted(parts | before)}), what)


def _write_note(path: Path, text: str, what: str) -> None:
    """
    Write a small file of the user's configuration folder; warn where that fails.

    :param what: what it notes.
    """
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        # whole or not at all, under a name that no other command uses meanwhile
        handle, unfinished = tempfile.mkstemp(dir=path.parent, suffix='.unfinished')
        try:
            with os.fdopen(handle, 'w', encoding='utf-8') as file:
                file.write(f'{text}\n')
            os.replace(unfinished, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise
    except OSError as error:
        words = error.strerror or error
        logger.warning('that %s cannot be noted in %s (%s)', what, path, words)


def _path(digest: str) -> Path:
    return configuration_folder() / 'own_records' / f'{digest}.json'


def _read_note(digest: str) -> frozenset[str]:
    """
    Return the parts of a note; none where it is missing or is no note.
    """
    path = _path(digest)
    try:
        if path.stat().st_size > LARGEST_NOTE:
            return frozenset()
        parts = parse_json(path.read_bytes())['parts']
        return frozenset(part for part in parts if isinstance(part, str))
    except (OSError, ValueError, LookupError, TypeError, RecursionError):
        return frozenset()


def note_trust(files: Iterable[Path], *, on_disk: bool = True) -> None:
    """
    Note that the user trusts these files as they are now.

    :param on_disk: as of `note_parts`.
    """
    for file in files:
        digest = sha256(file)
        _trusted_here.add(digest)
        if on_disk:
            path = configuration_folder() / TRUSTED / digest
            _write_note(path, str(file.resolve()), f'{file} is trusted')


def is_trusted_file(path: str | Path) -> bool:
    """
    True if the user trusted this very file, in this command or an earlier one.
    """
    folder = configuration_folder() / TRUSTED
    if not os.path.isfile(path) or not (_trusted_here or folder.is_dir()):
        return False
    digest = sha256(Path(path))
    return digest in _trusted_here or (folder / digest).is_file()
