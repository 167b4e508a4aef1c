"""
Runs tasks on the machines of a Ray cluster: a worker for each GPU, or for some cores.

A worker that is lost, with its process, its machine or the way to it, loses its task to
another one. What tasks write must therefore be the same whoever does them, and be safe
to write twice.
"""

import os
import signal
import socket
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from parlai_ext.core import UserError, first_line, frozen, logger, shortened
from parlai_ext.engines.engine import (
    AssignedWorker,
    Done,
    EngineFailed,
    Host,
    Job,
    JobTasks,
    Results,
    Task,
    code_facts,
    error_of_worker,
    token_in,
)
from parlai_ext.engines.machine import SHARE_FOR_WEIGHTS, Machine
from parlai_ext.view.progress import Bar

# --- where workers may be -------------------------------------------------------------
GPU_MEMORY = 'gpu_memory'  # GB of all GPUs of a node, which its `ray start` declares


@frozen
class Place:
    """
    A place for one worker.

    :param node: Ray's id of the node; `host` is its name or address.
    :param slot: counts the places of a node.
    :param share: of the memory of its device that the worker may use, from 0 to 1.
    """

    node: str
    host: str
    slot: int
    gpus: float
    share: float


def places(
    nodes: Iterable[Mapping[str, Any]], cpus: int, machine: Machine
) -> list[Place]:
    """
    Return the places that a cluster has for workers.

    Where a node has GPUs, workers are placed on GPUs only: one for each, or as many as
    the declared memory of a GPU holds. Else each has a node's cores to itself.

    :param nodes: as ``ray.nodes()`` returns them.
    :param cpus: cores of a worker.
    :param machine: `no_cuda` leaves GPUs alone; `max_gpu_memory` decides how many GB of
        a GPU a worker takes (`None`: a whole GPU), and a node that declares less for
        each of its GPUs has no place.
    """
    limit = machine.max_gpu_memory
    needed = None if limit is None else limit / SHARE_FOR_WEIGHTS
    alive = [node for node in nodes if node.get('Alive')]
    has_gpus = any(node['Resources'].get('GPU') for node in alive)
    gpus = has_gpus and not machine.no_cuda
    found = []
    for node in alive:
        have = node['Resources']
        n_places = on_device = int(have.get('CPU', 0) // cpus)
        if gpus:
            n_gpus, on_device = int(have.get('GPU', 0)), 1
            declared = have.get(GPU_MEMORY)  # of all GPUs of the node
            if n_gpus and declared is not None and needed is not None:
                on_device = int(declared / n_gpus // needed)
            n_places = min(n_places, n_gpus * on_device)
        share = 1 / max(1, on_device)
        host = str(node.get('NodeManagerHostname') or node.get('NodeManagerAddress'))
        found += [
            Place(node['NodeID'], host, slot, share if gpus else 0.0, share)
            for slot in range(n_places)
        ]
    return found


TRIES = 3  # of a task, and of starting a worker at a place
SIGN_SECONDS = 2.0  # between two signs of life
LOOK_SECONDS = 5.0  # between two looks for new machines
WAITS = 10  # patiences without any worker
CONNECT_SECONDS = 10.0
SIGNS = 'signs'
INSTALL = (
    '--engine ray needs Ray, which is not installed here: '
    "pip install 'parlai_ext[ray]', the same version on all machines"
)


@dataclass
class _Hand(AssignedWorker):
    """
    A worker somewhere in the cluster.

    :param reply: of what it was asked last: to begin, or to work.
    :param stage: what that was; '' when nothing is asked of it.
    :param key: of the job that it was last asked to begin, which may be an earlier job
        than the one that hears the reply.
    :param has_begun: it was a worker of some job.
    :param seen: when it last gave a sign of life; `None`: not yet.
    """

    place: Place
    actor: Any
    reply: Any = None
    stage: str = ''
    key: str | None = None
    has_begun: bool = False
    budget: int | None = None
    sign: Any = None
    asked_at: float = 0.0
    seen: float | None = None

    @property
    def name(self) -> str:
        return f'the worker on {self.place.host}'


@dataclass
class RayEngine:
    """
    Runs tasks on the cluster that this process is `connected` to.

    :param folder: is written to by the workers, which must all see it.
    :param cpus: cores, and threads, of each worker.
    :param patience: seconds without a sign of life after which a worker is lost.
    """

    folder: Path
    cpus: int
    patience: float
    machine: Machine

    def __post_init__(self) -> None:
        self.hands: list[_Hand] = []  # all workers, from job to job
        self.failed_starts = Counter[Place]()
        self._looked_at = float('-inf')

    def run(self, job: Job, tasks: Iterable[Task], bar: Bar) -> Results:
        """
        Do the tasks as `Engine.run` says.
        """
        import ray

        with token_in(self.folder) as token:
            run = _JobRun(self, job, tasks, token, bar)
            try:
                yield from run.results()
            except BaseException:
                self.dismiss()  # workers at work are not waited for
                raise
            # let the workers of the job end it, and pass on what they tell
            ends = {
                hand.actor.end.remote(): hand
                for hand in self.hands
                if hand.key == job.key and not hand.stage
            }
            done = _replies(ends, self.patience)
            for reply, hand in ends.items():
                if reply not in done:
                    self.lose(hand)
                    continue
                hand.key = None
                try:
                    job.on_close(ray.get(reply))
                except ray.exceptions.RayError:
                    self.lose(hand)

    def places(self) -> list[Place]:
        """
        Return the places for workers that the cluster has now.
        """
        import ray

        return places(ray.nodes(), self.cpus, self.machine)

    def look_for_places(self) -> None:
        """
        Start a worker at each place that has none.
        """
        import ray
        from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

        now = time.monotonic()
        if now - self._looked_at < LOOK_SECONDS:
            return
        self._looked_at = now
        taken = {hand.place for hand in self.hands}
        for place in self.places():
            if place in taken or self.failed_starts[place] >= TRIES:
                continue
            actor = ray.remote(
                num_cpus=self.cpus,
                num_gpus=place.gpus,
                max_restarts=0,
                max_task_retries=0,
                concurrency_groups={SIGNS: 1},
                scheduling_strategy=NodeAffinitySchedulingStrategy(
                    place.node, soft=False
                ),
            )(Host)
            self.hands.append(_Hand(place, actor.remote()))

    def lose(self, hand: _Hand) -> None:
        """
        Give a worker up.
        """
        import ray

        if not hand.has_begun:
            self.failed_starts[hand.place] += 1
        self.hands.remove(hand)
        with suppress(Exception):
            ray.kill(hand.actor, no_restart=True)

    def dismiss(self) -> None:
        """
        End all workers at once.
        """
        for hand in list(self.hands):
            self.lose(hand)

    @contextmanager
    def connected(self, address: str) -> Iterator[None]:
        """
        Be a driver of a cluster, without Ray's usage reports; at the end, end the
        workers and leave it.

        :param address: ``HOST:PORT`` of the cluster, or ``auto``.
        :raises UserError: when Ray is not installed, or no cluster is there.
        """
        if find_spec('ray') is None:
            raise UserError(INSTALL)
        _check_address(address)
        os.environ['RAY_USAGE_STATS_ENABLED'] = '0'
        import ray

        try:
            with _own_signals():
                ray.init(
                    address=address,
                    log_to_driver=False,
                    configure_logging=False,
                    namespace='parlai_ext',
                )
        except Exception as error:  # Ray raises many kinds
            with suppress(Exception), _own_signals():
                ray.shutdown()
            raise UserError(
                f'--ray-address {address}: {shortened(str(error))}'
            ) from None
        try:
            yield
        finally:
            with _own_signals():
                self.dismiss()
                ray.shutdown()


@dataclass
class _JobRun:
    """
    One job while it runs.
    """

    engine: RayEngine
    job: Job
    tasks: Iterable[Task]
    token: Path
    bar: Bar

    def __post_init__(self) -> None:
        self.waiting = JobTasks(self.job, self.tasks)
        self.losses = Counter[int]()
        self._last_hand_at = time.monotonic()
        self._warned = False

    def results(self) -> Iterator[tuple[Task, Any]]:
        """
        Yield each task with its result.
        """
        import ray

        while self.waiting.read():
            self.engine.look_for_places()
            self._assign()
            # wait for a reply, for some seconds at most, and take what has come
            hands = self.engine.hands
            asked = {hand.reply: hand for hand in hands if hand.stage}
            if asked:
                ray.wait(list(asked), num_returns=1, timeout=SIGN_SECONDS / 2)
                for reply in _replies(asked, 0):
                    self._take(asked[reply], reply)
            else:
                time.sleep(SIGN_SECONDS / 2)
            self._take_signs()
            self._check_that_somebody_works()
            self.waiting.move_bar(self.bar, hands)
            yield from self.waiting.finished()

    def _assign(self) -> None:
        """
        Ask idle workers to begin, or to do a task.
        """
        job, hands = self.job, self.engine.hands
        budgets = [hand.budget for hand in hands if hand.key == job.key]
        largest = max((b for b in budgets if b is not None), default=None)
        for hand in hands:
            if hand.stage:
                continue
            if hand.key != job.key:
                hand.key, hand.budget, hand.loaded = job.key, None, ()
                origin = os.getcwd(), self.token, code_facts()
                share = hand.place.share
                self._ask(hand, 'begin', job.key, job.elsewhere, share, origin)
            elif task := self.waiting.take(hand.loaded, hand.budget, largest):
                hand.task = task
                self._ask(hand, 'work', task.data, task.size, job.whole_tasks)

    def _ask(self, hand: _Hand, stage: str, *given: Any) -> None:
        """
        Ask a worker to do a method of `Host`.
        """
        hand.stage, hand.reply = stage, getattr(hand.actor, stage).remote(*given)
        if hand.seen is not None:
            hand.seen = time.monotonic()

    def _take(self, hand: _Hand, reply: Any) -> None:
        """
        Take a reply of a worker.
        """
        import ray

        stage, hand.stage, hand.reply = hand.stage, '', None
        try:
            answer = ray.get(reply)
        except ray.exceptions.RayTaskError as error:
            raise RuntimeError(f'{hand.name}: {first_line(error)}') from None
        except ray.exceptions.RayError as error:
            why = shortened(str(error), 160)
            kinds = 'ModuleNotFoundError', 'ImportError'
            lines = str(error).split('\n')
            imports = [line for line in lines if any(kind in line for kind in kinds)]
            if imports:
                why = imports[0].strip()
            self._lost(hand, why)
            return
        hand.seen = time.monotonic()
        if isinstance(answer, Exception):
            raise error_of_worker(answer, hand.name, starting=stage != 'work')
        if stage == 'begin':
            hand.has_begun, hand.budget = True, answer
        elif isinstance(answer, Done) and hand.task is not None:
            self.waiting.finish(hand, answer)

    def _lost(self, hand: _Hand, reason: str) -> None:
        """
        Give up a worker; its task waits for another one.

        :raises UserError: when the task, or the start of workers, has failed too often.
        """
        self.engine.lose(hand)
        task, hand.task = hand.task, None
        logger.warning('%s is lost: %s', hand.name, reason)
        if task is None:
            started = any(other.has_begun for other in self.engine.hands)
            if self.engine.failed_starts[hand.place] >= TRIES and not started:
                raise EngineFailed(f'{hand.name} cannot be started: {reason}')
            return
        self.waiting.give_back(task)
        self.losses[task.number] += 1
        if self.losses[task.number] >= TRIES:
            raise EngineFailed(
                f'{task.name}: {TRIES} workers were lost while they worked on it, the '
                f'last on {hand.place.host} ({reason}); what is written stays, and the '
                'same command goes on from there, with or without --engine ray'
            )

    def _take_signs(self) -> None:
        """
        Ask workers for signs of life, and give up those that gave none for too long.
        """
        import ray

        now = time.monotonic()
        asked = {hand.sign: hand for hand in self.engine.hands if hand.sign is not None}
        for sign in _replies(asked, 0):
            hand = asked[sign]
            hand.sign = None
            with suppress(ray.exceptions.RayError):  # its reply will say the same
                n = ray.get(sign)
                hand.seen = now
                hand.finished = n if hand.task is not None else 0
        for hand in list(self.engine.hands):
            if hand.sign is None and now - hand.asked_at >= SIGN_SECONDS:
                hand.sign = hand.actor.sign.options(concurrency_group=SIGNS).remote()
                hand.asked_at = now
            elif hand.seen is not None and now - hand.seen > self.engine.patience:
                self._lost(hand, f'no sign of life for {now - hand.seen:.0f} s')

    def _check_that_somebody_works(self) -> None:
        """
        Refuse to wait for ever for a first worker, or for another one.
        """
        now, patience = time.monotonic(), self.engine.patience
        if any(hand.seen is not None for hand in self.engine.hands):
            self._last_hand_at, self._warned = now, False
        waited = now - self._last_hand_at
        if waited <= (WAITS * patience if self._warned else patience):
            return
        hosts = ', '.join(sorted({place.host for place in self.engine.places()}))
        what = (
            f'no machine of the cluster has {self.engine.cpus} cores, and a GPU where '
            'others have one, for a worker'
        )
        if hosts:
            what = f'the cluster ({hosts}) starts none; `ray status` says what is taken'
        why = f'no worker for {waited:.0f} s: {what}'
        if not self._warned:
            self._warned = True
            logger.warning('%s', why)
        if waited > WAITS * patience:
            raise EngineFailed(
                f'{why}; what is written stays, and the same command goes on from there'
            )


def _replies(asked: Mapping[Any, _Hand], seconds: float) -> list[Any]:
    """
    Return those of the awaited replies that have come within some seconds.
    """
    import ray

    if not asked:
        return []
    done, _ = ray.wait(list(asked), num_returns=len(asked), timeout=seconds)
    return list(done)


@contextmanager
def _own_signals() -> Iterator[None]:
    """
    Keep the handlers of signals, which Ray changes.
    """
    handlers = {one: signal.getsignal(one) for one in (signal.SIGTERM, signal.SIGINT)}
    try:
        yield
    finally:
        with suppress(ValueError):  # not the main thread
            for one, handler in handlers.items():
                signal.signal(one, handler)


def _check_address(address: str) -> None:
    """
    Refuse an address where nobody listens; Ray itself would wait long.
    """
    if address == 'auto':
        return
    host, _, port = address.rpartition(':')
    if '://' in address or not host or not port.isdigit():
        raise UserError(
            f'--ray-address {address}: HOST:PORT, or auto, is expected; the command '
            'runs on a machine of the cluster'
        )
    try:
        socket.create_connection((host, int(port)), CONNECT_SECONDS).close()
    except OSError as error:
        raise UserError(
            f'--ray-address {address}: cannot be reached ({error.strerror or error}); '
            '`ray start --head` prints the address'
        ) from None
