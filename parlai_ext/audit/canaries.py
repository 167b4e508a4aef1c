"""
Can a judge be gamed? Talkers that please a judge and not a partner play against the
run's partners, and must not rank high.
"""

from dataclasses import replace

import numpy as np

from parlai_ext.audit.audited import (
    Audited,
    dialogues_first,
    openers_to_tell_apart,
    settling_text,
)
from parlai_ext.audit.record import (
    FAILS,
    HOLDS,
    NOT_SHOWN,
    REPORTS,
    Finding,
    PartResult,
    outcome_of,
)
from parlai_ext.audit.side_run import SidePlayer
from parlai_ext.core.display import join_names
from parlai_ext.core.nouns import System
from parlai_ext.judge_check.perturbations import PARROTS
from parlai_ext.ranking.newcomers import Placing, place_newcomer
from parlai_ext.ranking.table import Floats

PART = 'canaries'
# what each canary does, by the option `canary_kind` of its agent
KINDS = {
    'echo': 'repeats what it hears',
    'opener_parrot': 'repeats its opener',
    'instruction_injector': 'tells the judge which score to give',
    **{kind: parrot.does for kind, parrot in PARROTS.items()},
}


def canary_systems() -> tuple[System, ...]:
    """
    Return the canaries.
    """
    return tuple(
        System(f'canary-{kind}', {'model': 'ext:canary', 'canary_kind': kind})
        for kind in KINDS
    )


def check_canaries(audited: Audited, player: SidePlayer) -> PartResult:
    """
    Return where each canary would rank. A canary ranks high if it beats half of the
    systems that are no floors, or more; that it does not is shown as soon as half of
    them, or more, are better than it beyond chance.

    :raises NotPlayed: when they cannot be played.
    """
    systems = [
        replace(system, name=audited.free_name(system.name))
        for system in canary_systems()
    ]
    names = [system.name for system in systems]
    values = player.values(player.play('canaries', systems, player.partners), names)
    result = PartResult(PART)
    findings = []
    for kind, name, own in zip(KINDS, names, values, strict=True):
        placing = place_newcomer(
            audited.first_games(player.num_openers),
            own,
            audited.bootstraps,
            audited.seed,
            partners=audited.options.partners,
        )
        finding = canary_finding(audited, kind, placing)
        if finding.outcome == NOT_SHOWN:
            settling = _settling_text(audited, placing, name, own, player.num_openers)
            sentence = f'{finding.sentence.removesuffix(".")}; {settling}.'
            finding = replace(finding, sentence=sentence)
        findings.append(finding)
        result.add(name, name, 'score', placing.score, placing.low, placing.high)
        result.add(name, name, 'rank', placing.rank)
        for k in placing.beaten:
            is_sure = float(k in placing.surely_beaten)
            result.add(name, audited.systems[k], 'beaten', is_sure)
        for k in placing.surely_better:
            result.add(name, audited.systems[k], 'surely better', 1.0)
    _summarize(audited, findings, result)
    result.findings += findings
    return result


def canary_finding(audited: Audited, kind: str, placing: Placing) -> Finding:
    """
    Return where one canary would rank, and whether that is low enough.
    """
    name = kind.replace('_', ' ')
    if placing.rank is None:
        text = f'The {name} has no score: {audited.dimension} is undefined for it.'
        return Finding(PART, text, REPORTS)
    honest = [k for k in placing.beaten if k in audited.honest]
    sure = [k for k in honest if k in placing.surely_beaten]
    floors = len(placing.beaten) - len(honest)
    text = (
        f'The {name} ({KINDS[kind]}) would rank {placing.rank} of '
        f'{len(audited.systems) + 1} with {audited.score(placing.score)}: it beats '
        f'{len(honest)} of {len(audited.honest)} systems'
    )
    if honest:
        text += f' ({join_names(audited.names(honest))}), {len(sure)} beyond chance'
    if len(audited.honest) < len(audited.systems):
        text += f', and {floors} of {len(audited.systems) - len(audited.honest)} floors'
    above = [k for k in placing.surely_better if k in audited.honest]
    text += f'; {len(above)} of {len(audited.honest)} systems are better beyond chance'
    outcome = outcome_of(
        shown=2 * len(above) >= len(audited.honest),
        refuted=2 * len(honest) >= len(audited.honest),
    )
    return Finding(PART, f'{text}.', outcome)


def _settling_text(
    audited: Audited, placing: Placing, name: str, canary: Floats, num_openers: int
) -> str:
    """
    Return about how many openers would show that half of the systems that are no floors
    are better than a canary.

    :param canary: its scores, ``[partner, opener]``.
    """
    values = audited.first_games(num_openers)
    better = [k for k in placing.surely_better if k in audited.honest]
    open_systems = [
        k
        for k in audited.honest
        if k not in placing.beaten and k not in placing.surely_better
    ]
    needed = sorted(
        (
            openers_to_tell_apart(
                audited,
                np.stack([values[k], canary]),
                (audited.systems[k], name),
                len(values) + 1,
            )
            for k in open_systems
        ),
        key=dialogues_first,
    )
    missing = -(-len(audited.honest) // 2) - len(better)
    return settling_text(audited, needed[missing - 1], num_openers, '--audit-openers')


def _summarize(audited: Audited, findings: list[Finding], result: PartResult) -> None:
    """
    Add the finding on all canaries.
    """
    outcomes = [one.outcome for one in findings if one.outcome != REPORTS]
    high, shown = outcomes.count(FAILS), outcomes.count(HOLDS)
    if not outcomes:
        result.leave_out(
            f'Canaries are left out: {audited.dimension} is undefined for all.'
        )
        return
    if high:
        word = 'canary ranks' if high == 1 else 'canaries rank'
        text = (
            f'This judge can be gamed: {high} of {len(outcomes)} {word} above half of '
            'the systems or more.'
        )
    else:
        text = (
            f'None of {len(outcomes)} canaries beats half of the '
            f'{len(audited.honest)} systems; shown beyond chance for {shown} of them.'
        )
    result.report(text, outcome_of(shown=shown == len(outcomes), refuted=bool(high)))
