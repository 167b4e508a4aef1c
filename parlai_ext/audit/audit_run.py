"""
The audit of a scored run: every check, in the order in which a reader would ask.
"""

from parlai_ext.audit import gaming
from parlai_ext.audit.audited import Audited, read_audited
from parlai_ext.audit.dependence import (
    check_judge_swap,
    check_opener_blocks,
    check_partner_families,
    check_variance,
)
from parlai_ext.audit.options import AuditOptions, NamedByUser
from parlai_ext.audit.record import (
    Audit,
    Basis,
    PartResult,
    content_of_scores,
    write_audit,
)
from parlai_ext.audit.target_sets import (
    SETS,
    check_siblings,
    check_target_sets,
    check_unfair_sets,
    system_families,
)
from parlai_ext.core.errors import UserError
from parlai_ext.core.options import option_values
from parlai_ext.core.signature import scorer_name
from parlai_ext.engines.engine import versions
from parlai_ext.engines.machine import Machine
from parlai_ext.store import RunFolder
from parlai_ext.view.text import join_names

# the checks for which dialogues are played, and how a sentence names them
PLAYED = {
    gaming.CANARIES: ('Canaries are', gaming.check_canaries),
    gaming.TARGETS: ('Clones as targets are', gaming.check_clones_as_targets),
    gaming.PARTNERS: ('Clones as partners are', gaming.check_clones_as_partners),
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
    places = gaming.cloned_targets(audited, options.clone)
    results = [
        *checks_of_tables(audited, options),
        *played_checks(audited, options, machine, places, named),
    ]
    signature = audited.scores.scorer_signature
    store = run.scores(signature)
    content, n_dialogues = content_of_scores(store)
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
            parlai_ext=versions()['parlai_ext'],
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

    player, reason = None, '--tables-only'
    if not options.tables_only:
        try:
            player = gaming.SidePlayer.build(audited, machine, options, named, places)
        except UserError as error:
            reason = str(error)
    results = []
    for part, (words, check) in PLAYED.items():
        try:
            if player is None:
                raise UserError(reason)
            results.append(check(player))
        except UserError as error:
            text = f'{words} left out: {error}.'
            results.append(PartResult(part).leave_out(text))
    return results
