"""
A pilot's forecast of a run, and what the run really took.

Both are in ``RUN/timing/``, the only place of a run folder with wall-clock times; what
was really taken is kept only where there is a forecast to compare it with.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from parlai_ext.core.display import data_size, duration, money
from parlai_ext.core.errors import UserError
from parlai_ext.core.protocol import Protocol
from parlai_ext.store import RunFolder
from parlai_ext.store.atomic import write_file
from parlai_ext.store.manifest import NAME as MANIFEST
from parlai_ext.systems.spending import Spending, add_spendings

FORECAST = 'timing/forecast.json'
ACTUAL = 'timing/actual.json'
PHASES = ('collect', 'score')
SETTINGS = ('pairing', 'openers', 'num_dialogues', 'num_turns', 'seed')
Clock = Callable[[], float]


@dataclass(frozen=True)
class SystemForecast:
    """
    What one system still has to do, and what that takes.

    `spent` is `None` for a system that does not count what it uses; `from_cache` of its
    replies in the pilot cost nothing because they were in a cache.
    """

    replies: int
    reply_seconds: float
    load_seconds: float
    weights_bytes: int
    spent: Spending | None = None
    from_cache: float = 0

    def line(self, name: str) -> str:
        """
        Return one line to print: the system's name, its replies and their speed, its
        loading time and size, and its tokens and their cost if it counts them.
        """
        rate = self.replies / self.reply_seconds if self.reply_seconds else 0
        pace = f'{rate:.3g}' if rate < 1000 else f'{rate:,.0f}'
        line = (
            f'{name:10} {self.replies:,} replies, {pace} a second; loaded in '
            f'{duration(self.load_seconds)}, {data_size(self.weights_bytes)}'
        )
        if self.spent is not None:
            read, written = self.spent['prompt_tokens'], self.spent['completion_tokens']
            cost = self.spent['cost']
            line += f'; {read or 0:,.0f} + {written or 0:,.0f} tokens, '
            line += 'price unknown' if cost is None else money(cost)
        if self.from_cache:
            line += f' ({self.from_cache:.0f} replies of the pilot came from its cache)'
        return line


@dataclass(frozen=True)
class Forecast:
    """
    What is left of a run, and what that takes: seconds, bytes and dollars.

    `settings` say which run it is a forecast of; `score_seconds` is `None` when nothing
    is scored.
    """

    protocol: str
    settings: Mapping[str, Any]
    dialogues: int
    judged: int
    collect_seconds: float
    score_seconds: float | None
    peak_bytes: int
    peak_gpu_bytes: int
    disk_bytes: int
    systems: Mapping[str, SystemForecast]
    pilot_dialogues: int
    pilot_seconds: float
    pilot_cost: float | None
    cautions: tuple[str, ...] = field(default=())

    @property
    def cost(self) -> float | None:
        """
        The money of all systems that count it, `None` when none has a price.
        """
        return total_cost(forecast.spent for forecast in self.systems.values())

    @property
    def weights_bytes(self) -> int:
        """
        What the weights of all systems take.
        """
        return sum(forecast.weights_bytes for forecast in self.systems.values())

    def lines(self) -> list[str]:
        """
        Return lines to print: the pilot, each system, and the totals.
        """
        paid = f' and {money(self.pilot_cost)}' if self.pilot_cost else ''
        return [
            f'pilot of {self.protocol}: {self.pilot_dialogues} dialogues in '
            f'{duration(self.pilot_seconds)}{paid}; none of them is kept',
            *(forecast.line(name) for name, forecast in self.systems.items()),
            *self.totals(),
            *self.cautions,
        ]

    def totals(self) -> list[str]:
        """
        Return lines to print: what all that is left takes.
        """
        collect = f'{duration(self.collect_seconds)} for {self.dialogues:,} dialogues'
        if self.collect_seconds:
            per_hour = self.dialogues / self.collect_seconds * 3600
            collect += f', {per_hour:,.0f} dialogues an hour'
        lines = [f'collect    {collect}']
        if self.score_seconds is not None:
            together = self.collect_seconds + self.score_seconds
            lines += [
                f'score      {duration(self.score_seconds)} for {self.judged:,} '
                'utterances',
                f'together   {duration(together)}',
            ]
        gpu = self.peak_gpu_bytes
        on_gpu = f' and {data_size(gpu)} on the GPU' if gpu else ''
        lines.append(
            f'memory     {data_size(self.weights_bytes)} of weights; at most '
            f'{data_size(self.peak_bytes)}{on_gpu}'
        )
        counting = any(forecast.spent is not None for forecast in self.systems.values())
        cost = 'unknown, no prices were given' if counting else 'no system costs any'
        cost = money(self.cost) if self.cost is not None else cost
        return [
            *lines,
            f'money      {cost}',
            f'disk       about {data_size(self.disk_bytes)}',
        ]


def total_cost(spendings: Iterable[Spending | None]) -> float | None:
    """
    Return the money of all systems that count it, `None` when none has a price.
    """
    costs = [s['cost'] for s in spendings if s is not None and s['cost'] is not None]
    return sum(costs) if costs else None


def save_forecast(root: str | Path, forecast: Forecast) -> None:
    """
    Keep a forecast, and drop what was measured of the run under an earlier one.
    """
    _write(Path(root) / FORECAST, asdict(forecast))
    (Path(root) / ACTUAL).unlink(missing_ok=True)


def read_forecast(root: str | Path | None) -> Forecast | None:
    """
    Return a run's forecast, `None` when no pilot was made.
    """
    path = Path(root) / FORECAST if root else None
    data = _read(path) if path else None
    if data is None:
        return None
    try:
        systems = {n: SystemForecast(**values) for n, values in data['systems'].items()}
        cautions = tuple(data['cautions'])
        return Forecast(**{**data, 'systems': systems, 'cautions': cautions})
    except (TypeError, KeyError, AttributeError):
        raise UserError(f'{path} is of another version; delete it') from None


@contextmanager
def timed(
    run: RunFolder,
    phase: str,
    spent: Mapping[str, Spending] | None = None,
    clock: Clock = time.perf_counter,
) -> Iterator[None]:
    """
    Add what happens inside to what the run took, whether it ends well or not.

    :param phase: ``collect`` or ``score``.
    :param spent: what the systems have used by the end, filled meanwhile.
    """
    if not (run.root / FORECAST).is_file():
        yield
        return
    before, start = dialogues_done(run, phase), clock()
    interrupted = True
    try:
        yield
        interrupted = False
    finally:
        dialogues = dialogues_done(run, phase) - before
        if dialogues or interrupted:
            _add(run.root, phase, clock() - start, dialogues, spent or {})


def dialogues_done(run: RunFolder, phase: str) -> int:
    """
    Return how many dialogues are collected, or scored (once for each scorer).
    """
    shards = {(s.pairing_id, s.index): s.n_dialogues for s in run.dialogue_shards()}
    if phase == 'collect':
        return sum(shards.values())
    paths = run.root.glob('scores/*/*/*.jsonl')
    keys = ((path.parent.name, path.stem) for path in paths)
    return sum(shards.get((name, int(i)), 0) for name, i in keys if i.isdecimal())


def peak_bytes() -> tuple[int, int]:
    """
    Return the most memory that this process has had, and the most on GPUs.
    """
    unit = 1 if sys.platform == 'darwin' else 1024
    mine = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
    torch = sys.modules.get('torch')  # where nobody loaded it, no GPU is used
    if torch is None or not torch.cuda.is_available():
        return mine, 0
    devices = range(torch.cuda.device_count())
    return mine, sum(map(torch.cuda.max_memory_allocated, devices))


def comparison_lines(root: str | Path) -> list[str]:
    """
    Return lines that compare the forecast with what was taken, none without a pilot.
    """
    forecast, actual = read_forecast(root), _read(Path(root) / ACTUAL)
    if not forecast or not actual:
        return []
    if changes := _changed_settings(Path(root), forecast):
        return [f'forecast   not compared: it was made with other settings: {changes}']
    lines: list[str] = []
    expected_total = actual_total = 0.0
    for phase in PHASES:
        expected: float | None = getattr(forecast, f'{phase}_seconds')
        done = actual.get(phase)
        if not done or not done['dialogues'] or expected is None:
            continue
        share = done['dialogues'] / forecast.dialogues
        expected_total += expected * share
        actual_total += done['seconds']
        line = _line(phase, expected * share, done['seconds'], duration)
        if share != 1:
            n = done['dialogues']
            line += f', timed for {n:,} of {forecast.dialogues:,} dialogues'
        lines.append(line)
    if len(lines) == len(PHASES):
        lines.append(_line('together', expected_total, actual_total, duration))
    for key, name in (('peak_bytes', 'memory'), ('peak_gpu_bytes', 'GPU')):
        if getattr(forecast, key) and actual[key]:
            lines.append(_line(name, getattr(forecast, key), actual[key], data_size))
    cost = actual['spent']['cost']
    if forecast.cost is not None and cost is not None:
        played = actual.get('collect', {}).get('dialogues', 0)
        share = played / forecast.dialogues
        lines.append(_line('money', forecast.cost * share, cost, money))
    return lines


def settings_of(protocol: Protocol) -> dict[str, Any]:
    """
    Return the settings by which a run is known to be the forecast one.
    """
    return {key: getattr(protocol, key) for key in SETTINGS}


def _changed_settings(root: Path, forecast: Forecast) -> str:
    """
    Return which settings the run changed: ``seed: 1 → 2``.
    """
    made = (_read(root / MANIFEST) or {}).get('collect', {})
    now = {key: made.get(key, value) for key, value in forecast.settings.items()}
    return '; '.join(
        f'{key}: {value} → {now[key]}'
        for key, value in forecast.settings.items()
        if value != now[key]
    )


def _line(
    name: str, forecast: float, actual: float, text: Callable[[float], str]
) -> str:
    """
    Return one comparison.

    >>> _line('collect', 6840, 7560, duration)
    'collect    forecast 1.9 h, actual 2.1 h (+11 %)'
    """
    off = f' ({round((actual / forecast - 1) * 100):+d} %)' if forecast else ''
    return f'{name:10} forecast {text(forecast)}, actual {text(actual)}{off}'


def _add(
    root: Path,
    phase: str,
    seconds: float,
    dialogues: int,
    spent: Mapping[str, Spending],
) -> None:
    """
    Add one session's work to the file.
    """
    actual = _read(root / ACTUAL) or {}
    old = actual.get(phase) or {'seconds': 0.0, 'dialogues': 0, 'sessions': 0}
    actual[phase] = {
        'seconds': old['seconds'] + seconds,
        'dialogues': old['dialogues'] + dialogues,
        'sessions': old['sessions'] + 1,
    }
    for key, peak in zip(('peak_bytes', 'peak_gpu_bytes'), peak_bytes(), strict=True):
        actual[key] = max(actual.get(key, 0), peak)
    total = actual.get('spent') or add_spendings({}, {})
    for spending in spent.values():
        total = add_spendings(total, spending)
    actual['spent'] = total
    _write(root / ACTUAL, actual)


def _read(path: Path) -> dict[str, Any] | None:
    """
    Return what a file holds, `None` when it is not there.
    """
    try:
        data = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        data = None
    if not isinstance(data, dict):
        raise UserError(f'{path} is damaged; delete it')
    return data


def _write(path: Path, data: Mapping[str, Any]) -> None:
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, indent=1)
    write_file(path, f'{text}\n'.encode('utf-8', 'backslashreplace'))
