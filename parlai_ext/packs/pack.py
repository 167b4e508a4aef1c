"""
A pack: a published run as one zip file, and what is known of it before it is read.

Its members lie as in a run folder, so that an unpacked pack is one. `pack.json` lists
them with their sha256. The hash of `pack.json` is the pack's id: it depends on the
content of all members, and on no clock, path or version of zlib.

The help of commands imports this module.
"""

import io
import re
import tempfile
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

from parlai_ext.core import (
    DATA_ERRORS,
    UserError,
    bytes_hash,
    frozen,
    option,
    optional,
    parse_own_json,
    record_to_json,
)
from parlai_ext.core.records import WrongType, record_from_json
from parlai_ext.store import (
    SCORER_FILE,
    Manifest,
    RunFolder,
    as_read,
    json_text,
    load_manifest,
)
from parlai_ext.systems.fetch.archives import unpack_zip

INDEX = 'pack.json'
FORMAT = 'parlai_ext pack'
SCHEMA = 1
LONGEST_INDEX = 64 * 2**20  # bytes
LARGEST_MEMBER = 256 * 2**20
MEMBER = re.compile(
    r'manifest\.json|not_run\.json|stopping\.json'
    r'|dialogues/[\w-]+/\d{5,}\.jsonl'
    r'|scores/[0-9a-f]{16}/(signature\.txt|scorer\.json|judge_check\.json)'
    r'|scores/[0-9a-f]{16}/[\w-]+/\d{5,}\.jsonl'
    r'|rankings/[0-9a-f]{16}/ranking\.json',
    re.ASCII,
)
# what the code for run folders says would mend a damaged file
ADVICE = re.compile(
    r'; (delete|publish|restore|rank the run again|use another).*', re.DOTALL
)
# a pack is read by strangers: what its manifest may ask them to compute
MOST_BOOTSTRAPS = 20_000
MOST_SHUFFLES = 1_000
MOST_CELLS = 20_000_000  # of the array target × partner × opener
MOST_OPENERS = 1_000_000  # or imported dialogues of a pair, each of which is an object


@frozen
class RegenerateOptions:
    """
    How much of a pack is made again, and how near it must come.
    """

    sample: int = option(0, low=0, help='utterances that are scored again (0)')
    regenerate: int = option(
        0,
        low=0,
        metavar='M',
        help='dialogues that are played again, of as many targets as there are (0)',
    )
    judge_check: bool = option(
        False,
        help='make the judge check again, about a quarter of the scorings of the run',
    )
    tolerance: float = option(
        0.001,
        low=0,
        help='by so much a score may differ from the one made again (0.001)',
    )
    max_different: float = option(
        0.0,
        low=0,
        high=1,
        metavar='SHARE',
        help='share of the dialogues played again, or of the pairs of a judge check, '
        'that may differ, as near ties may flip on another machine (0)',
    )
    draw: int | None = optional(
        metavar='SEED',
        help='draws what is made again (default: drawn afresh and printed, so that '
        'nobody knows beforehand what will be checked)',
    )


@frozen
class Member:
    """
    A file of a pack.
    """

    sha256: str
    bytes: int


@frozen
class PackIndex:
    """
    What `pack.json` says; what the run rests on is in its manifest.
    """

    format: str
    schema: int
    withheld_text: bool
    members: Mapping[str, Member]


@frozen
class Pack:
    """
    An unpacked pack. `run` is its content, in a folder that goes when the pack is
    closed, `signatures` are those of the scorers of its scores; `id` is the sha256 of
    its index.
    """

    path: Path
    id: str
    index: PackIndex
    run: RunFolder
    signatures: tuple[str, ...]

    @property
    def name(self) -> str:
        """
        The pack's file name without its ending.
        """
        return self.path.stem

    @property
    def manifest(self) -> Manifest:
        """
        The manifest of its run.
        """
        return self.run.manifest


def describe_member(data: bytes) -> Member:
    """
    Return the entry of the index for a file with these bytes.
    """
    return Member(bytes_hash(data), len(data))


def index_bytes(index: PackIndex) -> bytes:
    """
    Return the bytes of `pack.json`.
    """
    data = as_read(record_to_json(index))
    return json_text(data, sort_keys=True).encode()


def zip_bytes(files: Mapping[str, bytes]) -> bytes:
    """
    Return a zip file whose bytes depend on the names and bytes of its files alone (and
    on the version of zlib): sorted, one date, one owner, one mode.
    """
    buffer = io.BytesIO()
    with zipfile.ZipFile(buffer, 'w') as archive:
        for name in sorted(files):
            info = zipfile.ZipInfo(name, (1980, 1, 1, 0, 0, 0))
            info.create_system, info.external_attr = 3, 0o100644 << 16
            archive.writestr(
                info, files[name], compress_type=zipfile.ZIP_DEFLATED, compresslevel=9
            )
    return buffer.getvalue()


def existing_pack(path: str | Path) -> Path:
    """
    Return the path of a pack.

    :raises UserError: when there is no such file, or it is no zip file.
    """
    file = Path(path)
    if file.is_dir():
        raise UserError(
            f'{file} is a folder, not a pack; of a run, `parlai publish_run --run-dir '
            f'{file} --out FILE.zip` makes one'
        )
    if not file.is_file():
        raise UserError(f'{file}: there is no such pack')
    if not zipfile.is_zipfile(file):
        raise UserError(f'{file} is damaged: it is no zip file')
    return file


def packs_in(folder: str | Path) -> list[Path]:
    """
    Return the packs of a folder, in the order of their names.

    :raises UserError: when there is none.
    """
    paths = sorted(Path(folder).glob('*.zip'))
    if not paths:
        raise UserError(f'{folder}: there is no pack (a file whose name ends in .zip)')
    return paths


@contextmanager
def unpacked(path: str | Path) -> Iterator[Path]:
    """
    Unpack a pack into a folder that is removed afterwards: plain files only, no name
    twice or outside, and no more bytes than `unpack_zip` allows.

    :raises UserError: for a file that is missing, no zip file or not to be trusted.
    """
    file = existing_pack(path)
    with tempfile.TemporaryDirectory(prefix='parlai_pack_') as folder:
        unpack_zip(file, Path(folder), is_durable=False)
        yield Path(folder)


@contextmanager
def open_pack(path: str | Path) -> Iterator[Pack]:
    """
    Unpack a pack whose files all have their checksums.

    :raises UserError: names the first file that is damaged, missing or too many.
    """
    file = Path(path)
    with unpacked(file) as folder:
        index, id = read_index(folder, file)
        if problems := member_problems(folder, index):
            raise UserError(
                f'{file}: {problems[0]}; `parlai verify_run {file}` says more'
            )
        yield read_pack(folder, file, index, id)


def read_index(folder: Path, path: Path) -> tuple[PackIndex, str]:
    """
    Return what `pack.json` of an unpacked pack says, and the pack's id.

    :param path: the pack's file, for messages.
    :raises UserError: when there is none, or it is of another kind or version.
    """
    try:
        file = folder / INDEX
        if file.stat().st_size > LONGEST_INDEX:
            raise ValueError(f'it has more than {LONGEST_INDEX:,} bytes')
        data = file.read_bytes()
        index = parse_own_json(data)
        record = record_from_json(PackIndex, index)
        if (record.format, record.schema) != (FORMAT, SCHEMA):
            raise ValueError(f'it is no {FORMAT!r} of schema {SCHEMA}')
    except OSError:
        raise UserError(f'{path} is no pack: it has no {INDEX}') from None
    except (ValueError, WrongType) as error:
        raise UserError(f'{path} is no pack: {INDEX}: {error}') from None
    return record, bytes_hash(data)


def member_problems(folder: Path, index: PackIndex) -> list[str]:
    """
    Return a line for each file that is missing, too many, or not as the index says.
    """
    there = {
        path.relative_to(folder).as_posix(): path
        for path in sorted(folder.rglob('*'))
        if not path.is_dir()
    }
    there.pop(INDEX, None)
    problems = [f'{name} is missing' for name in index.members if name not in there]
    for name, path in there.items():
        if not MEMBER.fullmatch(name):
            problems.append(f'{name!r} does not belong into a pack')
        elif name not in index.members:
            problems.append(f'{name} is not listed in {INDEX}')
        elif path.stat().st_size > LARGEST_MEMBER:
            problems.append(f'{name} has more than {LARGEST_MEMBER:,} bytes')
        elif describe_member(path.read_bytes()) != index.members[name]:
            problems.append(f'{name} was changed: it has not the sha256 of {INDEX}')
    return problems


def read_pack(folder: Path, path: Path, index: PackIndex, id: str) -> Pack:
    """
    Return an unpacked pack, if ranking its run takes no more than a run may.

    :param path: the pack's file.
    :raises UserError: when its manifest, or the signature of a scorer, is damaged, or
        the manifest asks for too much.
    """
    with readable(path, folder):
        manifest = load_manifest(folder)
        _refuse_rule(
            f'{path}: manifest.json: protocol.ranking', manifest.protocol.ranking
        )
        n_targets, about = len(manifest.targets), manifest.imported
        n_openers = about.dialogues_a_pair if about else len(manifest.openers)
        cells = n_targets * len(manifest.everybody) * n_openers
        for name, n, most in (
            ('openers, or dialogues of a pair', n_openers, MOST_OPENERS),
            ('targets × systems × openers', cells, MOST_CELLS),
        ):
            if n > most:
                place = f'{path}: manifest.json'
                raise UserError(
                    f'{place}: {n:,} {name}; in a pack there may be {most:,}'
                )
        run = RunFolder(folder, manifest)
        for file in sorted(folder.glob(f'scores/*/{SCORER_FILE}')):
            place = file.relative_to(folder).as_posix()
            rule: Any = None
            with suppress(UserError):  # a damaged one is named with its scores
                rule = run.read_json(place).get('ranking')
            _refuse_rule(f'{path}: {place}: ranking', rule)
        signatures = tuple(store.signature for store in run.score_stores())
        return Pack(path, id, index, run, signatures)


def _refuse_rule(place: str, rule: Mapping[str, Any] | None) -> None:
    """
    Refuse a ranking rule that asks for more resamples than a pack may.
    """
    for key, most in (('bootstraps', MOST_BOOTSTRAPS), ('shuffles', MOST_SHUFFLES)):
        n = (rule or {}).get(key, 0)
        if n > most:
            raise UserError(f'{place}.{key} is {n:,}; in a pack it may be {most:,}')


@contextmanager
def readable(path: Path, folder: Path) -> Iterator[None]:
    """
    Turn what the code for own files raises on a stranger's files into one line that
    names the pack, and no remedy for a run folder.

    :param folder: where the pack is unpacked.
    """
    try:
        yield
    except UserError as error:
        line = ADVICE.sub('', str(error)).replace(f'{folder}/', '')
        raise UserError(f'{path}: {line.removeprefix(f"{path}: ")}') from None
    except (*DATA_ERRORS, MemoryError) as error:
        line = ' '.join(str(error).split())[:120]
        raise UserError(
            f'{path} cannot be read: {type(error).__name__}: {line}'
        ) from None
