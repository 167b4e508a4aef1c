"""
What lies on the disk: files that are complete or absent, records as lines of JSON, and
results that are kept so that a killed command goes on.

A file is written by temporary name, fsync, rename and fsync of the folder.
"""

import errno
import fcntl
import gc
import json
import os
import re
import secrets
import shutil
import socket
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, NotRequired, TypedDict, TypeVar

from parlai_ext.core import (
    DATA_ERRORS,
    Dialogue,
    JsonObject,
    Score,
    ScoredDialogue,
    UserError,
    Utterance,
    bytes_without_secrets,
    chunks,
    parse_json,
    parse_own_json,
    short_hash,
    shortened,
    without_secrets,
)

LEFTOVER = '.unfinished'
LOCK = '.lock'  # of a folder, in it


def write_file(path: Path, data: bytes) -> None:
    """
    Write ``data``, without secrets, to ``path`` and replace a file there, or leave
    everything as it was.
    """
    data = bytes_without_secrets(data)
    make_folder(path.parent)
    with file_named_in_errors(path):
        # what a killed process left under this name is written over
        unfinished = path.with_name(f'.{path.name}{LEFTOVER}')
        handle = _open_alone(unfinished)
        if handle is None:
            # processes that write one file at once must not write over each other's
            token = secrets.token_hex(4)
            unfinished = path.with_name(f'.{path.name}.{token}{LEFTOVER}')
            handle = os.open(unfinished, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o666)
        try:
            os.ftruncate(handle, 0)
            _write_all(handle, data)
            os.replace(unfinished, path)
        except BaseException:
            with suppress(OSError):
                os.unlink(unfinished)
            raise
        finally:
            os.close(handle)
        _sync_folder(path.parent)


def _open_alone(path: Path) -> int | None:
    """
    Open a file, which may be there, for this process alone; return None while another
    one has it, and where the file system has no locks.
    """
    flags = os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW | os.O_NONBLOCK
    handle = os.open(path, flags, 0o666)
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # another process may just have given it its name
        if os.path.samestat(os.fstat(handle), os.lstat(path)):
            return handle
    except (BlockingIOError, FileNotFoundError):
        pass
    except OSError:  # some network file systems have no locks
        path.unlink(missing_ok=True)
    os.close(handle)
    return None


def write_text(path: Path, text: str) -> None:
    """
    Write a text as `write_file` does, in UTF-8; half a character is spelled out.
    """
    write_file(path, text.encode('utf-8', 'backslashreplace'))


def write_texts(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """
    Write each text into a folder as `write_text` does, and return the paths.

    :param texts: by the names of their files.
    """
    for name, text in texts.items():
        write_text(folder / name, text)
    return [folder / name for name in texts]


def append_synced(path: Path, end: int, data: bytes) -> None:
    """
    Write ``data`` to a file from byte ``end`` on, and cut off what it had after that.
    """
    with file_named_in_errors(path):
        handle = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_NOFOLLOW, 0o666)
        try:
            os.ftruncate(handle, end)
            os.lseek(handle, end, os.SEEK_SET)
            _write_all(handle, data)
        finally:
            os.close(handle)


@contextmanager
def file_named_in_errors(path: Path) -> Iterator[None]:
    """
    Add the file's name to an error of the disk, which lacks it for an open file.
    """
    try:
        yield
    except OSError as error:
        if error.filename is None and error.errno is not None:
            error.filename = str(path)
        raise


def _write_all(handle: int, data: bytes) -> None:
    """
    Write all of ``data`` to an open file, and to the disk itself.
    """
    unwritten = memoryview(data)
    while unwritten:
        unwritten = unwritten[os.write(handle, unwritten) :]
    os.fsync(handle)


def _sync_folder(path: Path) -> None:
    """
    Make the names in a folder durable, where the file system can.
    """
    handle = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno != errno.EINVAL:  # some network file systems cannot
            raise
    finally:
        os.close(handle)


def make_folder(path: Path) -> None:
    """
    Make a folder and those above it, and make their names durable.
    """
    if path.is_dir():
        return
    make_folder(path.parent)
    with suppress(FileExistsError):
        os.mkdir(path)
    if not path.is_dir():
        raise UserError(
            f'{path} is a file, or a link to nothing; a folder is needed there'
        )
    _sync_folder(path.parent)


@contextmanager
def locked(path: Path) -> Iterator[None]:
    """
    Hold the lock file ``path``, in a folder that is made if need be.

    The operating system frees the lock when its process ends for any reason. The file
    names that process; it is empty while nobody holds the lock.

    :raises UserError: at once, if another process holds it.
    """
    make_folder(path.parent)
    # through a link, a file elsewhere would be emptied
    handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_NOFOLLOW, 0o666)
    try:
        try:
            fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            who = 'another process'
            with suppress(OSError, *DATA_ERRORS):
                holder = parse_json(path.read_bytes())
                who = f'process {holder["pid"]} on {holder["host"]}'
            raise UserError(
                f'{path.parent} is in use by {who}; wait for it or end it, then run '
                'again'
            ) from None
        except OSError as error:  # some network file systems have none
            raise UserError(
                f'{path} cannot be locked: {error.strerror}; use a --run-dir on '
                'another file system'
            ) from None
        with file_named_in_errors(path):
            os.ftruncate(handle, 0)
            holder = {'pid': os.getpid(), 'host': socket.gethostname()}
            os.pwrite(handle, json.dumps(holder).encode(), 0)
        try:
            yield
        finally:
            os.ftruncate(handle, 0)
    finally:
        os.close(handle)


@contextmanager
def staged_folder(target: Path, *, becomes_target: bool = True) -> Iterator[Path]:
    """
    Yield an empty folder beside ``target``, which takes its name when all inside is
    done. It is gone if that fails; what a killed process left of it is removed first.

    :param becomes_target: False where its files are moved one by one.
    :raises UserError: while another process writes to it.
    """
    folder = target.absolute().parent / f'.{target.name}{LEFTOVER}'
    lock = folder / LOCK
    with locked(lock):
        for left in folder.iterdir():
            if left != lock:
                shutil.rmtree(left) if left.is_dir() else left.unlink()
        try:
            yield folder
            if becomes_target:
                os.rename(folder, target)
        finally:
            shutil.rmtree(folder, ignore_errors=True)


# --- records as lines of JSON with a checksum -----------------------------------------
# The checksum shows any damage. A record has one spelling: sorted keys, shortest
# floats, a checksum of the rest. Line separators that JSON allows in strings are
# escaped, because ParlAI's `splitlines()` would split a record at them. Lone surrogates
# are escaped, because UTF-8 cannot hold them; two that form a pair are, in JSON, the
# character that they encode, and are read back as that character.

T = TypeVar('T')
_UNSAFE = re.compile('[\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_HEAD = re.compile(r'\{"checksum": "([0-9a-f]{16})", ')


def dumps(value: Any, **kwargs: Any) -> str:
    """
    Return a value as JSON that every reader of UTF-8 parts into the same lines: one,
    unless ``indent`` is given.

    :param kwargs: of `json.dumps`.

    :raises ValueError: for NaN or infinity, which JSON does not have.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, **kwargs)
    return _UNSAFE.sub(lambda match: f'\\u{ord(match[0]):04x}', text)


def as_read(data: Any) -> Any:
    """
    Return JSON data as it is read from its file, without secrets.
    """
    return parse_own_json(without_secrets(dumps(data)))


def json_text(value: Any, **kwargs: Any) -> str:
    """
    Return a value as the text of a JSON file.

    :param kwargs: of `json.dumps`.
    """
    return dumps(value, indent=1, **kwargs) + '\n'


def json_lines_text(records: Iterable[Any]) -> str:
    """
    Return values as JSON lines.
    """
    return ''.join(f'{dumps(record)}\n' for record in records)


def checksum(record: Mapping[str, object]) -> str:
    """
    Return 16 hex digits that depend on the record's content, except its own checksum.
    """
    content = {key: value for key, value in record.items() if key != 'checksum'}
    return short_hash(dumps(content, sort_keys=True, separators=(',', ':')).encode())


def without_checksum(data: JsonObject) -> JsonObject:
    """
    Return JSON data without its checksum.

    :raises ValueError: when there is none, or it does not fit.
    """
    content = dict(data)
    if content.pop('checksum', None) != checksum(content):
        raise ValueError('its checksum does not fit; it may have been edited')
    return content


def sealed_text(content: Mapping[str, object]) -> str:
    """
    Return the text of a JSON file with its checksum.
    """
    return json_text({**content, 'checksum': checksum(content)})


def encode(record: Mapping[str, object]) -> str:
    """
    Return the one line of ``record``, without secrets.
    """
    line = _line(record)
    hidden = without_secrets(line)
    return line if hidden == line else _line(parse_own_json(hidden))


def _line(record: Mapping[str, object]) -> str:
    return dumps({**record, 'checksum': checksum(record)}, sort_keys=True)


def decode(line: bytes, is_intact: bool = False) -> dict[str, Any]:
    """
    Return the record of a line.

    :param is_intact: it is known to be as `encode` wrote it.
    :raises ValueError: if the line is not exactly as `encode` wrote it.
    """
    text = line.decode()
    is_intact = is_intact or _intact(text)
    record = parse_own_json(text, is_intact=is_intact)
    if not isinstance(record, dict):
        raise ValueError('not a record')
    if not is_intact and _line(record) != text:
        raise ValueError('the checksum does not fit')
    del record['checksum']
    return record


def _intact(line: str) -> bool:
    """
    True if a quick test shows that `encode` wrote this line of JSON. A false result is
    no proof of damage.

    The checksum is of the record's text without the checksum and without the spaces
    after ``,`` and ``:``. Removing them is quicker than encoding the record again.
    """
    head = _HEAD.match(line)
    if head is None:
        return False
    # JSON holds no such characters; without these escapes a quote ends a string
    text = line[head.end() :].replace('\\\\', '\1').replace('\\"', '\2')
    pieces = text.split('"')  # every other one is a string
    outside = '"'.join(pieces[::2])
    compact = outside.replace(', ', ',').replace(': ', ':')
    if len(outside) - len(compact) != compact.count(',') + compact.count(':'):
        return False
    pieces[::2] = compact.split('"')
    text = '"'.join(pieces).replace('\2', '\\"').replace('\1', '\\\\')
    return short_hash(f'{{{text}'.encode()) == head[1]


def encode_shard(records: Sequence[Mapping[str, object]], index: int) -> bytes:
    """
    Return a shard's bytes. Each line holds its number, which shows a missing line.
    """
    count = len(records)
    lines = [
        encode({**record, 'shard': {'index': index, 'line': n, 'of': count}})
        for n, record in enumerate(records)
    ]
    return ''.join(line + '\n' for line in lines).encode()


def decode_shard(
    data: bytes, index: int, path: Path, is_intact: bool = False
) -> list[JsonObject]:
    """
    Return a shard's records.

    :param is_intact: the bytes are known to be those that were written.
    :raises UserError: names file and line of anything that is not as it was written.
    """
    *lines, after_last_line = data.split(b'\n')
    records: list[JsonObject] = []
    count = None
    for n, line in enumerate(lines):
        try:
            record = decode(line, is_intact)
            shard = record.pop('shard')
        except DATA_ERRORS as error:
            raise damage_error(
                path, f'line {n + 1} is damaged ({shortened(str(error), 80)})'
            ) from None
        if count is None and isinstance(shard, dict):
            count = shard.get('of')
        if shard != {'index': index, 'line': n, 'of': count}:
            raise damage_error(path, f'line {n + 1} belongs to another place')
        records.append(record)
    if after_last_line:
        raise damage_error(path, f'line {len(lines) + 1} is cut off')
    if count != len(records):
        raise damage_error(path, f'line {len(records) + 1} is missing')
    return records


def read_records(
    read: Callable[[Any], T],
    records: Sequence[JsonObject],
    path: Path,
    kind: str,
) -> list[T]:
    """
    Return what ``read`` makes of the records of an intact shard.

    :param read: raises `KeyError` or the like for a record of another kind.
    :param kind: what they should be, for messages.
    :raises UserError: names file and line of the first record of another kind, as of a
        shard of scores in the place of one of dialogues.
    """
    values = []
    for n, record in enumerate(records):
        try:
            values.append(read(record))
        except DATA_ERRORS:
            raise damage_error(path, f'line {n + 1} is no {kind}') from None
    return values


@contextmanager
def no_garbage_collection() -> Iterator[None]:
    """
    Keep Python from looking for cycles: it would walk again and again through records
    by the ten thousand, which live until the end and form none.
    """
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def damage_error(path: Path, problem: str) -> UserError:
    """
    Return the error about a damaged shard.
    """
    return UserError(f'{path}: {problem}; delete this file and run again to remake it')


class ActRecord(TypedDict):
    """
    An utterance in ParlAI's Conversations format.
    """

    id: str
    text: str
    given: bool
    reference: NotRequired[Sequence[str]]


class DialogueRecord(TypedDict):
    """
    A dialogue in ParlAI's Conversations format, with our fields beside.
    """

    dialog: Sequence[Sequence[ActRecord]]
    metadata_path: str
    dialogue_id: str
    pairing_id: str
    opener_id: str
    ended_by: str | None
    reason: str | None


# `Score` has `dialogue_id` besides, which a record holds once
STORED_OF_SCORE = ('utterance_index', 'system', 'dimension', 'value', 'reason')


class ScoredRecord(TypedDict):
    """
    The scores of a dialogue; `dialogues` is the checksum of the file that holds it.
    """

    dialogue_id: str
    dialogues: str
    scores: list[dict[str, Any]]
    evidence: dict[str, Any]
    truncated: dict[str, int]


def dialogue_record(dialogue: Dialogue, stem: str) -> DialogueRecord:
    """
    Return a dialogue in ParlAI's Conversations format, with our fields beside.
    """
    acts: list[ActRecord] = []
    for utterance in dialogue.utterances:
        act: ActRecord = {
            'id': utterance.speaker,
            'text': utterance.text,
            'given': utterance.given,
        }
        if utterance.references:
            act['reference'] = utterance.references
        acts.append(act)
    return {
        'dialog': list(chunks(acts, 2)),
        'metadata_path': f'{stem}.metadata',
        'dialogue_id': dialogue.id,
        'pairing_id': dialogue.pairing_id,
        'opener_id': dialogue.opener_id,
        'ended_by': dialogue.ended_by,
        'reason': dialogue.reason,
    }


def dialogue_from_record(record: DialogueRecord) -> Dialogue:
    """
    Return the dialogue of a record.
    """
    return Dialogue(
        id=record['dialogue_id'],
        pairing_id=record['pairing_id'],
        opener_id=record['opener_id'],
        utterances=tuple(
            Utterance(
                sys.intern(act['id']),
                act['text'],
                act['given'],
                tuple(act.get('reference', ())),
            )
            for pair in record['dialog']
            for act in pair
        ),
        ended_by=record['ended_by'],
        reason=record['reason'],
    )


def scored_record(scored: ScoredDialogue, source: str) -> ScoredRecord:
    """
    Return the record of a dialogue's scores.

    :param source: the checksum of the shard file that holds the dialogue.
    """
    return {
        'dialogue_id': scored.dialogue_id,
        'dialogues': source,
        'scores': [
            {key: getattr(score, key) for key in STORED_OF_SCORE}
            for score in scored.scores
        ],
        'evidence': {str(at): row for at, row in scored.evidence.items()},
        'truncated': {str(at): n for at, n in scored.truncated.items()},
    }


def scored_from_record(record: ScoredRecord) -> ScoredDialogue:
    """
    Return the scored dialogue of a record.
    """
    dialogue_id = record['dialogue_id']
    evidence = {
        int(at): tuple(row) if isinstance(row, list) else row
        for at, row in record['evidence'].items()
    }
    return ScoredDialogue(
        dialogue_id=dialogue_id,
        scores=tuple(Score(dialogue_id=dialogue_id, **row) for row in record['scores']),
        evidence=dict(sorted(evidence.items())),
        truncated={int(at): n for at, n in record['truncated'].items()},
    )


# --- results that need not be asked for again -----------------------------------------
# They are kept on disk, so that a killed command goes on: what models have answered for
# a shard that is being scored, what systems have said in dialogues that are being
# played, the scores of a bench.
#
# A line of the file holds one batch with its checksum. Batches depend on the work
# alone, so that a shard that was scored in two goes gets the scores of one go, byte for
# byte.

SAVE_SECONDS = 20.0


class PartialWork:
    """
    The batches that are finished, by their content or place.

    They are written at most every `SAVE_SECONDS`, and by `save`: a shard that takes
    less leaves no file.

    :param path: the file, which is read if it is there.
    :param source: all that answers depend on, such as a hash of the dialogues; batches
        of a file with another one are dropped.
    :ivar batches: the answers that were in the file.
    """

    def __init__(self, path: Path, source: str):
        self.path = path
        self.source = source
        self.batches: dict[str, Any] = {}
        self._unsaved: list[str] = []
        self._saved_at = time.monotonic()
        self._end = 0  # of what is sound in the file: up to its first damaged line
        data = path.read_bytes() if path.exists() else b''
        *lines, _ = data.split(b'\n')  # the last one was cut off
        with suppress(*DATA_ERRORS):  # of a damaged line
            for line in lines:
                record = decode(line)
                if self._end:
                    self.batches[record['batch']] = record['answers']
                elif record['source'] != source:
                    break
                self._end += len(line) + 1

    def get(self, key: str) -> Any | None:
        """
        Return the answers to a batch, `None` if it was not finished before.
        """
        return self.batches.get(key)

    def put(self, key: str, answers: Any) -> None:
        """
        Keep the answers to a batch, plain JSON data.
        """
        try:
            self._unsaved.append(encode({'batch': key, 'answers': answers}))
        except ValueError:  # NaN or infinity, which JSON does not have
            return
        if time.monotonic() - self._saved_at >= SAVE_SECONDS:
            self.save()

    def save(self) -> None:
        """
        Write what was not written yet; what a kill left half-written is cut off.
        """
        lines = self._unsaved
        if self._end == 0:
            lines = [encode({'source': self.source}), *lines]
        make_folder(self.path.parent)
        data = ''.join(f'{line}\n' for line in lines).encode()
        append_synced(self.path, self._end, data)
        self._end += len(data)
        self._unsaved = []
        self._saved_at = time.monotonic()

    @contextmanager
    def saved_at_exit(self) -> Iterator[None]:
        """
        Save what there is when an exception, such as Ctrl-C, ends the work inside.
        """
        try:
            yield
        except BaseException:
            if self._unsaved:
                self.save()
            raise

    def remove(self) -> None:
        """
        Remove the file, once the shard is written.
        """
        self.path.unlink(missing_ok=True)
