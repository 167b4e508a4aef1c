"""
What is checked before a run: its rule to stop and a dry run, which are here, and
preflight and pilot.

A dry run says how much a run has to do, how much of it is done, and what is not here.
"""

from collections.abc import Mapping
from contextlib import nullcontext

from parlai_ext.collect.forecast import (
    Forecast,
    bytes_on_disk,
    read_forecast,
    refuse_other_settings,
    save_forecast,
)
from parlai_ext.collect.options import StopOptions, TrialOptions
from parlai_ext.collect.plan import (
    RequestedProtocol,
    missing_error,
    missing_reasons,
    plan_to_try,
    refuse_collecting,
    refuse_missing_openers,
    without_systems,
)
from parlai_ext.core import UserError, frozen, ranking_options, require_known
from parlai_ext.engines import Machine
from parlai_ext.scoring.score_run import ChosenScorer
from parlai_ext.store import pairings
from parlai_ext.view.page import print_report

# utterances of an opener, as all shipped opener tasks have them
GIVEN = 2


@frozen
class DryRun:
    """
    What a run has to do. `to_download` names systems, `missing` says by name why some
    cannot be had, and `missing_models` the same of the scorer's models.
    """

    protocol: str
    targets: int
    partners: int
    pairings: int
    dialogues: int
    utterances_to_generate: int
    utterances_to_score: int
    disk_bytes: int
    dialogues_done: int
    to_download: tuple[str, ...]
    missing: Mapping[str, str]
    missing_models: Mapping[str, str]
    pilot: Forecast | None = None

    def refuse_missing(self, asked: RequestedProtocol) -> None:
        """
        Refuse what the run would refuse for want of a system or of a scorer's model.

        :raises UserError: names the first, and why it cannot be had.
        """
        for name, why in self.missing_models.items():
            judge = asked.protocol.scorer['name']
            raise UserError(f'scorer {judge}: its {name}: {why}')
        if self.missing and not asked.options.skip_missing:
            raise missing_error(self.missing)
        without_systems(asked.protocol, self.missing)


def require_stop_options(stop: StopOptions, asked: RequestedProtocol) -> None:
    """
    Refuse what ``--stop`` cannot work with, and its options without it.

    :raises UserError: names the option that is missing or wrong, or the rule that does
        not fit.
    """
    if not stop.stop:
        if stop.margin is not None or stop.stop_dimension is not None:
            raise UserError('--margin and --stop-dimension need --stop when-ranked')
        return
    if not asked.options.config:
        raise UserError(
            '--stop needs --config: further openers are drawn as the protocol says'
        )
    if stop.margin is None:
        raise UserError(
            '--stop needs --margin M: the difference of mean scores up to which two '
            'systems count as tied'
        )
    protocol = asked.protocol
    if len(protocol.roster.targets) < 2:
        raise UserError('--stop needs two targets at least, which it tells apart')
    if ranking_options(protocol.ranking).is_tournament:
        raise UserError(
            '--stop: a tournament has no mean scores to watch; leave --stop out'
        )
    if dimension := stop.stop_dimension:
        names = ChosenScorer(protocol.scorer).prepared().dimensions
        require_known(dimension, names, f'--stop-dimension: {dimension!r}')


def try_before_run(
    trials: TrialOptions, asked: RequestedProtocol, machine: Machine, *, judge: bool
) -> DryRun | Forecast | None:
    """
    Do what the options ask for before a run, and print the result; return it when the
    command ends with it, `None` when the run follows.

    :param judge: the command scores too; a scorer that could not be built stops it.
    :raises UserError: when a system is not fit to talk, or the scorer not to judge.
    """
    options, run, scorer = asked.options, asked.run, None
    if run and (trials.preflight or trials.dry_run or trials.pilot):
        refuse_collecting(run)
    if judge:
        scorer = ChosenScorer(
            asked.protocol.scorer, named_by_user=asked.scorer_is_named
        )
        if options.run_dir and not trials.dry_run:
            scorer.check()
    if trials.preflight:
        try_systems(asked, machine, scorer)
    result: DryRun | Forecast | None = None
    if trials.dry_run:
        result = dry_run(asked, scorer)
        print_report('dry_run', dry=result)
        result.refuse_missing(asked)
    if trials.pilot:
        from parlai_ext.collect.collect import pilot

        plan = plan_to_try(asked, machine)
        with run.lock() if run else nullcontext():
            result = pilot(plan, machine, run, scorer)
            if options.run_dir:
                save_forecast(options.run_dir, result)
        print_report('forecast', forecast=result)
    return result


def try_systems(
    asked: RequestedProtocol, machine: Machine, scorer: ChosenScorer | None
) -> None:
    """
    Let every system talk a little, and load the scorer; end the command where one of
    them is not fit.
    """
    from parlai_ext.collect.collect import preflight, stop_unless_fit

    checks = preflight(plan_to_try(asked, machine), machine, asked.run)
    print_report('preflight', checks=checks)
    stop_unless_fit(checks, skip_missing=asked.options.skip_missing)
    if scorer is not None:
        # a model that is no judge is known when it is loaded, and not before
        scorer.build(machine)
        print('preflight  the scorer can be had')


def dry_run(asked: RequestedProtocol, scorer: ChosenScorer | None) -> DryRun:
    """
    Return what the run has to do, without loading a model or a task's data.

    :param scorer: whose models have to be here, too; `None` for a run without scores.
    :raises UserError: when the run folder holds a run with other settings.
    """
    from parlai_ext.systems.identity import DOWNLOAD, resolve

    protocol, run, run_dir = asked.protocol, asked.run, asked.options.run_dir
    if run is not None:
        refuse_other_settings(run, protocol)
    refuse_missing_openers(asked)
    systems = [resolve(system) for system in asked.needed_systems]
    of_models = [resolve(model) for model in scorer.model_systems()] if scorer else []
    names = {system.name: system.name for system in protocol.roster.systems}
    pairs = pairings(protocol.roster, protocol.pairing, names)
    dialogues = len(pairs) * protocol.num_dialogues
    turns = range(GIVEN, protocol.num_turns, 1 if protocol.score == 'both' else 2)
    judged = dialogues * len(turns)
    return DryRun(
        protocol=protocol.name,
        targets=len(protocol.roster.targets),
        partners=len(protocol.roster.partners),
        pairings=len(pairs),
        dialogues=dialogues,
        utterances_to_generate=dialogues * (protocol.num_turns - GIVEN),
        utterances_to_score=judged,
        disk_bytes=bytes_on_disk(dialogues * protocol.num_turns, judged),
        dialogues_done=run.n_dialogues if run else 0,
        to_download=tuple(
            one.name for one in (*systems, *of_models) if one.status == DOWNLOAD
        ),
        missing=missing_reasons(systems),
        missing_models=missing_reasons(of_models),
        pilot=read_forecast(run_dir) if run_dir else None,
    )
