"""
The command `rate_dialogues`: what is drawn, what a page shows, what it may not show.
"""

import re
from collections import Counter
from itertools import product

import pytest

from parlai_ext.commands.command import run_directly
from parlai_ext.commands.rate_dialogues import RateDialogues
from tests.support.report_example import example_run
from tests.support.simulated_annotators import page_data, read_key
from tests.support.user_error import user_error

TARGETS = ('quill', 'raven', 'tern')
OPENERS = ('hello there', 'good morning', 'nice day', 'how are you', 'what is new')


@pytest.fixture
def run(tmp_path):
    return example_run(tmp_path / 'run', TARGETS, openers=OPENERS).root


def test_a_page_names_no_system_and_no_dialogue(run):
    (path,) = RateDialogues.main(run_dir=run)
    text = path.read_text('utf-8')
    key = read_key(run)
    ids = {d['dialogue_id'] for item in key['items'].values() for d in item}
    names = (*TARGETS, 'mary', *ids)
    assert [name for name in names if re.search(rf'\b{name}\b', text)] == []


def test_pairs_of_systems_are_drawn_evenly_over_the_same_openers(run):
    RateDialogues.main(run_dir=run, num_items=15)
    items = read_key(run)['items'].values()
    pairs = Counter(frozenset(d['system'] for d in item) for item in items)
    assert sorted(pairs.values()) == [5, 5, 5]
    assert all(len({d['opener_id'] for d in item}) == 1 for item in items)
    assert len({item[0]['system'] for item in items}) == 3  # either comes first


def test_likert_items_are_drawn_evenly_over_systems_and_openers(run):
    RateDialogues.main(run_dir=run, questionnaire='likert_2022', num_items=9)
    dialogues = [d for (d,) in read_key(run)['items'].values()]
    shown = {(d['system'], d['opener_id']) for d in dialogues}
    openers = {opener for _, opener in shown}
    # three openers of each
    assert shown == set(product(TARGETS, openers)) and len(dialogues) == 9


def test_the_judged_speaker_is_marked_and_given_turns_are(run):
    options = {'questionnaire': 'likert_2022', 'num_items': 1000}
    (path,) = RateDialogues.main(run_dir=run, **options)
    shown = [d for item in page_data(path)['items'] for d in item['dialogues']]
    assert {len(d) for d in shown} == {6}  # none that was broken off
    assert [turn['own'] for turn in shown[0]] == [True, False] * 3
    assert [turn['given'] for turn in shown[0]] == [True, True] + [False] * 4


def test_pages_share_some_items_and_have_others_of_their_own(run):
    paths = RateDialogues.main(run_dir=run, num_items=6, num_pages=3, shared_items=2)
    pages = [{item['id'] for item in page_data(path)['items']} for path in paths]
    assert [len(page) for page in pages] == [6, 6, 6]
    assert len(set.intersection(*pages)) == 2
    assert len(set.union(*pages)) == 2 + 3 * 4
    with user_error('--shared-items 7: .* 6 items'):
        RateDialogues.main(run_dir=run, num_items=6, shared_items=7)


def test_every_page_has_all_systems(run):
    # else annotators of one page judge one system, and its score is their strictness
    options = {'questionnaire': 'likert_2022', 'num_items': 6, 'shared_items': 0}
    for path in RateDialogues.main(run_dir=run, num_pages=3, **options):
        shown = [
            read_key(run)['items'][item['id']] for item in page_data(path)['items']
        ]
        systems = Counter(dialogue['system'] for (dialogue,) in shown)
        assert systems == dict.fromkeys(TARGETS, 2)


def test_the_same_command_writes_the_same_bytes_and_other_items_no_key(run):
    (path,) = RateDialogues.main(run_dir=run)
    before = path.read_bytes()
    RateDialogues.main(run_dir=run)
    assert path.read_bytes() == before
    with user_error('--name'):  # answers to the former ones may come
        RateDialogues.main(run_dir=run, seed=1)
    RateDialogues.main(run_dir=run, seed=1, name='second')


@pytest.mark.parametrize(
    'flags, place',
    [
        (['--systems', 'qill'], '--systems'),
        (['--ask', 'Engagin'], '--ask'),
        (['--systems', 'quill'], '--run-dir'),
        (['--name', '../x'], '--name'),
    ],
)
def test_a_mistake_is_one_line_that_names_the_option(run, flags, place, exit_line):
    words = ['--run-dir', str(run), *flags]
    error = exit_line(run_directly, 'rate_dialogues', words)
    assert error.startswith(f'error: {place}')
