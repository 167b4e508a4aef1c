"""
A made-up run and ranking for tests of the report: no model, any text.
"""

import random
from dataclasses import replace

from parlai_ext.core import Opener, Score, ScoredDialogue
from parlai_ext.ranking.intervals import Estimate
from parlai_ext.ranking.ratings import Rating
from parlai_ext.ranking.standings import ScoreBounds, Separation, Standing
from parlai_ext.results.ranking import Agreement, Failures, Ranking, TournamentResult
from tests.support.dialogues import spoken
from tests.support.planted_run import played_run

SCORER = 'fed|v:1|judge:tiny'
LABELS = ('That makes no sense!', 'You are boring.', 'What are you talking about?')
DIMENSIONS = ('Fluency', 'Overall')
LINES = (
    'I went hiking up at the lake on Sunday.',
    'Oh nice, was it busy? I always wanted to see that place.',
    'Not at all, we only met two dogs and a very wet photographer.',
    'My brother takes photographs too, mostly of bridges.',
    'I do not know.',
    'Bridges are a good subject. Which one does he like best?',
)


def example_run(
    folder,
    targets=('alpha', 'beta'),
    partners=('mary', 'tom'),
    openers=('hello there', 'good morning'),
    lines=LINES,
    num_turns=6,
    reason='the reply was empty',
    ranking=None,
    more_scores=None,
):
    """
    Make a run folder with dialogues and scores; each first dialogue of a pairing
    with the last partner is broken off by the target.

    :param more_scores: of other scorers, as `played_run` makes them.
    """
    given = [
        Opener.from_utterances([text, f'Hi! You said: {text}'], 'made up')
        for text in openers
    ]
    rng = random.Random(0)

    def play(pair, opener, k):
        own = (lines[(n + k) % len(lines)] for n in range(num_turns - 2))
        one = spoken(pair, opener, [*opener.utterances, *own])
        if k or pair.second != partners[-1]:
            return one
        broken = {'ended_by': pair.first, 'reason': reason}
        return replace(one, utterances=one.utterances[:4], **broken)

    def score(pair, one, _):
        level, scores, evidence = 1.0 + targets.index(pair.first), [], {}
        for i in range(2, len(one.utterances), 2):
            evidence[i] = tuple(-rng.uniform(2, 6) for _ in LABELS)
            for d in DIMENSIONS:
                value = None if one.ended_by else level + rng.gauss(0, 0.4)
                no_score = reason if value is None else None
                scores.append(Score(one.id, i, pair.first, d, value, no_score))
        return ScoredDialogue(one.id, tuple(scores), evidence)

    run = played_run(
        folder,
        given,
        targets,
        partners,
        play,
        {SCORER: score, **(more_scores or {})},
        lambda name: {'model_file': f'zoo:mini/{name}/model'},
        name='example',
        openers='ext:smalltalk',
        num_turns=num_turns,
        scorer={'name': 'fed', 'judge_model_file': '/home/someone/m/model'},
        ranking=ranking or {},
    )
    about = {'evidence_labels': list(LABELS)}
    run.write_json(f'scores/{run.scores(SCORER).root.name}/scorer.json', about)
    return run


def standing(name, rank, score):
    """
    Return a standing whose intervals are 0.2 and 0.5 to each side.
    """
    low, high, low_fixed, high_fixed = (
        None if score is None else score + d for d in (-0.5, 0.5, -0.2, 0.2)
    )
    ranks = (rank, rank, rank and rank + 1)
    scores = (score, low, high, low_fixed, high_fixed)
    counts = {'n_dialogues': 4, 'n_unscored': 1, 'n_openers': 20}
    return Standing(name, *ranks, *scores, **counts)


def agreement(value=0.9, **changed):
    """
    Return the agreement of two systems with a planted order.
    """
    low, high = (None, None) if value is None else (0.4, 1.0)
    one = Estimate(value, low, high)
    return replace(Agreement(one, one, 2, 'planted'), **changed)


def example_ranking(
    names=('alpha', 'beta'),
    unranked=(),
    reason='the reply was empty',
    dimensions=DIMENSIONS,
    **changed,
):
    """
    Return a ranking in which the last of ``names`` is the best, and all are told apart.

    :param changed: fields with other values.
    """
    best_first = [n for n in reversed(names) if n not in unranked]
    n_pairs = len(best_first) * (len(best_first) - 1) // 2
    apart = dimensions if n_pairs else ()

    standings = (
        *(standing(n, k + 1, -1.0 - 0.4 * k) for k, n in enumerate(best_first)),
        *(standing(n, None, None) for n in unranked),
    )
    ranking = Ranking(
        signature=f'example || {SCORER}',
        protocol='example',
        standings=dict.fromkeys(dimensions, standings),
        baselines=dict.fromkeys(('mean_length', 'distinct_2'), standings),
        reference={d: agreement() for d in dimensions},
        baseline_reference={
            'mean_length': {d: agreement() for d in dimensions},
            'distinct_2': {d: agreement(None, reason=reason) for d in dimensions},
        },
        bounds={dimensions[0]: {n: ScoreBounds(0.25, -2.0, 0.0) for n in names}},
        failures={
            n: Failures('target', 4, 1, 0.25, False, {reason: 1}) for n in unranked
        },
        separation={d: Separation(n_pairs, n_pairs, best_first[0], ()) for d in apart},
        notes=('2 of 4 planned dialogues are collected',),
    )
    return replace(ranking, **changed)


def tournament_result(values, spreads=None):
    """
    Return the result of six games with these ratings, on no dimension.
    """
    one = Rating(values=values, spreads=spreads or {}, signature='rating:openskill')
    points = {
        'cross_table': {a: dict.fromkeys(values) for a in values},
        'dimension_points': {name: {} for name in values},
    }
    about = {'records': {}, 'incomplete': None, 'notes': (), 'name': 'Overall'}
    rule = {'rating': 'openskill', 'shuffles': 3, 'seed': 0}
    ratings = {'openskill': one}
    return TournamentResult(
        tuple(values), (), 6, **points, ratings=ratings, **about, **rule
    )
