"""
From dialogues to scores: every shard that this scorer has not yet judged.
"""

from collections import Counter
from collections.abc import Collection, Sequence
from contextlib import closing
from dataclasses import asdict, field, replace
from functools import partial

from parlai_ext import zoo_configs
from parlai_ext.core import (
    GIVEN_JUDGED,
    Dialogue,
    JsonObject,
    Score,
    ScoredDialogue,
    System,
    UserError,
    content_id,
    frozen,
    nearest,
    options_from_opt,
)
from parlai_ext.engines import Machine, use_data_folder
from parlai_ext.engines.engine import (
    LOCAL,
    Engine,
    Job,
    Task,
    Tell,
    Worker,
    refuse_difference,
    wait_for_files,
)
from parlai_ext.isolation.policy import (
    CONFIG,
    note_parts,
    note_trust,
    require_named_options,
)
from parlai_ext.models.handle import ModelHandle, check_model, model_system
from parlai_ext.models.watch import Watch
from parlai_ext.scoring.base import Models, Scorer, judged_indices, unscored_systems
from parlai_ext.scoring.registry import (
    SCORERS,
    ScorerChoice,
    is_outside,
    load_protocol_file,
    scorer_class,
    scorer_section,
)
from parlai_ext.store import RunFolder, ScorerRecord, ShardKey
from parlai_ext.systems.spending import spending_of
from parlai_ext.view.progress import bar_of


@frozen
class ScoreReport:
    """
    What was there to score, and what had to be done.

    `signature` names the scores in the run folder (`run.scores(signature)`);
    `n_utterances`, `n_truncated` (utterances whose context was too long for the judge)
    and `reasons` (how many scores are `None`, by why) count this call's work.
    """

    signature: str
    n_shards: int
    n_shards_scored: int = 0
    n_dialogues: int = 0
    n_utterances: int = 0
    n_truncated: int = 0
    reasons: Counter[str | None] = field(default_factory=Counter)

    @property
    def n_unscored(self) -> int:
        """
        How many scores are `None`.
        """
        return self.reasons.total()


@frozen
class ChosenScorer:
    """
    The ``scorer:`` section for a run, and the ranking rule that goes with it, if that
    is not the protocol's.

    :param named_by_user: the user named all of the section: code from outside the
        package may be imported, and servers may be asked.
    """

    section: JsonObject
    ranking: JsonObject = field(default_factory=dict)
    named_by_user: bool = True

    def prepared(self, models: Models | None = None) -> Scorer:
        """
        Return the scorer, no model loaded: it knows its dimensions.

        :raises UserError: for an unknown name or key, or a file that is not there.
        """
        if not self.named_by_user:
            require_named_scorer(self.section)
        cls = scorer_class(self.section, named_by_user=self.named_by_user)
        return cls.from_section(self.section, models)

    def build(
        self, machine: Machine | None = None, for_dialogues: bool = False
    ) -> Scorer:
        """
        Return the scorer with its models loaded.

        :param machine: its `batchsize` counts rows of `engines.machine.TOKENS_A_ROW`
            tokens; of shorter ones, more go through a model together.
        :param for_dialogues: refuse a scorer that judges none.
        :raises UserError: names the key that is wrong.
        """
        scorer = self.prepared(ModelHandle(machine))
        if for_dialogues:
            scorer.require_dialogues()
        _ = scorer.signature  # loads them
        return scorer

    def model_systems(self) -> list[System]:
        """
        Return the models of the scorer, as systems.
        """
        named = self.prepared().named_models()
        return [model_system(kind, name) for kind, name in named]

    def check(self) -> None:
        """
        Refuse a scorer that could not be built, or judges no dialogues: asked before
        days of dialogues, not after them. Its models are fetched and not loaded.

        :raises UserError: for what building it would raise: an unknown name, key or set
            of follow-ups, a model that is not there or cannot be downloaded.
        """
        scorer = self.prepared()
        scorer.require_dialogues()
        with scorer.naming_another():
            for kind, name in scorer.named_models():
                check_model(kind, name)


def choose_scorer(
    recorded: JsonObject,
    opt: JsonObject,
    *,
    named_by_user: bool = False,
    name_is_given: bool = False,
) -> ChosenScorer:
    """
    Return the scorer that the command line asks for: that of ``--scorer`` (a scorer, or
    a protocol), else the recorded one. Scorer options on the command line replace those
    of its section.

    :param recorded: the ``scorer:`` section of the run, or of the user's protocol.
    :param named_by_user: the recorded section is from a file that the user passes, or
        this user made the record; it may then name a scorer from outside the package.
    :param name_is_given: the user gave the name of the recorded scorer, and no more.
    :raises UserError: when the record names a judge that only its user may name.
    """
    wanted = options_from_opt(ScorerChoice, opt).scorer
    ranking: JsonObject = {}
    if wanted is None:
        section = recorded
    elif wanted in SCORERS or is_outside(wanted):
        section = {'name': wanted}
    else:
        try:
            protocol = load_protocol_file(wanted).protocol
        except UserError as error:
            if not str(error).startswith('no protocol'):
                raise
            known = [*SCORERS, *zoo_configs.names('protocols')]
            raise UserError(
                f'--scorer {wanted!r}: no scorer (nor my_module:MyScorer), and no '
                f'protocol of this name; {nearest(wanted, known)}'
            ) from None
        section, ranking = protocol.scorer, protocol.ranking
    named = named_by_user or wanted is not None
    merged = scorer_section(section, opt, named_by_user=named or name_is_given)
    if not named:
        bare = {'name': section.get('name')}
        given = scorer_section(bare, opt, named_by_user=name_is_given)
        if not name_is_given:
            del given['name']
        require_named_scorer(merged, given)
    return ChosenScorer(merged, ranking)


def require_named_scorer(section: JsonObject, given: JsonObject | None = None) -> None:
    """
    Refuse the scorer of a recorded ``scorer:`` section if it is code from outside the
    package, or if a model in it would run code, ask a server or send a key.

    :param given: values of the section that the user gave in this command.
    :raises UserError: naming the value, and how the user may name it.
    """
    given = given or {}
    cls = scorer_class(section, named_by_user='name' in given)
    if is_outside(str(section.get('name'))):
        # only a scorer's author knows what its own options are for
        rest = {k: v for k, v in section.items() if k not in given}
        require_named_options(f'scorer {section.get("name")}', rest)
    for kind, name in cls.from_section(section, None).named_models():
        if name not in given.values():
            require_named_options(f'judge {name!r:.200}', model_system(kind, name).opt)


def score_signature(scorer: Scorer, include_given: bool) -> str:
    """
    Return the name of a scorer's scores; judging given utterances makes other scores.
    """
    return scorer.signature + (GIVEN_JUDGED if include_given else '')


def score_run(
    run: RunFolder,
    scorer: Scorer,
    chosen: ChosenScorer | None = None,
    *,
    include_given: bool = False,
    engine: Engine = LOCAL,
    machine: Machine | None = None,
) -> ScoreReport:
    """
    Score the shards that are not scored, each by itself; a killed run goes on where it
    was. What models have answered is kept beside a shard until it is written.

    :param chosen: what made the scorer; written beside its scores, by which
        `choose_scores` finds the protocol's own. If the user named it, that is noted,
        so that an audit may build it again.
    :param include_given: score given utterances (an opener's) too.
    :param engine: where shards are scored; other processes build the scorer anew.
    """
    chosen = chosen or ChosenScorer({}, named_by_user=False)
    signature = score_signature(scorer, include_given)
    store = run.scores(signature)
    shards = run.dialogue_shards()
    todo = [s for s in shards if not store.has(s)]
    counts, reasons = Counter[str](), Counter[str | None]()
    store.remove_partial()
    job = scoring_job(run, scorer, chosen, include_given, machine)
    tasks = [
        Task(f'scores of {s.pairing_id}, shard {s.index}', s, s.n_dialogues)
        for s in todo
    ]
    with (
        bar_of('score', sum(s.n_dialogues for s in todo)) as bar,
        closing(engine.run(job, tasks, bar)) as finished,
    ):
        for task, (of_shard, why) in finished:
            wait_for_files([store.path(task.data)])
            counts.update(of_shard)
            reasons.update(why)
    if shards:
        store.write_about(scorer_record(scorer, signature, chosen))
        if chosen.named_by_user:
            note_parts(store.about(), [CONFIG])
    return ScoreReport(signature, len(shards), **counts, reasons=reasons)


def scoring_job(
    run: RunFolder,
    scorer: Scorer,
    chosen: ChosenScorer,
    include_given: bool,
    machine: Machine | None,
) -> Job:
    """
    Return the job of scoring shards, in this process or in others.
    """
    folder, there = str(run.root.resolve()), run.manifest.digest
    signature = score_signature(scorer, include_given)
    return Job(
        here=lambda: ShardScorer(run, scorer, include_given),
        elsewhere=partial(
            shard_scorer, folder, there, chosen, machine, include_given, signature
        ),
        steps='inputs read',
        key=content_id('score', folder, there, signature),
        small=_is_small(scorer, chosen.section, machine),
    )


def _is_small(scorer: Scorer, config: JsonObject, machine: Machine | None) -> bool:
    """
    True if each core may score with models of its own, unasked.
    """
    if machine is None or not config or is_outside(str(config.get('name'))):
        return False
    models = [model_system(kind, name) for kind, name in scorer.named_models()]
    if not models:
        return True
    from parlai_ext.systems.model_cache import are_small  # imports torch

    return are_small(models, machine)


def scorer_record(scorer: Scorer, signature: str, chosen: ChosenScorer) -> ScorerRecord:
    """
    Return what is written beside scores about the scorer that made them.
    """
    return ScorerRecord.model_validate(
        {
            'signature': signature,
            'dimensions': tuple(scorer.dimensions),
            'evidence_labels': scorer.evidence_labels,
            'unit': scorer.unit,
            **scorer.evidence_record,
            'config': chosen.section,
            'given': signature.endswith(GIVEN_JUDGED),
            'models': scorer.models_used(),
            **({'ranking': chosen.ranking} if chosen.ranking else {}),
            **({'code': asdict(scorer.code)} if scorer.code is not None else {}),
        }
    )


class ShardScorer(Worker):
    """
    Scores shards of a run, and writes the scores of each.
    """

    def __init__(self, run: RunFolder, scorer: Scorer, include_given: bool):
        self.run = run
        self.scorer = scorer
        self.include_given = include_given
        self.store = run.scores(score_signature(scorer, include_given))

    def work(
        self, data: ShardKey, tell: Tell
    ) -> tuple[dict[str, int], Counter[str | None]]:
        """
        Score a shard; return what was scored, counted as `ScoreReport` counts, and why
        scores are missing.
        """
        dialogues, manifest = self.run.read_dialogues(data), self.run.manifest
        partial = self.store.partial(data)
        watch = Watch(tell, partial)
        with self.scorer.models.changed(watch=watch), partial.saved_at_exit():
            scored = score_dialogues(
                dialogues,
                self.scorer,
                manifest.first_only,
                self.include_given,
                people=manifest.people,
            )
        self.store.write(data, scored)
        partial.remove()
        scores = [score for dialogue in scored for score in dialogue.scores]
        judged = {(s.dialogue_id, s.utterance_index) for s in scores}
        counts = {
            'n_shards_scored': 1,
            'n_dialogues': len(scored),
            'n_utterances': sum(index is not None for _, index in judged),
            'n_truncated': sum(len(dialogue.truncated) for dialogue in scored),
        }
        return counts, Counter(s.reason for s in scores if s.value is None)


def shard_scorer(
    run_dir: str,
    manifest: str,
    chosen: ChosenScorer,
    machine: Machine | None,
    include_given: bool,
    signature: str,
    share: float,
) -> ShardScorer:
    """
    Return the worker of another process.

    :param manifest: the digest of the run's manifest.
    :param signature: of the scores.
    :param share: of the memory of its device; judges ask for what is free.
    """
    run = RunFolder.existing(run_dir)
    refuse_difference(f'{run_dir}/manifest.json', run.manifest.digest, manifest)
    worker = ShardScorer(run, scorer_elsewhere(chosen, machine), include_given)
    refuse_difference('the scorer', worker.store.signature, signature)
    return worker


def scorer_elsewhere(chosen: ChosenScorer, machine: Machine | None) -> Scorer:
    """
    Return the scorer of another process, its models loaded.
    """
    machine = machine or Machine()
    use_data_folder(machine.datapath)
    note_trust(machine.trust_model_code, on_disk=False)
    return chosen.build(machine)


def score_dialogues(
    dialogues: Sequence[Dialogue],
    scorer: Scorer,
    first_speaker_only: bool,
    include_given: bool = False,
    people: Collection[str] = (),
) -> list[ScoredDialogue]:
    """
    Score what is judged of each dialogue, and say of which system nothing is, and why.

    :param people: speakers who get no scores.
    """
    choice = (first_speaker_only, include_given)
    indices = [judged_indices(dialogue, *choice) for dialogue in dialogues]
    given = scorer.score_dialogues(dialogues, indices)
    scored = []
    for dialogue, one in zip(dialogues, given, strict=True):
        missing = [
            Score(dialogue.id, None, system, dimension, None, reason)
            for system, reason in unscored_systems(dialogue, *choice).items()
            for dimension in scorer.dimensions
        ]
        every = (*one.scores, *missing)
        judged = tuple(score for score in every if score.system not in people)
        scored.append(replace(one, scores=judged))
    return scored


def spending_lines(scorer: Scorer) -> list[str]:
    """
    Return what was asked of each endpoint inside a scorer by this process, and what
    that cost, as lines of text.
    """
    from parlai_ext.models.handle import ENDPOINTS

    lines = []
    for (kind, name), model in scorer.models.loaded.items():
        spent = spending_of(model)
        if spent is None or not name.startswith(ENDPOINTS):
            continue
        cost = '' if spent['cost'] is None else f', ${spent["cost"]:.4g}'
        lines.append(
            f'{kind} {name.partition(",")[0]}: {spent["requests"]:,} requests, '
            f'{spent["cached"]:,} replies from the cache, {spent["prompt_tokens"]:,} + '
            f'{spent["completion_tokens"]:,} tokens{cost}'
        )
    return lines
