"""
What must be equal on all machines: this package and those that numbers depend on.
"""

import hashlib
import platform
from functools import cache
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path

PACKAGES = ('parlai', 'torch', 'transformers', 'tokenizers', 'numpy')
PARTS = ('', '.agents', '.tasks', '.worlds', '.zoo_configs')
SUFFIXES = ('.py', '.yaml', '.opt')


@cache
def code_facts() -> dict[str, str]:
    """
    Return versions by package, and a hash of this package's own files: two checkouts
    of one version may differ.
    """
    return {
        'parlai_ext': f'{_version("parlai_ext")} #{_own_hash()}',
        'Python': platform.python_version(),
        **{name: _version(name) for name in PACKAGES},
    }


def _version(package: str) -> str:
    try:
        return version(package)
    except PackageNotFoundError:
        return 'absent'


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
