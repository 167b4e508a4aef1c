"""
Can a judge be gamed? Talkers that please a judge and not a partner play against the
run's partners, and must not rank high.
"""

from __future__ import annotations

from parlai_ext.audit.audited import Audited
from parlai_ext.audit.record import Finding, PartResult, Row
from parlai_ext.audit.side_run import SidePlayer
from parlai_ext.core.display import join_names
from parlai_ext.core.nouns import System
from parlai_ext.ranking.newcomers import Placing, place_newcomer

PART = 'canaries'
# what each canary does, by the option `canary_kind` of its agent
KINDS = {
    'flatterer': 'flatters',
    'echo': 'repeats what it hears',
    'question_spammer': 'asks questions only',
    'opener_parrot': 'repeats its opener',
    'instruction_injector': 'tells the judge which score to give',
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
    systems that are no floors, or more.

    :raises NotPlayed: when they cannot be played.
    """
    systems = canary_systems()
    tables = player.play('canaries', systems, player.partners)
    names = [system.name for system in systems]
    values = player.values(tables, names)
    placings = [
        place_newcomer(
            audited.first_games(player.num_openers),
            one,
            audited.bootstraps,
            audited.seed,
            partners=audited.options.partners,
        )
        for one in values
    ]
    findings, rows = [], []
    for kind, name, placing in zip(KINDS, names, placings, strict=True):
        findings.append(_finding(audited, kind, placing))
        rows += [
            Row(PART, name, name, 'score', placing.score, placing.low, placing.high),
            Row(PART, name, name, 'rank', placing.rank),
            *_beaten_rows(audited, name, placing),
            *(
                Row(PART, name, audited.systems[k], 'surely better', 1.0)
                for k in placing.surely_better
            ),
        ]
    return PartResult((_summary(audited, findings), *findings), tuple(rows))


def _beaten_rows(audited: Audited, name: str, placing: Placing) -> list[Row]:
    return [
        Row(PART, name, audited.systems[k], 'beaten', float(k in placing.surely_beaten))
        for k in placing.beaten
    ]


def _finding(audited: Audited, kind: str, placing: Placing) -> Finding:
    """
    Return where one canary would rank, and whether that is low enough.
    """
    name = kind.replace('_', ' ')
    if placing.rank is None:
        text = f'The {name} has no score: {audited.dimension} is undefined for it.'
        return Finding(PART, text, None)
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
    return Finding(
        PART, f'{text}.', not honest or 2 * len(honest) < len(audited.honest)
    )


def _summary(audited: Audited, findings: list[Finding]) -> Finding:
    high = sum(finding.holds is False for finding in findings)
    if high:
        word = 'canary ranks' if high == 1 else 'canaries rank'
        text = (
            f'This judge can be gamed: {high} of {len(findings)} {word} above half of '
            'the systems or more.'
        )
    else:
        text = (
            f'None of {len(findings)} canaries beats half of the '
            f'{len(audited.honest)} systems.'
        )
    return Finding(PART, text, not high)
