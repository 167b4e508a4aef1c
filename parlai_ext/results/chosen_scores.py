"""
The scores that are ranked, in a run that several scorers have scored.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.store import RunFolder
from parlai_ext.store.folder import read_signature


def choose_scores(run: RunFolder, wanted: str | None) -> tuple[str, str]:
    """
    Return the signature of the scores to rank and the folder their ranking goes to.

    ``ranking.json`` is of the protocol's own scorer; others go to ``rankings/<hash>/``.

    :param wanted: the scores' hash, or their scorer's name if no others have it.
    :raises UserError: when there are none, several to choose from, or no such one.
    """
    scorers = {
        path.parent.name: _scorer_record(run, path.parent)
        for path in sorted((run.root / 'scores').glob('*/signature.txt'))
    }
    if not scorers:
        raise UserError(f'{run.root}: no scores; run `parlai score_dialogues` first')
    section = run.manifest.protocol.scorer
    protocols_own = [
        name
        for name, scorer in scorers.items()
        if scorer.get('config', section) == section and not scorer.get('given')
    ]
    matching = [
        n for n, record in scorers.items() if wanted in (n, _scorer_name(record))
    ]
    choice = matching if wanted else protocols_own or list(scorers)
    if len(choice) != 1:
        choices = ', '.join(
            f'{n} ({_scorer_name(record)})' for n, record in scorers.items()
        )
        raise UserError(
            f'--scores: {wanted or "not given"}; choose one of {choices}; '
            f'each is a folder of {run.root / "scores"} with its signature'
        )
    name = choice[0]
    folder = '' if name in protocols_own else f'rankings/{name}/'
    return scorers[name]['signature'], folder


def scores_rule(run: RunFolder, scorer_signature: str) -> dict[str, Any]:
    """
    Return the ranking options that were written down with scores, if they came with
    their own.
    """
    return dict(run.scores(scorer_signature).about().get('ranking') or {})


def _scorer_name(scorer: Mapping[str, Any]) -> str:
    return str(scorer['signature']).split('|')[0].removeprefix('scorer:')


def _scorer_record(run: RunFolder, folder: Path) -> dict[str, Any]:
    """
    Return the signature of the scorer of one folder of scores, and what is known of it.
    """
    signature = read_signature(folder / 'signature.txt')
    return {'signature': signature, **run.scores(signature).about()}
