"""
Which scores of a run are ranked, where several scorers have judged it.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.store import RunFolder


def choose_scores(run: RunFolder, wanted: str | None) -> tuple[str, str]:
    """
    Return the signature of the scores to rank and the folder their ranking goes to.

    ``ranking.json`` is of the protocol's own scorer; others go to ``rankings/<hash>/``.

    :param wanted: the scores' hash, or their scorer's name if no others have it.
    :raises UserError: when there are none, several to choose from, or no such one.
    """
    found = {
        path.parent.name: _scorer(run, path.parent)
        for path in sorted((run.root / 'scores').glob('*/signature.txt'))
    }
    if not found:
        raise UserError(f'{run.root}: no scores; run `parlai score_dialogues` first')
    section = run.manifest['protocol'].get('scorer') or {}
    own = [
        name
        for name, scorer in found.items()
        if scorer.get('config', section) == section and not scorer.get('given')
    ]
    meant = [name for name, scorer in found.items() if wanted in (name, _kind(scorer))]
    choice = meant if wanted else own or list(found)
    if len(choice) != 1:
        known = ', '.join(f'{name} ({_kind(s)})' for name, s in found.items())
        raise UserError(
            f'--scores: {wanted or "not given"}; choose one of {known}; '
            f'each is a folder of {run.root / "scores"} with its signature'
        )
    name = choice[0]
    folder = '' if name in own else f'rankings/{name}/'
    return found[name]['signature'], folder


def scores_rule(run: RunFolder, scorer_signature: str) -> dict[str, Any]:
    """
    Return the rule that was written down beside scores, where they brought their own.
    """
    return dict(run.scores(scorer_signature).about().get('ranking') or {})


def _kind(scorer: Mapping[str, Any]) -> str:
    """
    Return a scorer's name, as signatures have it.
    """
    return str(scorer['signature']).split('|')[0].removeprefix('scorer:')


def _scorer(run: RunFolder, folder: Path) -> dict[str, Any]:
    """
    Return what is written down of the scorer of one folder of scores.
    """
    signature = (folder / 'signature.txt').read_text().rstrip('\n')
    return {'signature': signature, **run.scores(signature).about()}
