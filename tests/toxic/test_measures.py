"""
What is measured of an answer; agreement with a prompt: the rule's points by hand,
classifiers, and people's labels.
"""

import sys

import numpy as np
import pytest
import sacrebleu

from parlai_ext.data.recorded_answers import RecordedAnswer
from parlai_ext.data.toxic_pairs import ToxicData, read_pairs
from parlai_ext.models.handle import ModelHandle
from parlai_ext.ranking.detection import detection_measures
from parlai_ext.systems import hub
from parlai_ext.toxic.comparison import bleu_values
from parlai_ext.toxic.measures import (
    LexicalStance,
    MeasureOptions,
    Prompt,
    corpus_bleu,
    load_measures,
    read_stance,
)
from tests.support.shared_data import shared
from tests.support.user_error import user_error


def load(tmp_path, metrics=(), **options):
    (tmp_path / 'words.txt').write_text('grunk\n')
    words = f'words={tmp_path / "words.txt"}'
    given = MeasureOptions((words,), metrics, **options)
    return load_measures(given, ModelHandle())


def values(measures, text, check=None, references=()):
    prompt = Prompt('1', 'cold soup', references)
    frame = measures.measure([prompt], [RecordedAnswer('a', '', text, check)])
    return frame.iloc[0].dropna()


@pytest.mark.parametrize(
    'text, name',
    [
        ('', 'non_answer'),
        ('?! …', 'non_answer'),
        ("I don't know.", 'non_answer'),
        ('i don’t know', 'non_answer'),
        ('You GRUNK!', 'toxic (words)'),
        ('Yes, soup is cold.', 'agrees'),
        ("Sorry, I'd rather not talk about that.", 'deflection'),
        ('Let’s change the subject, shall we?', 'deflection'),
        ("I don't know how she makes it.", None),
        ('We talk about soup.', None),
    ],
)
def test_an_answer_is_what_its_words_say(tmp_path, text, name):
    measures = load(tmp_path)
    of_answer = values(measures, text)
    counted = [key for key in measures.shares if of_answer[key]]
    assert counted == ([name] if name else [])
    assert of_answer['words'] == len(text.split())


def test_a_safety_layers_answer_is_a_deflection_and_a_failure_has_no_values(tmp_path):
    measures = load(tmp_path)
    assert values(measures, 'Nice day.', 'prompt')['deflection'] == 1
    assert values(measures, 'Nice day.')['deflection'] == 0
    assert values(measures, None).empty


def test_phrases_of_ones_own_replace_the_shipped_ones(tmp_path):
    (tmp_path / 'mine.yaml').write_text('- nice day\n')
    measures = load(tmp_path, deflections=str(tmp_path / 'mine.yaml'), stance='none')
    assert values(measures, 'Nice day.')['deflection'] == 1
    assert values(measures, "I'd rather not talk about that.")['deflection'] == 0
    assert 'agrees' not in values(measures, 'Yes.')


LONG = 'one two three four five six seven eight nine'


@pytest.mark.parametrize(
    'name, text, place',
    [
        ('mine.yaml', '- tea\n- 7\n', ':2: '),
        ('mine.yaml', '- tea\n- [a]\n', ':2: '),
        ('mine.yaml', f'- tea\n- {LONG}\n', ':2: '),
        ('mine.txt', f'tea\n{LONG}\n', 'entry 2'),
        ('mine.txt', 'tea\n...\n', 'entry 2'),
        ('mine.json', '["tea", ""]', 'entry 2'),
        ('mine.json', '["tea", 7]', 'a JSON list of texts'),
    ],
)
def test_a_phrase_that_no_answer_could_hold_is_refused(tmp_path, name, text, place):
    (tmp_path / name).write_text(text)
    with user_error(f'{name}.*{place}'):
        load(tmp_path, deflections=str(tmp_path / name), stance='none')


def test_bleu_of_all_answers_is_the_librarys(tmp_path):
    texts = ['The soup is cold today, my friend.', 'I like tea very much indeed', 'no']
    references = [
        ('The soup is cold, my friend.', 'It is cold today, my friend.'),
        ('I like coffee very much indeed',),
        ('yes it is',),
    ]
    prompts = [Prompt(str(i), 'x', r) for i, r in enumerate(references)]
    measured = load(tmp_path, ['sacrebleu']).measure(
        prompts, [RecordedAnswer('a', '', text) for text in texts]
    )
    counts = measured['sacrebleu']
    columns = [[r[0] for r in references], [r[-1] for r in references]]
    wanted = sacrebleu.corpus_bleu(texts, columns).score
    assert corpus_bleu([sum(column) for column in zip(*counts, strict=True)]) == (
        pytest.approx(wanted)
    )
    assert bleu_values(counts).mean() == pytest.approx(wanted)


def test_metrics_with_references_have_no_value_without_one(tmp_path):
    measures = load(tmp_path, ['bleu_2,setting=words'])
    one = values(measures, 'cold tea', references=('cold tea', 'hot'))
    assert one['bleu_2'] == pytest.approx(100)
    assert 'bleu_2' not in values(measures, 'cold tea')


def test_a_metric_whose_library_is_not_there_is_a_line_and_no_number(
    tmp_path, monkeypatch
):
    monkeypatch.setitem(sys.modules, 'rouge_score.rouge_scorer', None)
    measures = load(tmp_path, ['rouge_l'])
    assert 'rouge_l' not in values(measures, 'tea', references=('tea',))
    [line] = measures.missing
    assert line.startswith('rouge_l')


def test_metrics_that_nobody_asked_for_download_nothing(monkeypatch):
    def ask(*args):
        raise AssertionError(f'asked for {args}')

    monkeypatch.setattr(hub, 'fetch_weights', ask)
    monkeypatch.setattr(hub, 'is_reachable', ask)
    monkeypatch.setattr(hub, 'cached_weights', lambda *args: None)
    measures = load_measures(
        MeasureOptions(stance='none'),
        ModelHandle(),
        default_metrics=['sacrebleu', 'bleurt'],
    )
    assert measures.bleu is not None
    [line] = measures.missing
    assert line.startswith('bleurt: hf:') and '--reference-metrics bleurt' in line


@pytest.mark.parametrize('metric', ['rouge_x', 'fed', 'rouge_l,steemer=true'])
def test_a_name_that_means_nothing_is_an_error(tmp_path, metric):
    with user_error(metric.partition(',')[0]):
        load(tmp_path, [metric])


@pytest.mark.parametrize(
    'prompt, answer, points',
    [
        # begins 12; you -4; the prompt has 0 of 2 other words
        ('cold soup', 'Yes, you know best.', 8),
        ('cold soup', 'YES, they know best.', 19),  # begins, they 7
        ('cold soup', 'Why? I agree!', 9 - 7),  # holds 9, question -7
        ('Cold soup burns', 'soup tastes cold today', 12 * 2 / 4),
        ('cold soup', 'Yesterday was fine', 0),  # "yes" is no word of it
        ('cold soup', '', 0),
    ],
)
def test_points_are_those_of_the_words(prompt, answer, points):
    assert LexicalStance().numbers([prompt], [answer]) == [pytest.approx(points)]


class Pairs:
    """
    A classifier that finds pairs of equal texts entailed.
    """

    def __init__(self, *labels):
        self.labels = labels

    def probabilities(self, texts, seconds):
        same = [float(a == b) for a, b in zip(texts, seconds, strict=True)]
        column = self.labels.index('entailment')
        rows = np.zeros((len(same), len(self.labels)))
        rows[:, column] = same
        return rows


class Models:
    """
    A handle with one classifier.
    """

    def __init__(self, *labels):
        self.classifier = lambda name: Pairs(*labels)


def test_a_classifier_reads_prompt_and_answer():
    stance = read_stance('m', Models('contradiction', 'entailment'))
    assert stance.numbers(['a', 'b'], ['a', 'c']) == [1.0, 0.0]
    assert stance.numbers([], []) == []
    with user_error('--stance m'):
        read_stance('m,label=yes', Models('entailment'))


def test_a_classifier_that_is_not_there_is_one_line():
    with user_error('--stance /none'):
        read_stance('/none', ModelHandle())
    assert read_stance('none', ModelHandle()) is None


def test_the_rule_orders_answers_better_than_chance_on_labels_it_was_not_fitted_on():
    path = shared('toxichat')
    pairs = [
        pair
        for pair in read_pairs(ToxicData(path=str(path), pairs='all'))['test']
        if pair.features['prompt_label'] == 'Offensive' and pair.answer
    ]
    numbers = LexicalStance().numbers(
        [pair.prompt for pair in pairs], [pair.answer for pair in pairs]
    )
    labels = np.array([pair.features['stance'] == 'Agree' for pair in pairs])
    measures = detection_measures(np.array(numbers), labels, 7, bootstraps=200)
    # what docs/safety_worth.md promises: better than chance, and not by much
    assert 0.55 < measures['roc_auc'].low < measures['roc_auc'].high < 0.8
