"""
The audit of a scored run: every check, in the order in which a reader would ask.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from parlai_ext.audit import dependence, gaming
from parlai_ext.audit.options import AuditOptions
from parlai_ext.audit.record import (
    CANARIES,
    LEFT_OUT,
    Audit,
    Audited,
    Basis,
    LeftOut,
    PartResult,
    content_of_scores,
    read_audited,
    write_audit,
)
from parlai_ext.core import (
    JsonObject,
    System,
    UserError,
    option_values,
    record_to_json,
    scorer_name,
)
from parlai_ext.engines import Machine
from parlai_ext.engines.engine import versions
from parlai_ext.store import RunFolder
from parlai_ext.view import join_names

# how a sentence names a check, and what adds its findings
Checks = Mapping[str, tuple[str, Callable[..., None]]]
TABLES = {
    'target sets': ('Sets of targets are', dependence.check_target_sets),
    'table 6': ('Table 6 of Sato et al. (2022) is', dependence.check_unfair_sets),
    'siblings': ('Siblings are', dependence.check_siblings),
    'partner families': (
        'Families of partners are',
        dependence.check_partner_families,
    ),
    'opener blocks': ('Blocks of openers are', dependence.check_opener_blocks),
    'judge swap': ('Other judges are', dependence.check_judge_swap),
    'variance': ('Shares of variance are', dependence.check_variance),
}
# those for which dialogues are played
PLAYED = {
    CANARIES: ('Canaries are', gaming.check_canaries),
    'clone as target': ('Clones as targets are', gaming.check_clones_as_targets),
    'clone as partner': ('Clones as partners are', gaming.check_clones_as_partners),
}


def audit_run(
    run: RunFolder,
    options: AuditOptions,
    machine: Machine,
    systems: Sequence[System],
    scorer: JsonObject | None,
) -> Audit:
    """
    Audit a scored run and write `audit.json` and `audit.csv` beside its ranking. For a
    run that somebody else made, a user names what it has from outside the package.

    :param systems: those that the user named; they take the place of the run's of the
        same names.
    :param scorer: the ``scorer:`` section that the user named.
    :raises UserError: for a run without scores, or a wrong option.
    """
    audited = read_audited(run, options, systems)
    places = gaming.cloned_targets(audited)
    results = [what_is_audited(audited), *made_checks(TABLES, audited)]
    try:
        player: object = gaming.SidePlayer(audited, machine, scorer, places)
    except UserError as error:
        player = error
    results += made_checks(PLAYED, player, UserError)
    store = run.scores(audited.scores.scorer_signature)
    audit = Audit(
        protocol=audited.plan.protocol.name,
        scorer=scorer_name(store.signature),
        dimension=audited.dimension,
        n_systems=len(audited.systems),
        n_partners=len(audited.opponents),
        n_openers=audited.num_openers,
        findings=tuple(f for result in results for f in result.findings),
        rows=tuple(row for result in results for row in result.rows),
        basis=Basis(
            signature=store.signature,
            scores=store.root.name,
            content=content_of_scores(store),
            n_dialogues=run.n_dialogues,
            parlai_ext=versions()['parlai_ext'],
            options=record_to_json(option_values(options)),
        ),
    )
    write_audit(run, audit, audited.folder)
    return audit


def what_is_audited(audited: Audited) -> PartResult:
    """
    Return what a reader should know of the order that is audited.
    """
    about = PartResult('target sets')
    if audited.scores.options.is_tournament:
        about.report(
            'This run is ranked by a tournament. The audit is of mean scores, by which '
            'the order may be another one.'
        )
    unranked = [n for n in audited.scores.tables.systems if n not in audited.systems]
    if unranked:
        about.report(f'Without a rank, and so not audited: {join_names(unranked)}.')
    return about


def made_checks(
    checks: Checks, subject: Any, refused: type[UserError] = LeftOut
) -> Iterator[PartResult]:
    """
    Yield the results of some checks.

    :param subject: what they are of; an error, where it could not be had.
    :param refused: an error that leaves a check out.
    """
    for part, (words, check) in checks.items():
        result = PartResult(part)
        try:
            if isinstance(subject, UserError):
                raise subject
            check(result, subject)
        except refused as error:
            result = PartResult(part)
            result.report(f'{words} left out: {error}.', LEFT_OUT)
        yield result
