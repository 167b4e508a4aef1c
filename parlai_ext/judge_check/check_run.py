"""
The check of the judge of a scored run: done once, resumed when killed, renewed when the
run has grown.
"""

from collections.abc import Mapping
from dataclasses import replace
from typing import Any

from parlai_ext.core.nouns import System, content_id
from parlai_ext.judge_check.check import VERSION, check_judge, is_prompted
from parlai_ext.judge_check.record import (
    SAMPLE,
    JudgeCheck,
    PromptProbes,
    check_basis,
    read_check,
    remove_check,
    write_check,
)
from parlai_ext.judge_check.sample import JudgedDialogues
from parlai_ext.models.handle import model_system
from parlai_ext.models.watch import Kept
from parlai_ext.scoring.base import Scorer
from parlai_ext.scoring.score_run import score_signature
from parlai_ext.store import RunFolder, ScoreStore
from parlai_ext.store.partial import PartialWork
from parlai_ext.systems.model_origin import model_origin

PARTS = 'judge_check.partial'
ASKED = ('likelihood', 'chat')  # the kinds of models that are prompted


def check_run(
    run: RunFolder,
    scorer: Scorer,
    *,
    sample: int = SAMPLE,
    include_given: bool = False,
) -> JudgeCheck | None:
    """
    Check the judge of a scored run, and write the result beside its scores.

    A check that is there stays if nothing it rests on has changed.

    :param sample: responses at most; 0 leaves the check out and removes an old one that
        rests on other dialogues.
    :returns: the check; `None` where there is nothing to check.
    """
    store = run.scores(score_signature(scorer, include_given))
    basis = basis_of(run, store, sample)
    kept = PartialWork(store.root / PARTS, basis)
    if check_basis(store) == basis:
        kept.remove()  # a kill may have come between the check and this
        return read_check(store)
    if sample == 0:
        kept.remove()
        remove_check(store)
        return None
    ranked = {name: run.manifest.systems[name] for name in run.manifest.targets}
    families = own_family(scorer, ranked) if is_prompted(scorer) else {}
    with kept.saved_at_exit():
        check = make_check(run, scorer, store, sample, families, kept)
    if check is None:
        remove_check(store)
        return None
    write_check(store, check, basis)
    kept.remove()
    return check


def make_check(
    run: RunFolder,
    scorer: Scorer,
    store: ScoreStore,
    sample: int,
    families: Mapping[str, str],
    kept: Kept | None = None,
) -> JudgeCheck | None:
    """
    Return the check of the judge behind these scores of a run; nothing is written but
    what ``kept`` keeps.

    :param families: the ranked systems of the judge's family of models (`own_family`).
    :returns: `None` where there is nothing to check.
    """
    check = check_judge(
        scorer,
        JudgedDialogues(store.scored_dialogues(), run.openers, sample),
        people_source=run.manifest.protocol.openers,
        kept=kept,
    )
    if check is None or check.probes is None:
        return check and replace(check, signature=store.signature)
    identities = {n: own.identity for n, own in run.manifest.targets.items()}
    probes = with_kin(check.probes, scorer.signature, identities, families)
    return replace(check, signature=store.signature, probes=probes)


def with_kin(
    probes: PromptProbes,
    signature: str,
    identities: Mapping[str, str],
    families: Mapping[str, str],
) -> PromptProbes:
    """
    Return the probes of a judge with the systems that are its own model, and others of
    its family.

    :param identities: of the ranked systems' models.
    :param families: the ranked systems of the judge's family (`own_family`).
    """
    same = tuple(name for name, one in sorted(identities.items()) if one in signature)
    others = {name: why for name, why in families.items() if name not in same}
    return replace(probes, same_model=same, same_family=others)


def basis_of(run: RunFolder, store: ScoreStore, sample: int) -> str:
    """
    Return the hash of what a check with a sample of this size rests on: the scored
    shards and people's replies.
    """
    shards = [
        [shard.pairing_id, shard.index, run.dialogues_checksum(shard)]
        for shard in run.dialogue_shards()
        if store.has(shard)
    ]
    replies = [opener.reply for opener in run.openers]
    return content_id('judge check', VERSION, sample, [replies, *shards])


def own_family(
    scorer: Scorer, systems: Mapping[str, Mapping[str, Any]]
) -> dict[str, str]:
    """
    Return the systems that are of the family of a model inside the scorer, each with
    what the two have in common: such judges tend to like what their own kind writes
    (Panickssery et al. 2024, "LLM Evaluators Recognize and Favor Their Own
    Generations").

    :param systems: the options of the ranked systems, by name.
    """
    judges = [
        model_origin(model_system(kind, name))
        for kind, name in scorer.models.loaded
        if kind in ASKED
    ]
    likenesses = {}
    for name, opt in sorted(systems.items()):
        origin = model_origin(System(name, opt))
        common = [likeness for j in judges if (likeness := j.likeness(origin))]
        if common:
            likenesses[name] = common[0]
    return likenesses
