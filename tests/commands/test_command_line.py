"""
How `parlai` finds us, what a command line costs and says, what every command has, and
what the doctor finds wrong in an environment.
"""

import json
import os
import shutil
import signal
import subprocess
import sys
import time
import zipfile
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest
from parlai.core.script import superscript_main

from parlai_ext import __main__
from parlai_ext.__main__ import completion_script, main
from parlai_ext.commands import plugin
from parlai_ext.commands.build_pairs import BuildPairs
from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.command import COMMANDS, Command, find_command
from parlai_ext.commands.doctor import (
    Fault,
    check_conflicts,
    check_hidden,
    check_packages,
    check_python,
)
from parlai_ext.commands.signals import LINE, Interrupted, signals_as_interrupt
from parlai_ext.core import UserError, option
from parlai_ext.view import VisibleOutput
from parlai_ext.view.progress import LogLines, bar_of
from tests.support.forked import command_in_child
from tests.support.repository import ROOT
from tests.support.small_run import small_config
from tests.support.user_error import user_error

# `parlai` itself is a version number; its zoo is a list of names
HEAVY = {'torch', 'parlai.core', 'parlai.utils', 'transformers', 'matplotlib'}
HEAVY |= {'pandas', 'scipy.stats', 'scipy.sparse'}


def run(*command, cwd=sys.prefix, **env):
    """
    Return an ended process with its texts; it starts outside of the checkout, whose
    folders would be found by chance.
    """
    env = {**os.environ, **env}
    return subprocess.run(command, capture_output=True, text=True, env=env, cwd=cwd)


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
    assert 'from here' not in run(*command, cwd=tmp_path).stdout
    assert 'from here' in run(*command, cwd=tmp_path, PYTHONPATH='.').stdout


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


# What every command has: home folders, one document of JSON, output that is safe.


def test_the_home_folder_is_found_where_no_shell_did_it(monkeypatch):
    monkeypatch.setenv('HOME', '/home/me')
    given = ['--config=~/p.yaml', '--run-dir=~/r', '--datapath=~/d']
    opt = CollectDialogues.parser().parse_args(given)
    assert (opt.config, opt.run_dir, opt.datapath) == (
        '/home/me/p.yaml',
        '/home/me/r',
        '/home/me/d',
    )
    # what is called FILE or FOLDER is a path, wherever it is
    assert BuildPairs.parser().parse_args(['--out=~/p.jsonl']).out == '/home/me/p.jsonl'


def test_a_package_that_ranking_and_report_lack_is_one_line(monkeypatch, exit_line):
    def lack(name, args):
        raise ModuleNotFoundError("No module named 'pandas'", name='pandas')

    monkeypatch.setattr(__main__, 'run_directly', lack)
    line = exit_line(__main__.main, ['report_run'])
    assert line.startswith('error: report_run ') and "'pandas'" in line


OWNED = '\x1b]0;owned\x07\u202e\x9b2J\r'


@dataclass(frozen=True)
class NameOptions:
    name: str | None = option(None, choices=('tea',), help='a name')


class Says(Command):
    """
    Prints a name of others, and stumbles over it.
    """

    declares = (NameOptions,)

    def run(self):
        print(f'parlai doctor {OWNED}\tand\n')
        raise UserError(f'no system {OWNED}')


def test_what_a_command_prints_stays_as_it_is_and_acts_on_no_terminal(
    capsys, monkeypatch
):
    monkeypatch.setattr(sys, 'argv', ['parlai-ext'])
    with pytest.raises(SystemExit):
        Says.execute({})
    with pytest.raises(SystemExit):
        Says.parser().parse_args(['--name', OWNED])
    captured = capsys.readouterr()
    assert captured.out == 'parlai doctor ␛]0;owned␇⟨U+202E⟩⟨U+009B⟩2J␍\tand\n\n'
    assert '\\x1b]0;owned\\x07\\u202e' in captured.err
    assert not set(OWNED) - set(']0;owned2J') & set(captured.err)


class Counts(Command):
    """
    Has a result, and prints a line and a bar.
    """

    def run(self):
        print('two names')
        with bar_of('count', 2) as bar:
            bar.update(2)
        return {'options': NameOptions('tea'), 'mean': float('nan'), 'n': np.int64(2)}


@pytest.mark.parametrize('quiet', [False, True])
def test_json_is_one_document_and_all_else_is_elsewhere(quiet, capsys, monkeypatch):
    monkeypatch.setattr(LogLines, 'hidden', False)
    Counts.execute({'json': True, 'quiet': quiet})
    captured = capsys.readouterr()
    expected = {'options': {'name': 'tea'}, 'mean': None, 'n': 2}
    assert json.loads(captured.out) == expected
    assert ('two names' in captured.err, '2/2' in captured.err) == (not quiet,) * 2


def test_limit_is_another_name_for_how_much_is_evaluated():
    parser = find_command('evaluate_systems').parser()
    assert parser.parse_args(['--limit', '3']).num_dialogues == 3
    with pytest.raises(SystemExit):
        parser.parse_args(['--limit', '0.5'])


def test_the_tab_key_completes_commands_and_flags():
    line = (
        'COMP_WORDS=(parlai-ext {}); COMP_CWORD={}; _parlai_ext; echo ${{COMPREPLY[@]}}'
    )
    tries = [('eval', 1), ('rank_systems --run', 2), ('rank_systems --js', 2)]
    script = '\n'.join([completion_script(), *(line.format(*one) for one in tries)])
    done = run('bash', '-c', script)
    assert done.stdout.split() == ['evaluate_systems', '--run-dir', '--json']


def test_a_long_text_is_printed_whole(printed):
    words = 'tea ' * 10_000
    VisibleOutput(sys.stdout).write(words)
    assert printed() == words


# The doctor finds what is wrong in an environment that was spoilt on purpose.


def fake_version(folder, name, version):
    home = folder / f'{name}-{version}.dist-info'
    home.mkdir()
    lines = f'Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n'
    (home / 'METADATA').write_text(lines)


@pytest.fixture
def too_new_setuptools(tmp_path):
    fake_version(tmp_path, 'setuptools', '99.0')
    gone = "raise ModuleNotFoundError('gone, as in setuptools 82')\n"
    (tmp_path / 'pkg_resources.py').write_text(gone)
    return tmp_path


def test_what_is_of_another_version_is_named_with_its_solution(
    too_new_setuptools, monkeypatch
):
    fake_version(too_new_setuptools, 'parlai', '1.6.0')
    monkeypatch.syspath_prepend(too_new_setuptools)
    monkeypatch.delitem(sys.modules, 'pkg_resources', raising=False)
    setuptools, parlai = check_packages()
    assert setuptools.problem.startswith('setuptools 99.0 is too new')
    assert "pip install 'setuptools<" in setuptools.solution
    assert parlai.problem.startswith('parlai 1.6.0')
    assert '--no-deps parlai==1.7.2' in parlai.solution


def test_a_stock_command_says_it_in_one_line(too_new_setuptools):
    about = {'path': [too_new_setuptools], 'forget': ('parlai', 'pkg_resources')}
    done = command_in_child(main, 'train_model', **about)
    assert done.errors.startswith('error: setuptools 99.0 is too new')
    assert (done.code, done.errors.count('\n')) == (1, 1)


@pytest.mark.parametrize('version', [(3, 10), (3, 12)])
def test_a_python_that_was_not_tried_is_wrong(version):
    assert not list(check_python((3, 11)))
    [finding] = check_python(version)
    assert f'Python 3.{version[1]} ' in finding.problem and finding.wrong
    assert 'PYTHON=python3.11' in finding.solution


def test_a_hidden_package_is_named_and_the_solution_solves_it(tmp_path, monkeypatch):
    internal_scripts(tmp_path)
    monkeypatch.setenv('PYTHONPATH', str(tmp_path))
    [fault] = check_hidden()
    assert fault.problem.startswith(f'{tmp_path}/parlai_internal hides our package')
    subprocess.run(fault.solution, shell=True, check=True)
    assert not list(check_hidden())


def test_an_empty_environment_is_told_what_to_install(tmp_path):
    bare = tmp_path / 'venv'
    command = [sys.executable, '-m', 'venv', '--without-pip', str(bare)]
    subprocess.run(command, check=True)
    (tmp_path / 'parlai_ext').symlink_to(ROOT / 'parlai_ext')
    command = [bare / 'bin' / 'python', '-m', 'parlai_ext', 'doctor']
    done = run(*command, cwd=tmp_path, PYTHONPATH=str(tmp_path))
    assert 'parlai_ext itself is not installed' in done.stdout
    assert 'parlai is missing' in done.stdout
    assert (done.returncode, done.stderr) == (1, '')


def test_parlais_pins_are_a_note_and_a_clash_of_ours_is_wrong():
    lines = [
        'parlai 1.7.2 has requirement numpy~=1.23.0, but you have numpy 2.4.6.',
        'parlai 1.7.2 requires datasets, which is not installed.',
        'pandas 3.1.1 has requirement numpy>=1.26,<3, but you have numpy 1.23.5.',
        'somebody 1.0 has requirement numpy<2, but you have numpy 2.4.6.',
        'parlai-ext 0.1.0 has requirement torch>=2.13, but you have torch 2.0.1.',
    ]
    note, clash, own = check_conflicts(lines)
    assert own.problem == 'torch 2.0.1 does not fit parlai-ext, which needs torch>=2.13'
    assert not note.wrong
    assert note.problem.startswith("2 of parlai's own requirements")
    assert clash == Fault(
        'numpy 1.23.5 does not fit pandas, which needs numpy>=1.26,<3',
        f"{sys.executable} -m pip install 'numpy>=1.26,<3'",
    )


def test_here_nothing_is_wrong():
    done = command_in_child(main, 'doctor')
    assert 'wrong' not in done.out
    assert done.out.split('\n')[-2].startswith('all is well: parlai_ext')
    assert done.code == 0


# A signal ends a command with one line and a shell's exit code, whenever it comes:
# in the first seconds, too, while modules are imported.

SIGNALS = [signal.SIGINT, signal.SIGTERM]


def catches(process, number):
    """
    True once a process has a handler of its own for a signal.
    """
    status = Path(f'/proc/{process.pid}/status').read_text()
    [mask] = [line for line in status.split('\n') if line.startswith('SigCgt')]
    return int(mask.split()[1], 16) >> (number - 1) & 1


def signalled(args, number, seconds):
    """
    Return exit code and error lines of a command that gets a signal so long after its
    first line of code; before it, Python has no say. The code is `None` if the command
    ended before, or had printed its result: while Python leaves, the system ends it.
    """
    with subprocess.Popen(
        ['env', '--default-signal', sys.executable, '-m', 'parlai_ext', *args],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        while process.poll() is None and not catches(process, signal.SIGTERM):
            time.sleep(0.005)
        time.sleep(seconds)
        over = process.poll() is not None
        process.send_signal(number)
        printed, errors = process.communicate(timeout=120)
    leaving = process.returncode == -number and printed
    return None if over or leaving else process.returncode, errors


@pytest.mark.parametrize('number', SIGNALS)
def test_a_signal_at_the_start_is_one_line(number):
    code, errors = signalled(['report_run', '--run-dir', 'nowhere'], number, 0)
    assert (code, errors) == (128 + number, f'error: {LINE}\n')


@pytest.mark.slow  # once all is imported: torture/, part "kills"
@pytest.mark.parametrize('number', SIGNALS)
def test_a_signal_in_the_first_seconds_is_one_line(tmp_path, number):
    args = ['evaluate_systems', '--config', 'demo', '--num-dialogues', '1']
    for tenths in (0, 1, 2, 5, 10, 20, 35, 50, 80):
        where = ['--run-dir', tmp_path / 'run']
        code, errors = signalled([*args, *where], number, tenths / 10)
        said = [line for line in errors.split('\n') if line.startswith('error: ')]
        # done, or leaving with an error of its own, before the signal came
        if code in (None, 0) or (said and LINE not in said[0]):
            assert 'Traceback' not in errors, tenths
            break
        assert (code, said) == (128 + number, [f'error: {LINE}']), tenths
        assert 'Traceback' not in errors


def test_an_ignored_signal_stays_ignored():
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        with signals_as_interrupt():
            assert signal.getsignal(signal.SIGINT) == signal.SIG_IGN
    finally:
        signal.signal(signal.SIGINT, before)


def test_a_deleted_current_folder_is_one_line(tmp_path):
    command = f'rmdir "$PWD"; exec {sys.executable} -m parlai_ext report_run'
    ended = run('sh', '-c', command, cwd=tmp_path)
    assert ended.returncode == 1
    assert ended.stderr.startswith('error: the current folder ')
    assert ended.stderr.count('\n') == 1


@pytest.mark.parametrize('number', SIGNALS)
@pytest.mark.parametrize('other', [ValueError('no shape'), KeyboardInterrupt()])
def test_a_signal_that_a_library_turns_into_another_error_is_a_signal(
    other, number, request
):
    before = signal.signal(number, signal.default_int_handler)  # `nohup` ignores it
    request.addfinalizer(lambda: signal.signal(number, before))
    with pytest.raises(Interrupted) as raised, signals_as_interrupt():
        try:
            os.kill(os.getpid(), number)
            time.sleep(10)
        except Interrupted:
            raise other from None
    assert raised.value.number == number
    assert signal.getsignal(number) is signal.default_int_handler
