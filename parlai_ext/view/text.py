"""
Options as text for readers elsewhere: a place on one machine says nothing to them and
may name a user.
"""

import json
import re
from collections.abc import Mapping
from typing import Any

ABSOLUTE = re.compile(r'^((?:[^/=]*=)?)(?:/|~|[A-Za-z]:[\\/]).*[\\/]')


def without_folders(text: str) -> str:
    """
    Return a path without its folders; any other text as it is.
    """
    return ABSOLUTE.sub(r'\1…/', text)


def value_text(value: Any) -> str:
    """
    Return an option's value as one line, folders of this machine left out.
    """
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, Mapping):
        return ', '.join(f'{k}: {value_text(v)}' for k, v in value.items())
    if isinstance(value, list | tuple):
        return ', '.join(map(value_text, value))
    return json.dumps(value, ensure_ascii=False, default=str)
