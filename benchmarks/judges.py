"""
Count how often a judge scores a reply above a perturbed copy of it.

    python -m benchmarks.judges --data ../shared/data [--replies 40] [--judges NAME …]

Prints the table of docs/judges_compared.md: judges by kinds of perturbation, on replies
of people (EmpatheticDialogues, DailyDialog) and on the demo's small talk. A tie counts
half. Scores are kept (--cache), so that a killed run goes on.
"""

import argparse
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from benchmarks.support.kept_scores import kept_scores
from benchmarks.support.measures import print_head, print_row, start
from benchmarks.support.perturbed_replies import (
    CORPORA,
    PerturbedReply,
    perturbed_replies,
    shares_higher,
)
from parlai_ext.judge_check.perturbations import PERTURBATIONS
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.base import ItemScore, Scorer
from parlai_ext.scoring.fed import Fed, followups_score
from parlai_ext.scoring.followups import FollowUps
from parlai_ext.scoring.registry import find_scorer

MINI = 'zoo:mini/judge/model'

Row = dict[str, dict[str, float | None]]  # of one reply: kind -> dimension -> score


@dataclass(frozen=True)
class Judge:
    """
    A scorer with its options; FED with polarity ``both`` is shown three ways.

    :param models: the options that name its models, and which of the command's models
        each names.
    """

    section: Mapping[str, Any]
    models: Mapping[str, str]


LM = {'judge_model_file': 'judge'}
BOTH = {'name': 'fed', 'polarity': 'both'}
JUDGES: Mapping[str, Judge] = {
    'fed': Judge(BOTH, LM),
    'fed, chat format': Judge({**BOTH, 'judge_format': 'chat'}, LM),
    'fed, less no response': Judge({**BOTH, 'less': 'no_response'}, LM),
    'fed, mini judge': Judge({**BOTH, 'judge_model_file': MINI}, {}),
    'likelihood': Judge({'name': 'likelihood'}, LM),
    'likelihood, less no context': Judge(
        {'name': 'likelihood', 'less': 'no_context'}, LM
    ),
    'relevance': Judge(
        {'name': 'relevance', 'against': 'context'}, {'encoder': 'encoder'}
    ),
    'composite': Judge({'name': 'composite'}, {**LM, 'encoder': 'encoder'}),
    'prompted': Judge({'name': 'prompted'}, LM),
    'chatmatch': Judge({'name': 'chatmatch', 'judge_model_file': MINI}, {}),
}


def score_rows(
    scorer: Scorer, replies: Sequence[PerturbedReply], cache: Path, name: str
) -> list[Row]:
    """
    Return the scores of replies and their copies; those in the cache are not scored
    again.
    """
    items = [item for reply in replies for item in reply.items]
    scores = iter(kept_scores(scorer, items, cache, name))
    return [
        {kind: values(scorer, next(scores)) for kind in ('original', *reply.copies)}
        for reply in replies
    ]


def values(scorer: Scorer, score: ItemScore) -> dict[str, float | None]:
    """
    Return the score of an item by dimension; FED's with complaints, with praise and
    with both.
    """
    if not isinstance(scorer, Fed):
        return dict(score.values)
    assert score.evidence is not None
    polarities = {'complaints': 'negative', 'praise': 'positive', 'both': 'both'}
    return {
        label: fed_value(scorer, polarity, score.evidence)
        for label, polarity in polarities.items()
    }


def fed_value(
    scorer: Fed, polarity: str, evidence: Sequence[float | None]
) -> float | None:
    """
    Return FED's score under another polarity, from the scores of all follow-ups.
    """
    options = replace(scorer.options, polarity=polarity)
    scores = dict(zip(scorer.evidence_labels, evidence, strict=True))
    return followups_score(scorer.followups, options, scores).values['Overall']


def only_overall(scorer: Fed, handle: ModelHandle) -> Fed:
    """
    Return FED with the follow-ups of its dimension Overall, which rank in the demo.
    """
    overall = FollowUps({'Overall': scorer.followups.dimensions['Overall']})
    return Fed(scorer.options, handle, followups=overall)


def print_rows(corpus: str, judge: str, rows: Sequence[Row]) -> None:
    """
    Print one line for each dimension of a judge.
    """
    for dimension in rows[0]['original']:
        scores = [
            {kind: by_dimension.get(dimension) for kind, by_dimension in row.items()}
            for row in rows
        ]
        shares = shares_higher(scores)
        cells = [
            f'{shares[kind][0]:.2f}' if kind in shares else '–'
            for kind in PERTURBATIONS
        ]
        several = len(rows[0]['original']) > 1
        label = f'{judge}: {dimension}' if several else judge
        print_row(corpus, label, *cells)


def main(opt: argparse.Namespace) -> None:
    """
    Print the table.
    """
    handle = ModelHandle()
    print_head('corpus', 'judge', *PERTURBATIONS)
    for name in opt.judges:
        judge = JUDGES[name]
        models = {key: getattr(opt, which) for key, which in judge.models.items()}
        section = {**judge.section, **models}
        scorer = find_scorer(section['name']).from_section(section, handle)
        if isinstance(scorer, Fed):
            scorer = only_overall(scorer, handle)
        for corpus, read in CORPORA.items():
            replies = perturbed_replies(read(Path(opt.data)), opt.replies, seed=0)
            rows = score_rows(scorer, replies, opt.cache, f'{name}, {corpus}')
            print_rows(corpus, name, rows)


if __name__ == '__main__':
    start(
        main,
        __doc__,
        {'judges': JUDGES},
        data='../shared/data',
        replies=40,
        judge='smollm2-135m-q4',
        encoder='minilm',
        judges=[*JUDGES],
        cache=Path('runs/judges'),
    )
