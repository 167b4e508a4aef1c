"""
The run folder as an object: its dialogues, and the scores that each scorer gave them.
"""

import contextlib
import os
import re
import shutil
from collections.abc import Iterator, Mapping, Sequence, Set
from functools import cached_property
from pathlib import Path, PurePosixPath
from shlex import quote
from typing import Any, TypeVar

from parlai_ext.core import (
    Dialogue,
    JsonObject,
    Pairing,
    ScoredDialogue,
    UserError,
    bytes_without_secrets,
    content_id,
    parse_own_json,
    short_hash,
    shortened,
)
from parlai_ext.core.records import Record, WrongType, read_record, record_from_json
from parlai_ext.store import manifest as manifests
from parlai_ext.store.disk import (
    LEFTOVER,
    LOCK,
    PartialWork,
    as_read,
    damage_error,
    decode,
    decode_shard,
    dialogue_from_record,
    dialogue_record,
    dumps,
    encode_shard,
    locked,
    read_records,
    scored_from_record,
    scored_record,
    sealed_text,
    without_checksum,
    write_file,
    write_text,
)
from parlai_ext.store.manifest import (
    Manifest,
    Plan,
    ScorerRecord,
    StopRecord,
    numbered_openers,
)
from parlai_ext.view.progress import bar_of
from parlai_ext.worlds.schedule import ShardKey, stage_shards

T = TypeVar('T')

SCORER_FILE = 'scorer.json'
STOPPING_FILE = 'stopping.json'  # the looks at a run that stops when it is settled
REPLIES = 'replies'  # of dialogues that are not written yet
# bytes of files whose records stay in memory: 2,000 to 3,000 dialogues with their
# scores, as many as a page shows, in 35 MB
MOST_HELD = 16_000_000


class RunFolder:
    """
    A run on disk. Reading needs no lock; writing needs `lock`.

    No shard changes once it is there, so `held` has what was read.

    :ivar room: of how many bytes more of its files the records may be held.
    """

    def __init__(self, root: Path, manifest: Manifest):
        self.root = root.absolute()  # whatever folder an agent goes to
        self.manifest = manifest
        self.pairings = manifest.pairings
        self.openers = manifest.openers
        self._numbered = {opener.id for opener in numbered_openers(manifest)}
        self._checksums: dict[ShardKey, str] = {}  # of files that were read whole
        self.held: dict[Path, Any] = {}
        self.room = MOST_HELD
        self._depth = 0

    @cached_property
    def plan(self) -> Plan:
        """
        What the run plays, as its manifest says.
        """
        return Plan.from_manifest(self.manifest, manifests.protocol_of(self.manifest))

    @classmethod
    def open(cls, root: str | Path, manifest: Manifest) -> 'RunFolder':
        """
        Begin a run, continue it, or extend it with the manifest's new targets.

        :raises UserError: when the folder holds a run with other settings, something
            else than a run, or is in use.
        """
        root, old = Path(root), None
        with _exclusive(root):
            if (root / manifests.NAME).exists():
                old = manifests.load(root)
                manifest = manifests.merge_manifests(old, manifest, root)
            elif (root / 'dialogues').exists() or (root / 'scores').exists():
                raise UserError(
                    f'{root} has dialogues or scores but no {manifests.NAME}; '
                    'restore it from a copy, or use another --run-dir'
                )
            if manifest != old:
                manifests.save(root, manifest)
        return cls(root, manifest)

    @classmethod
    def new(cls, root: Path, manifest: Manifest) -> 'RunFolder':
        """
        Begin a run in a folder that nobody else writes to.
        """
        manifests.save(root, manifest)
        return cls(root, manifest)

    @classmethod
    def existing(cls, root: str | Path) -> 'RunFolder':
        """
        Return the run in this folder; nothing is written.

        :raises UserError: when there is none, or its manifest is damaged.
        """
        if os.path.lexists(Path(root, manifests.NAME)):
            checked_files(root)
        return cls(Path(root), manifests.load(Path(root)))

    @classmethod
    def existing_or_none(cls, root: str | None) -> 'RunFolder | None':
        """
        Return the run in this folder; `None` where there is none yet.
        """
        if not root or not (Path(root) / manifests.NAME).is_file():
            return None
        return cls.existing(root)

    @property
    def as_option(self) -> str:
        """
        How a command line names the run.
        """
        return f'--run-dir {quote(str(self.root))}'

    @contextlib.contextmanager
    def lock(self) -> Iterator[None]:
        """
        Keep other processes from writing; may be entered again within itself.
        """
        with contextlib.nullcontext() if self._depth else _exclusive(self.root):
            self._depth += 1
            try:
                yield
            finally:
                self._depth -= 1

    def has_dialogues(self, shard: ShardKey) -> bool:
        """
        True if this shard has been collected.
        """
        return self.dialogues_path(shard).exists()

    def write_dialogues(self, shard: ShardKey, dialogues: Sequence[Dialogue]) -> None:
        """
        Write one shard's dialogues, in the order of its openers.

        :raises ValueError: when these are not the shard's dialogues, or it is
            already there with other content.
        """
        path = self.dialogues_path(shard)
        if (
            not dialogues
            or any(dialogue.pairing_id != shard.pairing_id for dialogue in dialogues)
            or len({dialogue.id for dialogue in dialogues}) < len(dialogues)
            or not self._has_openers(shard, dialogues)
        ):
            raise ValueError(f'these are no dialogues of {shard}')
        records = [dialogue_record(dialogue, path.stem) for dialogue in dialogues]
        data = encode_shard(records, shard.index)
        if path.exists():
            if path.read_bytes() != data:
                raise ValueError(f'{path} is there, with other dialogues')
            return
        self._write_metadata(shard)
        write_file(path, data)
        self.held.pop(path, None)

    def restore_metadata(self) -> None:
        """
        Write the metadata of collected shards anew where it is missing or damaged: it
        follows from the manifest.
        """
        for shard in self.dialogue_shards():
            self._write_metadata(shard)

    def _write_metadata(self, shard: ShardKey) -> None:
        # the settings as they were before the run grew beyond a shard, so that its
        # files do not depend on when it was written
        settings = self.manifest.settings()
        stages = self.manifest.grown_from
        if later := [n for n in stages if n >= shard.stop]:
            earlier = [n for n in stages if n < shard.stop]
            settings = self.manifest.settings(self.openers[: later[0]], earlier)
        pairing = self.pairing(shard.pairing_id)
        # what ParlAI expects beside a file of conversations, with the version of its
        # format; the date is a constant, so that the same dialogues make the same bytes
        # on every day
        about = {
            'date': '1970-01-01 00:00:00',
            'opt': settings,
            'self_chat': pairing.first == pairing.second,
            'speakers': list(dict.fromkeys(pairing.speakers)),
            'version': '0.1',
            'pairing_id': pairing.id,
        }
        path = self.dialogues_path(shard).with_suffix('.metadata')
        data = bytes_without_secrets((dumps(about) + '\n').encode())
        if not path.exists() or path.read_bytes() != data:
            write_file(path, data)

    def dialogue_records(self, shard: ShardKey) -> list[JsonObject]:
        """
        Return the records of one shard's dialogues, as they stand in its file.

        :raises UserError: when they are missing or damaged.
        """
        path = self.dialogues_path(shard)
        return decode_shard(self.read_bytes(path, 'collect it'), shard.index, path)

    def read_dialogues(
        self, shard: ShardKey, recorded: Set[str] = frozenset()
    ) -> list[Dialogue]:
        """
        Return one shard's dialogues.

        :param recorded: their checksum when they were scored; where it fits, or that of
            an earlier reading does, single lines need no check.
        :raises UserError: when they are missing or damaged in any way.
        """
        path = self.dialogues_path(shard)
        if path in self.held:
            return [*self.held[path]]
        data = self.read_bytes(path, 'collect it')
        source = short_hash(data)
        is_intact = source in (*recorded, self._checksums.get(shard))
        records = decode_shard(data, shard.index, path, is_intact=is_intact)
        dialogues = read_records(dialogue_from_record, records, path, 'dialogue')
        if any(dialogue.pairing_id != shard.pairing_id for dialogue in dialogues):
            raise damage_error(path, 'line 1 is of another pairing')
        if not self._has_openers(shard, dialogues):
            raise UserError(
                f'{path}: these are dialogues over other openers than those of '
                f'{self.root / manifests.NAME}; restore one of them from a copy'
            )
        self._checksums[shard] = source
        self.held[path] = dialogues
        return [*dialogues]

    def read_bytes(self, path: Path, purpose: str) -> bytes:
        """
        Return a shard's bytes. Where all that was read gets too much, what is held
        is dropped before each further file.

        :param purpose: what running again is for, if the file is missing.
        """
        try:
            data = path.read_bytes()
        except FileNotFoundError:
            raise UserError(f'{path} is missing; run again to {purpose}') from None
        self.room -= len(data)
        if self.room < 0:
            self.held.clear()
        return data

    @property
    def n_dialogues(self) -> int:
        """
        How many dialogues are collected.
        """
        return sum(shard.n_dialogues for shard in self.dialogue_shards())

    def dialogue_shards(self, pairing_id: str | None = None) -> list[ShardKey]:
        """
        Return the collected shards, of one pairing or all, in the manifest's order.
        """
        found: list[ShardKey] = []
        for pairing in self.pairings:
            if pairing_id not in (None, pairing.id):
                continue
            paths = (self.root / 'dialogues' / pairing.id).glob('*.jsonl')
            names = (re.fullmatch(r'\d{5,}', path.stem) for path in paths)
            indices = sorted(int(match[0]) for match in names if match)
            found += [self.shard(pairing.id, index) for index in indices]
        return found

    def planned_shards(self, pairing_id: str) -> list[ShardKey]:
        """
        Return all shards of a pairing, collected or not.
        """
        size, grown_from = self.manifest.shard_size, self.manifest.grown_from
        stages = stage_shards(pairing_id, len(self.openers), size, grown_from)
        return [shard for stage in stages for shard in stage]

    def iter_dialogues(self, pairing_id: str | None = None) -> Iterator[Dialogue]:
        """
        Yield the collected dialogues, of one pairing or all, in the manifest's order.
        """
        for shard in self.dialogue_shards(pairing_id):
            yield from self.read_dialogues(shard)

    def dialogues_checksum(self, shard: ShardKey) -> str:
        """
        Return 16 hex digits of a shard's bytes.
        """
        path = self.dialogues_path(shard)
        known = self._checksums.get(shard)
        return known or short_hash(self.read_bytes(path, 'collect it'))

    def partial_replies(self, key: str) -> PartialWork:
        """
        Return what systems have replied in dialogues that are not written yet.

        :param key: a hash of all that these replies depend on.
        """
        return PartialWork(self._inside(f'{REPLIES}/{key}.partial'), key)

    def count_partial_replies(self) -> int:
        """
        Return how many replies of dialogues that are not written yet are on the disk.
        """
        return sum(
            len(batch.get('replies', ()))
            for path in (self.root / REPLIES).glob('*.partial')
            for batch in PartialWork(path, path.stem).batches.values()
            if isinstance(batch, dict)
        )

    def remove_partial_replies(self) -> None:
        """
        Remove what was kept of dialogues that are written, or will not be.
        """
        shutil.rmtree(self.root / REPLIES, ignore_errors=True)

    def scores(self, scorer_signature: str) -> 'ScoreStore':
        """
        Return the scores of the scorer with this signature.
        """
        return ScoreStore(self, scorer_signature)

    def score_stores(self) -> list['ScoreStore']:
        """
        Return the scores of every scorer that has scored some of the run. One that
        failed before has left a signature alone.

        :raises UserError: when the signature of one was changed.
        """
        paths = sorted((self.root / 'scores').glob('*/signature.txt'))
        return [
            self.scores(read_signature(path))
            for path in paths
            if any(path.parent.glob('*/*.jsonl'))
        ]

    def write_json(self, name: str, data: Mapping[str, object]) -> None:
        """
        Write a file of the run, such as ``ranking.json``, with a checksum; keys keep
        their order.
        """
        self.write_text(name, sealed_text(as_read(data)))

    def write_text(self, name: str, text: str) -> None:
        """
        Write a file of the run; lone surrogates become ``\\udxxx``.
        """
        write_text(self._inside(name), text)

    def record_stop(self, stop: StopRecord) -> None:
        """
        Write into the manifest how the run came to its number of openers, which is not
        compared when the run goes on.
        """
        self.manifest = self.manifest.changed(stop=stop.model_dump())
        manifests.save(self.root, self.manifest)

    def read_json(self, name: str, remedy: str = 'delete it') -> JsonObject:
        """
        Return the mapping in a file that `write_json` wrote.

        :param remedy: what would mend a damaged file.
        :raises UserError: names the file that is missing, or was changed.
        """
        try:
            data = parse_own_json(self._inside(name).read_bytes())
            if not isinstance(data, dict):
                raise ValueError('it is no mapping')
            return without_checksum(data)
        except FileNotFoundError:
            raise UserError(f'{self.root / name} is missing') from None
        except ValueError as error:
            problem = shortened(str(error), 80)
            raise UserError(
                f'{self.root / name} is damaged: {problem}; {remedy}'
            ) from None

    def read_record(self, name: str, kind: type[T], remedy: str) -> T | None:
        """
        Return what a file that `write_json` wrote holds; `None` where there is none.

        :param kind: what it holds, a record, or what `record_from_json` knows.
        :raises UserError: when the file is damaged.
        """
        if not self._inside(name).exists():
            return None
        data = self.read_json(name, remedy)
        try:
            if issubclass(kind, Record):
                return read_record(kind, data)
            return record_from_json(kind, data)
        except WrongType as error:
            raise UserError(
                f'{self.root / name} is damaged: {error}; {remedy}'
            ) from None

    def remove(self, name: str) -> None:
        """
        Remove a file that `write_json` wrote, if it is there.
        """
        self._inside(name).unlink(missing_ok=True)

    def pairing(self, pairing_id: str) -> Pairing:
        """
        Return one of the run's pairings; its id is a safe file name.

        :raises KeyError: when the run has no such pairing.
        """
        return self.plan.by_id[pairing_id]

    def _inside(self, name: str) -> Path:
        """
        Return the path of ``name``, which must lie in the run folder.
        """
        parts = PurePosixPath(name).parts
        if not parts or parts[0] == '/' or '..' in parts:
            raise ValueError(f'{name!r} is not a name within the run folder')
        return self.root.joinpath(*parts)

    def dialogues_path(self, shard: ShardKey) -> Path:
        """
        Return the path of one shard's dialogues.
        """
        return self.root / 'dialogues' / shard.file

    def shard(self, pairing_id: str, index: int) -> ShardKey:
        """
        Return a shard: its pairing, its index, and the openers that it covers.

        :raises KeyError: when the run has no such pairing.
        """
        name = self.pairing(pairing_id).id
        path = self.root / 'dialogues' / name / f'{index:05d}.jsonl'
        if not self.openers:  # of imported dialogues, which may have none
            size = self.manifest.shard_size
            # as pairs have unequal numbers, the first line says how many there are; of
            # a file that is not readable, take the most
            n = size
            unreadable = contextlib.suppress(
                OSError, ValueError, LookupError, TypeError
            )
            with unreadable, path.open('rb') as file:
                n = int(decode(file.readline()[:-1])['shard']['of'])
            return ShardKey(name, index, index * size, index * size + n)
        planned = self.planned_shards(name)
        if index >= len(planned):
            raise UserError(f'{path} is no file of this run: it has fewer openers')
        return planned[index]

    def _has_openers(self, shard: ShardKey, dialogues: Sequence[Dialogue]) -> bool:
        """
        True if dialogues are over the openers of the manifest.
        """
        ids = [dialogue.opener_id for dialogue in dialogues]
        if not self.openers:
            return self._numbered.issuperset(ids)
        return ids == [one.id for one in self.openers[shard.start : shard.stop]]


class ScoreStore:
    """
    The scores of one scorer: ``RUN/scores/<hash of the scorer's signature>``.
    """

    def __init__(self, run: RunFolder, signature: str):
        self.run = run
        self.signature = signature
        self.root = run.root / 'scores' / content_id(signature)

    def has(self, shard: ShardKey) -> bool:
        """
        True if this shard is scored.
        """
        return self.path(shard).exists()

    def write(self, shard: ShardKey, scored: Sequence[ScoredDialogue]) -> None:
        """
        Write the scores of one shard: one entry for each of its dialogues, in order.
        """
        dialogues = self.run.read_dialogues(shard)
        if [one.dialogue_id for one in scored] != [one.id for one in dialogues]:
            raise ValueError(f'scores of other dialogues than those of {shard}')
        source = self.run.dialogues_checksum(shard)
        records = [scored_record(scored_dialogue, source) for scored_dialogue in scored]
        data = encode_shard(records, shard.index)
        self._write_signature()
        write_file(self.path(shard), data)
        self.run.held.pop(self.path(shard), None)

    def scored_dialogues(
        self,
    ) -> Iterator[tuple[Dialogue, ScoredDialogue | None]]:
        """
        Yield every collected dialogue with its scores (`None`: not scored), in the
        manifest's order. Each file is read once.
        """
        shards = self.run.dialogue_shards()
        with bar_of('read', sum(s.n_dialogues for s in shards), delay=3) as bar:
            for shard in shards:
                scored, recorded = self._read(shard) if self.has(shard) else ([], set())
                dialogues = self.run.read_dialogues(shard, recorded)
                self._check_source(shard, recorded)
                by_id = {one.dialogue_id: one for one in scored}
                for dialogue in dialogues:
                    yield dialogue, by_id.get(dialogue.id)
                    bar.update()

    def read(self, shard: ShardKey) -> list[ScoredDialogue]:
        """
        Return the scores of one shard.

        :raises UserError: when they are damaged, or of dialogues that have changed.
        """
        scored, recorded = self._read(shard)
        self._check_source(shard, recorded)
        return [*scored]

    def by_dialogue(self, shard: ShardKey) -> dict[str, ScoredDialogue]:
        """
        Return the scores of one shard by dialogue; none when it is not scored.
        """
        if not self.has(shard):
            return {}
        return {one.dialogue_id: one for one in self.read(shard)}

    def _read(self, shard: ShardKey) -> tuple[list[ScoredDialogue], set[str]]:
        """
        Return the scores of one shard, and the checksums that its records name of their
        dialogues' file: one, unless it was tampered with.
        """
        path = self.path(shard)
        held = self.run.held
        if path not in held:
            data = self.run.read_bytes(path, 'have it scored')
            records = decode_shard(data, shard.index, path)
            scored = read_records(scored_from_record, records, path, 'score')
            recorded = {str(record['dialogues']) for record in records}
            held[path] = scored, recorded
        scored, recorded = held[path]
        return scored, recorded

    def _check_source(self, shard: ShardKey, recorded: set[str]) -> None:
        if recorded <= {self.run.dialogues_checksum(shard)}:
            return
        self.run.read_dialogues(shard)  # which may be damaged
        raise UserError(
            f'{self.path(shard)}: these are scores of other dialogues than the run has '
            'now; delete this file and run again to have it redone'
        )

    def about(self) -> ScorerRecord:
        """
        Return the record of the scorer that `write_about` wrote.
        """
        about = self.run.read_record(self._name, ScorerRecord, 'delete it')
        return about or ScorerRecord()

    def write_about(self, record: ScorerRecord) -> None:
        """
        Write the record of the scorer.
        """
        self._write_signature()
        self.run.write_json(self._name, record.to_json())

    @property
    def _name(self) -> str:
        return f'scores/{self.root.name}/{SCORER_FILE}'

    def path(self, shard: ShardKey) -> Path:
        """
        Return the path of the scores of one shard.
        """
        return self.root / shard.file

    def partial(self, shard: ShardKey) -> PartialWork:
        """
        Return what models have answered for a shard that is not scored yet.
        """
        source = self.run.dialogues_checksum(shard)
        self._write_signature()
        return PartialWork(self.path(shard).with_suffix('.partial'), source)

    def remove_partial(self) -> None:
        """
        Remove what was kept of shards that are scored.
        """
        for path in self.root.glob('*/*.partial'):
            if path.with_suffix('.jsonl').exists():
                path.unlink()

    def _write_signature(self) -> None:
        """
        Write the signature before the first score.
        """
        path = self.root / 'signature.txt'
        text = (self.signature + '\n').encode('utf-8', 'backslashreplace')
        if not path.exists():
            write_file(path, text)
        elif path.read_bytes() != text:
            raise signature_error(path)


def read_signature(path: Path) -> str:
    """
    Return the signature of a scorer from the ``signature.txt`` of its scores.

    :raises UserError: when it was changed: the folder's name is its hash.
    """
    data = path.read_bytes()
    signature = data.decode('utf-8', 'replace').removesuffix('\n')
    written = (signature + '\n').encode('utf-8', 'backslashreplace')
    if data != written or content_id(signature) != path.parent.name:
        raise signature_error(path)
    return signature


def signature_error(path: Path) -> UserError:
    """
    Return the error about a signature that was changed.
    """
    return UserError(
        f'{path} is damaged: {path.parent.name} is not its hash; delete it and score '
        'the run again, which writes it anew'
    )


def checked_files(root: str | Path) -> list[str]:
    """
    Return the paths of a run's files. Refuse a folder in which a stranger has put links
    to folders, through which files elsewhere would be written, or pipes and devices,
    which may never end.
    """
    folders, files = [str(root)], []
    for folder in folders:  # to which it adds those inside
        entries: list[os.DirEntry[str]] = []
        with contextlib.suppress(OSError):  # it is not there, or not any more
            entries += os.scandir(folder)
        for entry in entries:
            if entry.is_dir(follow_symlinks=False):
                folders.append(entry.path)
            # what was listed as a file may be gone by now, a link is looked at
            elif entry.is_file(follow_symlinks=False) or os.path.isfile(entry.path):
                files.append(entry.path)
            else:
                raise UserError(
                    f'{entry.path} is a link to a folder or to nothing, a pipe or a '
                    'device: a run has files and folders only'
                )
    return files


@contextlib.contextmanager
def _exclusive(root: Path) -> Iterator[None]:
    """
    Hold the folder's lock, and remove the temporary files that killed runs left.
    """
    files = checked_files(root)
    with locked(root / LOCK):
        for path in map(Path, files):
            if path.name.startswith('.') and path.name.endswith(LEFTOVER):
                path.unlink(missing_ok=True)  # whoever was at work may have ended well
        yield
