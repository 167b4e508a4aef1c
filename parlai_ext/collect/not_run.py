"""
What of a run was not played: systems that could not go on, pairs that lack dialogues.
"""

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any

from parlai_ext.core import SystemFailed, UserError
from parlai_ext.store import Plan, RunFolder
from parlai_ext.view.page import terminal_lines

NAME = 'not_run.json'
SCHEMA = 2
LISTED = 30  # pairs that are named


def write_problems(run: RunFolder, problems: Mapping[str, str]) -> None:
    """
    Keep why systems could not go on, for the report; without any, keep nothing.
    """
    if problems:
        sorted_problems = dict(sorted(problems.items()))
        run.write_json(NAME, {'schema': SCHEMA, 'problems': sorted_problems})
    else:
        run.remove(NAME)


def read_problems(run: RunFolder) -> dict[str, str]:
    """
    Return why systems could not go on when the run was last collected.
    """
    if not (run.root / NAME).exists():
        return {}
    problems: Any = run.read_json(NAME)['problems']  # as `write_problems` wrote them
    return dict(problems)


def missing_by_pair(run: RunFolder) -> dict[tuple[str, str], int]:
    """
    Return, for each pair that lacks dialogues, how many.
    """
    missing = Counter[tuple[str, str]]()
    for pairing in run.pairings:
        for shard in run.planned_shards(pairing.id):
            if not run.has_dialogues(shard):
                missing[pairing.speakers] += shard.n_dialogues
    return dict(missing)


def missing_by_target(run: RunFolder, plan: Plan) -> dict[str, int]:
    """
    Return, for each target that lacks dialogues in which it is judged, how many.
    """
    missing = missing_by_pair(run)
    counts = Counter[str]()
    for pairing in plan.pairings:
        for judged in plan.judged_sides(pairing):
            counts[judged.first] += missing.get(pairing.speakers, 0)
    targets = [system.name for system in plan.roster.targets]
    return {name: counts[name] for name in sorted(targets) if counts[name]}


def not_run_notes(run: RunFolder) -> list[str]:
    """
    Return notes for the report: a line for each system that failed, one for the pairs.
    """
    missing = missing_by_pair(run)
    if not missing:
        return []
    return terminal_lines(
        'not_run',
        planned=run.plan.n_dialogues,
        missing=missing,
        problems=read_problems(run).values(),
        most=LISTED,
    )


def played_signature(run: RunFolder) -> str:
    """
    Return the run's signature; when targets that talked lack dialogues with some
    partner, its protocol has another name.
    """
    full = run.manifest.signature
    talked = {run.pairing(shard.pairing_id).first for shard in run.dialogue_shards()}
    lacking = {second for first, second in missing_by_pair(run) if first in talked}
    if not lacking:
        return full
    name, bar, rest = full.partition('|')
    return f'{name}-incomplete-with-{len(lacking)}-partners{bar}{rest}'


def stop_if_incomplete(run: RunFolder, problems: Sequence[str]) -> None:
    """
    End a command whose run lacks dialogues, or has a system that never came to the end
    of one.

    :param problems: why systems could not go on.
    :raises UserError: with the first reason.
    """
    if problems:
        raise UserError(f'not all could be collected: {problems[0]}')
    # of systems that broke off dialogues, why, and the systems that came to the end of
    # one dialogue that the other speaker did not break off
    reasons: dict[str, list[str]] = {}
    talking: set[str] = set()
    for shard in run.dialogue_shards():
        # whoever came to an end once is not looked at again
        names = {*run.pairing(shard.pairing_id).speakers} - talking
        for dialogue in run.read_dialogues(shard) if names else ():
            if dialogue.ended_by is None:
                talking |= names
            else:
                reasons.setdefault(dialogue.ended_by, []).append(dialogue.reason or '')
    if failed := [name for name in reasons if name not in talking]:
        name, *others = failed
        own = reasons[name]
        more = f'; so did {", ".join(others)}' if others else ''
        raise SystemFailed(
            name,
            f'it broke off all of its {len(own)} dialogues; the first: {own[0]}{more}',
        )
