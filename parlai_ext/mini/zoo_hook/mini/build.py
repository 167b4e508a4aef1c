"""
"Download" the mini zoo: copy the shipped files to where ParlAI looks for models.
"""

import filecmp
from functools import cache
from pathlib import Path

from parlai_ext.mini import SHIPPED
from parlai_ext.store import write_file


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
