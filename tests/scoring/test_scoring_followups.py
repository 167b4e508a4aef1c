"""
Follow-up sets: two shapes, one mistake a line, and the authors' set on request.
"""

import hashlib
import json

import pytest

from parlai_ext.files import read_file
from parlai_ext.scoring import fed as followups
from parlai_ext.scoring.fed import Sides, load_followups
from tests.support.no_network import downloads_give
from tests.support.shared_data import shared
from tests.support.user_error import user_error

pytestmark = pytest.mark.usefixtures('data_in_tmp_path')


def written(folder, text, name='own.yaml'):
    path = folder / name
    path.write_text(text, encoding='utf-8')
    return str(path)


def test_shipped_set_has_the_papers_dimensions():
    found = load_followups('default').dimensions
    assert list(found) == ['Fluency', 'Specificity', 'Sensibleness', 'Overall']
    assert found['Sensibleness'].positive == ()


KIND, DEEP = Sides(('Nice.',), ()), Sides((), ('Flat.',))


@pytest.mark.parametrize(
    'text, name, expected',
    [
        (
            'dimensions: {Wit: {positive: [Ha!], negative: [Oh.]}}',
            'own.yaml',
            {'Wit': Sides(('Ha!',), ('Oh.',))},
        ),
        (
            '{\t"turn": {"kind": {"positive": ["Nice."], "negative": []}},\n'
            '"dialogue": {"deep": {"negative": ["Flat."]}}}',
            'own.json',
            {'kind': KIND, 'deep': DEEP},
        ),
    ],
)
def test_a_users_own_file_is_read(tmp_path, text, name, expected):
    assert load_followups(written(tmp_path, text, name)).dimensions == expected


def test_quality_of_both_levels_is_told_apart(tmp_path):
    side = {'negative': ['Flat.']}
    data = {'turn': {'deep': side, 'dry': side}, 'dialogue': {'deep': side}}
    path = written(tmp_path, json.dumps(data), 'own.json')
    assert list(load_followups(path).dimensions) == [
        'turn deep',
        'dry',
        'dialogue deep',
    ]


def test_fed_file_has_the_counts_of_the_paper():
    path = shared('fed/followups_fed_2020.json')
    sides = load_followups(str(path)).dimensions.values()
    texts = [text for s in sides for text in (*s.positive, *s.negative)]
    assert (len(sides), len(texts), len(set(texts))) == (18, 73, 63)


def test_a_reading_of_the_papers_four_dimensions_has_its_counts(monkeypatch):
    full = read_file(shared('fed/followups_fed_2020.json'))
    monkeypatch.setattr(followups, 'fetch_fed_2020', lambda: full)
    found = load_followups('fed_2020_four')
    counts = {
        n: (len(s.positive), len(s.negative)) for n, s in found.dimensions.items()
    }
    # section 6.2: 11.99 / 3, 14.48 / 4 and 3.99 / 1 are alike; Table 1: no praise for
    # Sensibleness
    assert counts.pop('Fluency')
    assert counts == {'Specificity': (3, 3), 'Sensibleness': (0, 4), 'Overall': (3, 1)}
    assert list(found.without(['Fluency']).dimensions) == list(counts)


@pytest.mark.parametrize(
    'text, problem',
    [
        (
            'of: default\ndimensions:\n  A: {negative: {Overall: [4]}}',
            'own.yaml:3: .*places from 1 to 3, not 4',
        ),
        ('dimension: {}', "own.yaml:1: dimension: .*did you mean 'dimensions'"),
        ('dimensions: {A: {negativ: [x]}}', "did you mean 'negative'"),
        (
            'dimensions:\n  A:\n    negative: [x, x]',
            "own.yaml:3: .*'x' is there already",
        ),
        ('dimensions: {A: {negative: [" "]}}', 'an empty follow-up'),
        ('dimensions: {A: {negative: [3]}}', 'text is expected, not 3'),
        ('dimensions: {A: {negative: []}}', 'needs positive or negative'),
        ('dimensions: {}', 'at least one dimension'),
        ('', 'at least one dimension'),
        ('turn: {A: {negative: [x]}}\nextra: 1', 'own.yaml:2: extra: unknown key'),
    ],
)
def test_mistakes_are_one_line(tmp_path, text, problem):
    with user_error(problem):
        load_followups(written(tmp_path, text))


@pytest.mark.parametrize(
    'name, words',
    [('fed_2002', "did you mean 'fed_2020'"), ('nowhere.json', 'nowhere.json')],
)
def test_what_is_not_there_is_named(name, words):
    with user_error(words):
        load_followups(name)


def test_hash_depends_on_texts_and_sides(tmp_path):
    texts = ('[x], negative: [y]', '[x, y]', '[y], negative: [x]', '[x], negative: [z]')
    hashes = {
        load_followups(
            written(tmp_path, f'dimensions: {{A: {{positive: {text}}}}}')
        ).hash
        for text in texts
    }
    assert len(hashes) == len(texts)


def test_hash_does_not_depend_on_the_file(tmp_path):
    one = written(tmp_path, 'dimensions: {A: {negative: [x]}}')
    other = written(tmp_path, '{"turn": {"A": {"negative": ["x"]}}}', 'other.json')
    assert load_followups(one).hash == load_followups(other).hash


PROGRAM = """
import os

def evaluate():
  os.abort()
  turn_level_utts = {"kind": {"positive": ["Nice."], "negative": []}}
  dialog_level_utts = {"deep": {"positive": [], "negative": ["Flat."]}}
"""


def test_authors_lists_are_read_and_nothing_is_run(tmp_path, monkeypatch):
    data = PROGRAM.encode()
    downloads_give(monkeypatch, lambda url: data)
    monkeypatch.setattr(followups, 'SHA256', hashlib.sha256(data).hexdigest())
    assert load_followups('fed_2020').dimensions == {'kind': KIND, 'deep': DEEP}
    # a damaged file of the cache is fetched again
    [cached] = (tmp_path / 'followups').iterdir()
    cached.write_text('damaged')
    assert load_followups('fed_2020').dimensions == {'kind': KIND, 'deep': DEEP}


def test_a_missing_network_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setattr(followups, 'URL', 'http://localhost:9/fed.py')
    with user_error('cannot be reached .*--followups FILE'):
        load_followups('fed_2020')
