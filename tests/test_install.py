"""
What `make`, `setup.py` and the requirements say before anything is installed.
"""

import io
import re
import runpy
import shutil
import subprocess
import sys
import urllib.request
import zipfile
from pathlib import Path

import pytest
import setuptools
from packaging.requirements import Requirement
from packaging.specifiers import SpecifierSet
from packaging.utils import canonicalize_name

ROOT = Path(__file__).parents[1]
# a Python that says to be another one
OTHER = """#!/bin/sh
[ "$1" = --version ] && echo Python 3.{minor}.1 && exit
exec '{python}' -c '
import sys
sys.version_info = (3, {minor}, 1)
exec(sys.argv[1])' "$2"
"""


@pytest.mark.parametrize('minor', [10, 12, 13])
def test_make_refuses_a_python_that_was_not_tried_in_one_line(tmp_path, minor):
    for name in ('Makefile', 'setup.py'):
        shutil.copy(ROOT / name, tmp_path)
    other = tmp_path / 'python3'
    other.write_text(OTHER.format(minor=minor, python=sys.executable))
    other.chmod(0o755)
    command = ['make', '-C', str(tmp_path), 'install', f'PYTHON={other}']
    done = subprocess.run(command, capture_output=True, text=True)
    [line] = [one for one in done.stderr.split('\n') if one.startswith('error: ')]
    assert 'Python 3.11 is needed' in line and f'not Python 3.{minor}.1' in line
    assert 'make PYTHON=' in line and done.returncode
    assert not (tmp_path / '.venv').exists()


def test_pip_refuses_a_python_that_was_not_tried():
    text = (ROOT / 'setup.py').read_text()
    [wanted] = re.findall(r"python_requires='(.*)'", text)
    candidates = ['3.10.14', '3.11.0', '3.11.9', '3.12.0', '3.13.1', '4.0']
    assert list(SpecifierSet(wanted).filter(candidates)) == ['3.11.0', '3.11.9']


def test_an_editable_install_is_a_path_that_mypy_and_editors_follow(tmp_path):
    tree, packages = tmp_path / 'tree', ('agents', 'tasks', 'worlds', 'zoo_configs')
    for name in ('parlai_ext', 'parlai_internal', *packages):
        (tree / name).mkdir(parents=True)
        (tree / name / '__init__.py').touch()
    for name in packages:
        shutil.copy(
            ROOT / 'parlai_ext' / name, tree / 'parlai_ext', follow_symlinks=False
        )
    for name in ('setup.py', 'pyproject.toml'):
        shutil.copy(ROOT / name, tree)
    build = (
        f'from setuptools import build_meta as b; b.build_editable({str(tmp_path)!r})'
    )
    subprocess.run(
        [sys.executable, '-c', build], cwd=tree, capture_output=True, check=True
    )
    [wheel] = tmp_path.glob('*.whl')
    with zipfile.ZipFile(wheel) as archive:
        [path] = [name for name in archive.namelist() if name.endswith('.pth')]
        # a line that begins with `import` would be a hook
        [folder] = archive.read(path).decode().split()
    inside = Path(folder, 'parlai_ext')
    assert all((inside / name / '__init__.py').is_file() for name in packages)
    assert not [name for name in archive.namelist() if name.endswith('.py')]


def locked():
    """
    Return version and hashes of each package of the lock file.
    """
    text = (ROOT / 'requirements' / 'py3.11.txt').read_text().replace('\\\n', ' ')
    lines = [line.split() for line in text.split('\n') if line and line[0] != '#']
    return {
        line[0].split('==')[0]: (line[0].split('==')[1], line[1:]) for line in lines
    }


@pytest.fixture
def required(monkeypatch):
    """
    What `setup.py` requires, and what its extra `dev` does.
    """
    given = {}
    monkeypatch.setattr(setuptools, 'setup', lambda **words: given.update(words))
    runpy.run_path(str(ROOT / 'setup.py'))
    always, dev = given['install_requires'], given['extras_require']['dev']
    return list(map(Requirement, always)), list(map(Requirement, dev))


def test_the_lock_file_has_what_setup_requires_in_allowed_versions(required):
    versions = locked()
    for one in (*required[0], *required[1]):
        if one.name != 'torch':
            version, _ = versions[canonicalize_name(one.name)]
            assert one.specifier.contains(version), one


def test_every_line_of_the_lock_file_is_one_version_with_hashes_and_no_address():
    versions = locked()
    assert len(versions) > 100 and 'torch' not in versions
    for version, hashes in versions.values():
        assert re.fullmatch(r'[\d.]+(post\d+)?', version) and hashes
        assert all(re.fullmatch(r'--hash=sha256:[0-9a-f]{64}', one) for one in hashes)


def test_every_requirement_has_a_lower_end(required):
    for one in required[0]:
        assert '>=' in str(one.specifier), one


def test_the_lock_file_takes_the_files_for_this_python_and_refuses_strange_ones(
    monkeypatch,
):
    files = {
        'a': 'x-1.0-cp311-cp311-manylinux_2_28_x86_64.whl',
        'b': 'x-1.0-cp311-cp311-win_amd64.whl',
        'c': 'x-1.0-cp312-cp312-macosx_11_0_arm64.whl',
        'd': 'x-1.0-cp39-abi3-macosx_11_0_arm64.whl',
        'e': 'x-1.0.tar.gz',
        'f': 'x-1.0.1-py3-none-any.whl',
    }
    links = (f'<a href="https://f/{n}#sha256={c * 64}">' for c, n in files.items())
    page = ''.join(links)
    hashes_on_pypi = runpy.run_path(str(ROOT / 'requirements' / 'lock.py'))[
        'hashes_on_pypi'
    ]
    monkeypatch.setattr(
        urllib.request, 'urlopen', lambda *_, **__: io.BytesIO(page.encode())
    )
    assert hashes_on_pypi('x', '1.0', 'a' * 64) == ['a' * 64, 'd' * 64]
    assert hashes_on_pypi('x', '1.0', 'e' * 64) == [c * 64 for c in 'abcde']
    for other in ('f', '0'):
        with pytest.raises(SystemExit, match=r'x 1\.0: the index has a file'):
            hashes_on_pypi('x', '1.0', other * 64)
