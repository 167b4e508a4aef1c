"""
Ray nodes on this machine for tests: in network namespaces of their own where that is
allowed, else as processes with ports of their own.
"""

import os
import signal
import socket
import subprocess
import sys
import threading
import time
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil

from tests.support.waiting import comes_true

NET = '10.213.7'
PORT = 6391
BRIDGE = 'pxray0'
ENV = {
    **os.environ,
    'RAY_USAGE_STATS_ENABLED': '0',
    'PYTHONPATH': str(Path(__file__).parents[2]),
    'OMP_NUM_THREADS': '1',
    'HF_HUB_OFFLINE': '1',
    'TOKENIZERS_PARALLELISM': 'false',
}
# machines do not share /tmp/ray; `ip netns exec` gives each its own mounts
OWN_FOLDER = (
    'sh',
    '-c',
    'mount -t tmpfs -o size=500m none /tmp/ray && exec "$@"',
    'sh',
)
STORE = 80_000_000  # bytes of the object store, Ray's least is 75 MB


def run(*command):
    """
    Run a command quietly; True if it succeeds.
    """
    done = subprocess.run(command, capture_output=True, check=False)
    return done.returncode == 0


@dataclass
class RayNode:
    """
    The processes of a node: `ray start` and its descendants.
    """

    process: subprocess.Popen[bytes]
    space: str | None

    def pids(self):
        """
        Return the node's processes: those of its namespace, or those that descend from
        `ray start`.
        """
        if self.space:
            out = subprocess.run(
                ['ip', 'netns', 'pids', self.space], capture_output=True, check=False
            )
            return [int(pid) for pid in out.stdout.split()]
        with suppress(psutil.NoSuchProcess):  # it may have been killed
            mine = psutil.Process(self.process.pid)
            return [one.pid for one in (mine, *mine.children(recursive=True))]
        return []

    def wait_for_raylet(self):
        """
        Wait until the process that makes it a node is there; nodes of one folder that
        start at the same time would take each other's names.
        """
        assert comes_true(lambda: any(map(is_raylet, self.pids())), 120)
        time.sleep(1)

    def signal(self, number):
        """
        Send a signal to all of the node's processes.
        """
        for pid in self.pids():
            with suppress(ProcessLookupError):
                os.kill(pid, number)

    def kill(self):
        """
        End all of the node's processes at once.
        """
        self.signal(signal.SIGKILL)
        self.signal(signal.SIGKILL)  # those that were born meanwhile
        self.process.wait()

    def cut_off(self):
        """
        Take the node's network away.
        """
        assert self.space, 'only with network namespaces'
        assert run('ip', 'link', 'set', f'{self.space}h', 'down')

    @contextmanager
    def slowed(self):
        """
        Let the node's processes run half of the time.
        """
        end = threading.Event()

        def alternate():
            while not end.is_set():
                self.signal(signal.SIGSTOP)
                end.wait(1.5)
                self.signal(signal.SIGCONT)
                end.wait(1.5)

        thread = threading.Thread(target=alternate)
        thread.start()
        try:
            yield
        finally:
            end.set()
            thread.join()
            self.signal(signal.SIGCONT)


def is_raylet(pid):
    """
    True if a process is a raylet.
    """
    with suppress(OSError):
        return b'raylet/raylet\0' in Path(f'/proc/{pid}/cmdline').read_bytes()
    return False


class RayNodes:
    """
    A cluster on this machine: a head without cores, and nodes that are added.
    """

    def __init__(self):
        self._end = ExitStack()
        self.nodes = []
        self.spaces = False

    def __enter__(self):
        self.spaces = run('ip', 'link', 'add', BRIDGE, 'type', 'bridge')
        if self.spaces:
            self._end.callback(run, 'ip', 'link', 'del', BRIDGE)
            run('ip', 'addr', 'add', f'{NET}.1/24', 'dev', BRIDGE)
            run('ip', 'link', 'set', BRIDGE, 'up')
        self.host = f'{NET}.1' if self.spaces else '127.0.0.1'
        self.address = f'{self.host}:{PORT}'
        self.head = self._start(None, '--head', f'--port={PORT}', cpus=0, ip=self.host)
        assert comes_true(self._listens, 120), 'the head does not start'
        return self

    def __exit__(self, *error):
        for node in [*self.nodes, self.head]:
            node.signal(signal.SIGCONT)
            node.kill()
        self._end.close()

    def add(self, cpus=1, *options):
        """
        Start a node and return it once its raylet runs.
        """
        number = len(self.nodes) + 2
        space, ip = None, self.host
        if self.spaces:
            space, ip = f'pxray{number}', f'{NET}.{number}'
            self._make_space(space, ip)
        node = self._start(
            space, f'--address={self.address}', *options, cpus=cpus, ip=ip
        )
        self.nodes.append(node)
        node.wait_for_raylet()
        return node

    def _make_space(self, space, ip):
        assert run('ip', 'netns', 'add', space)
        self._end.callback(run, 'ip', 'netns', 'del', space)
        inside = ('ip', 'netns', 'exec', space, 'ip')
        pair = ('type', 'veth', 'peer', 'name', 'eth0', 'netns', space)
        run('ip', 'link', 'del', f'{space}h')  # of a cluster that was killed
        assert run('ip', 'link', 'add', f'{space}h', *pair)
        self._end.callback(run, 'ip', 'link', 'del', f'{space}h')
        assert run('ip', 'link', 'set', f'{space}h', 'master', BRIDGE, 'up')
        assert run(*inside, 'addr', 'add', f'{ip}/24', 'dev', 'eth0')
        assert run(*inside, 'link', 'set', 'eth0', 'up')
        assert run(*inside, 'link', 'set', 'lo', 'up')

    def _start(self, space, *options, cpus, ip):
        prefix = ['ip', 'netns', 'exec', space, *OWN_FOLDER] if space else []
        process = subprocess.Popen(
            [
                *prefix,
                sys.executable,
                '-m',
                'ray.scripts.scripts',
                'start',
                '--block',
                f'--num-cpus={cpus}',
                f'--node-ip-address={ip}',
                *(f'--object-store-memory={STORE}', '--disable-usage-stats', *options),
                *(('--include-dashboard=false',) if '--head' in options else ()),
            ],
            env=ENV,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )
        return RayNode(process, space)

    def _listens(self):
        with suppress(OSError):
            socket.create_connection((self.host, PORT), 1).close()
            return True
        return False
