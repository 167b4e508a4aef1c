"""
The forecast of a run, and what the run really took.

Both are in ``RUN/timing/``, the only place of a run folder with wall-clock times; what
was really taken is kept only where there is a forecast to compare it with.
"""

import resource
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field, replace
from itertools import product
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

from parlai_ext.core import Protocol, UserError, change_lines, frozen, record_to_json
from parlai_ext.core.records import read_own_record
from parlai_ext.store import (
    PLAYED_KEYS,
    ProtocolRecord,
    RunFolder,
    json_text,
    write_text,
)
from parlai_ext.systems.spending import Reading, total_spending
from parlai_ext.view.page import terminal_lines

FORECAST = 'timing/forecast.json'
ACTUAL = 'timing/actual.json'
# bytes on disk, measured on the demo run; longer replies cost more
BYTES_PER_UTTERANCE = 200
BYTES_PER_SCORED_UTTERANCE = 700
Record = TypeVar('Record')


@frozen
class SystemForecast:
    """
    The replies that one system still has to give, and what they take.

    `spent` is `None` for a system that does not count what it uses; `from_cache` of its
    replies in the pilot cost nothing because they were in a cache.
    """

    replies: int
    reply_seconds: float
    load_seconds: float
    weights_bytes: int
    spent: Reading | None = None
    from_cache: float = 0


@frozen
class Forecast:
    """
    What is left of a run, and what that takes: seconds, bytes and dollars.

    `settings` say which run it is a forecast of; `score_seconds` is `None` when nothing
    is scored.
    """

    protocol: str
    settings: Mapping[str, str | int]
    dialogues: int
    utterances: int
    judged: int
    score_seconds: float | None
    peak_bytes: int
    peak_gpu_bytes: int
    systems: Mapping[str, SystemForecast]
    pilot_dialogues: int
    pilot_seconds: float
    pilot_cost: float | None
    cautions: tuple[str, ...] = ()

    @property
    def collect_seconds(self) -> float:
        """
        The seconds of all systems, each loaded once.
        """
        return sum(s.load_seconds + s.reply_seconds for s in self.systems.values())

    @property
    def cost(self) -> float | None:
        """
        The money of all systems that count it, `None` when none has a price.
        """
        return total_spending(one.spent for one in self.systems.values())['cost']

    @property
    def disk_bytes(self) -> int:
        """
        About how many bytes dialogues and scores take.
        """
        return bytes_on_disk(self.utterances, self.judged)


@frozen
class StageTime:
    """
    The time that a stage took, and the dialogues that it collected or scored.
    """

    seconds: float = 0.0
    dialogues: int = 0


@frozen
class Actual:
    """
    What a run took since its pilot, its interrupted sessions included.
    """

    collect: StageTime = field(default_factory=StageTime)
    score: StageTime = field(default_factory=StageTime)
    peak_bytes: int = 0
    peak_gpu_bytes: int = 0
    spent: Reading = field(default_factory=dict)


def bytes_on_disk(utterances: int, judged: int) -> int:
    """
    Return about how many bytes dialogues and scores take.
    """
    return utterances * BYTES_PER_UTTERANCE + judged * BYTES_PER_SCORED_UTTERANCE


def forecast_settings(protocol: Protocol | ProtocolRecord) -> dict[str, str | int]:
    """
    Return the settings by which a run is known to be the forecast one.
    """
    return {key: getattr(protocol, key) for key in PLAYED_KEYS}


def refuse_other_settings(run: RunFolder, protocol: Protocol) -> None:
    """
    Refuse a protocol whose dialogues would be others than those of a run. More openers
    are no other setting, since a run may grow.
    """
    old = forecast_settings(run.manifest.protocol)
    if protocol.num_dialogues > len(run.openers):
        old['num_dialogues'] = protocol.num_dialogues
    if changes := change_lines(old, forecast_settings(protocol)):
        other = f'was made with other settings: {"; ".join(changes)}'
        raise UserError(f'{run.root} {other}')


def save_forecast(root: str | Path, forecast: Forecast) -> None:
    """
    Keep a forecast, and drop what was measured of the run under an earlier one.
    """
    _write_record(Path(root) / FORECAST, forecast)
    (Path(root) / ACTUAL).unlink(missing_ok=True)


def read_forecast(root: str | Path) -> Forecast | None:
    """
    Return a run's forecast, `None` when no pilot was made.
    """
    return _read_record(Forecast, Path(root) / FORECAST)


@contextmanager
def timed(
    run: RunFolder, stage: str, spent: Mapping[str, Reading] | None = None
) -> Iterator[None]:
    """
    Add what happens inside to what the run took, whether it ends well or not. Nothing
    is added where there is no forecast, or where nothing was left to do.

    :param stage: ``collect`` or ``score``.
    :param spent: what the systems have used by the end, filled meanwhile.
    """
    if not (run.root / FORECAST).is_file():
        yield
        return
    before, start, interrupted = dialogues_done(run, stage), perf_counter(), True
    try:
        yield
        interrupted = False
    finally:
        dialogues = dialogues_done(run, stage) - before
        if dialogues or interrupted:
            path = run.root / ACTUAL
            actual = _read_record(Actual, path) or Actual()
            old, (peak, gpu) = getattr(actual, stage), peak_bytes()
            seconds = old.seconds + perf_counter() - start
            now = replace(
                actual,
                peak_bytes=max(peak, actual.peak_bytes),
                peak_gpu_bytes=max(gpu, actual.peak_gpu_bytes),
                spent=total_spending([actual.spent, *spent.values()])
                if spent
                else actual.spent,
                **{stage: StageTime(seconds, old.dialogues + dialogues)},
            )
            _write_record(path, now)


def seconds_per_scored_dialogue(run: RunFolder) -> float | None:
    """
    Return how long a dialogue took to score; `None` where no time was recorded.
    """
    actual = _read_record(Actual, run.root / ACTUAL)
    if actual is None or not actual.score.dialogues:
        return None
    return actual.score.seconds / actual.score.dialogues


def dialogues_done(run: RunFolder, stage: str) -> int:
    """
    Return how many dialogues are collected, or scored (once for each scorer).
    """
    if stage == 'collect':
        return run.n_dialogues
    done = product(run.score_stores(), run.dialogue_shards())
    return sum(shard.n_dialogues for store, shard in done if store.has(shard))


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


def forecast_comparison_lines(run: RunFolder) -> list[str]:
    """
    Return lines that compare the forecast with what was taken, none without a pilot.
    """
    forecast, actual = read_forecast(run.root), _read_record(Actual, run.root / ACTUAL)
    if forecast is None or actual is None:
        return []
    changes = change_lines(forecast.settings, forecast_settings(run.manifest.protocol))
    return terminal_lines(
        'forecast_and_actual', forecast=forecast, actual=actual, changes=changes
    )


def _read_record(kind: type[Record], path: Path) -> Record | None:
    """
    Return the record in a file, `None` when the file is not there.
    """
    if not path.is_file():
        return None
    return read_own_record(kind, path, 'delete the file')


def _write_record(path: Path, record: Any) -> None:
    write_text(path, json_text(record_to_json(record), sort_keys=True))
