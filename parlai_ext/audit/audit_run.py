"""
The audit of a scored run: every check, in the order in which a reader would ask.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.metadata import PackageNotFoundError, version

from parlai_ext.audit import canaries, clones
from parlai_ext.audit.audited import Audited, read_audited
from parlai_ext.audit.families import system_families
from parlai_ext.audit.judge_swap import check_judge_swap
from parlai_ext.audit.leave_out import check_opener_blocks, check_partner_families
from parlai_ext.audit.options import AuditOptions, NamedByUser
from parlai_ext.audit.record import (
    REPORTS,
    Audit,
    Basis,
    Finding,
    PartResult,
    content_of_scores,
    left_out,
    write_audit,
)
from parlai_ext.audit.side_run import NotPlayed, SidePlayer
from parlai_ext.audit.target_sets import (
    SETS,
    check_siblings,
    check_table_6,
    check_target_sets,
)
from parlai_ext.audit.variance import check_variance
from parlai_ext.core.display import join_names
from parlai_ext.core.machine import Machine
from parlai_ext.core.options import option_values
from parlai_ext.store import RunFolder

Check = Callable[[], PartResult]


def audit_run(
    run: RunFolder,
    options: AuditOptions,
    machine: Machine,
    named: NamedByUser | None = None,
) -> Audit:
    """
    Audit a scored run and write `audit.json` and `audit.csv` beside its ranking.

    :param named: what the user named; needed for systems from outside the package of a
        run that somebody else made.
    :raises UserError: for a run without scores, or a wrong option.
    """
    named = named or NamedByUser()
    audited = read_audited(run, options).with_systems(named.systems)
    places = clones.cloned_targets(audited, options.clone)
    results = [
        *checks_of_tables(audited, options, machine.datapath),
        *played_checks(audited, options, machine, places, named),
    ]
    audit = Audit(
        protocol=audited.plan.protocol.name,
        scorer=audited.scores.scorer_signature.partition('|')[0].removeprefix(
            'scorer:'
        ),
        dimension=audited.dimension,
        n_systems=len(audited.systems),
        n_partners=len(audited.opponents),
        n_openers=audited.num_openers,
        findings=tuple(f for result in results for f in result.findings),
        rows=tuple(row for result in results for row in result.rows),
        basis=_basis(audited, options),
    )
    write_audit(run, audit, audited.folder)
    return audit


def checks_of_tables(
    audited: Audited, options: AuditOptions, datapath: str | None
) -> list[PartResult]:
    """
    Return the results of the checks that play nothing.
    """
    names = dict.fromkeys((*audited.systems, *audited.opponents))
    families = system_families(audited.run, list(names), datapath)
    return [
        *([tournament_note()] if audited.options.is_tournament else []),
        *unranked_note(audited),
        check_target_sets(audited, options.set_size),
        check_table_6(audited, families),
        check_siblings(audited, families),
        check_partner_families(audited, families),
        check_opener_blocks(audited, options.opener_blocks),
        check_judge_swap(audited),
        check_variance(audited),
    ]


def tournament_note() -> PartResult:
    """
    Return the sentence that says what is audited of a run that is ranked by games.
    """
    text = (
        'This run is ranked by a tournament. The audit is of mean scores, by which the '
        'order may be another one.'
    )
    return PartResult((Finding(SETS, text, REPORTS),))


def unranked_note(audited: Audited) -> list[PartResult]:
    """
    Return the sentence that names the targets without a rank, if there are any.
    """
    names = [n for n in audited.scores.tables.systems if n not in audited.systems]
    if not names:
        return []
    text = f'Without a rank, and so not audited: {join_names(names)}.'
    return [PartResult((Finding(SETS, text, REPORTS),))]


def played_checks(
    audited: Audited,
    options: AuditOptions,
    machine: Machine,
    places: list[int],
    named: NamedByUser,
) -> list[PartResult]:
    """
    Return the results of the checks for which dialogues are played.
    """
    parts = (canaries.PART, clones.TARGETS, clones.PARTNERS)
    if options.tables_only:
        return [left_out(part, _left_out_text(part, '--tables-only')) for part in parts]
    try:
        player = SidePlayer.build(audited, machine, options, named)
    except NotPlayed as reason:
        return [left_out(part, _left_out_text(part, str(reason))) for part in parts]
    checks: tuple[Check, ...] = (
        lambda: canaries.check_canaries(audited, player),
        lambda: clones.check_clones_as_targets(audited, player, places),
        lambda: clones.check_clones_as_partners(audited, player, places),
    )
    results = []
    for part, check in zip(parts, checks, strict=True):
        try:
            results.append(check())
        except NotPlayed as reason:
            results.append(left_out(part, _left_out_text(part, str(reason))))
    return results


def _left_out_text(part: str, reason: str) -> str:
    what = {
        canaries.PART: 'Canaries are',
        clones.TARGETS: 'Clones as targets are',
        clones.PARTNERS: 'Clones as partners are',
    }[part]
    return f'{what} left out: {reason}.'


def _basis(audited: Audited, options: AuditOptions) -> Basis:
    store = audited.run.scores(audited.scores.scorer_signature)
    content, n_dialogues = content_of_scores(store)
    try:
        package = version('parlai_ext')
    except PackageNotFoundError:
        package = 'absent'
    values = option_values(options)
    return Basis(
        audited.scores.scorer_signature,
        store.root.name,
        content,
        n_dialogues,
        package,
        {**values, 'clone': list(options.clone)},
    )
