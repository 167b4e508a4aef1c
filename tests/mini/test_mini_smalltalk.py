"""
The small-talk generator, its corruptions and its reactions.
"""

import itertools
import os
import random
import re
import subprocess
import sys

import pytest
import yaml

from parlai_ext import zoo_configs
from parlai_ext.mini.corruptions import HELD_OUT, TRAIN, Corrupted
from parlai_ext.mini.reactions import (
    BLAME,
    COMPLAINTS,
    FAMILIES,
    SHORT,
    make_reaction_example,
)
from parlai_ext.mini.smalltalk import (
    LONGEST,
    SHORTEST,
    TOPICS,
    GeneratedTurn,
    as_listener_says,
    make_dialogue,
)

MANY = 200
DIGEST = """
import hashlib
from parlai_ext.mini.reactions import make_reaction_example
from parlai_ext.mini.smalltalk import make_dialogue
examples = [make_reaction_example('valid', 3, i) for i in range(50)]
told = str([[make_dialogue('valid', 3, i) for i in range(50)], examples])
print(hashlib.sha256(told.encode()).hexdigest())
"""


def shipped_follow_ups():
    text = zoo_configs.path('followups', 'default').read_text(encoding='utf-8')
    dimensions = yaml.safe_load(text)['dimensions']
    return [
        line for one in dimensions.values() for side in one.values() for line in side
    ]


def sentences(pattern):
    """
    Return every sentence of a pattern.
    """
    parts = re.split(r'\[([^\]]*)\]', pattern)
    options = [part.split('|') if i % 2 else [part] for i, part in enumerate(parts)]
    return [''.join(sentence) for sentence in itertools.product(*options)]


def inventory():
    """
    Return every possible reaction, without the leads.
    """
    families = [*SHORT.values(), *FAMILIES.values()]
    return [line for family in families for one in family for line in sentences(one)]


def bare(text):
    return text.lower().rstrip('.?!')


@pytest.mark.parametrize('fold', ['train', 'valid', 'test'])
def test_dialogues_have_six_to_twelve_turns(fold):
    lengths = {len(make_dialogue(fold, 0, i)) for i in range(MANY)}
    assert lengths == set(range(SHORTEST, LONGEST + 1))


def test_same_seed_same_talk_whatever_the_hash_seed():
    found = set()
    for hash_seed in ('1', '2'):
        env = {**os.environ, 'PYTHONHASHSEED': hash_seed}
        run = subprocess.run(
            [sys.executable, '-c', DIGEST], env=env, capture_output=True, text=True
        )
        found.add(run.stdout)
    assert len(found) == 1 and len(found.pop().strip()) == 64


def test_folds_and_seeds_share_no_dialogue():
    talks = [
        tuple(turn.text for turn in make_dialogue(fold, seed, i))
        for fold in ('train', 'valid', 'test')
        for seed in (0, 1)
        for i in range(MANY)
    ]
    assert len(set(talks)) == len(talks)


def test_there_are_at_least_twenty_topics_with_slot_values():
    assert len({topic.name for topic in TOPICS if len(topic.items) >= 5}) >= 20


def test_every_topic_is_talked_about():
    said = ' '.join(t.text for i in range(MANY) for t in make_dialogue('train', 0, i))
    silent = [one.name for one in TOPICS if not any(x in said for x in one.items)]
    assert silent == []


def test_an_answer_takes_up_the_value_it_is_asked_about():
    # a turn that names a detail's value follows one about the same item: the two
    # turns share the item, or the first only asked in general
    shared = asked = 0
    for i in range(MANY):
        turns = make_dialogue('train', 0, i)
        for before, after in zip(turns, turns[1:], strict=False):
            if before.slots and after.slots:
                asked += 1
                shared += bool(set(before.slots) & set(after.slots))
    assert shared / asked > 0.8


def test_a_listener_turns_my_into_your():
    assert as_listener_says('my sister') == 'your sister'
    assert as_listener_says('it helps me relax') == 'it helps you relax'


def test_no_corruption_is_both_learned_and_held_out():
    assert not set(TRAIN) & set(HELD_OUT)
    assert set(BLAME) == set(TRAIN)


@pytest.mark.parametrize('kind', sorted(TRAIN | HELD_OUT))
def test_a_spoilt_turn_differs_from_the_good_one(kind):
    spoiler = (TRAIN | HELD_OUT)[kind]
    changed = 0
    for i in range(50):
        turns, other = make_dialogue('train', 0, i)[:4], make_dialogue('train', 1, i)
        text = spoiler(Corrupted(random.Random(i), turns, other))
        changed += text != turns[-1].text
    assert changed >= 48


def test_word_salad_keeps_the_words():
    turn = GeneratedTurn('I like to walk in the forest.')
    salad = HELD_OUT['word_salad'](Corrupted(random.Random(1), [turn], [turn]))
    assert sorted(salad.split()) == sorted(turn.text.split())


def test_judged_examples_hold_no_held_out_reply():
    generic = {'Maybe.', 'Okay.', 'It depends.', 'I do not know.'}
    said = {
        text
        for i in range(MANY)
        for text in make_reaction_example('train', 0, i).context
    }
    assert not said & generic


def test_only_a_spoilt_last_turn_brings_a_complaint():
    complaints = tuple(
        bare(line) for line in inventory() if line not in praise_inventory()
    )
    for i in range(MANY):
        one = make_reaction_example('train', 0, i)
        complained = bare(one.reply).endswith(complaints)
        assert complained == (one.kind is not None), one


def praise_inventory():
    return set(SHORT['praise']) | {
        line for pattern in FAMILIES['praise'] for line in sentences(pattern)
    }


def test_every_family_of_complaints_is_used():
    assert set(BLAME.values()) | {'dislike'} == set(COMPLAINTS)


@pytest.mark.parametrize('line', shipped_follow_ups())
def test_no_shipped_follow_up_is_a_reaction(line):
    assert not [one for one in inventory() if bare(line) in bare(one)]


def test_no_shipped_follow_up_is_in_what_the_judge_learns_from():
    text = '\n'.join(
        '\n'.join((*one.context, one.reply))
        for one in (make_reaction_example('train', 2, i) for i in range(3000))
    )
    said = text.lower()
    assert [line for line in shipped_follow_ups() if bare(line) in said] == []
