"""
The versions of what numbers depend on, which must be equal on all machines.
"""

import hashlib
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ('parlai_ext', 'parlai', 'torch', 'transformers', 'tokenizers', 'numpy')
PARTS = ('', '.agents', '.tasks', '.worlds', '.zoo_configs')
SUFFIXES = ('.py', '.yaml', '.opt')


def versions() -> dict[str, str]:
    """
    Return the versions of what numbers may depend on.
    """
    facts = {'python': platform.python_version()}
    for package in PACKAGES:
        try:
            facts[package] = version(package)
        except PackageNotFoundError:
            facts[package] = 'absent'
    return facts


@cache
def code_facts() -> dict[str, str]:
    """
    Return versions by package, and a hash of this package's own files: two checkouts
    of one version may differ.
    """
    facts = versions()
    return {**facts, 'parlai_ext': f'{facts["parlai_ext"]} #{_own_hash()}'}


def _own_hash() -> str:
    digest = hashlib.sha256()
    for part in PARTS:
        spec = find_spec(f'parlai_ext{part}')
        for root in sorted((spec and spec.submodule_search_locations) or ()):
            for path in sorted(Path(root).rglob('*')):
                if path.suffix in SUFFIXES and path.is_file():
                    name = f'{part}/{path.relative_to(root).as_posix()}'
                    digest.update(name.encode() + b'\0' + path.read_bytes() + b'\0')
    return digest.hexdigest()[:12]
