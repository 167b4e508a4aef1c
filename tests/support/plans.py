"""
Plans and runs from a command's options, as a command makes them. Imports no model's
library, so that runs with made-up dialogues do not.
"""

from parlai_ext.collect import plan
from parlai_ext.collect.options import PlanOptions
from parlai_ext.collect.plan import ResolvedProtocol, build_manifest
from parlai_ext.core import Opener, Protocol, System, content_id, options_from_opt
from parlai_ext.engines import Machine
from parlai_ext.isolation.policy import note_parts
from parlai_ext.store import RunFolder, pairings, system_part
from tests.support.on_cpu import CPU


def asked(opt):
    requested = plan.requested_protocol(PlanOptions.from_options(opt))
    return requested, options_from_opt(Machine, opt)


def make_plan(opt):
    return plan.make_plan(*asked(opt))


def prepare(opt):
    return plan.prepare(*asked(opt))


def plan_to_try(opt):
    return plan.plan_to_try(*asked(opt))


def says(name, text=None):
    """
    Return a system that says one thing, its name unless it is told another.
    """
    return System(name, {'model': 'fixed_response', 'fixed_response': text or name})


def collected(run, machine=CPU, **more):
    """
    Collect what a run lacks, and return the report.
    """
    from parlai_ext.collect.collect import collect

    with run.lock():
        return collect(run, machine, **more)


def some_openers(n):
    """
    Return ``n`` openers of two utterances.
    """
    from tests.support.tiny_models import sentences

    texts = sentences(20, 1)
    return [Opener.from_utterances(texts[2 * i :][:2], 'test') for i in range(n)]


def open_run(root, roster, openers, shard_size, /, *, batchsize=64, **keys):
    """
    Open (or extend) a run whose systems are known by their names alone.

    :param keys: those of the protocol, bipartite unless it says otherwise.
    """
    keys = {'name': 'test', 'num_dialogues': len(openers), **keys}
    protocol = Protocol(roster=roster, **keys)
    identities = {s.name: content_id(s.name) for s in roster.targets + roster.partners}
    pairs = pairings(roster, protocol.pairing, identities)
    resolved = ResolvedProtocol(protocol, identities)
    manifest = build_manifest(resolved, pairs, openers, shard_size, batchsize=batchsize)
    run = RunFolder.open(root, manifest)
    note_parts(run.manifest, [system_part(name) for name in identities])
    return run
