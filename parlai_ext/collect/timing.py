"""
What a run really took, beside what its pilot said it would.

Both are in ``RUN/timing/``, the only place of a run folder with wall-clock times; what
was really taken is kept only where there is a forecast to compare it with.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from parlai_ext.collect.amounts import duration, money, size
from parlai_ext.core.errors import UserError
from parlai_ext.core.protocol import Protocol
from parlai_ext.store import RunFolder
from parlai_ext.store.atomic import write_file
from parlai_ext.store.manifest import NAME as MANIFEST
from parlai_ext.systems.spending import Spending, added

FORECAST = 'timing/forecast.json'
ACTUAL = 'timing/actual.json'
PHASES = ('collect', 'score')
SETTINGS = ('pairing', 'openers', 'num_dialogues', 'num_turns', 'seed')


def save_forecast(
    root: str | Path, forecast: Mapping[str, Any], protocol: Protocol | None = None
) -> None:
    """
    Keep a forecast; what was measured of the run before is of another one.

    :param protocol: what it is a forecast of; a run of another is not compared with it.
    """
    settings = {key: getattr(protocol, key) for key in SETTINGS} if protocol else {}
    _write(Path(root) / FORECAST, {**forecast, 'settings': settings})
    (Path(root) / ACTUAL).unlink(missing_ok=True)


def read_forecast(root: str | Path | None) -> dict[str, Any] | None:
    """
    Return a run's forecast, `None` when no pilot was made.
    """
    return _read(Path(root) / FORECAST) if root else None


@contextmanager
def timed(
    run: RunFolder,
    phase: str,
    spent: Mapping[str, Spending] | None = None,
    clock: Callable[[], float] = time.perf_counter,
) -> Iterator[None]:
    """
    Add what happens inside to what the run took, whether it ends well or not.

    :param phase: ``collect`` or ``score``.
    :param spent: what the systems have used by the end, filled meanwhile.
    """
    if not (run.root / FORECAST).is_file():
        yield
        return
    before, start = n_done(run, phase), clock()
    cut_short = True
    try:
        yield
        cut_short = False
    finally:
        dialogues = n_done(run, phase) - before
        if dialogues or cut_short:
            _add(run.root, phase, clock() - start, dialogues, spent or {})


def n_done(run: RunFolder, phase: str) -> int:
    """
    Return how many dialogues are collected, or scored (once for each scorer).
    """
    rows = {(s.pairing_id, s.index): s.n_dialogues for s in run.dialogue_shards()}
    if phase == 'collect':
        return sum(rows.values())
    paths = run.root.glob('scores/*/*/*.jsonl')
    keys = ((path.parent.name, path.stem) for path in paths)
    return sum(rows.get((name, int(i)), 0) for name, i in keys if i.isdecimal())


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


def compared(root: str | Path) -> list[str]:
    """
    Return lines that compare the forecast with what was taken, none without a pilot.
    """
    forecast, actual = _read(Path(root) / FORECAST), _read(Path(root) / ACTUAL)
    if not forecast or not actual:
        return []
    other = _changed(Path(root), forecast.get('settings') or {})
    if other:
        return [f'forecast   not compared: it was made with other settings: {other}']
    lines: list[str] = []
    said_of_all = took_of_all = 0.0
    for phase, planned in zip(PHASES, ('dialogues', 'dialogues_to_score'), strict=True):
        done, said = actual.get(phase), forecast[f'{phase}_seconds']
        if not done or said is None or not done['dialogues']:
            continue
        share = done['dialogues'] / forecast[planned]
        said_of_all += said * share
        took_of_all += done['seconds']
        n = f'{done["dialogues"]:,} of {forecast[planned]:,} dialogues'
        partly = '' if share == 1 else f', timed for {n}'
        line = _line(phase, said * share, done['seconds'], duration)
        lines.append(f'{line}{partly}')
    if len(lines) == len(PHASES):
        lines.append(_line('together', said_of_all, took_of_all, duration))
    for key, name in (('peak_bytes', 'memory'), ('peak_gpu_bytes', 'GPU')):
        if forecast[key] and actual[key]:
            lines.append(_line(name, forecast[key], actual[key], size))
    cost = actual['spent']['cost']
    if forecast['cost'] is not None and cost is not None and forecast['dialogues']:
        played = actual.get('collect', {}).get('dialogues', 0)
        share = played / forecast['dialogues']
        lines.append(_line('money', forecast['cost'] * share, cost, money))
    return lines


def _changed(root: Path, settings: Mapping[str, Any]) -> str:
    """
    Return what of the settings the run changed: ``seed: 1 → 2``.
    """
    made = (_read(root / MANIFEST) or {}).get('collect', {})
    pairs = [(key, said, made.get(key, said)) for key, said in settings.items()]
    return '; '.join(
        f'{key}: {said} → {is_}' for key, said, is_ in pairs if said != is_
    )


def _line(
    name: str, forecast: float, actual: float, in_words: Callable[[float], str]
) -> str:
    """
    Return one comparison.

    >>> _line('collect', 6840, 7560, duration)
    'collect    forecast 1.9 h, actual 2.1 h (+11 %)'
    """
    off = f' ({round((actual / forecast - 1) * 100):+d} %)' if forecast else ''
    said, was = in_words(forecast), in_words(actual)
    return f'{name:10} forecast {said}, actual {was}{off}'


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
    found = _read(root / ACTUAL) or {}
    old = found.get(phase) or {'seconds': 0.0, 'dialogues': 0, 'sessions': 0}
    found[phase] = {
        'seconds': old['seconds'] + seconds,
        'dialogues': old['dialogues'] + dialogues,
        'sessions': old['sessions'] + 1,
    }
    for key, peak in zip(('peak_bytes', 'peak_gpu_bytes'), peak_bytes(), strict=True):
        found[key] = max(found.get(key, 0), peak)
    total = found.get('spent') or added({}, {})
    for one in spent.values():
        total = added(total, one)
    found['spent'] = total
    _write(root / ACTUAL, found)


def _read(path: Path) -> dict[str, Any] | None:
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except ValueError:
        found = None
    if not isinstance(found, dict):
        raise UserError(f'{path} is damaged; delete it')
    return found


def _write(path: Path, data: Mapping[str, Any]) -> None:
    text = json.dumps(data, ensure_ascii=False, sort_keys=True, indent=1)
    write_file(path, f'{text}\n'.encode('utf-8', 'backslashreplace'))
