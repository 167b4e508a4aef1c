"""
What of others may run or be asked without the user's word.

What of a record may be used, value by value; and the notes.
"""

import re
import shutil
import stat
import sys
from itertools import product
from pathlib import Path

import pytest

from parlai_ext.commands.audit_run import AuditRun
from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.commands.verify_run import VerifyRun
from parlai_ext.core import Recorded, System, UserError
from parlai_ext.files import FILE_OPTIONS
from parlai_ext.isolation import policy
from parlai_ext.isolation.policy import (
    Notes,
    is_own_part,
    note_parts,
    note_trust,
    require_named,
    unnamed_uses,
)
from parlai_ext.scoring.score_run import choose_scorer, require_named_scorer
from parlai_ext.store import record_hash
from parlai_ext.systems.identity import identity, resolve
from parlai_ext.systems.parlai_agents import SEEN_TO, is_trusted, load_system
from tests.support.chat_server import received
from tests.support.malicious_pickles import reduced
from tests.support.published_runs import (
    FLOOR,
    files_in,
    forge_json,
    make_run,
    protocol_file,
    publish,
    write_forged,
)
from tests.support.small_run import small_config
from tests.support.store_samples import sample_manifest
from tests.support.talk import loaded
from tests.support.tiny_models import make_generator
from tests.support.user_error import user_error
from tests.support.written import json_in


@pytest.fixture
def configuration(tmp_path, monkeypatch):
    monkeypatch.setenv('XDG_CONFIG_HOME', str(tmp_path / 'configuration'))
    forget(monkeypatch)
    return tmp_path / 'configuration' / 'parlai_ext' / 'own_records'


def forget(monkeypatch):
    """
    Know no more than another process would.
    """
    monkeypatch.setattr(policy, 'OWN_RECORDS', Notes('own_records'))


@pytest.mark.parametrize(
    'opt',
    [
        {'model': 'transformer/generator', 'model_file': 'zoo:tutorial/model'},
        {'model': FLOOR, 'floor_kind': 'word_salad'},
        {'model_file': 'models/my.best.model', 'beam_size': 10, 'inference': 'nucleus'},
        {'model': 'ext:hf', 'hf_model': 'owner/model.v1', 'hf_trust_code': False},
        {'model': 'ext:hf', 'hf_model': '/data/m', 'hf_device': 'cuda:0'},
        {'model': 'ext:safety_layer', 'safety_detector': 'hf:owner/m,threshold=0.5'},
        {'model': 'ir_baseline', 'fixed_candidates_path': 'task:convai2@valid'},
        {'model_file': 'm', 'search_server': 'none', 'temperature': '0.7'},
        {'model': FLOOR, 'said': 'Hello. How are you? e.g. fine.'},
        {'model': FLOOR, 'nothing': None},
        # in which an address might begin at each full stop
        {'model': FLOOR, 'said': 'a.' * 100_000 + ' b'},
    ],
)
def test_data_may_be_used(opt):
    assert list(unnamed_uses(opt)) == []


AGENTS = [
    'run.evil:Evil',
    'internal:evil',
    'ext:evil:Evil',
    'parlai.agents/../evil:Evil',
    'ext:remote',
    'parlai_ext.agents.remote.remote:RemoteAgent',
    'local_human',
]


@pytest.mark.parametrize(
    'opt',
    [
        *({'model': agent} for agent in AGENTS),
        {'model': 'ext:hf', 'hf_trust_code': 'true'},
        {'model': 'ext:hf', 'hf_trust_code': 1},
        {'model': 'ext:hf', 'hf_model': 'HTTP://host/m'},
        {'search_server': 'host'},
        {'any': 'https://me:word@host/x'},
        {'any': '10.0.0.1:80'},
        {'remote_key_env': 'HOME'},
        {'task': 'convai2,run.evil:Teacher'},
        {'fixed_candidates_path': 'task:run.evil'},
        {'init_opt': 'run/evil.opt'},
        {'dict_class': 'run.evil:Dict'},
        {'scorer': 'run/evil.py:Evil'},
        {'scorer_option': ['judge=agent:run.evil:Evil']},
        {'model': FLOOR, 'safety_system': 'run/card.yaml'},
        {'model': FLOOR, 'safety_detector': 'run.evil:Evil,threshold=1'},
    ],
)
def test_code_servers_and_keys_may_not(opt):
    [line] = unnamed_uses({'model_file': 'm', **opt})
    [*_, key] = opt
    assert [line] == list(unnamed_uses({'model': FLOOR, 'inside': opt}))
    assert line.startswith(f'{key}: ')


@pytest.mark.parametrize('use', [resolve, identity, load_system])
def test_a_recorded_system_is_refused_before_it_is_looked_at(configuration, use):
    # to look at it would tell that there is no such module
    opt = {'model': 'no_such_module:Evil'}
    with user_error('only a record that this machine did not make'):
        use(System('evil', opt, Recorded('0' * 64, 'systems.evil')))


def test_a_note_is_about_one_record_and_its_parts(configuration, monkeypatch):
    manifest = sample_manifest()
    note_parts(manifest, ['systems.a'])
    forget(monkeypatch)
    digest = record_hash(manifest)
    parts = 'systems.a', 'systems.b'
    assert [is_own_part(digest, part) for part in parts] == [True, False]
    [note] = configuration.iterdir()
    assert not stat.S_IMODE(note.stat().st_mode) & 0o077
    # what is written into a manifest later is not what it names
    assert record_hash(manifest.changed(left_out=['c'])) == digest
    systems = {**manifest.systems, 'a': {'x': 1}}
    assert record_hash(manifest.changed(systems=systems)) != digest
    note_parts(manifest, ['systems.b'])
    forget(monkeypatch)
    assert all(is_own_part(digest, part) for part in parts)


def test_a_worker_leaves_no_note(configuration):
    manifest = sample_manifest()
    note_parts(manifest, ['systems.a'], on_disk=False)
    assert is_own_part(record_hash(manifest), 'systems.a')
    assert not configuration.exists()


def test_a_folder_that_cannot_be_written_is_a_warning(configuration, caplog):
    configuration.parent.parent.mkdir()
    configuration.parent.write_text('a file where the folder would be')
    manifest = sample_manifest()
    note_parts(manifest, ['systems.a', 'systems.b'])
    assert caplog.text.count('cannot be noted') == 1
    # this command goes on all the same
    assert is_own_part(record_hash(manifest), 'systems.b')


def test_a_relative_configuration_folder_is_not_taken(monkeypatch, tmp_path):
    # it would lie in a folder that may be a stranger's
    monkeypatch.setenv('XDG_CONFIG_HOME', 'run')
    monkeypatch.setenv('HOME', str(tmp_path))
    assert Notes('kind').path == tmp_path / '.config' / 'parlai_ext' / 'kind'


# ---- A run folder or a pack of a stranger, its checksums made anew, runs no code,
# asks no server and sends no key; a user's own goes on as it did.

pytest_plugins = ['tests.support.remote_samples']
KEY, VARIABLE = 'a-key-of-the-user-0123456789', 'PLANTED_TEST_KEY'
EVIL = """
from pathlib import Path
from parlai.core.agents import Agent

Path(__file__).with_name('sprung').touch()


class Evil(Agent):
    pass
"""


@pytest.fixture(scope='module')
def honest(module_folder):
    root = module_folder / 'run'
    return make_run(root, ['generic', 'salad', 'talker'], num_dialogues=3)


@pytest.fixture
def foreign(honest, tmp_path, monkeypatch):
    """
    A copy of the run, as a stranger has it who changes it.
    """
    shutil.copytree(honest.root, tmp_path / 'run')
    monkeypatch.setenv(VARIABLE, KEY)
    monkeypatch.syspath_prepend(str(tmp_path))
    sys.modules.pop('planted_evil', None)  # of another test
    (tmp_path / 'planted_evil.py').write_text(EVIL)
    return tmp_path / 'run'


def forge(path, change):
    """
    Change a record, and make its checksum anew.
    """
    path.write_bytes(forge_json(path.read_bytes(), change))


def with_system(root, name, opt):
    """
    Give a system of a run other options, and leave nothing that was collected.
    """
    forge(root / 'manifest.json', lambda made: made['systems'].update({name: opt}))
    shutil.rmtree(root / 'dialogues')


def refusal_of(command, root, **options):
    """
    Return why a command refuses a run; empty if it does not.
    """
    try:
        command.main(run_dir=root, no_cuda=True, **options)
    except UserError as error:
        return str(error)
    return ''


def remote(address):
    return {
        'model': 'ext:remote',
        'remote_url': f'{address}/v1',
        'remote_model': 'x',
        'remote_key_env': VARIABLE,
        'remote_temperature': 0,
    }


def remote_judge(address):
    return f'{address}/v1,remote_model=x,remote_key_env={VARIABLE}'


@pytest.mark.parametrize('name', ['generic', 'echo'])  # a target and a partner
@pytest.mark.parametrize(
    'opt, words',
    [
        ({'model': 'planted_evil:Evil'}, 'model: .*planted_evil.*--config'),
        (remote, VARIABLE),
    ],
)
def test_a_manifest_imports_no_code_and_sends_no_key(
    foreign, url, tmp_path, name, opt, words
):
    with_system(foreign, name, remote(url) if opt is remote else opt)
    refusal = refusal_of(CollectDialogues, foreign)
    assert received(url) == [] and not (tmp_path / 'sprung').exists()
    assert re.search(f'{name}.*{words}', refusal)


@pytest.mark.parametrize(
    'scorer, judge, word',
    [
        ('fed', lambda address: 'agent:planted_evil:Evil', 'planted_evil'),
        ('llm_judge', remote_judge, VARIABLE),
    ],
)
def test_a_recorded_judge_imports_no_code_and_is_sent_no_key(
    foreign, url, tmp_path, scorer, judge, word
):
    section = {'name': scorer, 'judge_model_file': judge(url)}
    manifest = foreign / 'manifest.json'
    forge(manifest, lambda made: made['protocol'].update(scorer=section))
    refusal = refusal_of(ScoreDialogues, foreign, check_sample=0)
    assert received(url) == [] and not (tmp_path / 'sprung').exists()
    assert re.search(f'{word}.*--judge-model-file', refusal)


@pytest.mark.parametrize(
    'record, change',
    [
        # a partner, so that canaries are left out
        ('manifest.json', lambda made, at: made['systems'].update(echo=remote(at))),
        # a judge beside the scores
        (
            'scores/*/scorer.json',
            lambda about, at: about['config'].update(
                name='llm_judge', judge_model_file=remote_judge(at)
            ),
        ),
    ],
)
def test_an_audit_asks_no_server_and_sends_no_key(
    foreign, url, printed, record, change
):
    [path] = foreign.glob(record)
    forge(path, lambda made: change(made, url))
    AuditRun.main(run_dir=foreign, no_cuda=True, audit_openers=3)
    assert received(url) == []
    assert VARIABLE in printed()


@pytest.mark.parametrize(
    'section, problem',
    [
        ({'name': 'os:system'}, 'protocol.scorer.name'),
        ({'name': 'distinct'}, 'protocol.scorer.name'),
        (
            {'name': 'llm_judge', 'judge_model_file': 'http://127.0.0.1:9/v1'},
            'protocol.scorer.judge_model_file',
        ),
    ],
)
@pytest.mark.parametrize('beside', [False, True])
def test_another_scorer_in_a_pack_is_wrong(
    honest, tmp_path, printed, section, problem, beside
):
    pack = tmp_path / 'run.zip'
    publish(honest, pack)
    files = files_in(pack)
    changes = {'manifest.json': lambda made: made['protocol'].update(scorer=section)}
    if beside:  # the forger changes the record of the scores, too
        [record] = (name for name in files if name.endswith('/scorer.json'))
        changes[record] = lambda about: about.update(config=section)
        problem = 'scorer.name'
    for name, change in changes.items():
        files[name] = forge_json(files[name], change)
    with user_error('scorer'):
        VerifyRun.main(str(write_forged(pack, files)))
    text = printed()
    assert problem in text
    assert 'wrong          scorer: ' in text


def test_ones_own_run_goes_on_and_a_copy_elsewhere_is_asked_about(
    foreign, tmp_path, monkeypatch
):
    # `talker` is an agent from outside the package
    shutil.rmtree(foreign / 'dialogues')
    shutil.copytree(foreign, tmp_path / 'elsewhere')
    CollectDialogues.main(run_dir=foreign, no_cuda=True)
    monkeypatch.setenv('XDG_CONFIG_HOME', str(tmp_path / 'of_another_user'))
    forget(monkeypatch)
    there = str(tmp_path / 'elsewhere')
    with user_error('talker.*trial_agents.*--config'):
        CollectDialogues.main(run_dir=there, no_cuda=True)
    config = protocol_file(
        tmp_path / 'config', ['generic', 'salad', 'talker'], num_dialogues=3
    )
    CollectDialogues.main(config=config, run_dir=there, no_cuda=True)
    # named once, it is the user's own: no file and no memory of the process is needed
    forget(monkeypatch)
    shutil.rmtree(tmp_path / 'elsewhere' / 'dialogues')
    CollectDialogues.main(run_dir=there, no_cuda=True)


def test_adding_a_target_makes_no_other_system_ones_own(foreign, tmp_path):
    with_system(foreign, 'generic', {'model': 'planted_evil:Evil'})
    added = f'mine=agent:{FLOOR},floor_kind=generic_reply'
    for _ in range(2):
        with user_error('generic.*planted_evil'):
            CollectDialogues.main(run_dir=foreign, add_target=[added], no_cuda=True)
        added = f'second=agent:{FLOOR},floor_kind=generic_reply'
    assert not (tmp_path / 'sprung').exists()


def test_a_judge_of_the_command_line_takes_the_place_of_a_recorded_one():
    recorded = {'name': 'fed', 'judge_model_file': 'agent:planted_evil:Evil'}
    mine = {'judge_model_file': 'agent:my_agents:Mine'}
    chosen = choose_scorer(recorded, mine)
    assert chosen.section['judge_model_file'] == mine['judge_model_file']
    # also where it is the same one: the user has named it
    again = choose_scorer(recorded, {'judge_model_file': recorded['judge_model_file']})
    assert again.named_by_user
    with user_error('planted_evil'):
        choose_scorer(recorded, {'followups': 'default'})


def test_only_the_name_of_an_outside_scorer_was_given():
    name = 'tests.support.outside_scorer:Similarity'
    require_named_scorer({'name': name, 'encoder': 'minilm'}, {'name': name})
    with user_error('http://127.0.0.1:9'):
        require_named_scorer(
            {'name': name, 'encoder': 'http://127.0.0.1:9/v1'}, {'name': name}
        )


# ---- `--trust-model-code`: one file may run code when it is read, and the run says
# which. Without it, no option of a system has a file of others read in the program.


@pytest.fixture
def marker(tmp_path):
    return tmp_path / 'marker'


@pytest.fixture
def path(tmp_path, marker, configuration, monkeypatch):
    """
    Write a generator whose old pickled `.opt` touches a file when it is read; what is
    noted of trust stays here.
    """
    here = set(policy.TRUSTED.here)
    monkeypatch.setattr(policy, 'TRUSTED', Notes('trusted', here))
    path = make_generator(tmp_path, 'knows')
    stored = json_in(Path(f'{path}.opt'))
    code = f'open({str(marker)!r}, "w").close() or {stored!r}'
    Path(f'{path}.opt').write_bytes(reduced('builtins', 'eval', code) + b'.')
    return path


def collected(tmp_path, model_file, **more):
    return CollectDialogues.main(
        config=small_config(tmp_path, targets=1, partners=1),
        run_dir=tmp_path / 'run',
        num_dialogues=1,
        add_target=[f'mine={model_file}'],
        no_cuda=True,
        **more,
    )


def test_nothing_is_trusted_unless_it_is_named(tmp_path, path, marker):
    with user_error(r"^system 'mine': .*refused.*builtins\.eval"):
        collected(tmp_path, path)
    assert not marker.exists()
    assert not (tmp_path / 'run' / 'dialogues').exists()


def test_a_trusted_file_runs_and_is_in_the_manifest(tmp_path, path, marker):
    report = collected(tmp_path, path, trust_model_code=[path])
    assert (report.n_played, report.problems) == (2, ())
    assert marker.exists()
    manifest = json_in(tmp_path / 'run' / 'manifest.json')
    assert list(manifest['trusted']) == ['knows']


def test_trust_is_remembered_for_this_very_file(path, marker):
    note_trust([path])
    loaded(model_file=path)
    assert marker.exists()
    with open(f'{path}.opt', 'ab') as file:
        file.write(b' ')
    with user_error('refused'):
        loaded(model_file=path)


READERS = 'rag bart hugging_face/gpt2 ext:causal_lm ext:long_context ext:mini_retriever'
OTHER_OPTIONS = 'datapath init_fairseq_model retriever_model_file dict_initpath'
NAMED = {
    'ext:hf': ['hf_model', 'datapath'],
    'hugging_face/dialogpt': ['model_name'],
    'ext:safety_layer': ['datapath'],
    **dict.fromkeys(READERS.split(), {*FILE_OPTIONS, *OTHER_OPTIONS.split()}),
}


@pytest.mark.parametrize('more', [{}, {'model_file': 'zoo:mini/step-50/model'}])
@pytest.mark.parametrize('agent', NAMED)
def test_what_a_record_names_is_not_read_in_the_program(agent, more, tmp_path):
    (tmp_path / 'exact.index').touch()
    opt = {'model': agent, 'safety_system': {'model': 'ext:mini_floor'}, **more}
    # of GPT-2 without a file, the hub's weights are read
    assert is_trusted(System('ours', opt)) == bool(more or 'gpt' not in agent)
    names = f'{tmp_path} {tmp_path}/exact.index {tmp_path}/exact zoo:others/model'
    for option, name in product({*NAMED[agent]} - {*SEEN_TO}, names.split()):
        named = {**opt, option: name}
        system = System('theirs', named, Recorded('0' * 64, 'systems.theirs'))
        require_named(system)  # it is data
        assert not is_trusted(system), named


def test_a_folder_in_the_place_of_projects_is_not_parlais(tmp_path, monkeypatch):
    (tmp_path / 'projects').mkdir()
    (tmp_path / 'projects' / '__init__.py').touch()
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.delitem(sys.modules, 'projects', raising=False)
    opt = {'model': 'projects.mine.agents:Mine', 'task': 'projects.mine'}
    assert not is_trusted(System('mine', opt))
    assert len([*unnamed_uses(opt)]) == 2
