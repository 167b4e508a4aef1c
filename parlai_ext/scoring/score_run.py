"""
Scores dialogues, every shard that this scorer has not yet judged, and other items in
batches, such as those of judged sets.
"""

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import asdict, field, replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parlai_ext import zoo_configs
from parlai_ext.core import (
    GIVEN_JUDGED,
    Dialogue,
    JsonObject,
    Score,
    ScoredDialogue,
    System,
    UserError,
    chunks,
    content_id,
    frozen,
    mean,
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
from parlai_ext.scoring.base import (
    Items,
    ItemScore,
    Models,
    Scorer,
    ScoringItem,
    judged_indices,
    unscored_systems,
)
from parlai_ext.scoring.registry import (
    SCORERS,
    ScorerChoice,
    is_outside,
    load_protocol_file,
    scorer_class,
    scorer_section,
)
from parlai_ext.store import PartialWork, RunFolder, ScorerRecord, ShardKey, locked
from parlai_ext.systems.spending import spending_of
from parlai_ext.view.progress import Bar, bar_of

if TYPE_CHECKING:  # which the demo does not load
    from parlai_ext.data.judged import JudgedItem


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


# --- items outside of a run -----------------------------------------------------------
# Scores of items, worked out in batches, and those that were worked out before, by
# scorer signature and content of item.
#
# A batch reaches the disk before the next one is begun, so that a killed command loses
# one batch at most. No text of an item is in the file.

BATCH = 256  # items, at most, that a killed call has to score again
AHEAD = 1000  # batches, at most, that are scored before an earlier one is stored


def item_id(item: ScoringItem, company: str = '') -> str:
    """
    Return the id of an item, which depends on all that a scorer may see of it.

    :param company: stands for the other items, where a score depends on them.
    """
    return content_id(
        *('item', company) if company else ('item',),
        list(item.context),
        item.response,
        item.speaker,
        list(item.references),
        item.facts,
        list(item.persona),
        dict(item.extras),
    )


def stored_part(score: ItemScore, with_evidence: bool) -> ItemScore:
    """
    Return the part of a score that is stored.
    """
    return ItemScore(
        dict(score.values),
        {name: reason for name, reason in score.reasons.items() if reason},
        score.evidence if with_evidence else None,
        score.cut,
    )


class StoredScores:
    """
    The scores of one scorer signature, in a file if there is one.
    """

    def __init__(self, work: PartialWork | None = None):
        self.work = work
        batches = work.batches if work else {}
        self.scores = {one: ItemScore(*own) for one, own in batches.items()}

    def missing(self, ids: Iterable[str], with_evidence: bool = False) -> list[str]:
        """
        Return the different ids without a score, or without evidence, in order.
        """
        return [
            one
            for one in dict.fromkeys(ids)
            if one not in self.scores
            or (with_evidence and self.scores[one].evidence is None)
        ]

    def add(self, scores: Mapping[str, ItemScore]) -> None:
        """
        Store the scores of a batch.
        """
        self.scores |= scores
        if self.work is not None:
            for one, own in scores.items():
                self.work.put(one, [own.values, own.reasons, own.evidence, own.cut])
            self.work.save()


@contextmanager
def stored_scores(folder: Path | None, signature: str) -> Iterator[StoredScores]:
    """
    Let one process at a time read and add the scores of a signature.

    :param folder: where they are kept, so that a killed call goes on; `None`: nowhere.
    :raises UserError: when another one does.
    """
    if folder is None:
        yield StoredScores()
        return
    path = folder / f'{content_id("bench scores", signature)}.jsonl'
    with locked(path.with_suffix('.lock')):
        yield StoredScores(PartialWork(path, signature))


class ItemScorer(Worker):
    """
    Scores items by one scorer.

    :param with_evidence: the evidence behind the scores is wanted, too.
    """

    def __init__(self, scorer: Scorer, with_evidence: bool):
        self.scorer = scorer
        self.with_evidence = with_evidence

    def work(self, data: Mapping[str, ScoringItem], tell: Tell) -> dict[str, ItemScore]:
        """
        Return the scores of a batch of items, by id.
        """
        with self.scorer.models.changed(watch=Watch(tell)):
            scores = self.scorer.checked_scores(list(data.values()))
        return {
            one: stored_part(score, self.with_evidence)
            for one, score in zip(data, scores, strict=True)
        }


def item_scorer(
    section: JsonObject,
    machine: Machine | None,
    signature: str,
    with_evidence: bool,
    share: float,
) -> ItemScorer:
    """
    Return a worker of another process.

    :param section: of the scorer, whose signature must be this one.
    :param share: of the memory of its device; scorers ask for what is free.
    """
    scorer = scorer_elsewhere(ChosenScorer(section), machine)
    refuse_difference(f'scorer {scorer.name}', scorer.signature, signature)
    return ItemScorer(scorer, with_evidence)


@frozen
class ItemWork:
    """
    A scorer at work on items.

    :param bar: told of each item that is scored.
    :param section: of which a worker of another process builds the scorer; empty for an
        engine that starts none.
    :param engine: where items are scored.
    :param name: what error lines call the scorer, if not by its name.
    :param with_evidence: the evidence behind the scores is kept, too.
    """

    scorer: Scorer
    bar: Bar
    section: Mapping[str, Any] = field(default_factory=dict)
    machine: Machine | None = None
    engine: Engine = LOCAL
    name: str = ''
    with_evidence: bool = False

    def score_missing(
        self,
        store: StoredScores,
        items: Mapping[str, ScoringItem],
        size: int | None = None,
    ) -> None:
        """
        Score the items, by id, that a store lacks, and store each batch at once. The
        bar expects no others any more.

        :param size: of a batch, if not `BATCH`.
        """
        scorer, signature = self.scorer, self.scorer.signature
        missing = store.missing(items, self.with_evidence)
        self.bar.expect(len(missing) - len(items))
        if not missing:
            return
        job = Job(
            here=lambda: ItemScorer(scorer, self.with_evidence),
            elsewhere=partial(
                item_scorer, self.section, self.machine, signature, self.with_evidence
            ),
            steps='inputs read',
            key=content_id('bench', signature, self.with_evidence),
            lookahead=AHEAD,
        )
        batches = list(chunks(missing, size or BATCH))
        tasks = [
            Task(
                f'batch {n} of {len(batches)} by {self.name or scorer.name}',
                {one: items[one] for one in batch},
                len(batch),
            )
            for n, batch in enumerate(batches)
        ]
        with closing(self.engine.run(job, tasks, self.bar)) as finished:
            for _, scores in finished:
                store.add(scores)


def score_items(
    scorer: Scorer, items: Items, folder: Path | None, bar: Bar
) -> list[ItemScore]:
    """
    Return the scores of items, in order; equal items are scored once, and the bar does
    not expect the others.

    :param folder: as for `stored_scores`.
    """
    ids = [item_id(item) for item in items]
    # equal contexts are read together
    pairs = sorted(zip(ids, items, strict=True), key=lambda one: one[1].context)
    different = dict(pairs)
    bar.expect(len(different) - len(items))
    with stored_scores(folder, scorer.signature) as store:
        ItemWork(scorer, bar).score_missing(store, different)
        return [store.scores[one] for one in ids]


# --- judged items ---------------------------------------------------------------------
# What a scorer is given for one judged item: the rule of `eval_model` and of
# `run_bench`.

AUTO, WHOLE, ALL = 'auto', 'whole', 'all'


def judged_scoring_items(
    item: 'JudgedItem',
    scorer: Scorer,
    turns: str = AUTO,
    most: int | None = None,
    seed: int = 0,
) -> list[ScoringItem]:
    """
    Return the items to score for one judged turn or dialogue; its score is the mean of
    theirs.

    A scorer of dialogues is given a dialogue whole, with no response, and so a judged
    turn with all before it, unless it can judge single responses. A scorer of turns
    is given its last utterance after all others, or turns of the judged speaker.

    :param turns: how a scorer of turns judges a dialogue: ``whole``; ``all``: by turns;
        or ``auto``: whole if it can judge whole dialogues, else by turns.
    :param most: the most turns that are drawn where it judges by turns; `None`: all.
    """
    if item.response is not None and level_of_turns(scorer) == 'turn':
        return [_scoring_item(item, item.context, item.response)]
    if scorer.level == 'dialogue':
        return [_scoring_item(item, item.utterances, None)]
    if turns == WHOLE or (turns == AUTO and scorer.also_level == 'dialogue'):
        return [_scoring_item(item, item.context[:-1], item.context[-1])]
    return [
        _scoring_item(turn, turn.context, turn.response)
        for turn in item.turns(most, seed)
    ]


def mean_score(scores: Sequence[ItemScore], dimensions: Sequence[str]) -> ItemScore:
    """
    Return the mean of the scores of one judged item in each dimension, over those that
    have a value; or the first reason why none has one.
    """
    values = {}
    reasons = {}
    for name in dimensions:
        numbers = [
            value for score in scores if (value := score.values.get(name)) is not None
        ]
        values[name] = mean(numbers)
        if not numbers:
            told = (score.reasons.get(name) for score in scores)
            reasons[name] = next(
                filter(None, told), 'the dialogue has no turn of the judged speaker'
            )
    return ItemScore(values, reasons, cut=sum(score.cut for score in scores))


def level_of_turns(scorer: Scorer) -> str:
    """
    Return as what a scorer is given a judged turn: ``turn``, or ``dialogue`` if it sees
    only the dialogue up to it.
    """
    whole = (scorer.level, scorer.also_level) == ('dialogue', None)
    return 'dialogue' if whole else 'turn'


def _scoring_item(
    item: 'JudgedItem', context: tuple[str, ...], response: str | None
) -> ScoringItem:
    return ScoringItem(
        context,
        response,
        item.system,
        item.references,
        item.facts,
        item.persona,
        {'speakers': item.speakers} if item.speakers else {},
    )
