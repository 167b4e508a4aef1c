"""
The follow-ups of Mehri and Eskenazi (2020), fetched from their repository on request.

They carry no licence, so they are not shipped. The file is a program: its lists are
read as literals and nothing in it is run.
"""

from __future__ import annotations

import ast
import hashlib
import http.client
import os
import urllib.request
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.files.yaml_file import Document

NAME = 'fed_2020'
URL = (
    'https://raw.githubusercontent.com/Shikib/fed/'
    'fd498618c669f590cb5d78e6b55a70240e967925/fed.py'
)
SHA256 = '1f47bae5e49395fe83f72d2e404f52ba45bec209526c37ba90bea658b0d25b9e'
VARIABLES = {'turn_level_utts': 'turn', 'dialog_level_utts': 'dialogue'}
TIMEOUT = 20


def fed_2020(datapath: str | None = None) -> Document:
    """
    Return the authors' lists by level and quality, from the cache or the network.

    :param datapath: the cache is ``followups/`` in it.
    :raises UserError: when they cannot be had, with what to do instead.
    """
    home = Path(datapath) if datapath else Path.home() / '.cache' / 'parlai_ext'
    cached = home / 'followups' / 'fed_2020.txt'
    if cached.is_file() and _is_the_file(cached.read_bytes()):
        data = cached.read_bytes()
    else:
        data = download(URL, cached)
        keep(cached, data)
    return Document(literals(data.decode('utf-8')), URL)


def download(url: str, cached: Path) -> bytes:
    """
    Return the authors' file.

    :raises UserError: when it cannot be reached, or is not the file it was.
    """
    try:
        with urllib.request.urlopen(url, timeout=TIMEOUT) as response:
            data: bytes = response.read()
    except (OSError, http.client.HTTPException) as e:
        why = getattr(e, 'reason', None) or e
        raise UserError(
            f'follow-ups {NAME!r} are fetched from {url}, which cannot be reached '
            f'({why}); put that file at {cached}, or give --followups FILE'
        ) from None
    if not _is_the_file(data):
        raise UserError(
            f'follow-ups {NAME!r}: what {url} sends has another checksum than expected '
            f'(sha256 {SHA256}); give --followups FILE'
        )
    return data


def keep(path: Path, data: bytes) -> None:
    """
    Write the cache whole or not at all.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    unfinished = path.with_name(f'.{path.name}.{os.getpid()}')
    unfinished.write_bytes(data)
    os.replace(unfinished, path)


def literals(source: str) -> dict[str, Any]:
    """
    Return the follow-up lists that a program assigns, by level; nothing is run.
    """
    found: dict[str, Any] = {}
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Assign) or len(node.targets) != 1:
            continue
        name = getattr(node.targets[0], 'id', None)
        if name in VARIABLES:
            found[VARIABLES[name]] = ast.literal_eval(node.value)
    return found


def _is_the_file(data: bytes) -> bool:
    return hashlib.sha256(data).hexdigest() == SHA256
