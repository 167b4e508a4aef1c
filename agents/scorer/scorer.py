"""
A scorer for ParlAI's own commands:
`parlai eval_model -m ext:scorer --scorer fed -t ext:dialogues --run-dir RUN`.
"""

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.core.metrics import AverageMetric, Metric, SumMetric
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.utils import logging

from parlai_ext.core import (
    Flags,
    JsonObject,
    UserError,
    add_declared,
    options_from_opt,
    whole_characters,
)
from parlai_ext.data.judged import JudgedItem
from parlai_ext.engines import Machine
from parlai_ext.isolation.policy import is_own_scorer
from parlai_ext.judge_check.check import check_items
from parlai_ext.judge_check.record import CheckOptions, JudgeCheck
from parlai_ext.scoring.base import (
    WHOLE_SETS,
    ItemScore,
    Scorer,
    ScoringItem,
    in_groups,
)
from parlai_ext.scoring.registry import DEFAULT, SCORERS, ScorerChoice, find_scorer
from parlai_ext.scoring.score_run import (
    choose_scorer,
    judged_scoring_items,
    level_of_turns,
    mean_score,
    spending_lines,
)
from parlai_ext.store import RunFolder

BATCH = 64  # contexts, at least, for which a model has room at once


class ScorerAgent(Agent):
    """
    Observes an utterance as ``text`` and the earlier ones in ``context``; acts its
    ``scores`` by dimension.

    Where a task knows them, a message also has ``speaker``, ``later`` utterances,
    ``speakers`` of all utterances, ``references``, ``facts``, ``persona`` and the
    ``other`` response that a scorer of pairs compares it with. An act's
    ``reason`` says why a dimension has no value, ``num_truncated`` how many tokens no
    model saw.

    :cvar scorer_name: the scorer of an agent that stands for one.
    """

    scorer_name: str | None = None
    is_scorer = True  # a roster may not name it: it does not talk

    @classmethod
    def add_cmdline_args(
        cls, parser: ParlaiParser, partial_opt: Opt | None = None
    ) -> ParlaiParser:
        """
        Add the scorer's name and options, and where its models run.
        """
        group = parser.add_argument_group('Scorer Agent')
        declares: list[type | Flags] = [ScorerChoice]
        if cls.scorer_name is not None:
            kind = find_scorer(cls.scorer_name)
            declares = [
                Flags(kind.options_class, prefix=kind.name, not_given=True),
                Flags(ScorerChoice, only=('--scorer-option',)),
            ]
        add_declared(group, [*declares, CheckOptions])
        Flags(Machine, only=('--no-cuda', '--fp16')).add_to(parser)
        return parser

    def __init__(self, opt: Opt, shared: Any = None):
        super().__init__(opt, shared)
        self.id = self.scorer_name or 'Scorer'
        self.judged: dict[int, list[tuple[ScoringItem, ItemScore]]] = {}
        self.check_metrics: dict[str, Metric] = {}
        if shared:
            self.scorer = shared['scorer']

    @cached_property
    def scorer(self) -> Scorer:
        """
        The scorer that the user names, with the judge and the other options of the run
        that is judged, if the run's own scorer is of that name.

        ParlAI makes agents before tasks: models, which may be large, are loaded after
        the task has read its files.
        """
        rows = max(BATCH, self.opt.get('batchsize') or 1)
        machine = options_from_opt(Machine, {**self.opt, 'batchsize': rows})
        wanted = self.scorer_name or self.opt.get('scorer')
        recorded, is_own = recorded_scorer(self.opt.get('run_dir'))
        if wanted is None and not recorded:
            raise UserError(
                f'--scorer is needed: {", ".join(SCORERS)} or my_module:MyScorer'
            )
        other = None if wanted == recorded.get('name') else wanted
        scorer = choose_scorer(
            recorded,
            {**self.opt, 'scorer': other},
            named_by_user=is_own,
            name_is_given=wanted is not None,
        ).build(machine)
        if scorer.compares_items:  # it is given batches
            raise UserError(f'scorer {scorer.name}: {WHOLE_SETS}')
        logging.info(f'scorer {scorer.signature}')
        return scorer

    def share(self) -> dict[str, object]:
        """
        Clones have one scorer.
        """
        return {**super().share(), 'scorer': self.scorer}

    def act(self) -> Message:
        """
        Judge what was observed last.
        """
        return self.batch_act([self.observation])[0]

    def report(self) -> dict[str, Metric]:
        """
        Return the check of the judge, once all items of a judged set are scored.
        """
        return dict(self.check_metrics)

    def reset(self) -> None:
        """
        Forget the judged set; another one may come.
        """
        super().reset()
        self.judged, self.check_metrics = {}, {}

    def _check_at_end(
        self, message: Message, parts: Sequence[tuple[ScoringItem, ItemScore]]
    ) -> None:
        """
        Keep the scores of a judged set's item; check the judge when all are there.
        """
        if not message.get('num_items'):
            return  # not a judged set
        self.judged[message['item']] = list(parts)
        if len(self.judged) < message['num_items']:
            return
        sample = options_from_opt(CheckOptions, self.opt).check_sample
        judged = [
            part for number in sorted(self.judged) for part in self.judged[number]
        ]
        self.judged = {}
        if not judged:
            return
        check = check_items(self.scorer, *zip(*judged, strict=True), sample=sample)
        if check is not None:
            self.check_metrics = check_metrics(check)
            from parlai_ext.report.judge import check_lines

            for line in check_lines(check):
                logging.info(line)
        for line in spending_lines(self.scorer):
            logging.info(line)

    def batch_act(self, observations: list[Message]) -> list[Message]:
        """
        Judge all observations together; padding gets no scores. The score of a dialogue
        that was cut into turns is the mean of theirs. A missing score has its reason in
        the act; metrics count it instead of averaging it.
        """
        acts = [Message(id=self.id, episode_done=False) for _ in observations]
        judged = [
            (act, seen, scoring_items(seen, self.scorer))
            for act, seen in zip(acts, observations, strict=True)
            if seen and not seen.is_padding() and seen.get('text') is not None
        ]
        scores = in_groups(self.scorer.checked_scores, [items for *_, items in judged])
        for (act, seen, items), of_items in zip(judged, scores, strict=True):
            score = mean_score(of_items, self.scorer.dimensions)
            metrics: dict[str, Metric] = {'cut_contexts': SumMetric(int(score.cut > 0))}
            for name, value in score.values.items():
                if value is None:
                    metrics[f'{name}_unscored'] = SumMetric(1)
                else:
                    metrics[name] = AverageMetric(value)
            reasons = [f'{name}: {why}' for name, why in score.reasons.items()]
            act['scores'] = dict(score.values)
            act['reason'] = '; '.join(reasons) or None
            act['num_truncated'], act['metrics'] = score.cut, metrics
            self._check_at_end(seen, list(zip(items, of_items, strict=True)))
        return acts


def recorded_scorer(run_dir: str | None) -> tuple[JsonObject, bool]:
    """
    Return how a run is scored, empty without a run, and whether the user named that.
    """
    if not run_dir:
        return {}, False
    manifest = RunFolder.existing(run_dir).manifest
    return {'name': DEFAULT, **manifest.protocol.scorer}, is_own_scorer(manifest)


def scoring_items(seen: Message, scorer: Scorer) -> list[ScoringItem]:
    """
    Return the items that a message asks to judge: one, or for a scorer of turns the
    turns of a judged dialogue. Half characters become U+FFFD.
    """
    seen = whole_characters(seen)
    if not seen.get('dialogue'):
        judged = seen.get('num_items')  # a turn of a judged set
        return [scoring_item(seen, level_of_turns(scorer) if judged else scorer.level)]
    name, *turns = seen['dialogue']
    whole = scoring_item(seen, 'dialogue')
    dialogue = JudgedItem(
        name,
        whole.context,
        None,
        whole.speaker,
        {},
        whole.references,
        whole.facts,
        whole.persona,
        whole.extras.get('speakers', ()),
    )
    return judged_scoring_items(dialogue, scorer, *turns)


def check_metrics(check: JudgeCheck) -> dict[str, Metric]:
    """
    Return the shares of a check as metrics, a row for each kind of perturbed copy.
    """
    metrics: dict[str, Metric] = {}
    for name, own in check.dimensions.items():
        for kind in own.kinds:
            if kind.n:
                row = f'{name} check, {kind.kind} ({kind.source})'
                higher = kind.n_higher + kind.n_ties / 2
                metrics[f'{row}/share'] = AverageMetric(higher, kind.n)
                metrics[f'{row}/n'] = SumMetric(kind.n)
    return metrics


def scoring_item(seen: Message, level: str) -> ScoringItem:
    """
    Return the item that a message asks to judge: for a scorer of whole dialogues, all
    utterances as the context and no response.
    """
    given: dict[str, Any] = {
        name: tuple(seen[name]) for name in ('later', 'speakers') if seen.get(name)
    }
    given |= {'other': seen['other']} if seen.get('other') else {}
    context, response = tuple(seen.get('context') or ()), seen['text']
    if level == 'dialogue':
        context, response = (*context, response, *given.pop('later', ())), None
    return ScoringItem(
        context=context,
        response=response,
        speaker=seen.get('speaker') or '',
        references=tuple(seen.get('references') or ()),
        facts=seen.get('facts'),
        persona=tuple(seen.get('persona') or ()),
        extras=given,
    )
