"""
A system as a player: how it is loaded, here or in a process of its own, what its code
may do there, and what it spends.

Loading: whose options win, what is shared, and what one clear line says.
"""

import functools
import os
import random
import signal
import socket
import sys
from ast import literal_eval
from dataclasses import replace

import numpy
import pytest
import torch
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.agents.safety_layer.safety_layer import Guarded, SafetyLayerAgent
from parlai_ext.commands.signals import Interrupted, signals_as_interrupt
from parlai_ext.core import System, SystemFailed
from parlai_ext.engines import Machine, data_in
from parlai_ext.isolation import fork_server
from parlai_ext.isolation.fork_server import ALONE, ENVIRONMENT
from parlai_ext.mini import SHIPPED
from parlai_ext.systems import model_cache
from parlai_ext.systems.model_cache import are_small
from parlai_ext.systems.own_process import OwnProcess
from parlai_ext.systems.parlai_agents import (
    DistantPlayer,
    check_options_apart,
    load_on,
    load_system,
    samples,
)
from parlai_ext.systems.players import LONGEST_REPLY, Player, read_reply
from parlai_ext.systems.random_numbers import random_state, seed_all, set_random_state
from parlai_ext.systems.spending import (
    Ledger,
    meter_of,
    spending_of,
    spending_since,
    total_spending,
)
from parlai_ext.worlds.block_player import Lockstep
from tests.support.lockstep_play import row
from tests.support.talk import loaded
from tests.support.tiny_models import make_generator, make_ranker, with_options
from tests.support.user_error import user_error
from tests.support.waiting import comes_true, is_running

pytestmark = pytest.mark.usefixtures('data_in_tmp_path')


@pytest.fixture(scope='module')
def generator(module_folder):
    return make_generator(module_folder, 'generator', inference='beam', beam_size=4)


def test_a_systems_options_win_over_the_models_own(generator):
    agent = loaded(model_file=generator, beam_size=2).agent
    assert (agent.opt['inference'], agent.beam_size) == ('beam', 2)


def test_nothing_is_built_for_training(module_folder):
    path = make_generator(module_folder, 'trained')
    with_options(path, datatype='train', interactive_mode=False)
    agent = loaded(model_file=path).agent
    assert agent.opt['datatype'] == 'valid'
    assert not hasattr(agent, 'optimizer')


def test_participants_share_the_weights(generator):
    player = loaded(model_file=generator)
    assert player.join().agent.model is player.agent.model
    # ParlAI counts 15,840 parameters; its start token is one int64 more
    assert player.n_bytes == 15840 * 4 + 8


@pytest.mark.parametrize(
    'key, value, line',
    [
        ('fixed_candidates_path', '/no/file', 'there is no f'),
        ('fixed_candidates_path', None, 'not given'),
        ('fixed_candidate_vecs', '/no/file', 'no file of vec'),
    ],
)
def test_a_wrong_candidate_option_is_one_line(module_folder, key, value, line):
    path = with_options(make_ranker(module_folder, 'wrong'), **{key: value})
    with user_error(f"^system 'mine': {key}: {line}"):
        loaded('mine', model_file=path)


def test_a_ranker_scores_candidates_with_its_own_vectors(module_folder):
    ranker = make_ranker(module_folder, 'ranker')
    # what ParlAI would have read: vectors of other candidates under this name
    stale = torch.zeros(40, 3, dtype=torch.long)
    torch.save(stale, module_folder / 'ranker.ranker.candidates.vecs')
    before = sorted(module_folder.iterdir())
    agent = loaded(model_file=ranker).agent
    assert sorted(module_folder.iterdir()) == before  # nothing is written
    texts = [agent.dict.vec2txt(v[v != 0].tolist()) for v in agent.fixed_candidate_vecs]
    assert texts == [f'__start__ {c} __end__' for c in agent.fixed_candidates]


@pytest.mark.parametrize(
    'opt, line',
    [
        ({}, r'model_file: not given, and no model either'),
        ({'model': 'nobody'}, r"model: no agent 'nobody': .*parlai.agents.nobody"),
        ({'model': 'agent:own:Mine'}, r'model: no agent .* write own:Mine'),
        ({'beam_sise': 3}, r"beam_sise: unknown; did you mean 'beam_size'\?"),
        ({'beam_size': 'three'}, r"beam_size: invalid int value: 'three'"),
        ({'n_layers': 7}, r'model_file: \S+ is no transformer/generator with'),
        ({'datatype': 'train'}, r'datatype: train builds an optimizer'),
    ],
)
def test_one_line_names_system_and_option(generator, opt, line):
    if 'model' not in opt and opt:
        opt = {'model_file': generator, **opt}
    with user_error(f"^system 'mine': {line}"):
        loaded('mine', **opt)


@pytest.mark.parametrize('model', ['own_file:Mine', 'own_file.py:Mine', 'own_file'])
def test_an_agent_in_a_file_here_is_told_how_to_be_named(tmp_path, monkeypatch, model):
    monkeypatch.chdir(tmp_path)
    (tmp_path / 'own_file.py').write_text('')
    with user_error('PYTHONPATH=. and write own_file:(Mine|CLASS)$'):
        loaded('mine', model=model)


@pytest.mark.parametrize(
    'opt, expected',
    [
        ({}, False),
        ({'inference': 'delayedbeam'}, True),
    ],
)
def test_options_tell_whether_a_system_draws(generator, module_folder, opt, expected):
    assert samples(System('a', {'model_file': generator, **opt})) is expected
    # and a model's own, where the roster has none
    own = make_generator(module_folder, 'drawing', **opt)
    assert samples(System('a', {'model_file': own})) is expected


def test_an_agent_with_its_own_act_speaks_alone(generator):
    player = loaded(model_file=generator)
    assert player.batches
    kind = type(player.agent)
    own = type('Own', (kind,), {'act': lambda self: {'text': 'mine'}})
    assert not Player('own', own.__new__(own)).batches


def test_a_model_that_cannot_be_downloaded_is_one_line(tmp_path, monkeypatch):
    monkeypatch.setitem(os.environ, 'HF_HUB_OFFLINE', '1')
    monkeypatch.chdir(tmp_path)
    # whose size is ParlAI's own
    with user_error(
        "^system 'far': gpt2_size: no tokenizer of microsoft/DialoGPT-small"
    ):
        loaded('far', model='hugging_face/dialogpt')


# ---- A system that nobody trusts plays in a process of its own: what its code does
# there harms nobody else, and what it says is what it would have said here.

HERE = Machine(no_cuda=True, reply_timeout=60)
SAID = ('hello', 'hi')
# of an agent that nobody trusts, which does what it is told; it is written to a file of
# its own, which no note of the tests names
CODE = '''
import ctypes, os, random, socket, sys, time
import numpy, torch
from parlai.core.agents import Agent
from parlai.core.message import Message

class Strange(Agent):
    """
    Says what the expression gives that it heard.
    """

    def act(self):
        words = eval(self.observation['text'])
        return Message(id='strange', text=str(words), episode_done=False)

    @classmethod
    def add_cmdline_args(cls, parser, partial_opt=None):
        parser.add_argument('--search-server')
        return parser
'''


def strange_system(folder, monkeypatch, **opt):
    """
    Return a system of this agent.
    """
    (folder / 'strange_agent.py').write_text(CODE)
    monkeypatch.syspath_prepend(str(folder))
    return System('strange', {'model': 'strange_agent:Strange', **opt})


@pytest.fixture(scope='module')
def strange(module_folder):
    """
    A system that nobody trusts, which does what it hears.
    """
    with pytest.MonkeyPatch.context() as patch:
        yield strange_system(module_folder, patch)


@pytest.fixture(scope='module')
def player(strange):
    """
    Its process, which nothing has ended.
    """
    return load_on(HERE, strange)


def reply_of(player, text='hello'):
    """
    Return what a system says to this.
    """
    participant = player.join()
    participant.hear(text, 'you')
    [reply] = player.respond([participant])
    return reply


REFUSED = {
    'the internet': 'socket.create_connection(("127.0.0.1", 9))',
    'the name of a host': 'socket.create_connection(("a.example", 80))',
    'another program': 'socket.socket(socket.AF_UNIX)',
    'files': 'open("/tmp/outside", "w")',
    'links': 'os.symlink("a", os.environ["HOME"] + "/b")',
    "the parent's environment": 'open(f"/proc/{PARENT}/environ")',
    'signals': 'os.kill(PARENT, 0)',
    'limits of another': '__import__("resource").prlimit(PARENT, 0)',
}


@pytest.mark.parametrize('what', REFUSED)
def test_code_that_nobody_trusts_may_not_do(what, player, caplog, monkeypatch):
    monkeypatch.setattr(player.process, '_warned', False)
    reply = reply_of(player, REFUSED[what].replace('PARENT', str(os.getpid())))
    assert reply.text is None and reply.reason.startswith(
        ('raised PermissionError', 'raised gaierror')
    )
    [line] = caplog.messages
    assert '--trust-model-code' in line and "'strange'" in line


def test_it_sees_no_variable_but_those_that_are_named(strange, monkeypatch):
    # so no key, whenever its server was started; libraries add their own. The server is
    # a new one: one that has served models of Hugging Face has more of torch's
    new_server = functools.cache(fork_server._server.__wrapped__)
    monkeypatch.setattr(fork_server, '_server', new_server)
    player = load_on(HERE, strange)
    named = {*ENVIRONMENT, *ALONE, 'PYTHONPATH', 'LC_CTYPE'}
    assert not any('KEY' in name for name in named)
    deed = f'{{name.split("_")[0] for name in {{*os.environ}} - {named!r}}}'
    assert literal_eval(reply_of(player, deed).text) <= {'KMP', 'PARLAI'}


def test_it_has_no_terminal_to_type_into(player):
    assert reply_of(player, 'os.getsid(0)').text != str(os.getsid(0))


def test_it_leaves_no_memory_in_the_kernel(player):
    assert reply_of(player, 'ctypes.CDLL(None).shmget(0, 1, 512)').text == '-1'


def test_it_may_write_in_its_own_folder(player):
    deed = 'open(os.environ["TMPDIR"] + "/x", "w").write("some")'
    assert reply_of(player, deed).text == '4'


# it holds the lock of its interpreter, so that nothing in Python could stop it
HANGS = 'ctypes.PyDLL(None).sleep(1000)'


@pytest.mark.parametrize(
    'deed, line',
    [
        (HANGS, r'no reply within 0.5 s'),
        ('os._exit(3)', 'its process ended with exit code 3'),
        ('os.abort()', 'its process was ended by SIGABRT'),
        ('b"x" * 10**12', 'model: out of memory with one dialogue at a time'),
        ('os.write(3, b"{}")', 'its process gives no answer'),
        (
            'os.write(3, b\'{"random": 0, "uses_gpu": 1}\\n\') and time.sleep(9)',
            'its process gives no answer',
        ),
        (
            '[os.write(3, b\'{"asks":1}\\n\') and os.read(3, 9) for _ in iter(int, 1)]',
            'its process gives no answer',
        ),
    ],
)
def test_what_would_end_or_stop_the_program_is_one_line(deed, line, strange):
    machine = replace(HERE, reply_timeout=0.5 if deed == HANGS else 60)
    player = load_on(machine, strange)
    with pytest.raises(SystemFailed, match=f"^system 'strange': {line}"):
        reply_of(player, deed)
    with user_error(line):
        reply_of(player, deed)


STARTS = '[os.getpid(), os.posix_spawn("/bin/sleep", ["sleep", "1000"], {})]'


def test_it_ends_with_all_that_it_has_started(strange):
    player = load_on(HERE, strange)
    pids = eval(reply_of(player, STARTS).text)
    assert all(map(is_running, pids))
    player.process.worker._channel.close()
    assert all(map(has_ended, pids))


def test_it_ends_with_a_program_that_is_killed(strange):
    reads, writes = os.pipe()
    if not os.fork():
        os.write(writes, reply_of(load_on(HERE, strange), STARTS).text.encode())
        signal.raise_signal(signal.SIGKILL)
    pids = eval(os.read(reads, 1000))
    os.wait()
    assert all(map(has_ended, pids))


def has_ended(pid):
    return comes_true(lambda: not is_running(pid), 20)


def test_its_module_is_imported_there_only(player):
    deed = 'sys.modules["strange_agent"].__file__'
    assert reply_of(player, deed).text.endswith('strange_agent.py')
    assert 'strange_agent' not in sys.modules


def test_what_it_prints_and_logs_is_shown_here(player, capfd, caplog):
    deed = 'print("\\x1b[2J tea") or __import__("logging").warning("rain")'
    assert reply_of(player, deed).text == 'None'
    assert '␛[2J tea' in capfd.readouterr().err
    assert 'rain' in caplog.messages


def test_a_tokenizer_that_cannot_be_had_is_one_line(
    tmp_path, monkeypatch, addresses_asked
):
    system = strange_system(tmp_path, monkeypatch, dict_tokenizer='gpt2')
    line = "^system 'strange': dict_tokenizer: http.*cannot be reached"
    with data_in(str(tmp_path)), user_error(line):
        check_options_apart(system)
    assert addresses_asked  # from here: the process of its own may not


def played(players):
    rows = [row(*sides, SAID) for sides in ('ab', 'ba', 'aa')]
    seed_all('abcdef')
    return Lockstep(rows, players, 8).play()


def test_the_dialogues_are_those_of_this_process(tmp_path):
    opt = {'inference': 'topk', 'topk': 4, 'temperature': 2.0}
    systems = [
        System(name, {'model_file': make_generator(tmp_path, name), **opt})
        for name in ('a', 'b')
    ]
    apart = {one.name: load_on(HERE, one) for one in systems}
    assert all(isinstance(player, DistantPlayer) for player in apart.values())
    here = {one.name: load_system(one, HERE) for one in systems}
    assert played(apart) == played(here)
    state = torch.get_rng_state()
    played(apart)
    assert torch.equal(torch.get_rng_state(), state)


def test_no_random_number_is_read_beside_the_state():
    state = random_state()
    state[1][2] = 625
    with pytest.raises(ValueError, match='place'):
        set_random_state(state)


def test_draws_of_every_kind_are_those_of_this_process(player):
    deed = '[random.random(), numpy.random.rand(), torch.rand(1).item()]'
    seed_all('12')
    texts = [reply_of(player, deed).text for _ in range(2)]
    seed_all('12')
    for text in texts:
        here = [random.random(), numpy.random.rand(), torch.rand(1).item()]
        assert text == str(here)
    assert texts[0] != texts[1]


def test_systems_that_share_their_weights_share_a_process(chat_folder):
    opt = {'model': 'ext:hf', 'hf_model': chat_folder}
    players = [
        load_on(HERE, System(name, {**opt, 'reply_max_tokens': n}))
        for n, name in enumerate('ab', 2)
    ]
    assert players[0].process is players[1].process
    assert reply_of(players[0]) != reply_of(players[1])
    # but not what they have used
    reply_of(players[1])
    assert [spending_of(one.agent)['requests'] for one in players] == [1, 2]
    assert meter_of(players[0].agent) is not meter_of(players[1].agent)


def test_a_server_that_the_roster_names_can_be_asked(strange):
    with socket.create_server(('127.0.0.1', 0)) as server:
        port = server.getsockname()[1]
        more = {'search_server': f'http://localhost:{port}'}
        asking = load_on(HERE, System('s', {**strange.opt, **more}))
        deed = f'socket.create_connection(("localhost", {port})).close()'
        assert reply_of(asking, deed).text == 'None'
        other = deed.replace(str(port), str(port - 1))
        assert 'PermissionError' in reply_of(asking, other).reason


def test_a_kernel_without_limits_is_said_once(player, strange, caplog, monkeypatch):
    whole = OwnProcess._answer
    lacking = {'missing': ['no network']}
    monkeypatch.setattr(OwnProcess, '_answer', lambda *given: whole(*given) | lacking)
    check_options_apart(strange, {})  # runs code of others, too
    reply_of(player)
    assert caplog.messages == ['what is not trusted: not enforced here: no network']


# ---- What an agent's code does to the program: it raises what ends programs, prints,
# says half of a character; it is told of that agent, and ends no command.

ROWS = [row('bad', 'good', SAID), row('good', 'also', SAID)]


class Echo(Agent):
    """
    Says what it heard.
    """

    def act(self):
        return Message(id='Echo', text=self.observation['text'], episode_done=False)


def doing(deed):
    """
    Return an agent that does something before it replies.
    """

    def act(self):
        deed()
        return Echo.act(self)

    return type('Doing', (Echo,), {'act': act})({})


def played_beside_others(agent):
    """
    Play a dialogue of an agent, and one of others beside it.
    """
    players = {name: Player(name, Echo({})) for name in ('good', 'also')}
    players['bad'] = Player('bad', agent)
    return Lockstep(ROWS, players, 4).play()


class Mute(Exception):
    """
    Cannot be turned into words.
    """

    def __str__(self):
        raise RuntimeError


@pytest.mark.parametrize('is_ignored', [False, True])
@pytest.mark.parametrize('error', [KeyboardInterrupt(), SystemExit(0), Mute()])
def test_whatever_an_agent_raises_ends_its_dialogue_only(error, is_ignored, request):
    def deed():
        raise error

    if is_ignored:  # as `nohup` and `&` of scripts do
        before = signal.signal(signal.SIGINT, signal.SIG_IGN)
        request.addfinalizer(lambda: signal.signal(signal.SIGINT, before))
    with signals_as_interrupt():
        dialogues, failed = played_beside_others(doing(deed))
    assert not failed and dialogues[0].ended_by == 'bad'
    assert dialogues[0].reason == f'raised {type(error).__name__}' + (
        ': 0' if isinstance(error, SystemExit) else ''
    )
    assert len(dialogues[1].utterances) == 4


def test_a_signal_while_an_agent_works_ends_the_command():
    with pytest.raises(Interrupted), signals_as_interrupt():
        played_beside_others(doing(lambda: os.kill(os.getpid(), signal.SIGINT)))


def test_what_an_agent_prints_goes_to_standard_error_and_changes_no_terminal(capfd):
    def deed():
        import sys

        print('\x1b]0;mine\x07 tea')
        sys.stdout.close()
        print('\x9b2J rain')

    dialogues, failed = played_beside_others(doing(deed))
    captured = capfd.readouterr()
    assert not failed and len(dialogues[0].utterances) == 4
    assert captured.out == ''
    assert captured.err == '␛]0;mine␇ tea\n⟨U+009B⟩2J rain\n'


@pytest.mark.parametrize('more, spoken', [(0, True), (1, False)])
def test_a_reply_has_a_million_characters_at_most(more, spoken):
    reply = read_reply({'text': 'x' * (LONGEST_REPLY + more)})
    assert (reply.text is not None) == spoken
    assert spoken or reply.reason == '1,000,001 characters; at most 1,000,000'


class Halved(Agent):
    """
    Says half of a character, as a byte-level model cut short may, and hears itself.
    """

    heard = ()

    def batch_act(self, observations):
        return [Message(id='Halved', text='yes \ud83d') for _ in observations]

    def self_observe(self, act):
        type(self).heard += (act['text'],)


class LeavingAtOnce(Agent):
    def __init__(self, opt, shared=None):
        raise SystemExit(0)


def test_half_a_character_is_mended_for_the_partner_and_for_who_said_it():
    player = Player('half', Halved({}))
    [reply] = player.respond([player.join()])
    assert Halved.heard == (reply.text,) == ('yes \ufffd',)


def test_an_agent_that_leaves_while_it_is_built_has_failed():
    opt = {'model': 'tests.systems.test_players:LeavingAtOnce'}
    with pytest.raises(
        SystemFailed, match="^system 'x': it cannot be built: raised Sy"
    ):
        loaded('x', **opt)


# ---- What agents say that they have used, and what is counted of it.


def test_an_agent_may_count_what_it_uses_in_several_ways():
    class Property:
        usage = {'requests': 3, 'prompt_tokens': None, 'cost': None}

    assert spending_of(object()) is None
    found = spending_of(Property())
    assert (found['requests'], found['prompt_tokens'], found['cost']) == (3, 0, None)
    assert total_spending([found, {'requests': 1, 'cost': 2.0}])['cost'] == 2.0
    before = found | {'cost': 1.0}
    assert spending_since({**before, 'cost': 3.0}, before)['cost'] == 2.0


class Meter:
    """
    Agents that share it as their `engine` count together.
    """

    def __init__(self, engine, cost=0.0):
        self.engine = engine or self
        self.cost = cost

    @property
    def usage(self):
        return {'requests': 1, 'cost': self.engine.cost}


def test_a_safety_layer_shares_the_meter_of_the_system_inside():
    meter, ledger = Meter(None), Ledger()
    inside = Meter(meter)
    layer = SafetyLayerAgent.__new__(SafetyLayerAgent)
    layer.engine = Guarded(Player('inside', inside), None, (), ())
    agents = {'inside': inside, 'layer': layer}
    for name, one in agents.items():
        ledger.begin(name, one)
    meter.cost += 3
    for name, one in agents.items():
        ledger.end(name, one)
    assert ledger.spent['layer']['cost'] == 3
    assert 'inside' not in ledger.spent


def test_money_of_a_shared_meter_is_counted_once():
    meter = Meter(None, cost=5.0)  # spent before
    one, other, ledger = Meter(meter), Meter(meter), Ledger()
    ledger.begin('one', one)
    meter.cost += 1
    ledger.begin('other', other)
    meter.cost += 2
    ledger.end('one', one)
    meter.cost += 4
    ledger.end('other', other)
    meter.cost += 8  # by nobody of these
    ledger.begin('one', one)
    meter.cost += 16
    ledger.end('one', one)
    assert sum(one['cost'] for one in ledger.spent.values()) == 1 + 2 + 4 + 16


# ---- Which systems several processes may each load unasked.

MINI = {'model_file': str(SHIPPED / 'step-50' / 'model')}
FLOOR = {'model': 'fixed_response', 'fixed_response': 'yes'}


def small(*opts, **machine):
    return are_small([System('x', opt) for opt in opts], Machine(**machine))


def test_small_files_and_systems_without_any():
    assert small(MINI, FLOOR)


@pytest.mark.parametrize(
    'opt',
    [
        {'model': 'tests.support.trial_agents:Talker'},
        {'model': 'ext:remote', 'remote_url': 'http://127.0.0.1:9/v1'},
        {'model_file': 'zoo:blender/blender_90M/model'},
    ],
)
def test_code_from_outside_servers_and_what_is_not_here_yet_are_not(opt):
    assert not small(MINI, opt)


def test_a_large_file_is_not(monkeypatch):
    monkeypatch.setattr(model_cache, 'SMALL', 1000)
    assert not small(MINI, FLOOR)


def test_where_this_process_computes_with_more_threads_bytes_could_differ(monkeypatch):
    monkeypatch.setattr(torch, 'get_num_threads', lambda: 2)
    assert not small(MINI)


def test_on_a_gpu_nothing_is(monkeypatch):
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    assert not small(MINI)
    assert small(MINI, no_cuda=True)
