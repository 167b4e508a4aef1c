"""
Ray nodes on this machine for tests, as processes with ports of their own.
"""

import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

import psutil
from filelock import FileLock

from tests.support.waiting import comes_true

PORT = 6391
HOST = '127.0.0.1'
ENV = {
    **os.environ,
    'RAY_USAGE_STATS_ENABLED': '0',
    'PYTHONPATH': str(Path(__file__).parents[2]),
    'OMP_NUM_THREADS': '1',
    'HF_HUB_OFFLINE': '1',
    'TOKENIZERS_PARALLELISM': 'false',
}
STORE = 80_000_000  # bytes of the object store, Ray's least is 75 MB


@dataclass
class RayNode:
    """
    The processes of a node: `ray start` and its descendants.
    """

    process: subprocess.Popen[bytes]

    def pids(self):
        """
        Return the node's processes.
        """
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

    There is one at a time, for all have one port: another process waits for its end.
    """

    address = f'{HOST}:{PORT}'
    lock = FileLock(Path(tempfile.gettempdir(), 'parlai_ext_ray_nodes.lock'))

    def __enter__(self):
        self.lock.acquire()
        self.nodes = []
        self.head = _start('--head', f'--port={PORT}', '--include-dashboard=false')
        assert comes_true(listens, 120), 'the head does not start'
        return self

    def __exit__(self, *error):
        for node in [*self.nodes, self.head]:
            node.signal(signal.SIGCONT)
            node.kill()
        self.lock.release()

    def add(self):
        """
        Start a node with one core, once its raylet runs.
        """
        node = _start(f'--address={self.address}', cpus=1)
        self.nodes.append(node)
        node.wait_for_raylet()


def _start(*options, cpus=0):
    process = subprocess.Popen(
        [
            *(sys.executable, '-m', 'ray.scripts.scripts', 'start', '--block'),
            *(f'--num-cpus={cpus}', f'--node-ip-address={HOST}', *options),
            *(f'--object-store-memory={STORE}', '--disable-usage-stats'),
        ],
        env=ENV,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
        start_new_session=True,
    )
    return RayNode(process)


def listens():
    """
    True if the head answers.
    """
    with suppress(OSError):
        socket.create_connection((HOST, PORT), 1).close()
        return True
    return False
