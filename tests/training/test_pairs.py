"""
Pairs of good and bad responses: where each response comes from.
"""

import re
from collections import Counter
from dataclasses import asdict
from pathlib import Path

import pytest

from parlai_ext.commands.build_pairs import BuildPairs
from parlai_ext.commands.judge_pairs import JudgePairs
from parlai_ext.data.corpora import AnnotatedContext
from parlai_ext.scoring.llm_judges import JudgedResponse
from parlai_ext.scoring.registry import find_scorer
from parlai_ext.training import pairs as training_pairs
from parlai_ext.training.pairs import (
    PairOptions,
    ResponsePair,
    build_pairs,
    pair_accuracies,
    read_response_pairs,
)
from tests.support.user_error import user_error
from tests.support.written import written

# turn "3.1" is the second turn of the fourth dialogue
DIALOGUES = [tuple(f'{d}.{i}' for i in range(5)) for d in range(8)]
ANNOTATED = [
    AnnotatedContext(
        (f'c{d}',), (f'c{d} good', f'c{d} fine'), (f'c{d} bad', f'c{d} worse')
    )
    for d in range(6)
]
ALL = ('random', 'adversarial', 'repeated', 'speaker')


def pairs_of(annotated=ANNOTATED, **options):
    return build_pairs(DIALOGUES, annotated, PairOptions(**options))


def of_kind(kind, **options):
    pairs = pairs_of(num_pairs=12, kinds=(kind,), same_context=1.0, **options)
    assert {pair.kind for pair in pairs} == {kind}
    return pairs


def place(text):
    dialogue, turn = text.split('.')
    return int(dialogue), int(turn)


def test_each_kind_has_its_share():
    pairs = pairs_of(num_pairs=20, kinds=(*ALL, 'random'))
    expected = {'random': 8, 'adversarial': 4, 'repeated': 4, 'speaker': 4}
    assert Counter(pair.kind for pair in pairs) == expected


@pytest.mark.parametrize(
    'kind, is_right',
    [
        ('random', lambda good, bad: bad[0] != good[0]),  # another dialogue
        ('repeated', lambda good, bad: bad[0] == good[0] and bad[1] < good[1]),
        ('speaker', lambda good, bad: bad == (good[0], good[1] + 1)),
    ],
)
def test_where_a_bad_response_is_from(kind, is_right):
    for pair in of_kind(kind):
        assert is_right(place(pair.good.response), place(pair.bad.response))
        assert pair.bad.context == pair.good.context


def test_a_shuffled_response_has_the_words_of_the_good_one_in_another_order():
    dialogues = [tuple(f'{d} {i} one two three' for i in range(5)) for d in range(8)]
    options = PairOptions(num_pairs=12, kinds=('shuffled',), same_context=1.0)
    for pair in build_pairs(dialogues, [], options):
        bad, good = pair.bad.response.split(), pair.good.response.split()
        assert bad != good and sorted(bad) == sorted(good)
        assert pair.bad.context == pair.good.context


def test_an_adversarial_response_is_written_for_its_context():
    for pair in of_kind('adversarial'):
        [context] = pair.bad.context
        assert pair.good.response in (f'{context} good', f'{context} fine')
        assert pair.bad.response in (f'{context} bad', f'{context} worse')


@pytest.mark.parametrize('same_context', [0.0, 1.0])
def test_a_swapped_response_stands_as_late_in_another_dialogue(same_context):
    pairs = pairs_of(num_pairs=12, kinds=('swapped',), same_context=same_context)
    for pair in pairs:
        assert pair.bad.response == pair.good.response
        dialogue, turn = place(pair.good.response)
        assert pair.good.context == DIALOGUES[dialogue][max(0, turn - 4) : turn]
        other, last = place(pair.bad.context[-1])
        assert (other != dialogue, last) == (True, turn - 1)
        assert len(pair.bad.context) == len(pair.good.context)


def test_who_does_not_read_contexts_is_at_chance_on_swapped_responses():
    pairs = pairs_of(num_pairs=12, kinds=('swapped',))
    swapped = pair_accuracies(find_scorer('length').from_section({}), pairs)[0]
    assert (swapped.kind, swapped.accuracy) == ('swapped', 0.5)


def test_a_kind_that_the_scorer_cannot_score_has_no_accuracy(tmp_path, printed):
    short = of_kind('random')  # one word has no 2-gram
    long = ResponsePair(*(JudgedResponse(('a',), text) for text in ('b c', 'd d')), 'x')
    file = written(tmp_path, 'pairs.jsonl', [*map(asdict, [*short, long])])
    row, *_ = JudgePairs.main(pairs=str(file), scorer='distinct')
    assert (row.kind, row.accuracy, row.num_unscored) == ('random', None, 12)
    assert re.search('random +0 +– +– +12', printed())
    with user_error('no pair has scores: no 2 words'):
        JudgePairs.main(pairs=str(file), scorer='distinct', limit=12)


def test_conversations_are_compared_where_contexts_differ():
    pairs = pairs_of(num_pairs=12, kinds=ALL, same_context=0.0)
    for pair in pairs:
        if pair.kind != 'adversarial':
            dialogue, turn = place(pair.good.response)
            assert pair.good.context[-1] == f'{dialogue}.{turn - 1}'
        else:  # by the same writers
            assert pair.good.context[0] in pair.good.response


def test_wrong_responses_of_one_good_one_stand_together():
    pairs = of_kind('random', per_context=3)
    good = [pair.good.response for pair in pairs]
    assert [len(set(good[i : i + 3])) for i in range(0, 12, 3)] == [1] * 4
    assert len({(pair.good.response, pair.bad.response) for pair in pairs}) == 12


def test_contexts_and_pairs_are_as_long_as_asked():
    for pair in pairs_of(num_pairs=12, kinds=('random',), context_turns=2, max_words=5):
        words = [*pair.good.context, *pair.bad.context]
        assert len(pair.good.context) <= 2
        assert len(words) + 2 <= 5


def test_equal_seeds_give_equal_pairs():
    assert pairs_of(num_pairs=12) == pairs_of(num_pairs=12)
    assert pairs_of(num_pairs=12) != pairs_of(num_pairs=12, seed=1)


@pytest.mark.parametrize(
    'options, key',
    [
        ({'kinds': ('wrong',)}, 'kinds'),
        ({'kinds': ('adversarial',), 'annotated': []}, 'adversarial'),
        ({'kinds': ('adversarial',), 'num_pairs': 25}, 'num-pairs'),  # 6 x 2 x 2 = 24
        ({'kinds': ('random',), 'max_words': 2}, 'num-pairs'),
    ],
)
def test_what_cannot_be_made_is_refused(options, key):
    with user_error(key):
        pairs_of(**{'num_pairs': 5, **options})


def test_a_file_of_pairs_is_read_as_it_was_written(tmp_path):
    pairs = pairs_of(num_pairs=6)
    path = written(tmp_path, 'pairs.jsonl', [*map(asdict, pairs)])
    assert read_response_pairs(path) == pairs


def test_a_wrong_line_is_named(tmp_path):
    [pair] = pairs_of(num_pairs=1)
    row = asdict(pair)
    path = written(tmp_path, 'pairs.jsonl', [row, {**row, 'bad': 7}])
    with user_error('pairs.jsonl:2: bad'):
        read_response_pairs(path)


def talk_file(folder, name, dialogues):
    return written(folder, name, [{'dialogue': one} for one in dialogues])


def test_the_command_leaves_out_what_is_held_out(tmp_path, printed):
    turns = [f'This is turn number {i} of some length.' for i in range(6)]
    rows = [turns[:3], turns[3:], ['Hello there.', 'Good morning to you.']]
    out = BuildPairs.main(
        corpus='jsonl',
        path=str(talk_file(tmp_path, 'train.jsonl', rows)),
        leave_out=[str(talk_file(tmp_path, 'test.jsonl', [turns[:2]]))],
        num_pairs=8,
        out=str(tmp_path / 'pairs.jsonl'),
    )
    assert 'left out: 1 of 3' in printed()
    pairs = Path(out).read_text()
    assert [turn in pairs for turn in turns] == [False] * 3 + [True] * 3


def test_a_split_of_one_file_is_refused(tmp_path):
    talk = str(talk_file(tmp_path, 'talk.jsonl', DIALOGUES))
    with user_error('--split test'):
        BuildPairs.main(corpus='jsonl', path=talk, split='test', out='pairs.jsonl')


def test_without_a_number_there_are_as_many_adversarial_pairs_as_people_wrote(
    tmp_path, monkeypatch, printed
):
    monkeypatch.setattr(training_pairs, 'MOST_PAIRS', 100)
    people = [
        {
            'context': one.context,
            'positive_responses': one.positive,
            'adversarial_negative_responses': one.adversarial,
        }
        for one in ANNOTATED
    ]
    annotated = str(written(tmp_path, 'dev.jsonl', people))
    talk = str(talk_file(tmp_path, 'train.jsonl', DIALOGUES))
    given = {'corpus': 'jsonl', 'path': talk, 'adversarial': annotated}
    given['out'] = str(tmp_path / 'pairs.jsonl')
    pairs = read_response_pairs(BuildPairs.main(**given))
    counts = Counter(pair.kind for pair in pairs)
    # 6 contexts with 2 good and 2 bad responses: 24 pairs of texts
    assert counts == {'random': 50, 'adversarial': 24}
    said = [line for line in printed().split('\n') if '24 pairs' in line]
    assert said == [f'adversarial: {annotated} has 24 pairs for these options, not 50']
    with user_error('--num-pairs: 26 of the adversarial'):
        BuildPairs.main(**given, num_pairs=100)
