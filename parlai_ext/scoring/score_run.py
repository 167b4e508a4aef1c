"""
From dialogues to scores: every shard that this scorer has not yet judged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from tqdm import tqdm

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue, Score, ScoredDialogue, Scorer
from parlai_ext.core.options import machine_options
from parlai_ext.core.progress import bar_of
from parlai_ext.core.protocol import Protocol
from parlai_ext.files.protocol_file import load_protocol
from parlai_ext.scoring.judged_utterances import judged_indices, unscored_systems
from parlai_ext.scoring.registry import SCORERS, find_scorer
from parlai_ext.store import RunFolder, imported

# options of the command line that replace a key of the protocol's `scorer:`
OVERRIDES = {
    'judge_model_file': 'judge_model_file',
    'followups': 'followups',
    'fed_variant': 'variant',
    'fed_scope': 'scope',
    'fed_polarity': 'polarity',
    'fed_tokens': 'token_reduction',
    'fed_followups_reduction': 'followup_reduction',
}
CONTEXT = 256


@dataclass(frozen=True)
class ScoreReport:
    """
    What was there to score, and what had to be done.

    `signature` names the scores in the run folder (`run.scores(signature)`);
    `n_utterances`, `n_unscored` (scores that are `None`) and `n_truncated` (utterances
    whose context was too long for the judge) count this call's work.
    """

    signature: str
    n_shards: int
    n_shards_scored: int
    n_dialogues: int
    n_utterances: int
    n_unscored: int
    n_truncated: int = 0


def build_scorer(
    config: Mapping[str, Any],
    *,
    datapath: str | None = None,
    no_cuda: bool = False,
    fp16: bool | None = None,
    batchsize: int = 64,
) -> Scorer:
    """
    Return the scorer that a protocol's ``scorer:`` section asks for, its judge loaded.

    :param batchsize: contexts of `CONTEXT` tokens that the judge has room for at once;
        of shorter ones, more go through it together.
    """

    def judge(model_file: str) -> Any:
        from parlai_ext.models.parlai_likelihood import load_judge

        return load_judge(
            model_file,
            datapath=datapath,
            no_cuda=no_cuda,
            fp16=fp16,
            tokens=batchsize * CONTEXT,
        )

    kind = find_scorer(config.get('name') or 'fed')
    scorer: Scorer = kind.from_config(config, judge, datapath)
    return scorer


def scorer_config(section: Mapping[str, Any], opt: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return a protocol's ``scorer:`` section with the given options in their places.
    """
    given = {
        key: opt[option]
        for option, key in OVERRIDES.items()
        if opt.get(option) is not None
    }
    return {**section, **given}


def section_of_run(run: RunFolder, opt: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the ``scorer:`` section for a run: its protocol's, that of another protocol
    (``--scorer NAME``), or that of a scorer with what it does by default.
    """
    wanted = opt.get('scorer')
    if wanted is None:
        section = run.manifest['protocol'].get('scorer') or {}
    elif wanted in SCORERS:
        section = {'name': wanted}
    else:
        section = scorer_protocol(wanted).scorer
    return scorer_config(section, opt)


def scorer_protocol(wanted: str) -> Protocol:
    """
    Return the protocol that ``--scorer`` names.
    """
    try:
        return load_protocol(wanted)
    except UserError as e:
        if not str(e).startswith('no protocol'):
            raise
        known = ', '.join(SCORERS)
        raise UserError(f'--scorer {wanted!r}: no scorer ({known}); {e}') from None


def ranking_of(opt: Mapping[str, Any]) -> Mapping[str, Any]:
    """
    Return the ``ranking:`` section that goes with ``--scorer PROTOCOL``.
    """
    wanted = opt.get('scorer')
    return (
        {} if wanted is None or wanted in SCORERS else scorer_protocol(wanted).ranking
    )


def scorer_of_run(run: RunFolder, opt: Mapping[str, Any]) -> Scorer:
    """
    Return the scorer of the run's protocol, as far as the options do not replace it.
    """
    return scorer_of(section_of_run(run, opt), opt)


def scorer_of(section: Mapping[str, Any], opt: Mapping[str, Any]) -> Scorer:
    """
    Return the scorer of a ``scorer:`` section, where and as fast as the options say.
    """
    size = opt.get('batchsize') or 64
    return build_scorer(section, **machine_options(opt), batchsize=size)


def score_signature(scorer: Scorer, include_given: bool = False) -> str:
    """
    Return the name of a scorer's scores; judging given utterances makes other scores.
    """
    return scorer.signature + ('|given:judged' if include_given else '')


def score_run(
    run: RunFolder,
    scorer: Scorer,
    *,
    include_given: bool = False,
    progress: bool = True,
    config: Mapping[str, Any] | None = None,
    ranking: Mapping[str, Any] | None = None,
) -> ScoreReport:
    """
    Score the shards that are not scored; a killed run goes on with the next one.

    A shard is scored in one go, so that what else there is to do changes no number.

    :param config: the ``scorer:`` section that made the scorer, written down beside its
        scores; the protocol's own scorer is known by it.
    :param ranking: the rule by which these scores rank, if not the protocol's.
    """
    first_speaker_only = run.manifest['protocol'].get('score') != 'both'
    signature = score_signature(scorer, include_given)
    store = run.scores(signature)
    shards = run.dialogue_shards()
    todo = [s for s in shards if not store.has(s.pairing_id, s.index)]
    report = ScoreReport(signature, len(shards), 0, 0, 0, 0)
    n_todo = sum(s.n_dialogues for s in todo)
    with bar_of('score', n_todo, progress) as bar:
        watch(scorer, bar)
        for shard in todo:
            dialogues = run.read_dialogues(shard.pairing_id, shard.index)
            scored = score_dialogues(
                dialogues, scorer, first_speaker_only, include_given
            )
            scored = imported.without_people(run.manifest, scored)
            store.write(shard.pairing_id, shard.index, scored)
            report = counted(report, scored)
            bar.update(len(dialogues))
    if shards:
        store.write_about(
            {
                'signature': signature,
                'dimensions': list(scorer.dimensions),
                'evidence_labels': list(scorer.evidence_labels),
                'config': dict(config or {}),
                'given': include_given,
                **({'ranking': dict(ranking)} if ranking else {}),
            }
        )
    return report


def watch(scorer: Scorer, bar: tqdm[Any]) -> None:
    """
    Let the bar tell how much of a shard a model has read; a large one takes minutes.
    """
    likelihood: Any = getattr(scorer, 'likelihood', None)
    if likelihood is None or not hasattr(likelihood, 'progress'):
        return
    read = 0

    def tell(n: int) -> None:
        nonlocal read
        read += n
        bar.set_postfix_str(f'{read} contexts read', refresh=False)
        bar.update(0)

    likelihood.progress = tell


def score_dialogues(
    dialogues: Sequence[Dialogue],
    scorer: Scorer,
    first_speaker_only: bool,
    include_given: bool = False,
) -> list[ScoredDialogue]:
    """
    Score what is judged of each dialogue, and say of which system nothing is, and why.
    """
    choice = (first_speaker_only, include_given)
    indices = [judged_indices(dialogue, *choice) for dialogue in dialogues]
    found = []
    for dialogue, scored in zip(
        dialogues, scorer.score(dialogues, indices), strict=True
    ):
        missing = tuple(
            Score(dialogue.id, None, system, dimension, None, reason)
            for system, reason in unscored_systems(dialogue, *choice).items()
            for dimension in scorer.dimensions
        )
        found.append(replace(scored, scores=scored.scores + missing))
    return found


def counted(report: ScoreReport, scored: Sequence[ScoredDialogue]) -> ScoreReport:
    """
    Return the report with one more shard in it.
    """
    scores = [score for one in scored for score in one.scores]
    judged = {(s.dialogue_id, s.utterance_index) for s in scores}
    return replace(
        report,
        n_shards_scored=report.n_shards_scored + 1,
        n_dialogues=report.n_dialogues + len(scored),
        n_utterances=report.n_utterances
        + sum(index is not None for _, index in judged),
        n_unscored=report.n_unscored + sum(s.value is None for s in scores),
        n_truncated=report.n_truncated + sum(len(one.truncated) for one in scored),
    )
