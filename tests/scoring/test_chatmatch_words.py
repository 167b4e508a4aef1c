"""
Where names and concepts come from: lists, taggers, pipelines, files.
"""

import json
import sys
from types import ModuleType, SimpleNamespace

import pytest

from parlai_ext.scoring.chatmatch import (
    NAMES,
    all_but_function_words,
    capitalised_runs,
    content_words_by_tags,
    load_dictionaries,
    load_recogniser,
    names_on_list,
)
from tests.support.chatmatch_samples import (
    DATA,
    game,
    needs_games,
    read_concepts,
    read_games,
)
from tests.support.user_error import user_error

SAID = 'Rome on May 4 at noon: 7 first saw Ann'


def entity(text, label):
    begin = SAID.index(text)
    places = {'start_char': begin, 'end_char': begin + len(text)}
    return SimpleNamespace(label_=label, type=label, **places)


# what a pipeline finds: dates and numbers are not counted
FOUND = (entity('Rome', 'GPE'), entity('May 4', 'DATE'), entity('7', 'CARDINAL'))
FOUND += (entity('noon', 'TIME'), entity('first', 'ORDINAL'), entity('Ann', 'PERSON'))


class Read:  # a pipeline's document, of no token
    text, ents, sentences = SAID, FOUND, ()
    __iter__ = ().__iter__


@pytest.mark.parametrize(
    'said, names',
    [
        # however they are written
        ('i love New York and PARIS , star wars', ['new york', 'paris', 'star wars']),
        # the longest
        ('new york city is in north america', ['new york city', 'north america']),
        # dates and numbers are none
        ('on monday , 4th of july at noon , twenty of us', []),
    ],
)
def test_names_of_the_list_are_found(said, names):
    assert names_on_list([said]) == [names]


def test_every_listed_name_is_found_as_it_is_listed():
    texts = [' '.join(name) for name in NAMES]
    assert names_on_list(texts) == [[text] for text in texts]


def test_capitals_are_names_inside_sentences_only():
    said = "Well I met Ann Lee. She was in Oslo, I think. I'm sure"
    assert capitalised_runs([said]) == [['Ann Lee', 'Oslo']]


def test_a_missing_library_is_one_line_that_says_how_to_install_it(uninstalled):
    uninstalled('stanza')
    with user_error('stanza is not installed; `pip install stanza`'):
        load_recogniser('stanza')


def fake_spacy(pipes=('ner',)):
    def load(model):
        if model != 'en_core_web_sm':
            raise OSError(f"can't find model {model}")
        return SimpleNamespace(
            pipe_names=pipes,
            meta={'version': '3.8'},
            pipe=lambda texts: [Read() for _ in texts],
        )

    module = ModuleType('spacy')
    module.__version__, module.load = '3.9', load
    return module


def test_a_spacy_pipeline_without_entities_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, 'spacy', fake_spacy(pipes=('tagger',)))
    with user_error('finds no entities'):
        load_recogniser('spacy')


def fake_stanza():
    def pipeline(language, **_):
        if language != 'en':
            raise FileNotFoundError('resources.json')
        return lambda text: Read()

    module = ModuleType('stanza')
    module.__version__, module.Pipeline = '1.1', pipeline
    return module


@pytest.mark.parametrize(
    'name, make, signature',
    [
        ('spacy', fake_spacy, 'spacy-3.9-en_core_web_sm-3.8'),
        ('stanza', fake_stanza, 'stanza-1.1-en'),
    ],
)
def test_a_librarys_names_are_found_without_dates_and_numbers(
    monkeypatch, name, make, signature
):
    monkeypatch.setitem(sys.modules, name, make())
    recogniser = load_recogniser(name)
    assert recogniser.find([SAID, SAID]) == [['Rome', 'Ann']] * 2
    assert recogniser.signature == signature


@pytest.mark.parametrize(
    'name, make, command',
    [
        ('spacy:de_core', fake_spacy, 'python -m spacy download de_core'),
        ('stanza:xx', fake_stanza, r"stanza\.download\('xx'\)"),
    ],
)
def test_a_missing_pipeline_is_one_line(monkeypatch, name, make, command):
    monkeypatch.setitem(sys.modules, name.partition(':')[0], make())
    with user_error(command):
        load_recogniser(name)


def test_content_words_are_all_but_function_words():
    dialogue = game(['Do you like big dogs ?', "yes , i ' m sure they like us"])
    assert all_but_function_words(dialogue) == {
        'like': 'like',
        'big': 'big',
        'dogs': 'dog',
    }


def test_tagged_words_are_nouns_verbs_and_adjectives():
    tags = {'dogs': 'NNS', 'the': 'DT', 'bark': 'VBP', 'rome': 'NNP', 's': 'POS'}
    dialogue = game(["the dogs bark , rome ' s"])
    found = content_words_by_tags(
        dialogue, lambda said: [(word, tags[word]) for word in said]
    )
    assert found == {'dogs': 'dog', 'bark': 'bark'}


def test_of_a_word_twice_in_a_turn_the_last_tag_holds():
    def tagger(said):
        return list(zip(said, ['NN', 'DT'], strict=True))

    assert content_words_by_tags(game(['so so']), tagger) == {}


def test_a_tagger_without_weights_is_one_line(monkeypatch):
    import nltk.tag.perceptron

    def absent():
        raise LookupError('a banner\nof many lines')

    monkeypatch.setattr(nltk.tag.perceptron, 'PerceptronTagger', absent)
    with user_error('nltk.downloader averaged_perceptron'):
        load_dictionaries('nltk')


def write(folder, **dictionaries):
    for name, found in dictionaries.items():
        (folder / f'{name}.jsonl').write_text(json.dumps(found))
    return str(folder)


@pytest.mark.parametrize(
    'files, names, letter',
    [
        (('ann_bob', 'bob_ann'), ('ann', 'bob'), 'ann_bob'),
        (('ann_bob', 'bob_ann'), ('bob', 'ann'), 'bob_ann'),
        # either order will do where one is there
        (('ann_bob',), ('bob', 'ann'), 'ann_bob'),
        # a self-chat's file may number its halves
        (('ann_1_ann_2',), ('ann',), 'ann_1_ann_2'),
    ],
)
def test_a_file_is_found_by_the_speakers(tmp_path, files, names, letter):
    found = load_dictionaries(write(tmp_path, **{one: {'a': one} for one in files}))
    assert found.find(game(['hi', 'hi'], names=names)) == {'a': letter}


def test_one_file_is_for_every_game(tmp_path):
    write(tmp_path, all={'a': 'x'})
    found = load_dictionaries(str(tmp_path / 'all.jsonl'))
    assert found.find(game(['hi', 'hi'])) == {'a': 'x'}


@pytest.mark.parametrize('texts', [['hi', 'hi'], []])
def test_a_game_without_a_file_has_no_concepts(tmp_path, texts):
    assert load_dictionaries(write(tmp_path, x_y={})).find(game(texts)) is None


def test_the_content_of_the_files_is_in_the_signature(tmp_path):
    one = load_dictionaries(write(tmp_path, ann_bob={'a': 'x'})).signature
    assert load_dictionaries(write(tmp_path, ann_bob={'a': 'z'})).signature != one


@pytest.mark.parametrize('text', ['{', '[1]', '{"a": 1}'])
def test_a_broken_file_is_named(tmp_path, text):
    (tmp_path / 'ann_bob.jsonl').write_text(text)
    with user_error(r'concepts .*ann_bob\.jsonl'):
        load_dictionaries(str(tmp_path))


def test_an_empty_folder_is_one_line(tmp_path):
    with user_error(r'no \*\.jsonl in this folder'):
        load_dictionaries(str(tmp_path))


@needs_games
def test_the_authors_dictionaries_are_found_for_every_game():
    for folder in ('original', 'selfchat'):
        found = load_dictionaries(str(DATA / f'lemma_{folder}'))
        for name, dialogue in read_games(folder).items():
            assert found.find(dialogue) == read_concepts(f'lemma_{folder}', name)
