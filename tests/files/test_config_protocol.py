"""
Protocol files: what they say, what the command line puts over it, what is refused.
"""

import pytest

from parlai_ext.core import Protocol
from parlai_ext.scoring.registry import load_protocol_file
from tests.support.user_error import error_line

PLAIN = """\
pairing: bipartite
openers: ext:smalltalk
num_dialogues: 7
num_turns: 8
score: target
seed: 3
scorer: {name: fed, judge_model_file: zoo:mini/judge/model}
ranking: {bootstraps: 20, max_failed_share: 0.1}
roster:
  targets:
    - {name: one, opt: {model: repeat_query}}
    - {name: two, opt: {model: repeat_label}}
  partners:
    - {name: three, opt: {model: fixed_response}}
reference:
  kind: planted
  Overall: {one: 1, two: 2.5}
"""


@pytest.fixture
def write(tmp_path):
    def write(text):
        (tmp_path / 'my.yaml').write_text(text)
        return str(tmp_path / 'my.yaml')

    return write


def load_protocol(path, given=None):
    return load_protocol_file(path, given).protocol


def mistake(path, **given):
    return error_line(load_protocol, path, given).removeprefix(path)


OWN_OPENERS = PLAIN.replace('openers: ext:smalltalk', 'openers_file: mine.csv')


def test_a_file_of_openers_lies_beside_the_protocol(write, tmp_path):
    path = write(OWN_OPENERS)
    assert mistake(path).startswith(':2: openers_file: there is no file mine.csv')
    (tmp_path / 'mine.csv').touch()
    found = load_protocol_file(path)
    assert found.openers_file == str(tmp_path / 'mine.csv')
    # it is read by the task of openers that is the default
    assert found.protocol.openers == Protocol.openers
    assert load_protocol_file(path, {'openers': 'ext:smalltalk'}).openers_file is None
    two = write(f'{OWN_OPENERS}openers: ext:smalltalk\n')
    assert mistake(two).startswith(':2: openers_file: ')


def test_every_key_of_a_protocol_file_is_read(write):
    found = load_protocol(write(PLAIN))
    judge = 'zoo:mini/judge/model'
    expected = {
        **{'name': 'my', 'pairing': 'bipartite', 'openers': 'ext:smalltalk'},
        **{'num_dialogues': 7, 'num_turns': 8, 'score': 'target', 'seed': 3},
        'scorer': {'name': 'fed', 'judge_model_file': judge},
        'ranking': {'bootstraps': 20, 'max_failed_share': 0.1},
        'reference_kind': 'planted',
        'reference': {'Overall': {'one': 1.0, 'two': 2.5}},
    }
    assert {key: getattr(found, key) for key in expected} == expected
    assert [s.name for s in found.roster.systems] == ['one', 'two', 'three']


def test_the_command_line_wins_and_none_is_not_given(write):
    plain = {'num_dialogues': 2, 'seed': 0}
    scorer = {'judge_model_file': 'zoo:x/model', 'followups': 'fed_2020'}
    ranking = {'bootstraps': 25, 'max_failed_share': 0.0}
    given = {**plain, **scorer, **ranking, 'num_turns': None}
    found = load_protocol(write(PLAIN), given)
    assert (found.num_dialogues, found.num_turns, found.seed) == (2, 8, 0)
    assert found.scorer == {'name': 'fed', **scorer}
    assert found.ranking == ranking


def test_partners_take_no_part_outside_bipartite_play(write):
    found = load_protocol(write(PLAIN), {'pairing': 'all_play_all'})
    assert found.roster.partners == () and len(found.roster.targets) == 2


@pytest.mark.parametrize(
    'old, new, line, key, right',
    [
        ('num_dialogues', 'num_dialogs', 3, 'num_dialogs', "'num_dialogues'"),
        ('bootstraps', 'bootstrap', 8, 'ranking.bootstrap', "'bootstraps'"),
        ('judge_model_file', 'judge', 7, 'scorer.judge', 'judge_model_file'),
        ('dialogues: 7', 'dialogues: x', 3, 'num_dialogues', 'whole number'),
        ('score: target', 'score: targets', 5, 'score', "'target'"),
        ('seed: 3', 'seed: -3', 6, 'seed', 'from 0'),
        ('openers: ext:smalltalk', 'openers: 3', 2, 'openers', 'quotes'),
        ('share: 0.1', 'share: 5', 8, 'ranking.max_failed_share', 'from 0 to 1'),
        ('scorer: {', 'scorer: fed #{', 7, 'scorer', 'a mapping'),
        ('kind: planted', 'kind: guessed', 15, 'reference', "'kind: human'"),
        ('two: 2.5}', 'too: 2.5}', 17, 'reference.Overall.too', "'two'"),
        ('two: 2.5}', 'two: high}', 17, 'reference.Overall.two', 'a number'),
    ],
)
def test_a_mistake_names_line_and_key_and_what_is_right(
    write, old, new, line, key, right
):
    assert old in PLAIN
    message = mistake(write(PLAIN.replace(old, new)))
    assert message.startswith(f':{line}: {key}: ')
    assert right in message


@pytest.mark.parametrize(
    'option, value, words',
    [
        ('num_turns', 2, '--num-turns'),
        ('pairing', 'pairs', '--pairing'),
        ('bootstraps', 19, '--bootstraps'),
    ],
)
def test_a_mistake_on_the_command_line_names_the_option(write, option, value, words):
    assert mistake(write(PLAIN), **{option: value}).startswith(words)


def test_a_protocol_needs_a_roster_and_bipartite_play_partners(write):
    text = PLAIN.partition('  partners:\n')[0]
    assert mistake(write(text)).startswith(':9: roster: ')
    assert "needs the key 'roster'" in mistake(write(''))


def test_a_roster_may_be_a_file_and_replaces_that_of_the_reference(write, tmp_path):
    path = tmp_path / 'mine.yaml'
    path.write_text(
        'targets: [{name: one, opt: {model: repeat_query}}]\n'
        'partners: [{name: y, opt: {model: repeat_label}}]\n'
    )
    beside = write(PLAIN.split('roster:')[0] + 'roster: mine.yaml\n')
    assert load_protocol(beside).roster.targets[0].name == 'one'
    found = load_protocol(write(PLAIN), {'roster': str(path)})
    assert found.reference == {'Overall': {'one': 1.0}}
