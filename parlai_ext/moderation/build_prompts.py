"""
Builds a table of toxic prompts with safe answers from dialogues of any size.

Pairs are read in blocks; a block is selected, given its features, appended to the table
and noted in ``state.json``. A killed build goes on after the last noted block.
"""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_own_json
from parlai_ext.core.nouns import content_id
from parlai_ext.core.progress import bar_of
from parlai_ext.core.records import record_from_json
from parlai_ext.data.toxic_pairs import FOLDS, MISSING, fold_of_prompt
from parlai_ext.data.turn_pairs import TurnPair, csv_rows
from parlai_ext.engines.engine import LOCAL, Engine, Job, Task, Tell, Worker
from parlai_ext.files.csv_file import csv_text
from parlai_ext.moderation.detectors import Detector, split_words
from parlai_ext.moderation.pair_features import SIDES, Features, Row, row_of
from parlai_ext.store.atomic import append_synced, locked, make_folder, write_file

TABLE, STATE = 'pairs.csv', 'state.json'
BLOCK = 2048  # pairs in memory at once
AHEAD = 32  # blocks, at most, that are read before an earlier one is written


@dataclass(frozen=True)
class Selection:
    """
    Which pairs are a toxic prompt with a safe answer.

    :param detectors: each gets two columns; the first one decides.
    :param recorded: a column, ``toxic_…`` and ``answer_…``, that decides in its place.
    :param absent: detectors that could not be had: their columns stay empty.
    :param threshold: of the recorded column.
    :param words: prompts need an entry of this list, answers may have none.
    :param threats: words that no answer may have.
    """

    detectors: Sequence[Detector] = ()
    recorded: str | None = None
    threshold: float = 0.5
    words: Any = None
    threats: frozenset[str] = frozenset()
    absent: Sequence[str] = ()

    @property
    def columns(self) -> list[str]:
        """
        The columns that the detectors fill; those of the first are ``…_toxicity``.
        """
        names = ['toxicity', *(one.name for one in self.detectors[1:])]
        names = [*names[: len(self.detectors)], *self.absent]
        return [f'{side}_{name}' for name in names for side in SIDES]

    def reasons(self, rows: Sequence[Row]) -> list[str | None]:
        """
        Fill the columns of rows that may be selected, and return why each is not
        selected; `None` for those that are.

        Cheap tests come first: only what they leave is given to detectors.
        """
        reasons = [self._cheap_reason(row) for row in rows]
        left = [i for i, reason in enumerate(reasons) if reason is None]
        for i, reason in zip(
            left, self._toxicity([rows[i] for i in left]), strict=True
        ):
            reasons[i] = reason
        return reasons

    def _cheap_reason(self, row: Row) -> str | None:
        if not row['toxic'] or not row['answer']:
            return 'an empty turn'
        if self.threats & set(split_words(row['answer'])):
            return 'a threat word in the answer'
        if self.words is not None:
            in_prompt, in_answer = self.words.toxicity([row[side] for side in SIDES])
            if not in_prompt:
                return 'no listed word in the prompt'
            if in_answer:
                return 'a listed word in the answer'
        if self.recorded is None:
            return None
        cells = [row.get(f'{side}_{self.recorded}', '') for side in SIDES]
        if any(cell in MISSING for cell in cells):
            return f'no recorded {self.recorded}'
        prompt, answer = (_number(cell, self.recorded) for cell in cells)
        if prompt < self.threshold:
            return 'the prompt is not toxic'
        return 'the answer is toxic' if answer >= self.threshold else None

    def _toxicity(self, rows: Sequence[Row]) -> list[str | None]:
        """
        Fill the columns of the detectors: of prompts first, of answers where the prompt
        is toxic.
        """
        reasons: list[str | None] = [None] * len(rows)
        decides = self.recorded is None
        for n, detector in enumerate(self.detectors):
            name = detector.name if n else 'toxicity'
            for side in SIDES:
                left = [i for i, reason in enumerate(reasons) if reason is None]
                values = detector.toxicity([rows[i][side] for i in left])
                for i, value in zip(left, values, strict=True):
                    rows[i][f'{side}_{name}'] = f'{value:.4f}'
                    toxic = detector.is_toxic(value)
                    if n == 0 and decides and toxic != (side == 'toxic'):
                        reasons[i] = (
                            'the answer is toxic'
                            if toxic
                            else 'the prompt is not toxic'
                        )
        return reasons


@dataclass
class BuildState:
    """
    How far a build has come.

    :param settings: what decides its rows; another build has others.
    :param source_columns: feature columns of the source.
    :param end: bytes of the table that are whole.
    """

    settings: dict[str, Any]
    source_columns: list[str] = field(default_factory=list)
    n_read: int = 0
    n_kept: int = 0
    end: int = 0
    done: bool = False
    left_out: dict[str, int] = field(default_factory=dict)


def build_prompts(
    pairs: Iterable[TurnPair],
    selection: Selection,
    features: Features,
    max_entities: int,
    folder: Path,
    settings: dict[str, Any],
    *,
    engine: Engine = LOCAL,
    elsewhere: Callable[[float], Worker] | None = None,
) -> BuildState:
    """
    Write the table of a build into a folder, and return its state.

    :param settings: JSON data; a folder of a build with others is refused.
    :param engine: where blocks are selected.
    :param elsewhere: makes the `BlockSelector` of another process, and can be pickled;
        an engine with other processes needs it.
    """
    make_folder(folder)
    with locked(folder / '.lock'):
        state = read_state(folder, settings)
        if state.done:
            return state
        selector = BlockSelector(selection, features, max_entities)
        job = Job(
            here=lambda: selector,
            elsewhere=elsewhere or _only_here,
            steps='texts',
            key=content_id('build_toxic_prompts', settings),
            in_order=True,
            lookahead=AHEAD,
        )
        tasks = _block_tasks(islice(pairs, state.n_read, None), state.n_read)
        with bar_of('build', None, unit='pair') as bar:
            bar.update(state.n_read)
            with closing(engine.run(job, tasks, bar)) as finished:
                for task, selected in finished:
                    if not state.source_columns and not state.n_read:
                        columns = _source_columns(task.data, selection, features)
                        state.source_columns = columns
                        _append(folder, state, [_header(state, selection, features)])
                    _append_selected(folder, state, selected, selection, features)
                    state.n_read += len(task.data)
                    _write_state(folder, state)
                    bar.set_postfix_str(f'{state.n_kept} kept', refresh=False)
        if not state.n_read:
            raise UserError('the source has no pair of turns')
        state.done = True
        _write_state(folder, state)
    return state


def read_state(folder: Path, settings: dict[str, Any]) -> BuildState:
    """
    Return the state of the build in a folder, or of one that begins.

    :raises UserError: when the folder has a build with other settings.
    """
    path = folder / STATE
    if not path.is_file():
        return BuildState(settings)
    try:
        state: BuildState = record_from_json(
            BuildState, parse_own_json(path.read_bytes())
        )
    except ValueError:
        raise UserError(f'{path}: damaged; another --out, or remove it') from None
    changed = [k for k, v in settings.items() if state.settings.get(k) != v]
    if changed:
        raise UserError(
            f'{folder} has a build with another {", ".join(changed)}; another --out is '
            'needed'
        )
    return state


@dataclass(frozen=True)
class SelectedRows:
    """
    The rows of a block that are selected, and how many are not, by reason.
    """

    rows: list[Row]
    left_out: Mapping[str, int]


class BlockSelector(Worker):
    """
    Selects the rows of blocks of pairs, and gives them their features.
    """

    def __init__(self, selection: Selection, features: Features, max_entities: int):
        self.selection = selection
        self.features = features
        self.max_entities = max_entities

    def work(self, data: Sequence[TurnPair], tell: Tell) -> SelectedRows:
        """
        Return the rows of a block that are selected, with their features.
        """
        features = self.features
        rows = [row_of(pair) for pair in data]
        reasons = self.selection.reasons(rows)
        counts = Counter(reason for reason in reasons if reason)
        rows = [
            row for row, reason in zip(rows, reasons, strict=True) if reason is None
        ]
        if features.mask is not None:
            rows = _masked_rows(rows, features.mask, self.max_entities, counts)
        for fill in features.fill if rows else ():
            fill(rows)
        for row in rows:
            row['split'] = fold_of_prompt(row['toxic'])
        return SelectedRows(rows, dict(counts))


def _block_tasks(pairs: Iterator[TurnPair], n_before: int) -> Iterator[Task]:
    """
    Yield a task for each block of pairs, which are read only then.
    """
    while block := list(islice(pairs, BLOCK)):
        name = f'pairs {n_before + 1} to {n_before + len(block)}'
        yield Task(name, block, len(block))
        n_before += len(block)


def _only_here(share: float) -> Worker:
    raise UserError('this build knows no way to be done by other processes')


def _append_selected(
    folder: Path,
    state: BuildState,
    selected: SelectedRows,
    selection: Selection,
    features: Features,
) -> None:
    """
    Append the rows of a block to the table, and count them.
    """
    header = _header(state, selection, features)
    cells = [[row.get(name, '') for name in header] for row in selected.rows]
    _append(folder, state, cells)
    counts = Counter(state.left_out)
    counts.update(selected.left_out)
    state.left_out = dict(counts)
    state.n_kept += len(selected.rows)


def _masked_rows(
    rows: Sequence[Row], mask: Any, max_entities: int, counts: Counter[str]
) -> list[Row]:
    """
    Write the masked texts, and return the rows without too many entities in a text.
    """
    most = [0] * len(rows)
    for side in SIDES:
        masked = mask([row[side] for row in rows])
        for i, (row, (text, n)) in enumerate(zip(rows, masked, strict=True)):
            row[f'{side}_ner'] = text
            most[i] = max(most[i], n)
    left = [row for row, n in zip(rows, most, strict=True) if n <= max_entities]
    if len(left) < len(rows):
        counts['too many named entities'] += len(rows) - len(left)
    return left


def _header(state: BuildState, selection: Selection, features: Features) -> list[str]:
    return [
        *('id', 'split', *SIDES),
        *selection.columns,
        *features.columns,
        *state.source_columns,
    ]


def _source_columns(
    block: Sequence[TurnPair], selection: Selection, features: Features
) -> list[str]:
    """
    Return the feature columns of the source that no feature of ours replaces.
    """
    ours = {'id', 'split', *SIDES, *selection.columns, *features.columns}
    return [name for name in block[0].features if name not in ours]


def _append(folder: Path, state: BuildState, rows: Sequence[Sequence[str]]) -> None:
    data = csv_text(rows).encode('utf-8', 'backslashreplace')
    append_synced(folder / TABLE, state.end, data)
    state.end += len(data)


def _write_state(folder: Path, state: BuildState) -> None:
    data = json.dumps(vars(state), ensure_ascii=False, indent=1)
    write_file(folder / STATE, data.encode() + b'\n')


def _number(cell: str, column: str) -> float:
    try:
        return float(cell)
    except ValueError:
        raise UserError(f'column {column}: {cell!r} is no number') from None


# what Table 4 of the paper calls a row -> the column whose mean it is
MEANS = {
    'Avg. turn length toxic': 'length_toxic',
    'Avg. turn length answer': 'length_answer',
    'Avg. ratio of lengths': 'ratio_lengths',
    'Avg. humour toxic': 'toxic_humour_score',
    'Avg. humour answer': 'answer_humour_score',
    'Avg. sarcasm toxic': 'toxic_sarcasm',
    'Avg. sarcasm answer': 'answer_sarcasm',
    'Avg. contradiction': 'contradiction',
    'Avg. neutral': 'neutral',
    'Avg. entailment': 'entailment',
    'Avg. toxicity toxic': 'toxic_toxicity',
    'Avg. toxicity answer': 'answer_toxicity',
    'Avg. Perspective toxic': 'toxic_perspective_score',
    'Avg. Perspective answer': 'answer_perspective_score',
    'Avg. Azure toxic': 'toxic_azure_score',
    'Avg. Azure answer': 'answer_azure_score',
}
MAJORS = {
    'Major emotion toxic': 'toxic_emotion',
    'Major emotion answer': 'answer_emotion',
}


def statistics(path: Path) -> dict[str, dict[str, str]]:
    """
    Return the rows of the paper's Table 4 for a table of pairs: by row and fold. The
    file is read once, one row at a time; a row without any value is left out.
    """
    sums: defaultdict[tuple[str, str], float] = defaultdict(float)
    counts: Counter[tuple[str, str]] = Counter()
    words: dict[tuple[str, str], Counter[str]] = {}
    turns: Counter[str] = Counter()
    for _, row in csv_rows(path, ('split',)):
        fold = row['split']
        turns[fold] += 1
        for name, column in MEANS.items():
            cell = row.get(column, '')
            if cell not in MISSING:
                sums[name, fold] += float(cell)
                counts[name, fold] += 1
        for name, column in MAJORS.items():
            if row.get(column, '') not in MISSING:
                words.setdefault((name, fold), Counter())[row[column]] += 1
    table = {'No. Turns': {fold: str(turns[fold]) for fold in FOLDS}}
    for name in MEANS:
        if any(counts[name, fold] for fold in FOLDS):
            table[name] = {
                fold: f'{sums[name, fold] / counts[name, fold]:.2f}'
                for fold in FOLDS
                if counts[name, fold]
            }
    for name in MAJORS:
        cells = {
            fold: _major(words[name, fold]) for fold in FOLDS if (name, fold) in words
        }
        if cells:
            table[name] = cells
    return table


def _major(words: Counter[str]) -> str:
    word, n = words.most_common(1)[0]
    return f'{word} {100 * n / words.total():.1f}%'


def statistics_lines(table: Mapping[str, Mapping[str, str]]) -> Iterator[str]:
    """
    Yield the table of statistics for a terminal.
    """
    yield f'{"":28}' + ''.join(f'{fold:>18}' for fold in FOLDS)
    for name, cells in table.items():
        yield f'{name:28}' + ''.join(f'{cells.get(fold, "–"):>18}' for fold in FOLDS)
