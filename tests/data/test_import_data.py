"""
The published dialogues, imported whole: counts are those of each PROVENANCE.md.
"""

from collections import Counter

import pytest

from tests.support.imports import imported
from tests.support.shared_data import shared


def test_the_games_of_chatmatch():
    imports = imported(shared('chatmatch/original'))
    assert {len(one.turns) for one in imports.dialogues} == {200}
    ordered = Counter(one.names for one in imports.dialogues)
    assert len(ordered) == 7 * 6 and set(ordered.values()) == {1}


def test_the_self_chats_of_chatmatch():
    imports = imported(shared('chatmatch/selfchat'))
    assert [one.names for one in imports.dialogues] == [(n, n) for n in imports.names]
    assert len(imports.dialogues) == 7


@pytest.mark.parametrize(
    'domain, bots, dialogues',
    [('convai2', 6, 675), ('dailydialog', 4, 270), ('empathetic', 5, 450)],
)
def test_the_domains_of_spot_the_bot(domain, bots, dialogues):
    name = f'spot_the_bot/sampled-dialogues-full-{domain}.jsonl'
    imports = imported(shared(name), empty_turns='keep')
    assert (len(imports.names), len(imports.dialogues)) == (bots, dialogues)
    pairs = Counter(frozenset(one.names) for one in imports.dialogues)
    assert set(pairs.values()) == {45}
    assert imports.n_people == 300


def test_people_who_talk_with_blender_are_read():
    log = 'parlai_acute_eval/chatlog_2.7B.json'
    imports = imported(shared(log), humans='human_evaluator')
    # CHANEL's BLENDR is the same set: 108 dialogues, 1,512 utterances
    assert sum(len(one.turns) for one in imports.dialogues) == 1512
    assert len(imports.dialogues) == 108
