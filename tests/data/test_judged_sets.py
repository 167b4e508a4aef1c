"""
Judged sets: cards, the reader of each format on a tiny file, and the counts of the
published files.
"""

import json
import re
from collections import Counter, defaultdict
from functools import cache
from statistics import fmean

import pytest

from parlai_ext.data.judged import (
    MEMBER,
    Annotation,
    JudgedItem,
    card_names,
    dialogue_numbers,
    find_sets,
    read_card,
)
from parlai_ext.ranking.agreement import correlate_items
from parlai_ext.ranking.intervals import Sampling
from tests.support.judged_samples import changed_card, turn
from tests.support.judged_samples import written as fed_file
from tests.support.repository import docs_page
from tests.support.shared_data import shared
from tests.support.user_error import user_error
from tests.support.written import written, zip_of

# The published files and their cards


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
    path = fed_file(
        tmp_path, turn('User: Hi!\nSystem: Hey: you\nUser: So', 'System: Oh')
    )
    [one] = items('fed_turn', path)
    assert (one.context, one.response) == (('Hi!', 'Hey: you', 'So'), 'Oh')


def test_answers_in_words_are_dropped_and_counted(tmp_path):
    answers = {'Wit': [1, 'N/A (no errors)', 2, True], 'Joy': ['N/A'], 'Odd': []}
    judged_set = read(
        'fed_turn', fed_file(tmp_path, turn('User: a', 'System: b', **answers))
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
    path = fed_file(tmp_path, raw, {**raw, 'fact': '_nofact\n'}, {**raw, 'fact': 'x y'})
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


# Readers of the authors' own formats, each on a tiny file


def values(item, quality):
    return [annotation.value for annotation in item.annotations[quality]]


def test_usr_has_the_original_response_as_the_reference(tmp_path):
    said = {'Seq2Seq': 'no\n', 'Original Ground Truth': 'yes\n'}
    about = {'Natural': [1, 3, 3], 'Overall': [5]}
    responses = [{'model': m, 'response': text, **about} for m, text in said.items()]
    context = {'context': 'hi\nyou ?\n', 'fact': 'your persona: i ski.\n'}
    raw = [{**context, 'annotators': ['a', 'b', 'c'], 'responses': responses}]
    path = written(tmp_path, 'pc_usr_data.json', raw)
    one, original = items('usr_persona', path)
    assert (one.context, one.response) == (('hi', 'you ?'), 'no')
    assert one.references == original.references == ('yes',)
    assert (one.persona, values(one, 'Natural')) == (('i ski.',), [1, 3, 3])


def grade_object(dataset, scores='[2, 5]'):
    return {
        'Dataset': dataset,
        'DialogModel': 'bot',
        'Context': 'hi|||you ?',
        'Response': 'yes',
        'HumanScores': scores,
    }


def test_a_set_of_grade_is_a_part_of_its_file(tmp_path):
    names = ('convai2', 'dailydialog_EVAL', 'empatheticdialogues')
    path = written(tmp_path, 'human_judgement.json', [grade_object(n) for n in names])
    for name in ('grade_convai2', 'grade_dailydialog', 'grade_empathetic'):
        [one] = items(name, path)
        assert (one.context, values(one, 'relevance')) == (('hi', 'you ?'), [2, 5])


def test_scores_of_grade_that_are_no_list_are_one_line(tmp_path):
    path = written(tmp_path, 'human_judgement.json', [grade_object('convai2', 'x')])
    with user_error('object 1: .HumanScores.'):
        items('grade_convai2', path)


def test_the_organisers_dialogues_know_their_speakers(tmp_path):
    turns = [('human', 'hi'), ('model', 'yo'), ('human', 'so')]
    raw = {
        'dialog': [{'speaker': who, 'text': text} for who, text in turns],
        'model': 'bot',
        'annotations': {'enjoy': [3], 'avoid_rep': [1]},
    }
    path = written(tmp_path, 'persona-see_eval.json', [raw])
    [one] = items('persona_see', path)
    assert (one.context, one.response) == (('hi', 'yo', 'so'), None)
    assert one.speakers == ('human', 'bot', 'human')
    [turn] = one.turns()
    assert (turn.context, turn.response) == (('hi',), 'yo')


@pytest.mark.parametrize('ending', ['', '-addrank'])
def test_a_test_set_is_found_under_both_names(tmp_path, ending):
    columns = {
        'contexts': [['a', 'b']],
        'responses': [''],
        'reference': [['d']],
        'models': ['bot'],
        'scores': [{'appropriateness': '2.8', 'rank': 0.1, 'id': 0}],
    }
    written(tmp_path, f'jsalt_eval{ending}.json', columns)
    [one] = items('jsalt', tmp_path)
    assert one.annotations == {'appropriateness': [Annotation('0', 2.8)]}
    assert one.utterances == ('a', 'b', '')
    written(tmp_path, f'jsalt_eval{ending}.json', {**columns, 'models': []})
    with user_error('of one length'):
        items('jsalt', tmp_path)


def rating(context, overall, **answers):
    return {'context': context, 'human (overall)': overall, **answers}


def test_dstc9_has_a_dialogue_for_each_context_of_each_bot(tmp_path):
    hi, so = 'User: hi\nSystem: yo\nman\n', 'User: so\nSystem: no\n'
    of_second = [rating(hi, 4, coherent=2), rating(hi, 'N/A', coherent=3)]
    written(tmp_path, 'chatbot2.json', [*of_second, rating(so, 1)])
    written(tmp_path, 'chatbot10.json', [rating(hi, 2)])
    path = written(tmp_path, 'chatbot1.json', [rating(hi, 5)])
    judged = items('dstc9_interactive', path)
    assert [item.system[7:] for item in judged] == ['1', '2', '2', '10']
    one = judged[1]
    assert (one.context, one.speakers) == (('hi', 'yo\nman'), ('User', 'chatbot2'))
    assert (values(one, 'Overall'), values(one, 'coherent')) == ([4, None], [2, 3])


def side(is_human, fluent, turns=4):
    about = {'is_human': is_human, 'fluencyValue': fluent, 'decision_turn': turns}
    return about | dict.fromkeys(('sensitivenessValue', 'specificityValue'), True)


def spot_the_bot(folder):
    """
    Write a dialogue of two bots and one of people, with three and one annotations.
    """
    convo = [{'id': 'a' if k % 2 == 0 else 'b', 'text': f't{k}'} for k in range(6)]
    convo[1]['text'] = 'no . < /s ><pad>'
    about = {'convo': convo, 'is_human0': False, 'is_human1': False}
    dialogue = {**about, 'system_type0': 'a', 'system_type1': 'b'}
    people = {**dialogue, 'is_human0': True, 'is_human1': True}
    both = [{'_id': {'$oid': 'x'}, **dialogue}, {'_id': {'$oid': 'y'}, **people}]
    written(folder, 'sampled-dialogues-full-convai2.jsonl', both)
    sides = [
        ('x', 'ann', side(True, True), side(None, False)),
        ('x', 'bob', side(False, True), side(False, True)),
        ('x', 'ann', side(None, True, 6), side(True, True, 6)),
        ('y', 'ann', side(True, True), side(True, True)),
    ]
    keys = ('convo_id', 'user_name', 'entity0_annotation', 'entity1_annotation')
    rows = [dict(zip(keys, one, strict=True)) for one in sides]
    return written(folder, 'annotated-dialogues-full-convai2.jsonl', rows)


def test_spot_the_bot_judges_both_sides_of_segments(tmp_path):
    judged = items('spot_the_bot', spot_the_bot(tmp_path))
    sizes = [(item.system, len(item.context)) for item in judged]
    assert sizes == [('a', 4), ('b', 4), ('a', 6), ('b', 6)]
    first, second = judged[:2]
    assert first.context[1] == 'no .'
    assert (values(first, 'Human'), values(second, 'Human')) == ([2, 0], [1, 0])
    assert (values(first, 'Win'), values(second, 'Win')) == ([1, 0], [0, 0])
    assert [a.annotator for a in first.annotations['Fluent']] == ['ann', 'bob']
    assert {item.dialogue for item in judged} == {'x'}
    assert [turn.response for turn in second.turns()] == ['no .', 't3']


def test_a_file_that_must_lie_beside_is_named(tmp_path):
    path = spot_the_bot(tmp_path)
    (tmp_path / 'sampled-dialogues-full-convai2.jsonl').unlink()
    with user_error('sampled-dialogues-full-convai2.jsonl'):
        items('spot_the_bot', path)


def test_a_wrong_line_of_annotations_is_refused(tmp_path):
    path = spot_the_bot(tmp_path)
    line = '{"convo_id": "x", "entity0_annotation": {"decision_turn": 4}}'
    path.write_text(path.read_text() + line)
    with user_error('object 5'):
        items('spot_the_bot', path)


def chat(texts, **ratings):
    """
    Return a chat; the letter before a text is its sender.
    """
    messages = [[{'sender': text[0], 'text': text[1:]}] for text in texts]
    return {'messages': messages, 'ratings': ratings or None}


def test_chats_that_a_rating_says_nothing_of_are_left_out(tmp_path):
    whole = ('ahi', 'byo', 'aso', 'bno')
    chats = {
        'kept': chat((*whole, 'bwell'), witty=5, upbeat=9),
        'untouched': chat(whole, witty=5, upbeat=5),
        'nobody': chat(whole),
        'short': chat(whole[:3], witty=1),
        'one person': chat(('ahi', 'ayo', 'aso', 'ano'), witty=1),
    }
    wheel = zip_of([(MEMBER, json.dumps(chats))])
    written(tmp_path, 'chitchat_dataset-0.9.0-py3-none-any.whl', wheel)
    assert list(find_sets(tmp_path)) == ['chitchat']
    [one] = items('chitchat', tmp_path)
    assert (one.id, one.context) == ('kept', ('hi', 'yo', 'so', 'no\nwell'))
    assert (one.human('witty'), one.human('upbeat')) == (5, 9)
    # both people's turns are judged, but the first of all
    assert [turn.response for turn in one.turns()] == ['yo', 'so', 'no\nwell']


def dstc7(folder):
    """
    Write the four tables of DSTC7, with a quotation mark and a byte order mark.
    """
    judgements = [
        'JudgeID\tInstanceID\tSystemID\tRelevance\tInformativeness',
        'ann\ti1\tbot\t1\t4',
        'bob\ti1\tbot\t3\t5',
        'ann\ti1\tsilent\t5\t5',
    ]
    tables = {
        'context': ['InstanceID\tDepth\tContext', 'i1\t2\thi "you EOS so ?'],
        'gold_responses': ['InstanceID\tReference1\t...', 'i1\tone\ttwo\tthree'],
        'system_responses': ['SystemID\tInstanceID\tResponse', 'bot\ti1\tyes'],
        'human-eval-per-judge': judgements,
    }
    for name, lines in tables.items():
        written(folder, f'dstc7-task2-{name}.tsv', '\ufeff' + '\n'.join(lines) + '\n')


def test_dstc7_joins_its_tables(tmp_path):
    dstc7(tmp_path)
    [one] = items('dstc7_human_eval', tmp_path)
    assert (one.context, one.response) == (('hi "you', 'so ?'), 'yes')
    assert one.references == ('one', 'two', 'three')
    assert values(one, 'Average') == [2.5, 4]
    assert [a.annotator for a in one.annotations['Relevance']] == ['ann', 'bob']


def test_a_wrong_table_of_dstc7_is_one_line(tmp_path):
    dstc7(tmp_path)
    path = tmp_path / 'dstc7-task2-system_responses.tsv'
    path.write_text(path.read_text().replace('bot\ti1\tyes', 'bot yes'))
    with user_error('system_responses.tsv:2: 3 cells'):
        items('dstc7_human_eval', tmp_path)


def votes(folder, name, votes, dialogue='iris_0', speakers='US'):
    """
    Write a dialogue of four turns, with votes on the second and none on the others.

    :param votes: names of the columns, and their cells.
    """
    header, cells = votes
    none = ',' * header.count(',')
    lines = ['UID,SID,SEG'] + [f'x-0-{k},{speakers[k % 2]},t{k}' for k in range(4)]
    written(folder, f'{name.partition("_")[0]}_main.csv', '\n'.join(lines))
    rows = [f'x-0-{k},{cells if k == 1 else none},{dialogue}' for k in (0, 1, 3)]
    written(folder, f'{name}.csv', '\n'.join([f'UID,{header},dialogue_id', *rows]))


JSALT, VOTES = '0DBDC3_dialoginfo', 'num_O,num_X,num_T'


WOCHAT = 'WOCHAT_dialogueinfo', 'valid,invalid,acceptable'


@pytest.mark.parametrize(
    'name, file, columns, speakers, dialogue, system',
    [
        ('chanel_wochat', *WOCHAT, ('USER', 'SYSTEM'), 'iris_0', 'iris'),
        ('chanel_jsalt', JSALT, VOTES, 'US', 'iris_0', 'iris'),
        # a system of DBDC3 is told by its dialogue
        ('chanel_jsalt', JSALT, VOTES, 'US', 'CIC_01', 'cic'),
        ('chanel_jsalt', JSALT, VOTES, 'US', 'YI0032', 'yura'),
    ],
)
def test_votes_are_annotations(
    tmp_path, name, file, columns, speakers, dialogue, system
):
    votes(tmp_path, file, (columns, '2,1,1'), dialogue, speakers)
    [one] = items(name, tmp_path)
    assert (one.context, one.response, one.system) == (('t0',), 't1', system)
    [quality] = one.annotations
    assert sorted(values(one, quality)) == [0, 0.5, 1, 1]


@pytest.mark.parametrize('cell', ['two', '-1', '0.5'])
def test_votes_that_are_no_number_are_refused_by_line_and_column(tmp_path, cell):
    votes(tmp_path, JSALT, (VOTES, f'1,{cell},0'))
    with user_error(r'0DBDC3_dialoginfo\.csv:3: num_X'):
        items('chanel_jsalt', tmp_path)


def test_a_folder_without_a_set_names_its_file(tmp_path):
    assert find_sets(tmp_path) == {}
    with user_error('pc_usr_data.json, of .*shikib.com'):
        items('usr_persona', tmp_path)
    with user_error('no such folder'):
        find_sets(tmp_path / 'none')


def test_of_two_files_of_a_set_the_official_one_is_read(tmp_path):
    (tmp_path / 'deep').mkdir()
    written(tmp_path, 'pc_usr_data.json', [])
    official = written(tmp_path / 'deep', 'persona-usr_eval.json', [])
    assert find_sets(tmp_path) == {'usr_persona': official}


SAID = ('a', 'b', 'c', 'd', ' ', 'f', 'g', 'h')
DIALOGUE = JudgedItem('d', SAID, None, 'bot', {}, speakers=('bot', 'me') * 4)


def test_the_first_utterance_and_empty_ones_are_no_turns():
    turns = DIALOGUE.turns()
    assert [(turn.context, turn.response) for turn in turns] == [
        (('a', 'b'), 'c'),
        (('a', 'b', 'c', 'd', ' ', 'f'), 'g'),
    ]


def test_a_drawn_turn_depends_on_item_and_seed_alone():
    drawn = [DIALOGUE.turns(1, seed)[0].response for seed in (*range(40), 3)]
    assert drawn[-1] == drawn[3] and {*drawn} == {'c', 'g'}
    assert len(DIALOGUE.turns(2)) == len(DIALOGUE.turns(9)) == 2
