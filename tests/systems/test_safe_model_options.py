"""
A model's own `.opt` runs no code but ParlAI's and ours, and reads, writes and asks
nothing that the user did not name.
"""

import pickle
import sys
from pathlib import Path

import pytest
import torch
from parlai.core.opt import Opt

from parlai_ext.core import System
from parlai_ext.isolation.policy import is_our_agent, source_file
from parlai_ext.systems.identity import resolve
from parlai_ext.systems.safe.load import (
    Refused,
    guarded,
    named_servers,
    options_for_talking,
    read_opt,
)
from parlai_ext.systems.safe.read import pickled_opt
from tests.support.malicious_pickles import gadget, in_zip
from tests.support.talk import answers, loaded
from tests.support.tiny_models import make_generator, make_ranker, with_options
from tests.support.trusted import trusted
from tests.support.user_error import user_error
from tests.support.written import written

FOREIGN = (
    'import pathlib\n'
    'from parlai.agents.transformer.transformer import TransformerGeneratorAgent\n'
    'from parlai.core.teachers import DialogTeacher\n'
    'pathlib.Path({marker!r}).touch()\n'
    'class MineAgent(TransformerGeneratorAgent):\n'
    '    pass\n'
)


pytestmark = pytest.mark.usefixtures('registered')


@pytest.fixture
def marker(tmp_path, monkeypatch):
    """
    A file that appears when a module of a stranger is imported.
    """
    found = tmp_path / 'marker'
    home = tmp_path / 'home' / 'strange_one'
    home.mkdir(parents=True)
    written(home, '__init__.py', FOREIGN.format(marker=str(found)))
    written(home, 'agents.py', '')
    monkeypatch.syspath_prepend(str(home.parent))
    yield found
    for name in [n for n in sys.modules if n.startswith('strange_one')]:
        del sys.modules[name]


def stored(folder, opt):
    """
    Return the `.opt` of a model that is not there, with these options or bytes.
    """
    return written(folder, 'model.opt', opt)


def opened(path, **opt):
    return loaded('x', model_file=path, **opt)


def resolved(path, **opt):
    return resolve(System('x', {'model_file': path, **opt}))


@pytest.mark.parametrize(
    'agent, named, words',
    [
        # both ways to have it
        ('strange_one:MineAgent', {}, '`model: {0}` in the roster.* {1}.opt$'),
        ('strange_one:MineAgent', {'model': 'transformer/generator'}, 'refused: .*{0}'),
        ('ext:strange_one.agents:MineAgent', {}, 'refused: '),
        # no class is called X
        ('parlai.agents.transformer.transformer:X:strange_one', {}, ''),
    ],
)
def test_a_models_own_options_import_no_strange_module(
    agent, named, words, tmp_path, marker
):
    path = with_options(make_generator(tmp_path), model=agent)
    with user_error(f"^system 'x': .*{words.format(agent, path)}"):
        opened(path, **named)
    assert not marker.exists()


def test_an_agent_that_the_roster_names_is_the_users_own(tmp_path, marker):
    agent = 'strange_one:MineAgent'
    path = with_options(make_generator(tmp_path), model=agent, override={})
    player = opened(path, model=agent)
    assert type(player.agent).__name__ == 'MineAgent' and marker.exists()


def test_a_task_in_a_models_own_options_is_not_imported(tmp_path, marker):
    # a ranker without a file of candidates makes one of its task
    path = make_ranker(tmp_path)
    task = 'strange_one.agents:DefaultTeacher'
    given = {'candidates': 'fixed', 'interactive_candidates': 'inline'}
    with_options(path, task=task, fixed_candidates_path='', **given)
    with user_error("^system 'x': "):
        opened(path)
    assert not marker.exists()


STRANGE_TASKS = 'babi,strange.agents:T', 'internal:babi', 'ext:strange.agents:T'


@pytest.mark.parametrize(
    'task',
    [
        'blended_skill_talk',
        'fromfile:parlaiformat',
        'parlai.tasks.babi.agents:DefaultTeacher,babi:task10k:1',
        'ext:smalltalk',
        *STRANGE_TASKS,
    ],
)
def test_tasks_of_parlai_and_ours_stay(task):
    stays = 'task' in options_for_talking('m.opt', {'task': task}, {})
    assert stays is (task not in STRANGE_TASKS)


# every spelling of core/loader.py: full, short, half-short, projects, prefixes
OURS = [
    'parlai.agents.seq2seq.seq2seq:Seq2seqAgent',
    'seq2seq',
    'transformer/generator',
    'hugging_face/dialogpt',
    'projects:personachat:kvmemnn',
    'projects.msc.fid:MscFid',
    'ext:long_context',
    'ext:long_context/long_context',
    'parlai_ext.agents.long_context.long_context:LongContextAgent',
    'rag_tfidf_retriever',
]
# a teacher would say any file, a person waits for the keyboard
NOT_OURS = [
    'os:PathLike',
    'os.path:x',
    'parlai:x',
    'parlaix.y:Z',
    'parlai_ext.systems.parlai_agents:X',
    'parlai..x:Y',
    'internal:seq2seq',
    'internal:projects:a:b',
    'fb:x/y',
    'light:x',
    'ext:os:PathLike',
    'ext:ext:hf',
    'ext:hf',
    'ext:hf/hf',
    'ext:remote',
    'ext:remote/remote',
    'ext:parlai_ext.agents.hf.hf:HfAgent',
    'parlai_ext.agents.hf:HfAgent',
    'parlai_ext.agents.remote.remote:RemoteAgent',
    ' strange:X',
    'parlai.core.teachers:ParlAIDialogTeacher',
    'parlai.tasks.babi.agents:Task1kTeacher',
    'local_human',
    'safe_local_human',
]


@pytest.mark.parametrize('agent', OURS + NOT_OURS)
def test_every_spelling_of_an_agent_is_known(agent):
    assert is_our_agent(agent) is (agent in OURS)


@pytest.mark.parametrize(
    'opt',
    [
        {'hf_trust_code': True},
        {'remote_key_env': 'HOME'},
        {'remote_cache': '/tmp/mine'},
        {'override': {'model': 'strange:X'}},
        {'deep': [{'a': {'hf_trust_code': 1}}]},
        {'model': ['strange:X']},
    ],
)
def test_what_only_a_roster_may_ask_for_is_refused(opt, tmp_path):
    path = stored(tmp_path, opt)
    with pytest.raises(Refused):
        read_opt(path)
    with pytest.raises(Refused), guarded():
        Opt.load(str(path))


def test_options_in_a_circle_end(tmp_path):
    opt = {'model': 'seq2seq'}
    opt['self'] = opt
    path = stored(tmp_path, pickle.dumps(opt))
    with open(path, 'rb') as file:
        assert pickled_opt(file)['model'] == 'seq2seq'
    with user_error('cannot be read: ValueError: Circular'):
        read_opt(path)


@pytest.mark.parametrize(
    'data',
    [
        b'[' * 200_000,
        b'{"a":' * 200_000,
        # of 2 ** 61 bytes
        b'\x80\x05\x96\0\0\0\0\0\0\0\x20.',
        b'\x80\x04\x8e\0\0\0\0\0\0\0\x20.',
    ],
    ids=['lists', 'dicts', 'bytearray', 'bytes'],
)
def test_options_that_no_memory_holds_are_one_line(data, tmp_path):
    path = stored(tmp_path, data)
    with user_error('cannot be read|or reading it takes more than'):
        read_opt(path)


def test_a_roster_shows_a_model_that_will_be_refused_as_missing(tmp_path, marker):
    path = make_generator(tmp_path)
    before = resolved(path)
    assert (before.status, before.reason) == ('present', None)
    with open(path, 'wb') as file:
        file.write(in_zip(gadget('exec', marker)))
    found = resolved(path)
    assert found.status == 'missing' and not marker.exists()
    assert found.reason.startswith(f'model_file: {path}: refused: ')
    assert 'builtins.exec' in found.reason
    with trusted(path):  # what the user trusts will play
        assert resolved(path).status == 'present'
    assert not marker.exists()


def test_an_agent_that_the_roster_names_is_looked_at_where_it_harms_nobody(
    tmp_path, marker
):
    agent = 'strange_one:MineAgent'
    path = with_options(make_generator(tmp_path), model=agent)
    found = resolved(path)
    assert found.status == 'missing' and not marker.exists()
    assert '`model: strange_one:MineAgent` in the roster entry' in found.reason
    reason = resolved(path, model=agent).reason  # its module makes the marker
    assert 'PermissionError' in reason and not marker.exists()
    with trusted(source_file('strange_one')):
        assert resolved(path, model=agent).reason is None and marker.exists()


def test_a_file_that_torch_refuses_for_good_is_not_said_to_be_trustable(tmp_path):
    path = tmp_path / 'pytorch_model.bin'
    path.write_bytes(in_zip(gadget('exec', tmp_path / 'marker')))
    with pytest.raises(Refused) as caught, guarded():
        torch.load(path, weights_only=True)  # as transformers reads a .bin
    assert 'trust-model-code' not in str(caught.value)
    assert 'safetensors' in str(caught.value)
    with pytest.raises(pickle.UnpicklingError), trusted(path), guarded():
        torch.load(path, weights_only=True)


# ---- files and servers

SECRET = 'the lock opens with nine'


@pytest.fixture
def secret(tmp_path):
    """
    A file of the user's, beside no model.
    """
    path = tmp_path / 'private' / 'notes.txt'
    path.parent.mkdir()
    path.write_text(f'{SECRET}\n{SECRET} again\n')
    return path


@pytest.fixture
def home(tmp_path):
    folder = tmp_path / 'home'
    folder.mkdir()
    return folder


def said(path, **opt):
    return answers(opened(path, **opt).agent, ['tea'])[0]


@pytest.mark.parametrize(
    'agent, key',
    [
        ('transformer/polyencoder', 'fixed_candidates_path'),
        ('random_candidate', 'label_candidates_file'),
    ],
)
def test_no_reply_is_a_line_of_a_file_that_only_the_model_names(
    agent, key, home, secret
):
    path = make_ranker(home)
    with_options(path, model=agent, **{key: str(secret)})
    with user_error(f'refused: its own {key} is ') as caught:
        said(path)
    assert f'`{key}: {secret}` in the roster entry' in str(caught.value)
    # the test could fail: what the user names is said
    assert said(path, **{key: str(secret)}).startswith(SECRET)
    with trusted(f'{path}.opt'):
        assert said(path).startswith(SECRET)


@pytest.mark.parametrize('name', ['lines.txt', '.ssh/key'])
def test_neither_a_link_nor_what_is_hidden_beside_the_model_is_read(name, home, secret):
    path = make_ranker(home)
    own = home / name
    own.parent.mkdir(exist_ok=True)
    if name.startswith('.'):
        own.write_text(SECRET)
    else:
        own.symlink_to(secret)
    with_options(path, fixed_candidates_path=str(own))
    with user_error('refused: its own fixed_candidates_path'):
        said(path)


def test_files_beside_the_model_and_of_the_data_folder_are_read(home, secret):
    path = make_ranker(home, candidates=['warm rain', 'old book'])
    assert said(path) in ('warm rain', 'old book')
    with_options(path, fixed_candidates_path=str(secret))
    assert said(path, datapath=str(secret.parent)).startswith(SECRET)


def test_a_dictionary_elsewhere_gives_way_to_the_models_own(home, secret):
    path = make_generator(home)
    before = said(path)
    with_options(path, dict_file=str(secret))
    assert said(path) == before
    (home / 'tiny.dict').unlink()
    with user_error('refused: its own dict_file is '):
        said(path)


@pytest.mark.parametrize(
    'key, value',
    [
        ('model_name', 'a.host/x'),
        # to these ParlAI adds http:// (rag/retrieve_api.py:117)
        ('search_server', 'a.host/x'),
        ('raw_server', 'stranger'),
        # an address is one under any name
        ('anything', 'http://a.host'),
        ('anything', ' ws://a.host'),
        ('anything', ['x', 'a.host:8080']),
        ('anything', {'deep': '192.0.2.7'}),
        ('anything', 'localhost:80'),
        ('anything', 'stranger:8080/x'),
    ],
)
def test_a_server_or_a_repository_is_for_the_roster_to_name(key, value, tmp_path):
    path = stored(tmp_path, {'model': 'rag', key: value})
    named = 'deep' if isinstance(value, dict) else key
    with pytest.raises(Refused, match=f'with {named}, which a roster alone may set'):
        read_opt(path)
    assert read_opt(path, roster_opt={named: 'b'})[key] == value
    without = stored(tmp_path, {'model': 'rag', key: None})
    assert read_opt(without)['model'] == 'rag'


def test_options_that_name_no_server_and_no_strange_file_stay(
    tmp_path, secret, monkeypatch
):
    # what honest models hold, on the machine where they were trained
    monkeypatch.chdir(secret.parent)
    Path('train').touch()
    opt = {
        'model': 'rag',
        'task': 'babi:task10k:1',
        'gpu': 'cuda:0',
        'search_server': 'None',
        'server': 'default',
        'search_server_timeout': 0,
        'datatype': 'train',
        'parlai_home': str(secret.parent),
        'tensorboard_logdir': str(secret.parent),
        'model_file': str(secret),
        'starttime': 'Nov22_05-29',
        'path_to_index': 'zoo:hallucination/wow_passages/exact',
        'parlai_version': '1.7.2',
        'log': 'manifold://bucket/tree/log',
    }
    path = stored(tmp_path, opt)
    with guarded():
        assert dict(Opt.load(str(path))) == opt


@pytest.mark.parametrize('key', ['fixed_cands_path', 'anything', 'memory_model_file'])
@pytest.mark.parametrize('nested', [False, True])
def test_a_file_elsewhere_is_refused_under_any_key(key, nested, home, secret):
    own = {key: str(secret)}
    path = stored(home, {'model': 'rag', 'deep': [own]} if nested else own)
    with pytest.raises(Refused, match=f'its own {key} is {secret}'):
        read_opt(path)
    assert read_opt(path, roster_opt=own)


@pytest.mark.parametrize('ending', ['candidates', 'dict', 'opt'])
def test_a_link_beside_a_model_to_a_file_elsewhere_is_refused(ending, home, secret):
    path = Path(make_ranker(home))
    link = Path(f'{path}.{ending}')
    moved = secret.parent / link.name
    if link.exists():
        link.rename(moved)
    else:
        moved.write_text(SECRET)
    link.symlink_to(moved)
    with user_error(f'{link} is a link to a file that is not'):
        opened(str(path))


def test_a_model_that_is_linked_with_all_its_files_is_read(tmp_path, home):
    path = Path(make_generator(home))
    elsewhere = tmp_path / 'links'
    elsewhere.mkdir()
    for file in path.parent.glob(f'{path.name}*'):
        (elsewhere / file.name).symlink_to(file)
    assert opened(str(elsewhere / path.name))


def test_a_model_may_name_the_repository_that_parlai_tunes(tmp_path):
    opt = {'model': 'hugging_face/dialogpt', 'model_name': 'microsoft/DialoGPT-medium'}
    path = stored(tmp_path, opt)
    assert read_opt(path) == opt
    stored(tmp_path, {**opt, 'model_name': '../microsoft/DialoGPT-medium'})
    with pytest.raises(Refused, match='if you mean it: `model_name: …` in the roster'):
        read_opt(path)


def test_what_a_model_began_from_is_forgotten(tmp_path, secret):
    # BART would convert it, into a file that the options name
    opt = {'model': 'bart', 'init_fairseq_model': 'a', 'output_conversion_path': 'b'}
    opt |= {'init_model': str(secret), 'dict_initpath': str(secret), 'beam_size': 3}
    path = stored(tmp_path, opt)
    with guarded():
        assert dict(Opt.load(str(path))) == {'model': 'bart', 'beam_size': 3}
    assert dict(Opt.load(str(path))) == opt


@pytest.mark.parametrize(
    'server, named',
    [
        ('a.host:8080', [('a.host', 8080)]),
        ('a.host', [('a.host', None)]),
        ('http://A.host/x', [('a.host', 80)]),
        ([{'deep': 'https://a.host'}], [('a.host', 443)]),
        ('http://[::1]:9/', [('::1', 9)]),
        ('none', []),
        ('http://h:port/', []),
    ],
)
def test_a_server_is_named_by_host_and_port(server, named):
    assert named_servers({'search_server': server, 'remote_key_env': 'home'}) == named
