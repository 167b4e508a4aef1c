"""
How a run was made, so that a reader can make it again: the last section of its page.
"""

import json
import shlex
from collections.abc import Mapping
from typing import Any

from parlai_ext.core.nouns import content_id
from parlai_ext.core.signature import PART_SEPARATOR, scorer_name
from parlai_ext.report.view import RankingView
from parlai_ext.results.ranking import Ranking
from parlai_ext.store.manifest import Manifest
from parlai_ext.view.page import Section
from parlai_ext.view.text import value_text, without_folders

LEFT_OUT = ('roster', 'reference', 'reference_kind', 'name')


def method_section(view: RankingView) -> Section:
    """
    Return the section with protocol, roster, signature, versions and the commands of a
    run.
    """
    ranking, manifest, scorer = view.ranking, view.manifest, view.scorer
    protocol = manifest.protocol.model_dump(exclude_unset=True)
    commands = [command(ranking.protocol, manifest)]
    if scorer is not None:
        protocol['scorer'] = scorer.get('config')
        protocol['ranking'] = scorer.get('ranking') or protocol.get('ranking')
        commands += _scorer_commands(ranking, scorer)
    data = {
        'protocol': [
            (key.replace('_', ' '), value_text(value))
            for key, value in protocol.items()
            if key not in LEFT_OUT and value not in (None, {}, [])
        ],
        'roster': [
            {
                'name': name,
                'role': role.removesuffix('s'),
                'options': value_text(manifest.systems[name]),
                'identity': entry.identity,
                'guessed': name in ranking.guessed,
            }
            for role in ('targets', 'partners')
            for name, entry in getattr(manifest, role).items()
        ],
        'signature': ranking.signature.split(PART_SEPARATOR, 2),
        'versions': manifest.versions,
        'commands': commands,
    }
    return Section('method', 'How it was made', data)


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
    scores = ['--scores', content_id(ranking.scorer_signature)]
    rules = [*scores]
    for key, value in (scorer.get('ranking') or {}).items():
        rules += [f'--{key.replace("_", "-")}', _option_text(value)]
    return [
        shlex.join(['parlai', name, '--run-dir', 'NEW_FOLDER', *map(str, options)])
        for name, options in (
            ('score_dialogues', words),
            ('rank_systems', rules),
            ('report_run', scores),
        )
    ]


def _option_text(value: Any) -> str:
    """
    Return an option's value as a command line takes it, without folders.
    """
    return without_folders(value) if isinstance(value, str) else json.dumps(value)
