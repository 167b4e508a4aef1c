"""
What a run could not do: systems that could not go on, and pairs that lack dialogues.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

from parlai_ext.collect.plan import Plan
from parlai_ext.core.schedule import shards
from parlai_ext.store import RunFolder

NAME = 'not_run.json'
LISTED = 30  # pairs that are named


def write_problems(run: RunFolder, problems: Mapping[str, str]) -> None:
    """
    Keep why systems could not go on, for the report; nothing is kept of none.
    """
    if problems:
        run.write_json(NAME, dict(sorted(problems.items())))
    else:
        run.remove(NAME)


def read_problems(run: RunFolder) -> dict[str, str]:
    """
    Return why systems could not go on when the run was last collected.
    """
    return dict(run.read_json(NAME)) if (run.root / NAME).exists() else {}


def unplayed(run: RunFolder) -> dict[tuple[str, str], int]:
    """
    Return, for each pair that lacks dialogues, how many.
    """
    found: dict[tuple[str, str], int] = {}
    for pairing in run.pairings:
        rows = [
            shard.n_dialogues
            for shard in shards(pairing.id, len(run.openers), run.shard_size)
            if not run.has_dialogues(pairing.id, shard.index)
        ]
        if rows:
            found[pairing.first, pairing.second] = sum(rows)
    return found


def of_targets(run: RunFolder, plan: Plan) -> dict[str, int]:
    """
    Return, for each target that lacks dialogues in which it is judged, how many.
    """
    missing = unplayed(run)
    found: Counter[str] = Counter()
    for pairing in plan.pairings:
        for judged in plan.judged_sides(pairing):
            found[judged.first] += missing.get((pairing.first, pairing.second), 0)
    targets = [system.name for system in plan.roster.targets]
    return {name: found[name] for name in sorted(targets) if found[name]}


def in_words(run: RunFolder) -> list[str]:
    """
    Return what did not run and why: a line for each system and one for the pairs.
    """
    missing = unplayed(run)
    if not missing:
        return []
    planned = len(run.pairings) * len(run.openers)
    pairs = [f'{first} – {second} ({n})' for (first, second), n in missing.items()]
    more = f' and {len(pairs) - LISTED} more' if len(pairs) > LISTED else ''
    return [
        f'{planned - sum(missing.values())} of {planned} planned dialogues are '
        'collected',
        *(f'did not run: {why}' for why in read_problems(run).values()),
        f'pairs that lack dialogues (how many): {", ".join(pairs[:LISTED])}{more}',
    ]


def signature(run: RunFolder) -> str:
    """
    Return the run's signature; when targets that talked lack dialogues with some
    partner, its protocol has another name.
    """
    whole: str = run.manifest['signature']
    talked = {run.pairing(shard.pairing_id).first for shard in run.dialogue_shards()}
    lacking = {second for first, second in unplayed(run) if first in talked}
    if not lacking:
        return whole
    name, bar, rest = whole.partition('|')
    return f'{name}-incomplete-with-{len(lacking)}-partners{bar}{rest}'
