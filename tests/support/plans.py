"""
Plans and runs from a command's options, as a command makes them.
"""

from parlai_ext.collect import plan, trials
from parlai_ext.core.machine import Machine


def make_plan(opt):
    return plan.make_plan(plan.PlanOptions.from_options(opt), Machine.from_options(opt))


def prepare(opt):
    return plan.prepare(plan.PlanOptions.from_options(opt), Machine.from_options(opt))


def plan_to_try(opt):
    options = plan.PlanOptions.from_options(opt)
    return trials.plan_to_try(options, Machine.from_options(opt))
