"""
How `parlai` finds us, and what a command line costs and says.
"""

import json
import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest
from parlai.core.script import superscript_main

from parlai_ext.__main__ import main
from parlai_ext.commands import plugin
from parlai_ext.commands.command import COMMANDS, find_command
from tests.support.forked import command_in_child
from tests.support.small_run import small_config
from tests.support.user_error import user_error

# `parlai` itself is a version number; its zoo is a list of names
HEAVY = {'torch', 'parlai.core', 'parlai.utils', 'transformers', 'matplotlib'}
HEAVY |= {'pandas', 'scipy.stats', 'scipy.sparse'}


def run(*command, **env):
    env = {**os.environ, **env}
    there = sys.prefix  # not the checkout, whose folders would be found by chance
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=there)


@pytest.fixture(scope='module')
def stock(module_folder):
    """
    Facts about a process that started as `parlai` does: of its first steps, of a
    retriever that talks, and of a mistake, which ends it.
    """
    config = small_config(module_folder, targets=1, partners=1, retriever=True)
    assert 'retrieval' in Path(config).read_text()
    words = f'collect_dialogues --config {config} --run-dir {module_folder}/run'
    collect = f'{words} --num-dialogues 1 --num-turns 4'.split()
    code = f"""
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from parlai.core.script import superscript_main
shown = io.StringIO()
try:
    with redirect_stdout(io.StringIO()):
        superscript_main(['rank_systems', '--help'])
except SystemExit:
    pass
after_one = list(sys.modules)
from parlai.core.loader import load_agent_module, load_teacher_module, SCRIPT_REGISTRY
from parlai.core.opt import Opt
import parlai.zoo.mini.build, parlai_ext
facts = {{
    'after_one': after_one,
    'agent': load_agent_module('ext:fed').__module__,
    'teacher': load_teacher_module('ext:empathetic_openers').__module__,
    'zoo': parlai.zoo.mini.build.__file__,
    'preset': dict(Opt.load_init('gen/blenderbot')),
    'heavy': [m for m in ('transformers', 'matplotlib') if m in sys.modules],
}}
with redirect_stdout(shown), redirect_stderr(shown):
    superscript_main({collect})
print(json.dumps({{**facts, 'collecting': shown.getvalue()}}))
superscript_main(['display_data', '-t', 'ext:nosuch'])
"""
    done = run(sys.executable, '-c', code)
    assert done.returncode == 1, done.stderr
    return {**json.loads(done.stdout.split('\n')[-2]), 'error': done.stderr}


def test_a_start_finds_our_agents_tasks_zoo_and_presets_and_loads_little(stock):
    assert stock['agent'].startswith('parlai_ext.agents.fed')
    assert stock['teacher'] == 'parlai_ext.tasks.empathetic_openers.agents'
    assert 'parlai_ext' in stock['zoo']
    # a preset that the wheel lost: the settings that Roller et al. (2021) chat with
    assert stock['preset']['beam_size'] == 10
    assert stock['preset']['beam_min_length'] == 20
    assert stock['heavy'] == []


NEW = 'evaluate_systems --config demo --run-dir x'
# by the exit code of a start: its arguments, and a part of what it says
STARTS = {
    0: {
        '--help': '  evaluate_systems  ',
        '--version': 'parlai_ext 0.1.0',
        **{f'{name} --help': f'parlai-ext {name} ' for name in COMMANDS},
        'get_model': 'fetch one with',
    },
    2: {
        'evalute_systems': "did you mean 'evaluate_systems'?",
        'nothing': "no command 'nothing'",
        "it's": 'no command "it',
        '--quite': "no command '--quite'",
        'evaluate_systems --confg x': 'did you mean --config?',
        'rate_dialogues --out x': 'arguments: --out x (all',
        'rate_dialogues --num-item=5': 'did you mean --num-items?',
    },
    1: {
        'evaluate_systems': 'or --run-dir: a run',
        'evaluate_systems --config dmeo --run-dir x': "mean 'demo'?",
        'evaluate_systems --config demo': '--run-dir',
        'evaluate_systems --config demo --run-dir pyvenv.cfg': 'is a file',
        f'{NEW} --add-target a=b': 'no file b',
        f'{NEW} --add-target a=zoo:b': 'no zoo:b',
        f'{NEW} --judge-model-file zoo:b': 'zoo:b',
        f'{NEW} --add-target a=agent:repeat_qury': "mean 'repeat_query'?",
        f'{NEW} --trust-model-code b': 'no file b',
        f'{NEW} --openers ext:empathetic_openers --openers-file b': 'no file b',
        'judge_pairs --pairs x --scorer-option model=zoo:b': 'has no zoo:b',
        'rank_systems --run-dir /nowhere': '/nowhere is not a run folder',
        'rank_systems --run-dir /nowhere --rule best': '--rule: ',
        'score_dialogues': '--run-dir is needed',
        'verify_run': 'error: PACK is needed',
        'verify_run /nowhere': 'there is no such pack',
        'build_leaderboard --packs bin --out x': 'there is no pack',
        'compare_metrics /nowhere': 'there is no bench',
        'convert_model --model-file zoo:b': 'has no zoo:b',
        'train_judge --base b --pairs c --out x': 'no file c',
        'adapt_model --kind lm --base b --corpus c --out x': 'c: no such file',
        'fit_judge --out x': 'one of --judged-file',
        'fit_judge --out x --judged-file b': '--judged-file: there is no file b',
        'run_bench --out x --judged-path b --scorers learned': 'file or folder',
        'ask_contexts --out x --path b --systems floor=c': 'no file c',
        'compare_safety --out x --toxic-data b --roster minii': "mean 'mini'?",
        'compare_runs b': 'parlai-ext compare_runs A B',
        'compare_detectors --detectors foo': 'neither a name nor a file',
        'get_model minilmm': "mean 'minilm'?",
        'check_roster': '--config, --roster or --add-target',
        'check_roster --roster mini_': "mean 'mini'?",
    },
}
EARLY = [('evaluate_systems --help', 0, 'before a long run:\n')]
EARLY += [
    (args, code, says)
    for code, starts in STARTS.items()
    for args, says in starts.items()
]


@pytest.fixture(scope='module')
def early():
    """
    By its arguments, what each of these starts gives, one after the other in one
    process: exit code, output, errors, and which of the heavy libraries are there then.
    """
    program = f"""
import io, json, sys
from contextlib import redirect_stderr, redirect_stdout
from parlai_ext.__main__ import main
sys.argv, starts = ['parlai-ext'], {{}}
for args in {[args for args, *_ in EARLY]}:
    out, errors, code = io.StringIO(), io.StringIO(), 0
    with redirect_stdout(out), redirect_stderr(errors):
        try:
            main(args.split())
        except SystemExit as end:
            code = end.code or 0
    heavy = sorted({HEAVY} & set(sys.modules))
    starts[args] = code, out.getvalue(), errors.getvalue(), heavy
print(json.dumps(starts))
"""
    return json.loads(run(sys.executable, '-c', program).stdout)


@pytest.mark.parametrize('args, code, says', EARLY, ids=lambda arg: str(arg)[:40])
def test_help_and_early_mistakes_import_no_library_of_models(early, args, code, says):
    ended, out, errors, heavy = early[args]
    assert (ended, errors.count('\n'), heavy) == (code, int(code > 0), [])
    assert says in out + errors


def test_a_start_imports_no_command_but_the_one_that_is_named(stock):
    classes = {f'parlai_ext.commands.{name}' for name in COMMANDS}
    assert classes & set(stock['after_one']) == {'parlai_ext.commands.rank_systems'}


def test_a_command_that_cannot_be_imported_is_one_line_when_it_is_named(
    uninstalled, exit_line
):
    uninstalled('parlai_ext.commands.rank_systems')
    line = exit_line(superscript_main, ['rank_systems', '--help'])
    assert 'parlai-ext doctor' in line


def test_a_switch_needs_no_value_and_takes_one():
    parser = find_command('evaluate_systems').parser()
    for given, value in (([], True), (['true'], True), (['false'], False)):
        assert parser.parse_args(['--no-cuda', *given]).no_cuda is value


def internal_scripts(folder):
    """
    Make a `parlai_internal` in a folder, and return the place of its commands.
    """
    scripts = folder / 'parlai_internal' / 'scripts'
    scripts.mkdir(parents=True)
    for package in (scripts, scripts.parent):
        (package / '__init__.py').write_text('')
    return scripts


def test_the_current_folder_is_no_place_for_modules(tmp_path):
    # as under `parlai`: a model's options may name `projects:…`
    for module in ('tqdm', 'difflib', 'argparse'):
        (tmp_path / f'{module}.py').write_text("print('from here')")
    command = [sys.executable, '-m', 'parlai_ext', 'rank_systems', '--run-dir', 'none']
    given = {'capture_output': True, 'text': True, 'cwd': tmp_path}
    assert 'from here' not in subprocess.run(command, **given).stdout
    env = {**os.environ, 'PYTHONPATH': '.'}
    assert 'from here' in subprocess.run(command, **given, env=env).stdout


@pytest.fixture
def own_package(tmp_path):
    """
    A user's own `parlai_internal`, with a command of its own.
    """
    (internal_scripts(tmp_path) / 'theirs.py').write_text(
        'from parlai.core.script import ParlaiScript, register_script\n'
        "@register_script('theirs')\n"
        'class Theirs(ParlaiScript):\n'
        '    @classmethod\n'
        '    def setup_args(cls):\n'
        '        from parlai.core.params import ParlaiParser\n'
        "        return ParlaiParser(False, False, 'A command of theirs')\n"
    )
    return tmp_path


def test_behind_a_users_package_the_module_has_both_commands(own_package):
    done = command_in_child(main, 'help', path=[own_package])
    for name in (*COMMANDS, 'train_model', 'self_chat', 'theirs'):
        assert f'\n  {name} ' in done.out
    assert not done.errors


def test_in_front_of_a_users_package_parlai_has_both_commands(own_package):
    ours = Path(find_command.__code__.co_filename).parents[2]
    done = command_in_child(superscript_main, 'help', path=[ours, own_package])
    for name in (*COMMANDS, 'train_model', 'A command of theirs'):
        assert f' {name}' in done.out


@pytest.mark.parametrize(
    'command, code, says',
    [
        (['evaluate_systems', '--config', 'dmeo', '--run-dir', 'x'], 1, "mean 'demo'?"),
        (['slef_chat'], 2, "did you mean 'self_chat'?"),
    ],
)
def test_a_mistake_with_our_commands_is_one_line(command, code, says, exit_line):
    assert says in exit_line(superscript_main, command, code=code)


@pytest.mark.parametrize(
    'command',
    [
        ['display_data', '-t', 'ext:nosuch'],
        ['display_data', '-t', 'ext:nosuch:Teacher'],
        ['eval_model', '-m', 'ext:nosuch', '-t', 'self_chat'],
    ],
)
def test_an_unknown_name_behind_our_prefix_is_told_with_the_known_ones(command):
    with pytest.raises(ModuleNotFoundError) as raised:
        superscript_main(command)
    line = plugin.user_mistake(raised.value)
    assert line.startswith('there is no ext:nosuch; known: ')
    assert 'ext:fed' in line or 'ext:empathetic_openers' in line


def test_a_self_chat_of_nobody_is_told_which_option_it_needs():
    with pytest.raises(RuntimeError) as raised:
        superscript_main(['self_chat', '-t', 'ext:smalltalk'])
    assert plugin.user_mistake(raised.value).startswith('--model or --model-file')


@pytest.mark.parametrize('name', ['parlai_ext.agents.fed.x', 'faiss'])
def test_a_package_missing_elsewhere_is_not_called_a_mistake(name):
    assert plugin.user_mistake(ModuleNotFoundError('x', name=name)) is None


def test_a_mistake_under_a_stock_command_is_one_line_and_exit_code_1(stock):
    lines = stock['error'].split('\n')
    [line] = [line for line in lines if line and 'pkg_resources' not in line]
    assert line.startswith('error: there is no ext:nosuch')


def test_a_retriever_does_not_begin_with_warnings(stock):
    # ParlAI's of candidates that are as they should be, and torch's of ParlAI
    assert 'collect: ' in stock['collecting']
    assert 'warning' not in stock['collecting'].lower()


def test_a_command_in_python_has_help_and_a_mistake_is_an_exception():
    script = plugin.script_of('convert_model')
    assert '  --output ' in script.help()
    with user_error('no_such_option'):
        script.main(no_such_option=1)


def test_registering_twice_is_registering_once():
    import parlai.zoo

    plugin.register()
    hook, paths = sys.excepthook, list(parlai.zoo.__path__)
    plugin.register()
    assert sys.excepthook is hook
    assert list(parlai.zoo.__path__) == paths


def test_the_wheel_holds_every_module_and_data_file(tmp_path):
    root = Path(find_command.__code__.co_filename).parents[2]
    tree = tmp_path / 'tree'
    rooms = ('agents', 'tasks', 'worlds', 'zoo_configs')
    names = ('parlai_ext', 'parlai_internal', *rooms)
    skip = shutil.ignore_patterns('__pycache__')
    for name in names:
        shutil.copytree(root / name, tree / name, symlinks=True, ignore=skip)
    for name in ('setup.py', 'pyproject.toml', 'LICENSE'):
        shutil.copy(root / name, tree)
    code = f'from setuptools import build_meta as b; b.build_wheel({str(tmp_path)!r})'
    build = [sys.executable, '-c', code]
    subprocess.run(build, cwd=tree, capture_output=True, check=True)
    [wheel] = tmp_path.glob('*.whl')
    inside = set(zipfile.ZipFile(wheel).namelist())
    files = [p.relative_to(tree) for n in names for p in (tree / n).rglob('*')]
    here = {p.as_posix() for p in files if (root / p).is_file()}
    installed = {f'parlai_ext/{x}' if x.split('/')[0] in rooms else x for x in here}
    assert installed - inside == set()
