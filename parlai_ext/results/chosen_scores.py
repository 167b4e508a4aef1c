"""
The scores that are ranked, in a run that several scorers have scored.
"""

from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.signature import scorer_name
from parlai_ext.store import RunFolder


def choose_scores(run: RunFolder, wanted: str | None) -> tuple[str, str]:
    """
    Return the signature of the scores to rank and the folder their ranking goes to.

    ``ranking.json`` is of the protocol's own scorer; others go to ``rankings/<hash>/``.

    :param wanted: the scores' hash, or their scorer's name if no others have it.
    :raises UserError: when there are none, several to choose from, or no such one.
    """
    scorers = {
        store.root.name: {'signature': store.signature, **store.about()}
        for store in run.score_stores()
    }
    if not scorers:
        raise UserError(f'{run.root}: no scores; run `parlai score_dialogues` first')
    section = run.manifest.protocol.scorer
    protocols_own = [
        name
        for name, scorer in scorers.items()
        if scorer.get('config', section) == section and not scorer.get('given')
    ]
    names = {key: scorer_name(record['signature']) for key, record in scorers.items()}
    matching = [key for key, name in names.items() if wanted in (key, name)]
    choice = matching if wanted else protocols_own or list(scorers)
    if len(choice) != 1:
        choices = ', '.join(f'{key} ({name})' for key, name in names.items())
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
