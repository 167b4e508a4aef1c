"""
A run folder or a pack of a stranger, its checksums made anew, runs no code, asks no
server and sends no key; a user's own goes on as it did.
"""

import re
import shutil
import sys

import pytest

from parlai_ext.commands.audit_run import AuditRun
from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.commands.verify_run import VerifyRun
from parlai_ext.core import UserError
from parlai_ext.scoring.score_run import choose_scorer, require_named_scorer
from tests.isolation.test_policy import forget
from tests.support.chat_server import received
from tests.support.published_runs import (
    FLOOR,
    files_in,
    forge_json,
    make_run,
    protocol_file,
    publish,
    write_forged,
)
from tests.support.user_error import user_error

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
