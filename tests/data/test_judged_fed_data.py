"""
FED's judged turns and dialogues, read from the user's file.
"""

from collections import Counter

import pytest

from parlai_ext.core.errors import UserError
from parlai_ext.tasks.judged.fed_data import dialogues_of, read_fed_data
from tests.bench.test_task_judged import shared, turn, written


def test_speakers_are_no_part_of_utterances(tmp_path):
    path = written(
        tmp_path, turn('User: Hi!\nSystem: Hey: you\nUser: So', 'System: Oh')
    )
    [one], [] = read_fed_data(path)
    assert one.utterances == ('Hi!', 'Hey: you', 'So', 'Oh')


def test_strings_are_dropped_and_counted(tmp_path):
    said = {'Wit': [1, 'N/A (no errors)', 2, True], 'Joy': ['N/A']}
    [one], [] = read_fed_data(written(tmp_path, turn('User: a', 'System: b', **said)))
    assert (one.human, one.strings) == ({'Wit': 1.5, 'Joy': None}, {'Wit': 2, 'Joy': 1})


def test_without_a_response_it_is_a_dialogue(tmp_path):
    raw = turn('User: a\nSystem: b', 'System: c')
    del raw['response']
    turns, dialogues = read_fed_data(written(tmp_path, raw))
    assert (turns, dialogues[0].utterances) == ([], ('a', 'b'))


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        ('{', 'not JSON'),
        ('{}', 'a list of objects is expected'),
        ('[3]', 'object 1: an object is expected, not 3'),
        ('[{"contxt": "a"}]', 'object 1: key context: a text is expected'),
        ('[{"context": "a", "response": 3}]', 'object 1: key response: a text'),
        ('[{"context": "a"}]', 'object 1: key annotations: qualities with lists'),
        (
            '[{"context": "a", "annotations": {"Wit": 3}}]',
            'key annotations: Wit: a list',
        ),
    ],
)
def test_a_file_of_another_shape_is_one_line(tmp_path, text, problem):
    path = tmp_path / 'fed_data.json'
    path.write_text(text)
    with pytest.raises(UserError, match=problem) as e:
        read_fed_data(path)
    assert '\n' not in str(e.value)


def test_published_file_has_its_published_counts():
    turns, dialogues = read_fed_data(shared('fed_data.json'))
    strings = [
        sum(sum(one.strings.values()) for one in own) for own in (turns, dialogues)
    ]
    assert (len(turns), len(dialogues), strings) == (375, 125, [12, 155])


def test_the_published_turns_are_three_to_a_dialogue():
    turns, _ = read_fed_data(shared('fed_data.json'))
    groups = dialogues_of(turns)
    assert sorted(Counter(groups).values()) == [3] * 125


def test_turns_of_a_dialogue_are_found_by_how_they_begin(tmp_path):
    path = written(
        tmp_path,
        turn('User: a\nSystem: b\nUser: c', 'System: d'),
        turn('User: x', 'System: b'),
        turn('User: a', 'System: b'),
        turn('User: a', 'System: bb'),
    )
    one, other, same, alone = dialogues_of(read_fed_data(path)[0])
    assert one == same
    assert len({one, other, alone}) == 3
