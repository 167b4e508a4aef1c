"""
Three machines of a Ray cluster, one of which is killed, frozen or slowed down: the run
folder is that of one process, byte for byte.
"""

import signal
import subprocess
import sys
from importlib.util import find_spec

import pytest

from tests.support.ray_nodes import ENV, RayNodes
from tests.support.repository import ROOT
from tests.support.small_run import files_of
from tests.support.waiting import comes_true
from tests.support.written import written

AGENT = 'tests.support.trial_agents:SlowTalker'
pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(find_spec('ray') is None, reason='Ray is not installed'),
]


@pytest.fixture(scope='module')
def config(module_folder):
    systems = {
        kind: [{'name': f'{kind}-{i}', 'opt': {'model': AGENT}} for i in range(n)]
        for kind, n in (('targets', 3), ('partners', 4))
    }
    protocol = {
        'pairing': 'bipartite',
        'openers': 'ext:smalltalk',
        'num_dialogues': 12,
        'num_turns': 12,
        'scorer': {'name': 'length'},
        'roster': systems,
    }
    return written(module_folder, 'talk.yaml', protocol)


def command(config, run, *options):
    words = (
        f'{sys.executable} -m parlai_ext evaluate_systems --no-cuda --config {config} '
    )
    words += f'--run-dir {run} --batchsize 4 --bootstraps 50'
    return [*words.split(), *options]


def start(config, run, cluster, patience=20):
    ray = ('--engine', 'ray', '--ray-address', cluster.address)
    return subprocess.Popen(
        command(config, run, *ray, '--ray-patience', str(patience)),
        cwd=ROOT,
        env=ENV,
        stderr=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def ended(process):
    out, err = process.communicate(timeout=400)
    assert process.returncode == 0, err[-3000:]
    return out, err


def shards(run):
    return len(list((run / 'dialogues').rglob('*.jsonl')))


def wait_for_shards(run, n, process):
    assert comes_true(lambda: shards(run) >= n or process.poll() is not None, 300)
    assert process.poll() is None


@pytest.fixture(scope='module')
def whole(config, module_folder):
    run = module_folder / 'local'
    subprocess.run(command(config, run), cwd=ROOT, env=ENV, check=True)
    return files_of(run)


@pytest.fixture
def cluster():
    with RayNodes() as nodes:
        for _ in range(3):
            nodes.add()
        yield nodes


@pytest.mark.parametrize('trouble', ['none', 'killed', 'frozen', 'slow'])
def test_a_machine_in_trouble_changes_no_byte(
    config, whole, cluster, tmp_path, trouble
):
    run = tmp_path / 'run'
    process = start(config, run, cluster)
    wait_for_shards(run, 6, process)
    before = shards(run)
    node = cluster.nodes[1]
    if trouble == 'killed':
        node.kill()
    elif trouble == 'frozen':
        node.signal(signal.SIGSTOP)
    if trouble == 'slow':
        with node.slowed():
            _, err = ended(process)
    else:
        _, err = ended(process)
    assert before < 36  # it was in the middle
    assert files_of(run) == whole
    assert ('is lost' in err) == (trouble in ('killed', 'frozen'))


def test_a_run_without_any_machine_left_goes_on_in_one_process(
    config, whole, cluster, tmp_path
):
    run = tmp_path / 'run'
    process = start(config, run, cluster, patience=15)
    wait_for_shards(run, 6, process)
    for node in cluster.nodes:
        node.kill()
    _, err = process.communicate(timeout=400)
    assert process.returncode == 1
    assert 'Traceback' not in err
    assert 'error: ' in err
    assert 6 <= shards(run) < 36
    subprocess.run(command(config, run), cwd=ROOT, env=ENV, check=True)
    assert files_of(run) == whole


def test_ctrl_c_ends_the_workers_and_the_run_can_go_on(
    config, whole, cluster, tmp_path
):
    run = tmp_path / 'run'
    process = start(config, run, cluster)
    wait_for_shards(run, 4, process)
    process.send_signal(signal.SIGTERM)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 128 + signal.SIGTERM
    assert 'Traceback' not in err
    ended(start(config, run, cluster))
    assert files_of(run) == whole
