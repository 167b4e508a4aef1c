"""
"Download" the mini zoo: copy the shipped files to where ParlAI looks for models.
"""

import filecmp
import os
import shutil
import tempfile
from functools import cache
from pathlib import Path

import parlai_ext.mini

SHIPPED = Path(parlai_ext.mini.__file__).parent / 'zoo'


@cache
def download(datapath: str) -> None:
    """
    Bring ``DATAPATH/models/mini`` up to date, once a process.
    """
    target = Path(datapath) / 'models' / 'mini'
    for source in sorted(SHIPPED.rglob('*')):
        if source.is_file():
            refresh(source, target / source.relative_to(SHIPPED))


def refresh(source: Path, target: Path) -> None:
    """
    Copy a file unless its content is there; readers see the old file or the new one.
    """
    if target.is_file() and filecmp.cmp(source, target, shallow=False):
        return
    target.parent.mkdir(parents=True, exist_ok=True)
    handle, name = tempfile.mkstemp(dir=target.parent, prefix=f'.{target.name}.')
    os.close(handle)
    try:
        shutil.copyfile(source, name)
        os.chmod(name, 0o644)
        os.replace(name, target)
    except BaseException:
        os.unlink(name)
        raise
