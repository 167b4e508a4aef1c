"""
"Download" the mini zoo: copy the shipped files to where ParlAI looks for models.
"""

import filecmp
from functools import cache
from pathlib import Path

import parlai_ext.mini
from parlai_ext.store import write_file

SHIPPED = Path(parlai_ext.mini.__file__).parent / 'zoo'


@cache
def download(datapath: str) -> None:
    """
    Bring ``DATAPATH/models/mini`` up to date, once a process.
    """
    target = Path(datapath) / 'models' / 'mini'
    for source in sorted(SHIPPED.rglob('*')):
        copy = target / source.relative_to(SHIPPED)
        if source.is_file() and not (
            copy.is_file() and filecmp.cmp(source, copy, shallow=False)
        ):
            write_file(copy, source.read_bytes())
