"""
A small run folder of made-up dialogues, and judges with known answers.
"""

from dataclasses import replace
from statistics import fmean
from types import SimpleNamespace
from unittest.mock import patch

import numpy as np

from parlai_ext.core import Answer, Opener, Roster, System, grouped
from parlai_ext.files.yaml_file import read_text
from parlai_ext.scoring import likelihood as fed_module
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.registry import find_scorer
from tests.support.dialogues import dialogue
from tests.support.on_cpu import models_on_cpu
from tests.support.plans import open_run
from tests.support.tiny_models import sentences

FIRST, SECOND = 'target', 'partner'


class KnownJudge:
    """
    A `LanguageModel` whose token log-probabilities come from a function, and the
    `Models` that give it, whatever its name. Without a function each text is one token
    of -1.
    """

    signature = 'known'

    def __init__(self, tell=lambda *_: (-1.0,)):
        self.tell = tell
        self.questions = []

    def likelihood(self, name):
        return self

    def answer(self, questions, with_context=False):
        self.questions += questions
        return [
            Answer(tuple(tuple(self.tell(q.context, c)) for c in q.continuations))
            for q in questions
        ]


class KnownEncoder:
    """
    A sentence encoder whose vectors come from a function of a text, and the `Models`
    that give it.
    """

    signature = 'known'

    def __init__(self, tell):
        self.tell = tell

    def embedder(self, name):
        return self

    def encode(self, texts):
        return np.array([self.tell(text) for text in texts], np.float32)

    def cut_tokens(self, texts):
        return [0] * len(texts)


class KnownClassifier:
    """
    A classifier of pairs that gives a label the probability from a function, and the
    `Models` that give it.
    """

    signature = 'known'

    def __init__(self, labels, label, tell):
        self.labels, self.column, self.tell = labels, labels.index(label), tell

    def classifier(self, name):
        return self

    def probabilities(self, texts, seconds):
        rows = np.zeros((len(texts), len(self.labels)))
        rows[:, self.column] = [
            self.tell(*pair) for pair in zip(texts, seconds, strict=True)
        ]
        return rows


class CuttingJudge(KnownJudge):
    """
    Cuts so many tokens of every context of more than so many turns.
    """

    def __init__(self, tell, num_cut, most_turns):
        super().__init__(tell)
        self.num_cut, self.most_turns = num_cut, most_turns

    def answer(self, questions, with_context=False):
        answers = super().answer(questions)
        return [
            replace(a, num_truncated=self.num_cut * (len(q.context) > self.most_turns))
            for a, q in zip(answers, questions, strict=True)
        ]


def reason_of(score, dimension='Overall'):
    """
    Return why a score has no value on a dimension.
    """
    assert score.values[dimension] is None
    return score.reasons[dimension]


def scores_of(scorer, items, models=None, **options):
    """
    Return the scores of items by the scorer of a name, its models on the CPU or given.
    """
    made = find_scorer(scorer).from_section(options, models or models_on_cpu())
    return made.checked_scores(list(items))


def stage_means(run, signature):
    """
    Return the mean of a run's scores by dimension.
    """
    by_dimension = grouped(
        (score.dimension, score.value)
        for shard in run.dialogue_shards()
        for scored in run.scores(signature).read(shard)
        for score in scored.scores
        if score.value is not None
    )
    return {name: fmean(values) for name, values in by_dimension.items()}


def overall(scorer, response, *references, context=(), models=None, **options):
    """
    Return the only score of a response.
    """
    item = ScoringItem(context, response, references=references)
    [score] = scores_of(scorer, [item], models, **options)
    [value] = score.values.values()
    return value


def followups_of(text):
    """
    Return the follow-ups of a file with this text.
    """
    return fed_module.read_followups(read_text(text, 'followups.yaml'))


def known_fed(judge, followups, **options):
    """
    Return FED with this judge and these follow-ups.
    """
    given = {'judge_model_file': 'known', **options}
    models = SimpleNamespace(likelihood=lambda name: judge)
    with patch.object(fed_module, 'load_followups', return_value=followups):
        fed = fed_module.Fed(given, models)
    fed.load_models()
    return fed


def judge_contexts(scorer, contexts):
    """
    Return the scores of the last utterance of each context.
    """
    return scorer.score([ScoringItem(tuple(one[:-1]), one[-1]) for one in contexts])


def small_run(root, n_dialogues=4, n_turns=6, score='target', scorer='fed', **options):
    """
    Write a run of one pairing in shards of two; its last dialogue is broken off by the
    target, the one before by the partner. `options` are those of its scorer.
    """
    texts = sentences(n_dialogues * n_turns)
    said = [texts[i * n_turns :][:n_turns] for i in range(n_dialogues)]
    openers = [Opener.from_utterances(one[:2], 'made up') for one in said]
    roster = Roster((System(FIRST),), (System(SECOND),))
    about = {'score': score, 'scorer': {'name': scorer, **options}}
    run = open_run(root, roster, openers, 2, num_turns=n_turns, **about)
    [pair] = run.pairings
    ends = {n_dialogues - 1: (FIRST, 5), n_dialogues - 2: (SECOND, 3)}
    made = []
    for i, one in enumerate(said):
        who, length = ends.get(i, (None, n_turns))
        ids = {'name': f'd{i}', 'pairing_id': pair.id, 'opener_id': openers[i].id}
        reason = 'empty reply' if who else None
        made.append(dialogue(one[:length], ended_by=who, reason=reason, **ids))
    for shard in range(0, n_dialogues // 2):
        two = made[2 * shard : 2 * shard + 2]
        run.write_dialogues(run.shard(pair.id, shard), two)
    return run
