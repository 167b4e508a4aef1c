"""
The audit of a scored run: every check, in the order in which a reader would ask.
"""

from importlib.metadata import PackageNotFoundError, version

from parlai_ext.audit import canaries, clones
from parlai_ext.audit.audited import Audited, read_audited
from parlai_ext.audit.judge_swap import check_judge_swap
from parlai_ext.audit.leave_out import check_opener_blocks, check_partner_families
from parlai_ext.audit.options import AuditOptions, NamedByUser
from parlai_ext.audit.record import (
    Audit,
    Basis,
    PartResult,
    content_of_scores,
    write_audit,
)
from parlai_ext.audit.side_run import NotPlayed, SidePlayer
from parlai_ext.audit.target_sets import (
    SETS,
    check_siblings,
    check_target_sets,
    check_unfair_sets,
    system_families,
)
from parlai_ext.audit.variance import check_variance
from parlai_ext.core.display import join_names
from parlai_ext.core.machine import Machine
from parlai_ext.core.options import option_values
from parlai_ext.core.signature import scorer_name
from parlai_ext.store import RunFolder

# the checks for which dialogues are played, and how a sentence names them
PLAYED = {
    canaries.PART: 'Canaries are',
    clones.TARGETS: 'Clones as targets are',
    clones.PARTNERS: 'Clones as partners are',
}


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
        *checks_of_tables(audited, options),
        *played_checks(audited, options, machine, places, named),
    ]
    signature = audited.scores.scorer_signature
    store = run.scores(signature)
    content, n_dialogues = content_of_scores(store)
    try:
        package = version('parlai_ext')
    except PackageNotFoundError:
        package = 'absent'
    audit = Audit(
        protocol=audited.plan.protocol.name,
        scorer=scorer_name(signature),
        dimension=audited.dimension,
        n_systems=len(audited.systems),
        n_partners=len(audited.opponents),
        n_openers=audited.num_openers,
        findings=tuple(f for result in results for f in result.findings),
        rows=tuple(row for result in results for row in result.rows),
        basis=Basis(
            signature=signature,
            scores=store.root.name,
            content=content,
            n_dialogues=n_dialogues,
            parlai_ext=package,
            options={
                **option_values(options),
                'clone': list(options.clone),
                'similar': list(options.similar),
            },
        ),
    )
    write_audit(run, audit, audited.folder)
    return audit


def checks_of_tables(audited: Audited, options: AuditOptions) -> list[PartResult]:
    """
    Return the results of the checks that play nothing.
    """
    names = dict.fromkeys((*audited.systems, *audited.opponents))
    families = system_families(audited.run, list(names))
    about = PartResult(SETS)
    if audited.options.is_tournament:
        about.report(
            'This run is ranked by a tournament. The audit is of mean scores, by which '
            'the order may be another one.'
        )
    unranked = [n for n in audited.scores.tables.systems if n not in audited.systems]
    if unranked:
        about.report(f'Without a rank, and so not audited: {join_names(unranked)}.')
    return [
        about,
        check_target_sets(audited, options.set_size),
        check_unfair_sets(audited, families, options),
        check_siblings(audited, families),
        check_partner_families(audited, families),
        check_opener_blocks(audited, options.opener_blocks),
        check_judge_swap(audited),
        check_variance(audited),
    ]


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

    def left_out(part: str, reason: object) -> PartResult:
        return PartResult(part).leave_out(f'{PLAYED[part]} left out: {reason}.')

    if options.tables_only:
        return [left_out(part, '--tables-only') for part in PLAYED]
    try:
        player = SidePlayer.build(audited, machine, options, named)
    except NotPlayed as reason:
        return [left_out(part, reason) for part in PLAYED]
    results = []
    for part, check in zip(
        PLAYED,
        (
            lambda: canaries.check_canaries(audited, player),
            lambda: clones.check_clones_as_targets(audited, player, places),
            lambda: clones.check_clones_as_partners(audited, player, places),
        ),
        strict=True,
    ):
        try:
            results.append(check())
        except NotPlayed as reason:
            results.append(left_out(part, reason))
    return results
