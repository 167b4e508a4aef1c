"""
Judged sets: cards, the reader of each format, and the counts of the published files.
"""

import json
import re
from collections import Counter, defaultdict
from functools import cache
from statistics import fmean

import pytest

from parlai_ext.data.judged import (
    Annotation,
    card_names,
    dialogue_numbers,
    find_sets,
    read_card,
)
from parlai_ext.ranking.agreement import correlate_items
from parlai_ext.ranking.intervals import Sampling
from tests.support.judged_samples import changed_card, turn, written
from tests.support.repository import docs_page
from tests.support.shared_data import shared
from tests.support.user_error import user_error


@cache
def published(name):
    """
    Return a published set and its card; skip the test where the file is absent.
    """
    folder = shared('fed').parent
    if name not in find_sets(folder):
        pytest.skip(f'{read_card(name).file} is not in {folder}')
    card = read_card(name)
    return card, card.read(folder)


def read(name, path):
    return read_card(name).read(path)


def items(name, path):
    return read(name, path).items


def test_the_page_has_a_row_for_every_card():
    row = r'^\| `(\w+)` \| (\w+) \| .* \| (.*) \| (.*) \| `(.*)` \| .* \| (.*) \|$'
    rows = re.findall(row, docs_page('judged_sets'), re.MULTILINE)
    assert sorted(name for name, *_ in rows) == sorted({*card_names()} - {'own'})
    for name, level, found, systems, file, licence in rows:
        card = read_card(name)
        assert found in (str(card.counts.get('items')), 'not at hand')
        assert systems == str(card.counts.get('systems', '?'))
        assert (level, file) == (card.level, card.file)
        assert card.licence.startswith(licence)


@pytest.mark.parametrize('name', [name for name in card_names() if name != 'own'])
def test_a_published_file_has_the_counts_of_its_card(name):
    card, judged_set = published(name)
    assert card.count_differences(judged_set) == []
    assert set(judged_set.qualities) == set(card.qualities)


@pytest.mark.parametrize(
    'name, file',
    [('usr_persona', 'pc_usr_data.json'), ('usr_topical', 'tc_usr_data.json')],
)
def test_the_organisers_copy_of_usr_is_the_authors_file(name, file):
    card, organisers = published(name)

    def contents(judged_set):
        return {
            (i.system, *i.utterances, *i.references, *i.persona, i.facts): i.annotations
            for i in judged_set.items
        }

    authors = card.read(shared(f'usr/{file}'))
    assert contents(authors) == contents(organisers)


def test_flowscore_agrees_with_people_on_dstc9_as_published():
    # README of DialEvalMetrics: 0.907 and 0.900; lower FlowScore is better
    _, judged_set = published('dstc9_interactive')
    path = shared('dstc9_interactive/flowscore_per_dialogue.json')
    flow = json.loads(path.read_text())['flow']
    bots = dict.fromkeys(item.system for item in judged_set.items)
    found = correlate_items(
        [score for bot in bots for score in flow[bot]],
        [item.human('Overall') for item in judged_set.items],
        Sampling(0, 0),
        systems=[item.system for item in judged_set.items],
        coefficients=('pearson', 'spearman', 'kendall'),
    )
    assert {name: round(one.value, 3) for name, one in found.items()} == {
        'pearson': -0.907,
        'spearman': -0.9,
        'kendall': -0.782,
    }


def system_means(judged_set, quality):
    """
    Return the mean annotation of each system.
    """
    values = defaultdict(list)
    for item in judged_set.items:
        values[item.system] += [a.value for a in item.annotations[quality]]
    return {
        name: fmean(v for v in own if v is not None) for name, own in values.items()
    }


def test_rates_of_wins_of_spot_the_bot_are_the_authors():
    # by their rule, worked out from their dump
    _, judged_set = published('spot_the_bot')
    rates = system_means(judged_set, 'Win')
    assert {name: round(rate, 3) for name, rate in rates.items()} == {
        'model': 0.332,  # ParlAI's Blender 90M
        'lost_in_conversation': 0.222,
        'kvmemnn': 0.21,
        'huggingface': 0.142,
        'bert_rank': 0.087,
        'suckybot': 0.041,
    }


def test_people_won_the_human_evaluation_of_dstc7():
    # the last row of the organisers' table
    _, judged_set = published('dstc7_human_eval')
    means = system_means(judged_set, 'Average')
    table = shared('dstc7_human_eval/dstc7-task2-human_evaluation.tsv').read_text()
    header, *_, last = (line.split('\t') for line in table.strip().split('\n'))
    expected = dict(zip(header[1:], map(float, last[1:]), strict=True))
    del expected['TeamCE'], means['TeamCE']  # of two systems in that table
    assert {name: round(mean, 2) for name, mean in means.items()} == expected


@pytest.mark.parametrize('level', ['turn', 'dialogue'])
def test_the_organisers_copy_of_fed_has_the_authors_means(tmp_path, level):
    short = {'turn': 'turn', 'dialogue': 'dial'}[level]
    card = changed_card(tmp_path, f'fed_{level}', 'format: fed', 'format: dstc10')
    other = read(card, shared(f'fed/dstc10_format/fed-{short}_eval.json'))
    authors = read(f'fed_{level}', shared('fed/fed_data.json'))
    for one, copy in zip(authors.items, other.items, strict=True):
        assert [u.strip() for u in one.utterances] == list(copy.utterances)
        for quality in authors.qualities:
            assert one.human(quality) == copy.human(quality)


def test_speakers_are_no_part_of_utterances(tmp_path):
    path = written(
        tmp_path, turn('User: Hi!\nSystem: Hey: you\nUser: So', 'System: Oh')
    )
    [one] = items('fed_turn', path)
    assert (one.context, one.response) == (('Hi!', 'Hey: you', 'So'), 'Oh')


def test_answers_in_words_are_dropped_and_counted(tmp_path):
    answers = {'Wit': [1, 'N/A (no errors)', 2, True], 'Joy': ['N/A'], 'Odd': []}
    judged_set = read(
        'fed_turn', written(tmp_path, turn('User: a', 'System: b', **answers))
    )
    [one] = judged_set.items
    assert [one.human(q) for q in answers] == [1.5, None, None]
    assert [len(one.numbers(q)) for q in answers] == [2, 0, 0]
    counts = {'items': 1, 'systems': 1, 'annotations': 2, 'texts': 3}
    assert judged_set.counts() == counts


@pytest.mark.parametrize(
    'text, problem',
    [
        ('{', 'not JSON'),
        ('{}', 'a JSON list is expected'),
        ('[3]', 'object 1: an object is expected, not 3'),
        (
            '[{"context": "a", "response": 3}]',
            "object 1: 'response' is a text, not",
        ),
        ('[{"context": "a", "response": "b"}]', 'object 1: .annotations. are'),
        (
            '[{"context": "a", "response": "b", "annotations": {"Wit": "x"}}]',
            "object 1: 'annotations': 'Wit' is a list",
        ),
        (
            '[{"context": "a", "response": "b", "annotations": {"Fluent": [1, 7]}}]',
            'item 1: Fluent: .* 0 to 2',
        ),
    ],
)
@pytest.mark.parametrize('form', ['fed', 'dstc10'])
def test_a_file_of_another_shape_is_one_line(tmp_path, form, text, problem):
    card = changed_card(tmp_path, 'fed_turn', 'format: fed', f'format: {form}')
    path = tmp_path / 'data.json'
    path.write_text(text)
    with user_error(f'{path}.*{problem}'):
        read(card, path)


def test_a_missing_file_names_the_official_one(tmp_path):
    with user_error('fed_data.json of http://shikib.com'):
        read('fed_turn', tmp_path / 'none.json')


def test_an_organisers_item_has_references_facts_and_persona(tmp_path):
    raw = {
        'dialogue_id': 'd-1',
        'model_name': 'bot',
        'context': 'hi \n\nyou ?\n',
        'response': ' yes\n',
        'reference': ['no', '', 'so'],
        'fact': 'your persona: i sing.\nyour persona: i ski.',
        'annotations': {'Overall': [1, 5], 'Natural': 3},
    }
    path = written(tmp_path, raw, {**raw, 'fact': '_nofact\n'}, {**raw, 'fact': 'x y'})
    one, other, third = items('usr_persona', path)
    assert (one.id, one.system, one.response) == ('d-1', 'bot', 'yes')
    assert (one.context, one.references) == (('hi', 'you ?'), ('no', 'so'))
    assert (one.persona, one.facts) == (('i sing.', 'i ski.'), None)
    assert (other.persona, other.facts, third.facts) == ((), None, 'x y')
    assert (one.human('Overall'), one.human('Natural')) == (3, 3)


OWN = 'context,response,system,quality,value,annotator\n'


def test_a_set_of_ones_own_in_csv(tmp_path):
    path = tmp_path / 'own.csv'
    path.write_text(
        OWN
        + '"hi\nyou?",yes,bot,Wit,3,ann\n'
        + 'so,no,bot,Wit,1,ann\n'
        + '"hi\nyou?",yes,bot,Wit,N/A,bea\n'
        + '"hi\nyou?",yes,bot,Joy,2,\n'
    )
    one, other = items('own', path)
    assert (one.context, one.response) == (('hi', 'you?'), 'yes')
    assert one.annotations == {
        'Wit': [Annotation('ann', 3.0), Annotation('bea', None)],
        'Joy': [Annotation('0', 2.0)],
    }
    assert other.human('Wit') == 1


def test_what_one_row_says_of_an_item_holds_for_it(tmp_path):
    path = tmp_path / 'own.csv'
    path.write_text(
        'reference,' + OWN + ',a,b,bot,Wit,1,ann\nhow,a,b,bot,overall,2,ann\n'
    )
    judged = read('own', path)
    assert judged.items[0].references == ('how',)
    # the card says Overall; a set without it has no overall quality
    assert judged.overall == 'overall'
    path.write_text(OWN + 'a,b,bot,Wit,1,ann\n')
    assert read('own', path).overall is None


@pytest.mark.parametrize(
    'text, problem',
    [
        ('context,system,value\n', ":1: column 'quality' is missing"),
        (OWN + ',b,bot,Wit,3,\n', ':2: column context'),
        (OWN + 'a,b,bot,,3,\n', ':2: column quality'),
        (OWN + 'a,,bot,Wit,3,\n', ':2: column response'),
        (OWN + 'a,b,bot,Wit,"4,5",\n', ":2: column value: .*'4,5'"),
        (OWN + 'a,b,bot,Wit,3,ann\na,b,bot,Wit,3,ann\n', ':3: ann'),
        (OWN + 'a,b,bot,Wit,n/a,\n', 'none of its annotations'),
        (OWN, 'no judged turns'),
        ('{"references": ["b"]}', ":1: no key 'references'; .*'reference'"),
    ],
)
def test_a_wrong_table_of_ones_own_is_one_line(tmp_path, text, problem):
    path = tmp_path / ('own.jsonl' if text[0] == '{' else 'own.csv')
    path.write_text(text)
    with user_error(problem):
        read('own', path)


@pytest.mark.parametrize(
    'old, new, problem',
    [
        ('level: turn', 'level: trun', ":4: level: 'turn' or"),
        ('level: turn', 'levl: turn', ":4: levl: .*did you mean 'level'"),
        ('level: turn\n', '', 'level: is missing'),
        ('Correct: [0, 2]', 'Correct: [2, 0]', ':15: qualities.Correct'),
    ],
)
def test_a_mistake_in_a_card_names_file_line_and_key(tmp_path, old, new, problem):
    path = changed_card(tmp_path, 'fed_turn', old, new)
    with user_error(problem) as e:
        read_card(path)
    assert path in str(e.value)


def test_the_published_turns_are_three_to_a_dialogue():
    groups = read('fed_turn', shared('fed/fed_data.json')).groups()
    assert sorted(Counter(groups).values()) == [3] * 125


def test_turns_of_a_dialogue_are_found_by_how_they_begin():
    turns = [('a', 'b', 'c', 'd'), ('x', 'b'), ('a', 'b'), ('a', 'bb')]
    one, other, same, alone = dialogue_numbers(turns)
    assert one == same
    assert len({one, other, alone}) == 3
