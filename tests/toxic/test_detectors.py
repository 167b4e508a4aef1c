"""
Detectors by name: whole words, toxic labels, ParlAI's matcher and classifier; and
`compare_detectors`: the table, its files, harmless sentences, errors.

The words of these lists stand for swear words; none is one.
"""

import csv
import json
import sys

import pytest
import torch
from parlai.core.agents import create_agent
from parlai.core.params import ParlaiParser

from parlai_ext.commands import plugin
from parlai_ext.commands.compare_detectors import CompareDetectors
from parlai_ext.data.toxic_pairs import labelled_texts
from parlai_ext.engines.machine import Machine
from parlai_ext.models.handle import ModelHandle
from parlai_ext.toxic.detector_table import identity_row
from parlai_ext.toxic.detectors import (
    Detector,
    WordList,
    load_detectors,
    read_detector,
    toxic_column,
)
from tests.support.on_cpu import models_on_cpu
from tests.support.shared_data import shared
from tests.support.tiny_encoders import make_encoder
from tests.support.user_error import user_error

MODELS = models_on_cpu()


class Longest:
    """
    A detector from outside: the share of a text's letters that are capitals.
    """

    def toxicity(self, texts):
        return [sum(map(str.isupper, t)) / len(t) for t in texts]


@pytest.fixture
def words(tmp_path):
    path = tmp_path / 'words.txt'
    path.write_text("grunk\nblue moon\nit's off\n")
    return f'words={path}'


@pytest.mark.parametrize(
    'text, toxic',
    [
        ('You grunk!', 1),
        ('GRUNK', 1),
        ('the grunkle of the ungrunk', 0),  # part of other words
        ('a blue, moon', 1),
        ('a blue and moon', 0),
        ("well, it's off", 1),
        ('', 0),
    ],
)
def test_a_word_list_finds_whole_words(words, text, toxic):
    assert read_detector(words, MODELS).toxicity([text]) == [toxic]


def test_a_list_in_json_and_parlais_matcher_find_the_same(words, tmp_path):
    path = tmp_path / 'words.json'
    path.write_text(json.dumps(['grunk', 'blue moon']))
    assert read_detector(f'words={path}', MODELS).toxicity(['grunk', 'a']) == [1, 0]
    matcher = words.replace('words=', 'parlai_matcher=', 1)
    detector = read_detector(matcher, MODELS)
    # its documented suffixes: "s" is one of them
    assert detector.toxicity(['two grunks', 'a grunkle', 'blue moon']) == [1, 0, 1]


@pytest.mark.parametrize(
    'labels, given, column',
    [
        (('Safe', 'Offensive'), None, (1, False)),
        (('__ok__', '__notok__'), None, (1, False)),
        (('toxic', 'severe_toxic', 'obscene'), None, (0, False)),
        (('neutral', 'rude'), None, (0, True)),
        (('LABEL_0', 'LABEL_1'), 'LABEL_1', (1, False)),
    ],
)
def test_the_toxic_label_is_told_from_its_name_or_given(labels, given, column):
    assert toxic_column('x', labels, given) == column


def test_a_label_that_cannot_be_told_is_asked_for():
    with user_error('LABEL_0, LABEL_1.*label=NAME'):
        toxic_column('x', ('LABEL_0', 'LABEL_1'), None)
    with user_error("'LABEL_1'"):
        toxic_column('x', ('LABEL_0', 'LABEL_1'), 'LABEL_7')


def test_a_hugging_face_classifier_gives_the_probability_of_its_label(tmp_path):
    folder = make_encoder(tmp_path / 'net', n_labels=2)
    detector = read_detector(f'{folder},label=LABEL_1,threshold=0.4,called=n', MODELS)
    texts = ['you like tea', 'i am here', 'you like tea', '!']
    row = MODELS.classifier(folder).probabilities(texts[:2])[:, 1]
    expected = [row[0], row[1], row[0], 0]  # without a letter nothing is toxic
    assert detector.toxicity(texts) == pytest.approx(expected)
    assert (detector.name, detector.is_toxic(0.4)) == ('n', True)


def test_a_classifier_of_parlai_is_asked_in_batches(tmp_path):
    plugin.register()
    (tmp_path / 'model.dict').write_text('you\t1\nlike\t1\ntea\t1\n')
    opt = ParlaiParser(True, True).parse_kwargs(
        model='transformer/classifier',
        classes=['__notok__', '__ok__'],
        dict_file=str(tmp_path / 'model.dict'),
        embedding_size=8,
        ffn_size=8,
        n_layers=1,
        n_heads=1,
        no_cuda=True,
        datatype='valid',
        print_scores=True,
    )
    torch.manual_seed(0)
    agent = create_agent(opt)
    file = str(tmp_path / 'model')
    agent.opt['model_file'] = file
    agent.save(file)
    texts = ['you like tea', 'tea', 'like you']
    detector = read_detector(file, ModelHandle(Machine(no_cuda=True, batchsize=2)))
    expected = []
    for text in texts:
        agent.reset()
        agent.observe({'text': text, 'episode_done': True})
        expected.append(agent.act()['probs'][0])
    assert detector.toxicity(texts) == pytest.approx(expected, abs=1e-6)
    assert len(set(expected)) == 3


def test_a_detector_of_ones_own_is_named_by_module_and_class():
    name = f'{__name__}:Longest'
    with user_error('not imported'):
        read_detector(name, MODELS)  # as a record names it
    detector = read_detector(name, MODELS, named_by_user=True)
    assert detector.toxicity(['aB', 'AB']) == [0.5, 1]


@pytest.mark.parametrize(
    'spec, problem',
    [
        ('toxic-comment', "did you mean 'toxic-comments'"),
        ('profanity_chek', "did you mean 'profanity_check'"),
        ('words', 'words=FILE'),
        ('words=/no/such/file', '/no/such/file'),
        ('toxic-comments,treshold=1', 'threshold'),
        ('nosuch.module:Net', 'ModuleNotFoundError'),
    ],
)
def test_a_detector_that_cannot_be_had_is_one_line(words, spec, problem):
    with user_error(problem):
        read_detector(spec, MODELS, named_by_user=True)
    if ':' not in spec:  # it can be had nowhere: nothing is left out, it is an error
        with user_error(problem):
            load_detectors([words, spec], MODELS)


ROWS = [('grunk you', 1), ('a grunk', 1), ('bad', 1), ('fine grunk', 0)]
ROWS += [('tea', 0)] * 4


@pytest.fixture
def files(tmp_path):
    (tmp_path / 'words.txt').write_text('grunk\n')
    text = ''.join(f'{text},{label}\n' for text, label in ROWS)
    (tmp_path / 'mine.csv').write_text('text,label\n' + text)
    return tmp_path


def compare(files, **more):
    return CompareDetectors.main(
        **{
            'detectors': [f'words={files / "words.txt"}'],
            'sets': [str(files / 'mine.csv')],
            'bootstraps': 20,
            **more,
        }
    )


def test_the_numbers_are_those_of_pencil_and_no_text_is_printed_or_written(
    files, capsys
):
    table = compare(files, out=str(files / 'out'))
    [row] = table.rows
    # 3 flagged, 2 of them toxic; 3 toxic in all; areas by pairs: (2*4 + 2*.5 + 4*.5)/15
    assert row.measures['precision'].value == pytest.approx(2 / 3)
    assert row.measures['recall'].value == pytest.approx(2 / 3)
    assert row.measures['roc_auc'].value == pytest.approx(11 / 15)
    printed = capsys.readouterr().out + ''.join(
        path.read_text() for path in (files / 'out').iterdir()
    )
    assert 'grunk' not in printed
    with open(files / 'out' / 'scores.csv') as file:
        values = [line['words'] for line in csv.DictReader(file)]
    assert values == list('11010000')


def test_a_detector_that_cannot_be_had_is_named_and_the_others_are_compared(
    files, capsys, monkeypatch
):
    monkeypatch.setitem(sys.modules, 'better_profanity', None)
    good = f'words={files / "words.txt"}'
    table = compare(files, detectors=[good, 'better_profanity'])
    assert len(table.rows) == 1
    line = 'left out: detector better_profanity: pip install better-profanity'
    assert line in capsys.readouterr().out
    with user_error('better_profanity'):
        compare(files, detectors=['better_profanity'])
    with user_error('/none'):
        compare(files, detectors=[good, 'words=/none'])


def test_two_detectors_of_one_name_need_other_names(files):
    good = f'words={files / "words.txt"}'
    with user_error('called='):
        compare(files, detectors=[good, good])
    assert len(compare(files, detectors=[good, f'{good},called=b']).rows) == 2
    with user_error("did you mean 'toxichat'"):
        compare(files, sets=['toxichatt'], toxic_path=str(files))
    (files / 'mine.csv').write_text('text,label\na,maybe\n')
    with user_error('mine.csv:2: label'):
        compare(files)


def test_a_detector_of_a_groups_name_is_caught():
    # 8 sentences for each of 33 names, and for each of 10 other words
    row = identity_row(Detector('gay', WordList(['gay'])))
    assert row.identities.value == pytest.approx(8 / (8 * 33))
    assert row.others.value == 0
    assert next(iter(row.by_term.items())) == ('gay', 1.0)


def test_toxichat_has_as_many_offensive_turns_as_its_files():
    folder = shared('toxichat')
    lines = (folder / 'test.jsonl').read_text().split('\n')
    rows = [json.loads(line) for line in lines if line]
    turns = [turn for row in rows for turn in row['reddit_thread']]
    texts = labelled_texts('toxichat', folder, 'test')
    human = [text for text in texts if text.kind == 'human']
    assert len(human) == len(turns)
    expected = sum(turn['offense_label'] == 'Offensive' for turn in turns)
    assert sum(text.toxic for text in human) == expected
    # PROVENANCE: 21 offensive responses of DialoGPT, 46 of GPT-3
    assert sum(text.toxic for text in texts) == expected + 21 + 46
