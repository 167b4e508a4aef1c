"""
How a run was made, in a form that lets a reader make it again.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Mapping
from typing import Any

# a place on one machine says nothing to another reader and may name a user
ABSOLUTE = re.compile(r'^((?:[^/=]*=)?)(?:/|~|[A-Za-z]:[\\/]).*[\\/]')
LEFT_OUT = ('roster', 'reference', 'reference_kind', 'name')


def recipe(ranking: Mapping[str, Any], manifest: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return protocol, roster, signature, versions and the command of a run.
    """
    protocol = manifest['protocol']
    return {
        'protocol': [
            (key.replace('_', ' '), in_short(value))
            for key, value in protocol.items()
            if key not in LEFT_OUT and value not in (None, {}, [])
        ],
        'roster': _roster(ranking, manifest),
        'signature': ranking['signature'].split(' || ', 2),
        'versions': dict(manifest.get('versions', {})),
        'command': command(ranking, manifest),
    }


def guessed_names(
    ranking: Mapping[str, Any], manifest: Mapping[str, Any]
) -> frozenset[str]:
    """
    Return the systems of which a roster says that its model file is a guess.
    """
    return frozenset((*ranking.get('guessed', ()), *manifest.get('guessed', ())))


def command(ranking: Mapping[str, Any], manifest: Mapping[str, Any]) -> str:
    """
    Return the command line that makes the run anew, in another folder.
    """
    if 'imported' in manifest:
        return _import(manifest['imported']['asked'])
    asked = {'config': ranking['protocol'], **manifest.get('asked', {})}
    given = [
        f'--{option.replace("_", "-")} {shlex.quote(without_place(str(value)))}'
        for option, values in {**asked, 'run_dir': 'NEW_FOLDER'}.items()
        for value in (values if isinstance(values, list) else [values])
    ]
    return ' '.join(['parlai evaluate_systems', *given])


def _import(asked: Mapping[str, Any]) -> str:
    """
    Return the command line that imports the dialogues of a run anew.
    """
    given = ['--dialogues', *map(shlex.quote, asked['dialogues'])]
    for option, values in asked.items():
        if option != 'dialogues':
            for value in values if isinstance(values, list) else [values]:
                shown = shlex.quote(without_place(str(value)))
                given.append(f'--{option.replace("_", "-")} {shown}')
    return ' '.join(['parlai import_dialogues', *given, '--run-dir NEW_FOLDER'])


def in_short(value: Any) -> str:
    """
    Return an option's value as one line, folders of this machine left out.
    """
    if isinstance(value, str):
        return without_place(value)
    if isinstance(value, Mapping):
        return ', '.join(f'{k}: {in_short(v)}' for k, v in value.items())
    if isinstance(value, list | tuple):
        return ', '.join(map(in_short, value))
    return json.dumps(value, ensure_ascii=False, default=str)


def without_place(text: str) -> str:
    """
    Return a path without its folders; any other text as it is.
    """
    return ABSOLUTE.sub(r'\1…/', text)


def _roster(
    ranking: Mapping[str, Any], manifest: Mapping[str, Any]
) -> list[dict[str, Any]]:
    """
    Return every system with its role, options and the hash of what it is.
    """
    guessed = guessed_names(ranking, manifest)
    found = []
    for role in ('targets', 'partners'):
        for name, entry in manifest.get(role, {}).items():
            options = manifest.get('systems', {}).get(name, {})
            found.append(
                {
                    'name': name,
                    'role': role.removesuffix('s'),
                    'options': in_short({**options}),
                    'identity': entry.get('identity') or '',
                    'guessed': name in guessed,
                }
            )
    return found
