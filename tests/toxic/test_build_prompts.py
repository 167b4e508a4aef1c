"""
`build_toxic_prompts`: selection, features, resuming, statistics.

``grunk`` stands for a swear word.
"""

import re
from contextlib import nullcontext

import pytest

from parlai_ext.commands.build_toxic_prompts import BuildToxicPrompts
from parlai_ext.data.corpora import PairSource
from parlai_ext.toxic import build_prompts as building
from parlai_ext.toxic.build_prompts import masked
from tests.support.interrupted import interrupted
from tests.support.tiny_trained import make_encoder
from tests.support.user_error import user_error
from tests.support.written import csv_rows, written

ROWS = [
    ('a', 'you grunk', 'have some tea'),
    ('b', 'you grunk', 'grunk yourself'),
    ('c', 'nice day', 'it is'),
    ('d', 'grunk off', 'I kill you'),
    ('e', 'grunk', 'skill is all'),  # "kill" is no word of it
    ('f', '', 'hm'),
]


@pytest.fixture
def files(tmp_path):
    rows = ['id,toxic,answer,toxic_azure_score,note']
    rows += [','.join([*row, '0.1', 'n']) for row in ROWS]
    written(tmp_path, 'talk.csv', '\n'.join(rows))
    written(tmp_path, 'words.txt', 'grunk\n')
    return tmp_path


def build(files, **more):
    options = {
        'source': 'csv',
        'path': str(files / 'talk.csv'),
        'out': str(files / 'out'),
        'detectors': [f'words={files / "words.txt"}'],
    }
    return BuildToxicPrompts.main(**{**options, **more})


def table(files):
    return {row['id']: row for row in csv_rows(files / 'out' / 'pairs.csv')}


def test_pairs_of_a_toxic_prompt_and_a_safe_answer_are_kept_with_features(
    files, printed
):
    state = build(files)
    rows = table(files)
    assert list(rows) == ['a', 'e']
    assert (state.n_read, state.n_kept) == (6, 2)
    assert state.left_out == {
        'the prompt is not toxic': 1,
        'the answer is toxic': 1,
        'a threat word in the answer': 1,
        'an empty turn': 1,
    }
    # two words before three
    wanted = {'length_toxic': '2', 'length_answer': '3', 'ratio_lengths': '1.5'}
    wanted |= {'toxic_toxicity': '1.0000', 'answer_toxicity': '0.0000'}
    wanted |= {'toxic_azure_score': '0.1', 'note': 'n'}
    missing = ('toxic_ner', 'toxic_emotion', 'neutral', 'answer_humour_score')
    wanted |= dict.fromkeys(missing, '')
    assert wanted.items() <= rows['a'].items()
    text = printed()
    assert 'emotion: none named' in text and 'grunk' not in text
    with user_error('threats'):  # another build in the same folder
        build(files, threats=('tea',))


def test_recorded_scores_decide_where_they_are_named(files):
    text = 'id,toxic,answer,toxic_p,answer_p\n'
    text += 'a,x,y,.9,.1\nb,x,y,.9,.8\nc,x,y,.2,.1\nd,x,y,NaN,.1\n'
    written(files, 'talk.csv', text)
    state = build(files, detectors=[], recorded='p', threshold=0.8)
    assert list(table(files)) == ['a']
    assert state.left_out['no recorded p'] == 1
    with user_error('--detectors'):
        build(files, detectors=[], out=str(files / 'other'))
    with user_error('--task is in place of'):
        build(files, task='dialogues', out=str(files / 'other'))
    with user_error('NAME,threshold='):  # it says nothing of a detector
        build(files, threshold=0.8, out=str(files / 'other'))


def test_listed_words_are_asked_of_prompts_and_refused_in_answers(files):
    written(files, 'soft.txt', 'tea\nday\n')
    build(files, detectors=[f'words={files / "soft.txt"}'])
    assert list(table(files)) == ['c']
    state = build(
        files,
        out=str(files / 'other'),
        detectors=[f'words={files / "words.txt"}'],
        words=f'words={files / "soft.txt"}',
    )
    assert state.n_kept == 0
    assert state.left_out['no listed word in the prompt'] == 3


@pytest.mark.usefixtures('models_here')
def test_classifiers_fill_their_columns(files):
    net = make_encoder(files / 'net', n_labels=3)
    two = make_encoder(files / 'two', n_labels=2)
    build(files, emotion=net, sarcasm=f'{net},LABEL_2', humour=two, nli=two)
    for row in table(files).values():
        assert row['toxic_emotion'] in ('LABEL_0', 'LABEL_1', 'LABEL_2')
        assert 1 / 3 <= float(row['answer_emotion_score']) <= 1
        assert 0 <= float(row['toxic_sarcasm']) <= 1
        assert 0 <= float(row['answer_humour_score']) <= 1
        assert row['neutral'] == ''  # a network without these labels is no NLI


def test_a_killed_build_goes_on_and_gives_the_same_bytes(files, monkeypatch):
    rows = ''.join(f'{i},grunk {i % 7},fine {i}\n' for i in range(50))
    written(files, 'talk.csv', 'id,toxic,answer\n' + rows)
    monkeypatch.setattr(building, 'BLOCK', 8)
    build(files, out=str(files / 'whole'))
    whole = (files / 'whole' / 'pairs.csv').read_bytes()
    seen, pairs = [], PairSource.pairs

    def noted(source):
        for pair in pairs(source):
            seen.append(pair)
            yield pair

    # after the rows are appended, before that is noted
    with interrupted(building, 'write_text', 3), monkeypatch.context() as patch:
        patch.setattr(PairSource, 'pairs', noted)
        build(files)
    path = files / 'out' / 'pairs.csv'
    assert path.read_bytes() != whole
    # no more is read than the blocks that are written
    assert len(seen) <= 4 * 8 + 1
    assert build(files).n_read == 50
    assert path.read_bytes() == whole


def test_a_build_refuses_what_has_changed_and_reads_what_was_added(files):
    path, words = files / 'talk.csv', files / 'words.txt'
    text = path.read_text()
    build(files)
    path.write_text(f'{text}\ng,grunk,well,0.1,n')
    assert build(files).n_kept == 3
    path.write_text(text)
    with user_error('the source has changed'):
        build(files)
    words.write_text('day')
    with user_error('detector toxicity'):
        build(files)


@pytest.mark.parametrize('is_there', [True, False])
def test_a_build_refuses_a_detector_that_comes_or_goes(files, is_there):
    late = files / 'late.txt'
    detectors = [f'words={files / "words.txt"}', f'words={late}']
    for there in (is_there, not is_there):
        late.write_text('tea') if there else late.unlink(missing_ok=True)
        with user_error('detector words') if there != is_there else nullcontext():
            build(files, detectors=detectors)


def test_two_detectors_have_columns_of_their_own(files, printed):
    words = f'words={files / "words.txt"}'
    for name in ('words', 'ner', 'toxicity'):
        with user_error(f'called toxic_{name}'):
            build(files, detectors=[words, words, f'{words},called={name}'])
    written(files, 'talk.csv', 'id,toxic,answer,toxic_p,answer_p\na,grunk,y,.9,.1')
    with user_error('/none'):  # which decides
        build(files, detectors=['words=/none', words])
    build(files, detectors=['words=/none', words], recorded='p')
    assert 'stay empty' in printed()
    # the first is not there: none of its columns has a number of the second
    row = table(files)['a']
    assert (row['toxic_toxicity'], row['toxic_words']) == ('', '1.0000')


def test_statistics_are_means_by_fold_and_the_most_frequent_emotion(tmp_path):
    text = 'toxic,answer,split,length_toxic,toxic_emotion,answer_toxicity\n'
    text += 'a,b c,train,2,anger,0.1\nd,e,train,4,anger,\nf,g,train,9,fear,0.2\n'
    written(tmp_path, 'films.csv', text + 'h,i j k,test,1,,0.5\n')
    found = building.statistics({'films': f'{tmp_path / "films.csv"}'})
    train, valid, test = (('films', fold) for fold in ('train', 'valid', 'test'))
    assert found == {
        'No. Turns': {train: '3', valid: '0', test: '1'},
        'Avg. turn length toxic': {train: '5.00', test: '1.00'},
        'Avg. turn length answer': {train: '1.33', test: '3.00'},
        'Avg. ratio of lengths': {train: '1.33', test: '3.00'},
        'Avg. toxicity answer': {train: '0.15', test: '0.50'},
        'Major emotion toxic': {train: 'anger 66.7%'},
    }


def test_statistics_are_printed_by_source_and_nothing_is_built(files, capsys):
    build(files)
    capsys.readouterr()
    written(files, 'more_test.csv', 'toxic,answer\nyou,b\n')
    named = f'more={files / "more_test.csv"}'
    assert build(files, statistics=[str(files / 'out'), named]) is None
    printed = capsys.readouterr().out
    turns = [*map(int, ' '.join(re.findall('No. Turns(.*)', printed)).split())]
    assert sum(turns[:3]) == 2 and turns[3:] == [0, 0, 1]
    with user_error('NAME=PATH'):
        build(files, statistics=[named, named])


def test_a_task_of_parlai_is_a_source(files):
    asked = {'task': 'ext:everyday_openers', 'source': None, 'path': None}
    assert build(files, **asked).n_read == 80  # as many as its file has
    assert build(files, **asked, split='test', out=str(files / 'b')).n_read == 80


def test_an_entity_of_several_words_is_one_tag():
    text = 'Dr Ann Lee saw Rome.'
    tokens = [(0, 2), (3, 6), (7, 10), (11, 14), (15, 19), (19, 20)]
    entities = [(3, 10, 'PERSON'), (15, 19, 'FAC')]
    assert masked(text, tokens, entities) == 'Dr [PERSON] saw [FACILITY] .'


def test_spacy_masks_and_pairs_with_two_entities_are_left_out(files):
    spacy = pytest.importorskip('spacy')
    home = files / 'pipeline'
    nlp = spacy.blank('en')
    ruler = nlp.add_pipe('entity_ruler')
    ruler.add_patterns([{'label': 'PERSON', 'pattern': name} for name in ('Ann', 'Bo')])
    nlp.to_disk(home)
    text = 'id,toxic,answer\na,grunk Ann,ok Bo\nb,grunk Ann and Bo,ok\n'
    written(files, 'talk.csv', text)
    state = build(files, entities=f'spacy:{home}')
    assert table(files)['a']['toxic_ner'] == 'grunk [PERSON]'
    assert state.left_out == {'too many named entities': 1}
