"""
A roster under ParlAI's own `self_chat`: the same dialogues as `collect_dialogues`.
"""

import json

import pytest
from parlai.core import loader
from parlai.core.agents import create_agent
from parlai.core.worlds import create_task
from parlai.scripts.self_chat import SelfChat, setup_args

from parlai_ext.commands import plugin
from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.core import known_values
from tests.collect.test_preflight import ECHO, says
from tests.support.user_error import user_error
from tests.support.written import json_in, written

plugin.register()
ZOO = 'zoo:mini/step-50/model'


def roster_file(folder, targets, partners):
    roster = {'targets': targets, 'partners': partners}
    return str(written(folder, 'roster.yaml', roster))


def dialogs_in(path):
    """
    Return the `dialog` of each line of a Conversations file, in one spelling of JSON.
    """
    records = map(json.loads, path.read_text('utf-8').splitlines())
    return [json.dumps(record['dialog'], sort_keys=True) for record in records]


@pytest.mark.parametrize('scheme', ['bipartite', 'self_play', 'all_play_all'])
def test_self_chat_writes_the_dialogues_of_collect_dialogues(tmp_path, scheme):
    # the order of the dialogues and the keys beside `dialog` may differ, no byte of it
    # may; one system draws its replies at random, so that the seeds count
    draws = {'model_file': ZOO, 'inference': 'topk', 'topk': 10}
    targets = [
        {'name': 'plain', 'opt': {'model_file': ZOO}},
        {'name': 'draws', 'opt': draws},
    ]
    roster = roster_file(tmp_path, targets, [says('yes', 'yes!')])
    same = {'config': 'demo', 'roster': roster, 'num_dialogues': 2, 'num_turns': 7}
    CollectDialogues.main(run_dir=tmp_path / 'run', pairing=scheme, **same)
    log = tmp_path / 'log.jsonl'
    logs = SelfChat.main(
        task=f'ext:pairs:{scheme}', outfile=log, display_examples=False, **same
    )
    shards = (tmp_path / 'run' / 'dialogues').rglob('*.jsonl')
    collected = sum(map(dialogs_in, shards), [])
    assert sorted(dialogs_in(log)) == sorted(collected)
    assert len(collected) == sum(map(bool, logs)) == 4
    metadata = json_in(log.with_suffix('.metadata'))
    assert metadata['self_chat'] == (scheme == 'self_play')


def world_of(folder, task='ext:pairs:bipartite', first=('yes', 'yes!'), **keys):
    partners = [says(*first), says('no', 'no')]
    options = {
        'config': 'demo',
        'roster': roster_file(folder, [ECHO], partners),
        'openers': 'say:Hi!',
        'num_dialogues': 1,
        'num_turns': 3,
        **keys,
    }
    opt = setup_args().parse_kwargs(task=task, **known_values(options))
    agent = create_agent(opt, requireModelExists=True)
    return create_task(opt, [agent, agent.clone()])


def next_acts(world):
    """
    Return who says what in the next parley.
    """
    world.parley()
    return [(act['id'], act['text']) for act in world.get_acts()]


def test_a_parley_is_an_exchange_and_an_episode_a_dialogue(tmp_path):
    world = world_of(tmp_path)
    assert (world.num_episodes(), world.num_examples()) == (2, 4)
    assert next_acts(world) == [('echo', 'Hi!'), ('yes', 'yes!')]
    assert '[echo]: Hi!' in world.display() and '[yes]: yes!' in world.display()
    assert not world.episode_done()
    # num_turns is odd: the last utterance has no answer
    assert next_acts(world) == [('echo', 'yes!')]
    assert world.episode_done() and not world.epoch_done()
    assert next_acts(world) == [('echo', 'Hi!'), ('no', 'no')]
    world.parley()
    assert world.epoch_done()
    assert next_acts(world) == [] and world.display() == ''


def test_a_dialogue_that_ends_early_takes_no_parley_of_the_next(tmp_path):
    # self_chat lets each dialogue have two parleys for three utterances, and resets
    world = world_of(tmp_path, first=('mute', ''))
    shown = []
    for _ in range(4):
        shown.append(next_acts(world))
        if len(shown) == 2:
            assert world.episode_done()
            world.reset()
    mute, no = [[('echo', 'Hi!')], []], [[('echo', 'Hi!'), ('no', 'no')]]
    assert shown == [*mute, *no, [('echo', 'no')]]


def test_self_chat_without_any_dialogue_ends_with_the_reason(tmp_path):
    world = world_of(tmp_path)
    world.player.cache.problems = {'echo': 'echo: it fails'}
    with user_error('no dialogue could be played: echo: it fails'):
        world.parley()


@pytest.mark.parametrize('save_format', ['conversations', 'parlai'])
def test_self_chat_ends_with_the_reason_why_a_system_could_not_go_on(
    tmp_path, save_format
):
    gone = {
        'name': 'gone',
        'opt': {'model': 'tests.collect.test_collect:Line'},
    }
    roster = roster_file(tmp_path, [ECHO], [says('yes', 'yes!'), gone])
    log = tmp_path / 'log.jsonl'
    options = {'openers': 'say:Hi!', 'num_dialogues': 1, 'num_turns': 3}
    with user_error("not all .*'gone': remote_url: .* cannot be reached"):
        SelfChat.main(
            task='ext:pairs:bipartite',
            roster=roster,
            outfile=log,
            display_examples=False,
            save_format=save_format,
            **options,
        )
    written_log = log.read_text()
    assert 'yes!' in written_log
    if save_format == 'parlai':  # the third utterance has no answer
        [line] = written_log.split('\n\n')[0].splitlines()
        assert 'text:Hi!\t' in line and 'labels:yes!' in line


def test_a_reset_leaves_the_dialogue(tmp_path):
    world = world_of(tmp_path)
    world.parley()
    world.reset()
    assert next_acts(world) == [('echo', 'Hi!'), ('no', 'no')]


def test_a_shared_world_plays_from_the_start_with_the_same_systems(tmp_path):
    world = world_of(tmp_path)
    world.parley()
    copy = world.clone()
    assert next_acts(copy) == [('echo', 'Hi!'), ('yes', 'yes!')]
    assert copy.player.cache is world.player.cache


def test_without_a_scheme_the_protocol_says_who_talks(tmp_path):
    plan = world_of(tmp_path, task='ext:pairs').player.plan
    assert plan.protocol.pairing == 'bipartite'


@pytest.mark.parametrize(
    'options, problem',
    [
        ({'task': 'ext:pairs:bipartit'}, 'known: ext:pairs:bipartite, '),
        ({'task': 'ext:pairs', 'config': None}, '--config'),
        ({'num_self_chats': 3}, 'num_self_chats: 3; there are 2 dialogues'),
        ({'selfchat_max_turns': 4}, '--num-turns'),
        ({'model': 'fixed_response'}, '--model'),
        ({'roster': 'nobody'}, "no roster 'nobody'"),
    ],
)
def test_what_cannot_be_played_is_refused(tmp_path, options, problem):
    with user_error(problem):
        world_of(tmp_path, **options)


def test_the_task_has_no_data():
    teacher = loader.load_teacher_module('ext:pairs:self_play')
    with user_error('parlai self_chat'):
        teacher({'task': 'ext:pairs:self_play'})
