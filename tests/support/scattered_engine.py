"""
An engine without a cluster: tasks and workers are pickled, and done out of order by two
hosts, as on two machines.
"""

import os
import pickle

from parlai_ext.engines.engine import Done, Host, code_facts, error_of_worker, token_in


def pickled(value):
    """
    Return what another process would get.
    """
    return pickle.loads(pickle.dumps(value))


class ScatteredEngine:
    """
    Gives tasks, the last one first, to two hosts in turns.

    :param twice: every task is done by both.
    """

    def __init__(self, folder, twice=False):
        self.folder = folder
        self.twice = twice
        self.n_tasks = 0

    def run(self, job, tasks, bar):
        hosts = [Host(), Host()]
        with token_in(self.folder) as token:
            for host in hosts:
                origin = os.getcwd(), pickled(token), code_facts()
                begun = host.begin(job.key, pickled(job.elsewhere), 0.5, origin)
                if isinstance(begun, Exception):
                    raise error_of_worker(pickled(begun), 'the worker')
            tasks = list(tasks)
            results = {}
            for n, task in reversed(list(enumerate(tasks))):
                self.n_tasks += 1
                for host in hosts if self.twice else [hosts[n % 2]]:
                    done = host.work(pickled(task.data), task.size)
                    if isinstance(done, Exception):
                        raise error_of_worker(pickled(done), 'the worker')
                    assert isinstance(done, Done)
                    results[n] = pickled(done.result)
            for n in range(len(tasks)) if job.lookahead else results:
                yield tasks[n], results[n]
            for host in hosts:
                job.on_close(host.end())
