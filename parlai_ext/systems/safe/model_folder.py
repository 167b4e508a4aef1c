"""
The folder of a Hugging Face model: its files are plain files that lie in it.

The text of a file that it leads to would become words of the model's tokenizer, and so
replies.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from pathlib import Path

from parlai_ext.core.errors import UserError, printable
from parlai_ext.core.json_text import parse_json
from parlai_ext.isolation.names import nested_values

ADAPTER = 'adapter_config.json'
SETTINGS = '*config.json'
COPY = 'put a copy there'


def check_model_folder(folder: Path) -> None:
    """
    Refuse a folder with links to files elsewhere, with pipes or devices, with settings
    that name a file elsewhere, and one of an adapter.

    :raises UserError: ``hf_model: …``, naming the file.
    """
    if (folder / ADAPTER).is_file():
        raise UserError(
            f'hf_model: {folder} is an adapter; its base model, merged with it, would '
            'do'
        )
    for file in (*folder.iterdir(), *folder.glob('additional_chat_templates/*')):
        check_file_of_folder(file, folder)
    for file in sorted(folder.glob(SETTINGS)):
        _check_settings(file, folder)


def check_file_of_folder(file: Path, folder: Path) -> None:
    """
    Refuse a file that lies elsewhere, and what is neither a file nor a folder.

    The hub's cache has its files in a folder beside its snapshots, with links to them.
    """
    shown = printable(str(file))
    snapshot = folder.absolute().parent.name == 'snapshots'
    root = folder.absolute().parents[1] if snapshot else folder
    if not lies_in(file, [root]):
        raise UserError(f'hf_model: {shown} leads out of the folder; {COPY}')
    if file.exists() and not (file.is_file() or file.is_dir()):
        raise UserError(f'hf_model: {shown} is a pipe or a device; no file of a model')


def lies_in(path: str | Path, folders: Iterable[str | Path]) -> bool:
    """
    True if a path leads into one of the folders, links followed.
    """
    real = Path(os.path.realpath(path))
    return any(real.is_relative_to(os.path.realpath(folder)) for folder in folders)


def _check_settings(file: Path, folder: Path) -> None:
    """
    Refuse settings that name an existing file elsewhere, under any key: a tokenizer
    would read its words from there.
    """
    try:
        settings = parse_json(file.read_bytes(), any_number=True)
    except (OSError, json.JSONDecodeError, UnicodeDecodeError):
        return  # transformers says what is wrong
    except ValueError as error:  # what transformers might read all the same
        raise UserError(f'hf_model: {printable(str(file))}: {error}') from None
    for key, value in nested_values(settings):
        if not isinstance(value, str) or '/' not in value or '\0' in value:
            continue
        is_file = os.path.exists(value) and not os.path.isdir(value)
        if is_file and not lies_in(value, [folder]):
            what = printable(f'{key} in {file} is {value}')
            raise UserError(f'hf_model: {what}, a file elsewhere; {COPY}')
