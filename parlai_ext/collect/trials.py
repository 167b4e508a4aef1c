"""
What can be tried before a run: preflight, pilot, and a dry run.
"""

from __future__ import annotations

from contextlib import nullcontext

from parlai_ext.collect.dry_run import DryRun, dry_run
from parlai_ext.collect.options import PlanOptions, TrialOptions
from parlai_ext.collect.plan import Plan, make_plan, protocol_of_options
from parlai_ext.collect.timing import Forecast, save_forecast
from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.scoring.score_run import build_scorer, check_scorer
from parlai_ext.store import RunFolder
from parlai_ext.store import manifest as manifests


def try_before_run(
    trials: TrialOptions, options: PlanOptions, machine: Machine, *, judge: bool
) -> DryRun | Forecast | None:
    """
    Do what the options ask for before a run, and print the result; return it when the
    command ends with it, `None` when the run follows.

    :param judge: the command scores too; a scorer that could not be built stops it.
    :raises UserError: when a system is not fit to talk, or the scorer not to judge.
    """
    if judge and options.run_dir and not trials.dry_run:
        section = protocol_of_options(options).scorer
        named = bool(options.config)  # else the run folder alone names the scorer
        check_scorer(section, machine.datapath, named_by_user=named)
    ends = trials.dry_run or trials.pilot
    if trials.preflight:
        if not ends and not options.run_dir:
            raise UserError('--run-dir is needed: the folder that the run goes to')
        _preflight(options, machine, judge)
    result: DryRun | Forecast | None = None
    if trials.dry_run:
        result = dry_run(options, machine.datapath, judge=judge)
        print('\n'.join(result.lines()))
    if trials.pilot:
        result = _pilot(options, machine, judge)
        print('\n'.join(result.lines()))
    return result


def plan_to_try(options: PlanOptions, machine: Machine) -> Plan:
    """
    Return the plan of these options as the run would accept it, and write nothing.

    :raises UserError: when the run folder holds a run with other settings.
    """
    plan = make_plan(options, machine)
    if run := RunFolder.existing_or_none(options.run_dir):
        manifests.merge_manifests(
            run.manifest, manifests.manifest_data(plan.manifest), run.root
        )
    return plan


def _preflight(options: PlanOptions, machine: Machine, judge: bool) -> None:
    from parlai_ext.collect.preflight import preflight, report_lines, stop_unless_fit

    plan = plan_to_try(options, machine)
    checks = preflight(plan, machine, RunFolder.existing_or_none(options.run_dir))
    print('\n'.join(report_lines(checks)))
    stop_unless_fit(checks, skip_missing=options.skip_missing)
    if judge:
        # a model that is no judge is known when it is loaded, and not before
        named = bool(options.config)
        build_scorer(plan.protocol.scorer, machine, named_by_user=named)
        print('preflight  the scorer can be had')


def _pilot(options: PlanOptions, machine: Machine, judge: bool) -> Forecast:
    from parlai_ext.collect.pilot import pilot

    plan = plan_to_try(options, machine)
    run = RunFolder.existing_or_none(options.run_dir)
    with run.lock() if run else nullcontext():
        named = bool(options.config)
        forecast = pilot(plan, machine, run, judge=judge, named_by_user=named)
        if options.run_dir:
            save_forecast(options.run_dir, forecast)
    return forecast
