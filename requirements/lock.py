"""
Write the lock file of `make install`: each package of `.[dev]` in one version, with the
SHA-256 of its files on PyPI.

    make lock

pip chooses the versions, from whatever index it is told to use. The hashes are PyPI's:
of the wheels for this Python on Linux and macOS, or of the source where there are none.
A file of the index that PyPI does not have is refused. torch is left out, with what
only its builds for a GPU need: TORCH of the Makefile says which build is installed.
"""

import json
import re
import subprocess
import sys
import tempfile
import urllib.request
from pathlib import Path
from typing import Any

TORCHS_OWN = re.compile(r'(torch|triton|(nvidia|cuda)-.*)$')
FITS = re.compile(
    rf'-(py3|py2\.py3)-none-|-cp3{sys.version_info.minor}-|-(\w+\.)*cp3\d+-abi3-'
)
HEADER = """\
# Written by `make lock` for Python {version}; `make install` installs it.
# The hashes are those of the files on PyPI. torch is not in it: TORCH of the Makefile.
"""


def chosen_packages(torch: list[str]) -> list[Any]:
    """
    Return what pip would install into an empty environment, as its report has it.
    """
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder, 'report.json')
        pip = [sys.executable, '-m', 'pip', 'install', '--dry-run', '--quiet']
        pip += ['--ignore-installed', '--report', str(report), *torch, '.[dev]']
        subprocess.run(pip, check=True)
        installed: list[Any] = json.loads(report.read_text())['install']
    return installed


def hashes_on_pypi(name: str, version: str, chosen: str) -> list[str]:
    """
    Return the hashes of a version's files, among which must be the chosen one.
    """
    url = f'https://pypi.org/simple/{name}/'
    with urllib.request.urlopen(url, timeout=60) as answer:
        links = re.findall(r'/([^/"]+)#sha256=(\w{64})', answer.read().decode())
    # NAME-VERSION-… of a wheel, NAME-VERSION.tar.gz of a source
    of_version = re.compile(rf'[\w.-]+?-{re.escape(version)}(-|\.tar|\.zip)')
    every = {file: sha for file, sha in links if of_version.match(file)}
    fitting = [
        sha for file, sha in every.items() if FITS.search(file) and '-win' not in file
    ]
    hashes = fitting if chosen in fitting else list(every.values())
    if chosen not in hashes:
        sys.exit(f'error: {name} {version}: the index has a file that PyPI does not')
    return sorted(hashes)


def main() -> None:
    """
    Print nothing but errors; write ``requirements/py3X.txt``.
    """
    number = '.'.join(map(str, sys.version_info[:2]))
    lines = []
    for package in chosen_packages(sys.argv[1:]):
        about, source = package['metadata'], package['download_info']
        name = re.sub(r'[-_.]+', '-', about['name']).lower()
        if name == 'parlai-ext' or TORCHS_OWN.match(name):
            continue
        chosen = source['archive_info']['hashes']['sha256']
        hashes = hashes_on_pypi(name, about['version'], chosen)
        parts = [f'{name}=={about["version"]}', *(f'--hash=sha256:{h}' for h in hashes)]
        lines.append(' \\\n    '.join(parts))
    path = Path(__file__).with_name(f'py{number}.txt')
    path.write_text('\n'.join([HEADER.format(version=number), *sorted(lines), '']))


if __name__ == '__main__':
    main()
