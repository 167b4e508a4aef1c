"""
How a run was made, so that a reader can make it again.
"""

from __future__ import annotations

import json
import re
import shlex
from collections.abc import Collection, Mapping
from typing import Any

from parlai_ext.core.nouns import content_id
from parlai_ext.core.signature import PART_SEPARATOR
from parlai_ext.results.ranking import Ranking
from parlai_ext.store.manifest import Manifest

# a place on one machine says nothing to another reader and may name a user
ABSOLUTE = re.compile(r'^((?:[^/=]*=)?)(?:/|~|[A-Za-z]:[\\/]).*[\\/]')
LEFT_OUT = ('roster', 'reference', 'reference_kind', 'name')


def recipe(
    ranking: Ranking,
    manifest: Manifest,
    guessed: Collection[str],
    scorer: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """
    Return protocol, roster, signature, versions and the commands of a run.

    :param guessed: the systems whose model files are guesses.
    :param scorer: the record beside the scores of another scorer than the protocol's;
        `None`: they are the protocol's own.
    """
    protocol = manifest.protocol.model_dump(exclude_unset=True)
    commands = [command(ranking.protocol, manifest)]
    if scorer is not None:
        protocol['scorer'] = scorer.get('config')
        protocol['ranking'] = scorer.get('ranking') or protocol.get('ranking')
        commands += _scorer_commands(ranking, scorer)
    return {
        'protocol': [
            (key.replace('_', ' '), value_text(value))
            for key, value in protocol.items()
            if key not in LEFT_OUT and value not in (None, {}, [])
        ],
        'roster': _roster(manifest, guessed),
        'signature': ranking.signature.split(PART_SEPARATOR, 2),
        'versions': manifest.versions,
        'commands': commands,
    }


def guessed_names(guessed: Collection[str], manifest: Manifest) -> frozenset[str]:
    """
    Return the systems that the ranking, or the manifest of the run, marks as guesses:
    nobody knows which model file the paper used.
    """
    return frozenset((*guessed, *manifest.guessed))


def command(protocol: str, manifest: Manifest) -> str:
    """
    Return the command line that makes the run, or imports it, again in another folder.
    """
    if manifest.imported:
        options = dict(manifest.imported.asked)
        files = [shlex.quote(path) for path in options.pop('dialogues')]
        words = ['parlai import_dialogues', '--dialogues', *files]
    else:
        options = {'config': protocol, **manifest.asked}
        words = ['parlai evaluate_systems']
    for option, values in {**options, 'run_dir': 'NEW_FOLDER'}.items():
        for value in values if isinstance(values, list) else [values]:
            shown = shlex.quote(without_folders(str(value)))
            words.append(f'--{option.replace("_", "-")} {shown}')
    return ' '.join(words)


def scorer_name(signature: str) -> str:
    """
    Return the name of a scorer, with which its signature begins.
    """
    return signature.partition('|')[0].removeprefix('scorer:')


def _scorer_commands(ranking: Ranking, scorer: Mapping[str, Any]) -> list[str]:
    """
    Return the commands that score a run by another scorer than its protocol's, and rank
    and show what that gives.
    """
    section = dict(scorer.get('config') or {})
    words = ['--scorer', section.pop('name', scorer_name(ranking.scorer_signature))]
    for key, value in section.items():
        words += ['--scorer-option', f'{key}={_option_text(value)}']
    words += ['--score-given'] if scorer.get('given') else []
    rules = [
        word
        for key, value in (scorer.get('ranking') or {}).items()
        for word in (f'--{key.replace("_", "-")}', _option_text(value))
    ]
    scores = ['--scores', content_id(ranking.scorer_signature)]
    return [
        shlex.join(['parlai', name, '--run-dir', 'NEW_FOLDER', *map(str, options)])
        for name, options in (
            ('score_dialogues', words),
            ('rank_systems', [*scores, *rules]),
            ('report_run', scores),
        )
    ]


def _option_text(value: Any) -> str:
    """
    Return an option's value as a command line takes it, without folders.
    """
    return without_folders(value) if isinstance(value, str) else json.dumps(value)


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


def without_folders(text: str) -> str:
    """
    Return a path without its folders; any other text as it is.
    """
    return ABSOLUTE.sub(r'\1…/', text)


def _roster(manifest: Manifest, guessed: Collection[str]) -> list[dict[str, Any]]:
    """
    Return every system with its role, options and the hash of what it is.
    """
    rows = []
    for role in ('targets', 'partners'):
        for name, entry in getattr(manifest, role).items():
            rows.append(
                {
                    'name': name,
                    'role': role.removesuffix('s'),
                    'options': value_text(manifest.systems[name]),
                    'identity': entry.identity,
                    'guessed': name in guessed,
                }
            )
    return rows
