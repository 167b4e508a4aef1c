"""
What can be tried before a run: preflight, pilot, and a dry run.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import nullcontext
from typing import Any

from parlai_ext.collect import amounts, forecast, plan, timing
from parlai_ext.core.errors import UserError
from parlai_ext.core.machine import Machine
from parlai_ext.scoring.score_run import build_scorer, check_scorer
from parlai_ext.store import RunFolder


def before_run(opt: Mapping[str, Any], *, judge: bool) -> dict[str, Any] | None:
    """
    Do what the options ask for before a run, and print what that finds; return it when
    the command ends with it, `None` when the run follows. A scorer that could not be
    built stops the command whatever they ask for.

    ``--preflight`` is followed by the run, ``--pilot`` and ``--dry-run`` are not.

    :param judge: the command scores too.
    :raises UserError: when a system is not fit to talk, or the scorer not to judge.
    """
    if judge and opt.get('run_dir') and not opt.get('dry_run'):
        section = plan.protocol_of_options(opt).scorer
        named = bool(opt.get('config'))  # else the run folder alone names the scorer
        check_scorer(section, opt.get('datapath'), named_by_user=named)
    if not any(opt.get(key) for key in ('preflight', 'pilot', 'dry_run')):
        return None
    stays = opt.get('pilot') or opt.get('dry_run')
    if not stays and not opt.get('run_dir'):
        raise UserError('--run-dir is needed: the folder that the run goes to')
    if opt.get('preflight'):
        _preflight(opt, judge)
    found = None
    if opt.get('dry_run'):
        found = forecast.forecast(opt, judge=judge)
        print(forecast.in_words(found))
    if opt.get('pilot'):
        found = _pilot(opt, judge)
        print(amounts.in_words(found))
    return found


def _preflight(opt: Mapping[str, Any], judge: bool) -> None:
    from parlai_ext.collect import preflight

    whole = preflight.planned(opt)
    found = preflight.preflight(whole, opt)
    print(preflight.in_words(found))
    preflight.stop_unless_fit(found, skip_missing=bool(opt.get('skip_missing')))
    if judge:
        # a model that is no judge is known when it is loaded, and not before
        machine, named = Machine.from_options(opt), bool(opt.get('config'))
        build_scorer(whole.protocol.scorer, machine, named_by_user=named)
        print('preflight  the scorer can be had')


def _pilot(opt: Mapping[str, Any], judge: bool) -> dict[str, Any]:
    from parlai_ext.collect.pilot import pilot
    from parlai_ext.collect.preflight import planned

    whole, root = planned(opt), opt.get('run_dir')
    there = RunFolder.existing_or_none(root)
    with there.lock() if there else nullcontext():
        found = pilot(whole, opt, judge=judge)
        if root:
            timing.save_forecast(root, found, whole.protocol)
    return found
