"""
The tables of annotated answers, by pencil and by the paper's own table.
"""

import pytest

from parlai_ext.commands.import_annotation import agreement_limits
from parlai_ext.people.answer_shares import (
    ItemAgreement,
    agreed_items,
    annotation_results,
    head_to_head,
    share_lines,
)
from parlai_ext.people.given_answers import GivenAnswer
from parlai_ext.people.questionnaire import read_questionnaire
from parlai_ext.people.rating_set import KeyDialogue, RatingKey
from tests.support.user_error import user_error
from tests.support.written import on_one_line


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
    table = head_to_head(given, key)
    assert table['y', 'z'] == {'tied': 1, 'loses': 1}
    assert table['z', 'y'] == {'tied': 1, 'wins': 1}


@pytest.fixture
def labelled():
    """
    The results of three annotators who gave labels to four items.
    """
    rows = {'ann': '3312', 'bob': '3322', 'cem': '3131'}
    given = {name: dict(zip('abcd', row, strict=True)) for name, row in rows.items()}
    key = key_of('label', dict.fromkeys('abcd', 'x'))
    return annotation_results(answers(given), key, bootstraps=20)


def test_items_are_counted_by_how_many_agree_and_labels_by_annotator(labelled):
    rows = {one.item: (one.leading, one.votes) for one in labelled.items}
    assert rows == {'a': ('1', 3), 'b': ('1', 2), 'c': (None, 1), 'd': ('0', 2)}
    counts = {one.annotator: dict(one.counts) for one in labelled.annotators}
    assert counts['cem'] == {'1': 2, '-1': 2}
    lines = set(map(on_one_line, share_lines(labelled)))
    assert 'ann 1 1 2' in lines  # of -1, 0 and 1
    # table 5: by label and number of annotators
    assert {'-1 0 0 0', '0 0 1 0', '1 0 1 1'} <= lines
    for words in ('all agree: 1', 'more than half: 3', 'two answers lead: 1'):
        assert f'{words} of 4 items' in lines


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


def test_limits_are_read_from_the_command_line():
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
    items = {k: ('x', 'shuffled') for k in range(20)} | {'p': 'xy'}
    key = key_of('pair', items)
    given = {k: 'b' if k < 2 else 'a' for k in range(20)} | {'p': 'a'}
    (ann,) = annotation_results(answers({'ann': given}), key, bootstraps=20).annotators
    assert (ann.low, ann.high) == pytest.approx((0.0279, 0.3010), abs=1e-4)
    assert not ann.fails


def test_a_tie_about_a_control_decides_nothing():
    key = key_of('pair', {1: 'xy', 2: ('x', 'shuffled')})
    given = answers({'ann': {1: 'a', 2: 'tie'}})
    (ann,) = annotation_results(given, key, bootstraps=20).annotators
    assert (ann.decided, ann.low, ann.fails) == (0, None, False)
