"""
`export_annotation` and `import_annotation`: what annotators get, and what comes back.

The tables of annotated answers, by pencil and by the paper's own table.
"""

import random
from collections import Counter
from itertools import combinations

import pytest

from parlai_ext.commands.export_annotation import ExportAnnotation
from parlai_ext.commands.import_annotation import ImportAnnotation, agreement_limits
from parlai_ext.core import record_to_json
from parlai_ext.people.answer_shares import (
    ItemAgreement,
    agreed_items,
    annotation_results,
    head_to_head,
    share_lines,
)
from parlai_ext.people.given_answers import GivenAnswer
from parlai_ext.people.rating_set import (
    KeyDialogue,
    RatingKey,
    read_key,
    read_questionnaire,
)
from parlai_ext.view import csv_text
from tests.support import simulated_annotators
from tests.support.annotated_answers import CODES, HUMAN, SYSTEMS, TOXIC, answers_file
from tests.support.store_samples import files_under
from tests.support.user_error import user_error
from tests.support.written import csv_rows, json_in, json_rows, on_one_line, written


@pytest.fixture
def export(tmp_path):
    def export(name='set', **options):
        settings = {'human': HUMAN, 'toxic': TOXIC, 'human_pairs': 6, 'num_sheets': 2}
        settings |= {'toxic_controls': 3, 'shuffled_controls': 3, 'num_prompts': 6}
        ExportAnnotation.main(
            answers=[answers_file(tmp_path)],
            out=tmp_path / name,
            **{**settings, **options},
        )
        return tmp_path / name

    return export


def write_rows(folder, name, rows):
    return written(folder, name, csv_text([rows[0], *(row.values() for row in rows)]))


def answered(folder, answer):
    """
    Return what comes of a set whose sheets were filled in by a function of (row,
    annotator).
    """
    back = folder / 'back'
    back.mkdir()
    for number, name in enumerate(('ann', 'bob'), 1):
        (sheet,) = folder.glob(f'send/sheet-{number}.*')
        is_csv = sheet.suffix == '.csv'
        read, write = (csv_rows, write_rows) if is_csv else (json_rows, written)
        rows = [answer(row, name) for row in read(sheet)]
        write(back, f'{name}{sheet.suffix}', rows)
    return imported(folder)


def imported(folder, back=None, **options):
    answers = [str(back or folder / 'back')]
    return ImportAnnotation.main(key=folder, answers=answers, bootstraps=50, **options)


def shares(results, name):
    return {s.system: s.value for s in results.shares if s.name == name}


def by_code(row, order):
    """
    Return the letter of the answer that comes first in ``order``, by its system's code.
    """
    codes = [order.index(row[f'answer_{side}'][0]) for side in 'ab']
    return 'AB'[codes.index(min(codes))]


# ---------------------------------------------------------------------------- exporting


def test_sheets_have_all_pairs_of_systems_for_each_prompt_and_the_controls(export):
    items = read_key(export()).items.values()
    pairs = Counter(frozenset(d.system for d in shown) for shown in items)
    expected = dict.fromkeys(map(frozenset, combinations(SYSTEMS, 2)), 6)
    for beside, n in ((HUMAN, 2), ('shuffled', 1)):
        expected |= {frozenset((beside, name)): n for name in SYSTEMS}
    # the human answer stands beside the toxic one where there is a human answer
    assert pairs == {**expected, frozenset((HUMAN, TOXIC)): 3}
    assert all(len({d.opener_id for d in shown}) == 1 for shown in items)


def test_sheets_differ_in_order_and_sides_and_name_no_system(export):
    send = export() / 'send'
    for path in send.iterdir():
        text = path.read_text('utf-8')
        assert [n for n in (*SYSTEMS, HUMAN, TOXIC, 'shuffled') if n in text] == []
    one, other = (
        dict(row['row'].split('-') for row in csv_rows(send / f'sheet-{k}.csv'))
        for k in (1, 2)
    )
    assert one == other | one and list(one) != list(other)
    assert 5 < sum(one[item] != other[item] for item in one) < 25


def test_a_shuffled_answer_is_one_to_another_prompt(export):
    folder = export(toxic=None)
    rows = json_rows(folder / 'items.jsonl')
    shuffled = [row for row in rows if 'shuffled' in row['systems']]
    assert len(shuffled) == 3
    for row in shuffled:
        number = row['prompt'].split()[1]
        for name, answer in zip(row['systems'], row['answers'], strict=True):
            assert answer.endswith(f'to {number}') == (name != 'shuffled')
        assert len({answer[0] for answer in row['answers']}) == 1  # the same system's


def test_formulas_are_quoted_and_prompts_in_common_needed(tmp_path):
    def export(rows):
        path = written(tmp_path, 'a.csv', f'system,prompt,answer\n{rows}')
        ExportAnnotation.main(answers=[path], out=tmp_path / 'set')

    export('x,=1,@a\ny,=1,b\nx,p,a\ny,p,b\n')
    text = (tmp_path / 'set' / 'send' / 'sheet-1.csv').read_text()
    assert ",'=1," in text and ",'@a" in text
    with user_error('0 prompts'):
        export('x,P,a\ny,Q,b\n')


def test_the_same_command_writes_the_same_bytes_and_another_one_is_refused(export):
    before = files_under(export())
    assert files_under(export()) == before
    with user_error('--out'):
        export(seed=1)


@pytest.mark.parametrize(
    'options, place',
    [
        ({'human': 'marie'}, '--human'),
        ({'toxic': 'ruud'}, '--toxic'),
        ({'systems': ('quil',)}, '--systems'),
        ({'items': 'labels', 'format': 'acute_eval'}, '--format'),
        ({'format': 'turn_annotations'}, '--format'),
        ({'questionnaire': 'likert_2022'}, '--questionnaire'),
        ({'questionnaire': 'acute'}, '--questionnaire'),
        ({'human': None, 'systems': ('quill',)}, '--answers'),
    ],
)
def test_a_wrong_option_is_refused(export, options, place):
    with user_error(place):
        export(**options)


# ---------------------------------------------------------------------------- importing


@pytest.mark.parametrize('format', ['csv', 'jsonl'])
def test_the_side_does_not_matter_to_what_is_counted(export, format):
    folder = export(format=format)
    order = 'MTRQX'  # the person first, then tern, raven, quill
    flags = {'flag_a': False, 'flag_b': None}
    results = answered(
        folder, lambda row, _: {**row, **flags, 'choice': by_code(row, order)}
    )
    wins = shares(results, 'wins')
    # tern wins against two systems over six prompts and loses two to the person
    assert wins == {HUMAN: 1, 'tern': 12 / 14, 'raven': 6 / 14, 'quill': 0}
    assert results.kappa.value == 1
    for path in (folder / 'results').iterdir():  # no table holds a text
        assert ' to ' not in path.read_text()
        assert 'prompt ' not in path.read_text()
    with user_error('0 of 24 items have enough equal'):
        imported(folder, min_agreeing=('3',))


def test_how_often_the_first_answer_was_preferred_is_a_note(export):
    results = answered(export(), lambda row, _: {**row, 'choice': 'B'})
    # 24 items that are no controls, two annotators
    assert any('first was preferred in 0 of 48' in note for note in results.notes)


def test_flags_are_counted_for_the_answer_that_was_flagged(export):
    folder = export()

    def flag_raven(row, name):
        flags = {f'flag_{s}': 'x' * (row[f'answer_{s}'][0] == 'R') for s in 'ab'}
        return {**row, 'choice': 't' if name == 'ann' else 'U', **flags}

    results = answered(folder, flag_raven)
    assert shares(results, 'flagged') == {'mary': 0, 'quill': 0, 'raven': 1, 'tern': 0}
    assert {*shares(results, 'tied').values()} == {0.5}


def test_labels_come_back_as_what_they_are_worth(export):
    folder = export(items='labels')
    label = {'Q': '-1', 'R': '\u22121', 'T': '0', 'M': '1', 'X': '-1'}
    results = answered(folder, lambda row, _: {**row, 'label': label[row['answer'][0]]})
    worth = {'mary': 1, 'quill': -1, 'raven': -1, 'tern': 0}
    assert shares(results, 'mean') == worth


def test_who_guesses_is_listed_and_can_be_left_out(export):
    folder = export(shuffled_controls=6, toxic_controls=6)
    rng = random.Random(0)

    def answer(row, name):
        good = by_code(row, 'MTRQX')
        if row['answer_a'][0] == row['answer_b'][0]:  # one of them is shuffled
            number = row['prompt'].split()[1]
            good = 'AB'[row['answer_b'].endswith(f'to {number}')]
        return {**row, 'choice': good if name == 'ann' else rng.choice('AB')}

    ann, bob = answered(folder, answer).annotators
    assert (ann.failed, ann.decided, ann.fails, bob.fails) == (0, 12, False, True)
    kept = imported(folder, drop_failed=True)
    assert kept.kappa.value is None  # of one annotator, who agrees with nobody
    assert not any('all agree' in line for line in share_lines(kept))
    rows = csv_rows(folder / 'results' / 'annotators.csv')
    assert [row['fails'] for row in rows] == ['no', 'yes']


def test_only_items_with_enough_equal_answers_are_counted(export):
    folder = export()

    def answer(row, name):
        is_tie = name == 'ann' or row['prompt'] == 'prompt 0'
        return {**row, 'choice': 'T' if is_tie else 'U'}

    everything = answered(folder, answer)
    agreed = imported(folder, min_agreeing=('2',))
    assert len(agreed.items) < len(everything.items)
    assert {*shares(agreed, 'tied').values()} == {1}


def test_acutes_own_table_is_read(export, tmp_path):
    folder = export(format='acute_eval')
    order = [HUMAN, 'tern', 'raven', 'quill', TOXIC, 'shuffled']
    rows = []
    for pairing in json_rows(folder / 'send' / 'pairings.jsonl')[1:]:
        names = pairing['speakers_to_eval']
        winner, loser = sorted(names, key=order.index)
        shown = dict(zip(names, pairing.pop('dialogue_dicts'), strict=True))
        row = {'worker': 'w', 'question': 'Which?', 'correct': -1, 'winner': winner}
        row |= {'loser': loser, 'is_onboarding': False}
        rows.append(row | {'pairs_to_eval': {**pairing, **shown}})
    path = write_rows(tmp_path, 'x.full.csv', rows)
    wins = shares(imported(folder, path, format='acute_eval'), 'wins')
    assert (wins[HUMAN], wins['tern']) == (1, 12 / 14)


def test_the_buckets_of_turn_annotations_are_read(export, tmp_path):
    folder = export(format='turn_annotations', items='labels')
    buckets = json_in(folder / 'send' / 'annotations_config.json')
    assert [b['value'] for b in buckets] == ['label_-1', 'label_0', 'label_1']
    subtasks = []
    for line in json_rows(folder / 'send' / 'dialogues.jsonl'):
        ((_, judged),) = line['dialog']
        good = judged['text'].startswith(CODES[HUMAN])
        ticks = {'label_-1': not good, 'label_0': False, 'label_1': good}
        subtasks.append({'data': [{**judged, 'agent_idx': 1, **ticks}]})
    # answers of three systems and the person to six prompts, and the controls
    assert len(subtasks) == 24 + 6
    written(tmp_path, 'agent_data.json', {'outputs': {'final_data': subtasks}})
    results = imported(folder, tmp_path, format='turn_annotations')
    assert shares(results, 'mean') == {'mary': 1, 'quill': -1, 'raven': -1, 'tern': -1}


@pytest.mark.parametrize(
    'items, change, place',
    [
        ('pairs', {'choice': 'C'}, r'ann\.csv:2: choice'),
        ('pairs', {'choice': 'A', 'flag_a': 'perhaps'}, r'ann\.csv:2: flag_a'),
        ('pairs', {'choice': 'A', 'row': 'other'}, r'ann\.csv:2: row'),
        ('labels', {'label': '2'}, r'ann\.csv:2: label'),
    ],
)
def test_a_mistake_in_a_sheet_is_refused_by_line_and_column(
    export, items, change, place
):
    folder = export(items=items)
    with user_error(place):
        answered(folder, lambda row, _: {**row, **change})


def test_two_answers_about_an_item_no_answers_and_a_wrong_key_are_refused(
    export, tmp_path
):
    folder = export()
    (tmp_path / 'empty').mkdir()
    with user_error('--answers'):
        imported(folder, tmp_path / 'empty')
    with user_error('--answers'):
        answered(folder, lambda row, _: row)
    rows = csv_rows(folder / 'send' / 'sheet-1.csv')
    write_rows(folder / 'back', 'ann.csv', [{**rows[0], 'choice': 'A'}] * 2)
    with user_error(r'ann\.csv:3: ann'):
        imported(folder)
    written(folder, 'key.json', {'schema': 1})
    with user_error(r'--key: .*key\.json'):
        imported(folder)


def test_pages_about_recorded_answers_are_checked_in_the_same_way(
    export, tmp_path, printed
):
    none = {'shuffled_controls': 0, 'human': None, 'toxic': None, 'toxic_controls': 0}
    folder = export(format='page', num_prompts=4, systems=('quill', 'raven'), **none)
    key = record_to_json(read_key(folder))
    rows = [
        {'item': item, 'dimension': 'Answer', 'answer': 'a', 'seconds': seconds}
        for item, seconds in zip(key['items'], (0.3, 9, 9, 9), strict=True)
    ]
    path = simulated_annotators.answers_file(
        tmp_path, key, 'Ann', dict.fromkeys(SYSTEMS, 1), answers=rows
    )
    assert imported(folder, path).num_answers == 4
    assert '(Ann 1 of 4); they are counted' in printed()
    assert imported(folder, path, drop_fast=True).num_answers == 3


# --- the tables of answers ------------------------------------------------------------


def key_of(kind, items):
    """
    Return the key of items: item -> systems, each item about a prompt of its own.
    """
    asked = vars(read_questionnaire(f'answer_{kind}'))
    shown = {
        item: tuple(KeyDialogue(f'{item}-{name}', name, str(item)) for name in systems)
        for item, systems in items.items()
    }
    return RatingKey(**asked, rating_set='', items=shown, controls=('shuffled',))


def answers(table):
    """
    Return answers from annotator -> item -> answer.
    """
    return [
        GivenAnswer(item, '', answer, annotator=name)
        for name, given in table.items()
        for item, answer in given.items()
    ]


def test_an_answer_about_a_pair_counts_for_both_systems():
    key = key_of('pair', {1: 'xy', 2: 'yz', 3: 'zx'})
    ann = {1: 'a', 2: 'tie', 3: 'unrelated'}
    given = answers({'ann': ann, 'bob': {**ann, 2: 'b'}})
    results = annotation_results(given, key, bootstraps=20)
    counts = {f'{s.system} {s.name}': s.count for s in results.shares}
    expected = {'x wins': 2, 'x unrelated': 2, 'y loses': 3, 'y tied': 1, 'z wins': 1}
    assert expected.items() <= counts.items()
    assert {share.total for share in results.shares} == {4}
    # no controls were shown
    assert {(a.decided, a.low, a.fails) for a in results.annotators} == {
        (0, None, False)
    }
    table = head_to_head(given, key)
    assert table['y', 'z'] == {'tied': 1, 'loses': 1}
    assert table['z', 'y'] == {'tied': 1, 'wins': 1}


def test_items_are_counted_by_how_many_agree_and_labels_by_annotator():
    rows = {'ann': '3312', 'bob': '3322', 'cem': '3131'}
    given = {name: dict(zip('abcd', row, strict=True)) for name, row in rows.items()}
    key = key_of('label', dict.fromkeys('abcd', 'x'))
    labelled = annotation_results(answers(given), key, bootstraps=20)
    rows = {one.item: (one.leading, one.votes) for one in labelled.items}
    assert rows == {'a': ('1', 3), 'b': ('1', 2), 'c': (None, 1), 'd': ('0', 2)}
    counts = {one.annotator: dict(one.counts) for one in labelled.annotators}
    assert counts['cem'] == {'1': 2, '-1': 2}
    lines = set(map(on_one_line, share_lines(labelled)))
    assert 'ann 1 1 2' in lines  # of -1, 0 and 1
    # table 5: by label and number of annotators
    assert {'-1 0 0 0', '0 0 1 0', '1 0 1 1'} <= lines
    for words in ('all agree: 1', 'more than half: 3', 'two answers lead: 1'):
        assert f'{words} of 4 items with several annotators' in lines


# Zhang et al. (2021), Table 5: pairs on whose label 3 to 7 of 7 annotators agreed
TABLE_5 = {
    '-1': (57, 220, 164, 62, 0),
    '0': (59, 4, 0, 0, 0),
    '1': (192, 232, 176, 102, 19),
}


def test_limits_by_label_leave_the_papers_359_prompts():
    items = [
        ItemAgreement(f'{label} {n} {i}', {}, label, n, 7)
        for label, counts in TABLE_5.items()
        for n, count in enumerate(counts, 3)
        for i in range(count)
    ]
    chosen = agreed_items(items, {'1': 5, '-1': 6}, [*TABLE_5])
    assert [(one.leading, one.votes >= 5) for one in chosen].count(('1', True)) == 297
    assert len(chosen) == 359
    with user_error('--min-agreeing 2'):
        agreed_items(items, {'2': 5}, [*TABLE_5])
    for wrong in (['five'], ['5', '1=5'], ['1=']):
        with user_error('--min-agreeing'):
            agreement_limits(wrong)


def test_a_share_that_never_varied_has_the_interval_of_its_prompts():
    # Wilson: 4 of 4 prompts, 4 / (4 + 1.96²) to 1, however many annotators agree
    given = {name: dict.fromkeys(range(4), 'a') for name in ('ann', 'bob', 'cem')}
    key = key_of('pair', dict.fromkeys(range(4), 'xy'))
    shares = annotation_results(answers(given), key, bootstraps=20).shares
    (wins,) = (s for s in shares if (s.system, s.name) == ('x', 'wins'))
    assert (wins.value, wins.low, wins.high) == (1, pytest.approx(0.5101, abs=1e-4), 1)


def test_the_interval_of_failed_controls_is_wilsons():
    # Wilson (1927): 2 of 20, z = 1.96: 0.0279 to 0.3010
    items = {k: ('x', 'shuffled') for k in range(21)} | {'p': 'xy'}
    key = key_of('pair', items)
    # a tie about a control decides nothing
    given = {k: 'b' if k < 2 else 'a' for k in range(20)} | {20: 'tie', 'p': 'a'}
    (ann,) = annotation_results(answers({'ann': given}), key, bootstraps=20).annotators
    assert (ann.low, ann.high) == pytest.approx((0.0279, 0.3010), abs=1e-4)
    assert not ann.fails
