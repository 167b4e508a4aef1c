"""
Builds a table of toxic prompts with safe answers from dialogues of any size, with the
features of DSTC10's Track 5.

Pairs are read in blocks; a block is selected, given its features, appended to the table
and noted in ``state.json``. A killed build goes on after the last noted block. A
feature whose model is not there stays an empty cell; nothing is guessed.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from itertools import islice, product
from pathlib import Path
from typing import Any

import numpy as np

from parlai_ext.core import (
    FOLDS,
    JsonObject,
    UserError,
    content_id,
    frozen,
    option,
    optional,
)
from parlai_ext.core.records import read_own_record
from parlai_ext.data.corpora import (
    MISSING,
    ToxicData,
    TurnPair,
    fold_of_prompt,
    pairs_of_place,
)
from parlai_ext.engines import Machine, use_data_folder
from parlai_ext.engines.engine import Engine, Job, Task, Tell, Worker, refuse_difference
from parlai_ext.files import parse_number
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.toxicity import (
    THRESHOLD,
    DetectorChoice,
    ToxicityDetector,
    detector_section,
    detector_title,
    read_detector,
)
from parlai_ext.store import append_synced, json_text, locked, write_text
from parlai_ext.systems.fetch.public_sets import moderation_data
from parlai_ext.view import (
    DASH,
    Table,
    csv_text,
    shown_table,
    single_spaced,
    split_words,
)
from parlai_ext.view.progress import bar_of

SIDES = ('toxic', 'answer')  # what the Track calls prompt and answer
LENGTHS = ('length_toxic', 'length_answer', 'ratio_lengths')
NLI = ('contradiction', 'neutral', 'entailment')
TAGS = {'FAC': 'FACILITY'}  # where the Track's tag is another word than spaCy's label
Row = dict[str, str]


@frozen
class FeatureOptions:
    """
    The models behind the features.
    """

    title = 'features'
    entities: str | None = optional(
        metavar='NAME',
        help='who finds named entities: spacy[:PIPELINE] or stanza[:LANGUAGE]',
    )
    max_entities: int = option(
        1, low=0, help='pairs with more in a phrase are left out (1)'
    )
    humour: str | None = optional(metavar='MODEL[,LABEL]', help='a classifier')
    sarcasm: str | None = optional(metavar='MODEL[,LABEL]', help='a classifier')
    nli: str | None = optional(
        metavar='MODEL',
        help='a classifier of pairs: contradiction, neutral, entailment',
    )
    emotion: str | None = optional(
        metavar='MODEL', help='a classifier whose labels are emotions'
    )


Fill = Callable[[Sequence[Row]], None]  # writes the cells of a feature
# columns, and the sides whose texts decide them together
Group = tuple[Sequence[str], Sequence[str]]


def side_groups(*endings: str) -> list[Group]:
    """
    Return columns with these endings for each side, which its own text decides.
    """
    return [([f'{side}_{end}' for end in endings], [side]) for side in SIDES]


FEATURES: Mapping[str, Sequence[Group]] = {
    'entities': side_groups('ner'),
    'lengths': [(LENGTHS, SIDES)],
    'humour': side_groups('humour_score'),
    'sarcasm': side_groups('sarcasm'),
    'nli': [(NLI, SIDES)],
    'emotion': side_groups('emotion', 'emotion_score'),
}


def fill_lengths(rows: Sequence[Row]) -> None:
    """
    Write the words, parted by blanks, of each text, and answer's by prompt's number.
    """
    for row in rows:
        prompt, answer = (len(row[side].split()) for side in SIDES)
        ratio = f'{answer / prompt:.4g}' if prompt else ''
        row.update(zip(LENGTHS, (str(prompt), str(answer), ratio), strict=True))


def label_places(feature: str, labels: Sequence[str], label: str) -> list[int]:
    """
    Return the places of the labels that a feature has: all of NLI; of others the label
    named, one called as the feature, or the last of two.
    """
    names = [one.casefold() for one in labels]
    if feature == 'nli':
        if sorted(names) != sorted(NLI):
            raise UserError(f'its labels are {", ".join(names)}, not {", ".join(NLI)}')
        return [names.index(name) for name in NLI]
    wanted = (label or feature).casefold()
    if wanted not in names and not label and [n[:5] for n in names] == ['label'] * 2:
        return [1]
    if wanted not in names:
        raise UserError(f'which label? {", ".join(labels)}: MODEL,LABEL')
    return [names.index(wanted)]


def classifier_fill(feature: str, model: Any, label: str) -> Fill:
    """
    Return what writes the probabilities of the labels that a feature has
    (`label_places`); of emotions it is the most likely label and its probability.

    :param model: the classifier.
    :param label: the label that the user named, or ''.
    :raises UserError: when the labels are others, or it cannot be told.
    """
    places = [] if feature == 'emotion' else label_places(feature, model.labels, label)

    def fill(rows: Sequence[Row]) -> None:
        for columns, sides in FEATURES[feature]:
            texts = ([row[side] for row in rows] for side in sides)
            for row, values in zip(rows, model.probabilities(*texts), strict=True):
                best = int(np.argmax(values))
                cells = [] if places else [model.labels[best]]
                cells += [f'{values[place]:.4f}' for place in places or [best]]
                row.update(zip(columns, cells, strict=True))

    return fill


def masked(
    text: str,
    tokens: Sequence[tuple[int, int]],
    entities: Sequence[tuple[int, int, str]],
) -> str:
    """
    Return the tokens of a text, parted by blanks, with one tag for each entity.

    :param tokens: begin and end of each token.
    :param entities: begin, end and label of each entity.

    >>> masked('Ann is here', [(0, 3), (4, 6), (7, 11)], [(0, 3, 'PERSON')])
    '[PERSON] is here'
    """
    words = []
    done = set()
    for begin, end in tokens:
        inside = [i for i, (b, e, _) in enumerate(entities) if b <= begin < e]
        if not inside:
            words.append(text[begin:end])
        elif inside[0] not in done:
            label = entities[inside[0]][2]
            words.append(f'[{TAGS.get(label, label)}]')
            done.add(inside[0])
    return single_spaced(' '.join(words))


TABLE, STATE = 'pairs.csv', 'state.json'
LACKING = 'models that cannot be had'
BLOCK = 2048  # pairs in memory at once
AHEAD = 32  # blocks, at most, that are read before an earlier one is written


@frozen
class SelectionOptions(DetectorChoice):
    """
    What makes a prompt toxic and an answer safe: the first detector decides, and each
    gives two columns.
    """

    title = 'selection'
    recorded: str | None = optional(
        metavar='NAME',
        help='columns toxic_NAME and answer_NAME of the source decide, such as '
        'perspective_score or azure_score, not a detector',
    )
    threshold: float = option(THRESHOLD, help='of --recorded: toxic from here on (0.5)')
    words: str | None = optional(
        metavar='DETECTOR',
        help='words=FILE or parlai_matcher[=FILE]: prompts need an entry of the list, '
        'answers may have none',
    )
    threats: tuple[str, ...] = option(
        ('kill', 'suicide'),
        metavar='WORD,…',
        help='words that no answer may have (kill,suicide)',
    )


@dataclass
class BuildState:
    """
    How far a build has come.

    :param settings: what decides its rows; another build has others.
    :param source_columns: feature columns of the source.
    :param end: bytes of the table that are whole.
    :param pairs_read: a hash of the pairs that were read.
    """

    settings: dict[str, Any]
    source_columns: list[str] = field(default_factory=list)
    n_read: int = 0
    n_kept: int = 0
    end: int = 0
    pairs_read: str = ''
    left_out: dict[str, int] = field(default_factory=dict)

    def add_block(
        self,
        folder: Path,
        columns: Sequence[str],
        pairs: Sequence[TurnPair],
        rows: Sequence[Row],
        left_out: Mapping[str, int],
    ) -> None:
        """
        Append the rows of a block to the table, and note that they are in it.

        :param columns: those of the build; the first block shows which others the
            source has.
        """
        if not self.n_read:
            # none that a feature of ours replaces
            self.source_columns = [n for n in pairs[0].features if n not in columns]
        header = [*columns, *self.source_columns]
        cells = [[row.get(name, '') for name in header] for row in rows]
        text = csv_text(cells if self.end else [header, *cells])
        added = text.encode('utf-8', 'backslashreplace')
        append_synced(folder / TABLE, self.end, added)
        self.end += len(added)
        self.n_kept += len(rows)
        self.n_read += len(pairs)
        self.left_out = Counter(self.left_out) + Counter(left_out)
        write_text(folder / STATE, json_text(vars(self)))


def build_prompts(
    pairs: Iterator[TurnPair],
    selector: BlockSelector,
    folder: Path,
    settings: JsonObject,
    engine: Engine,
    elsewhere: Callable[[float], Worker],
) -> BuildState:
    """
    Write the table of a build into a folder, and return its state.

    :param settings: JSON data; a folder of a build with others is refused, and one
        whose source had other pairs where it was read.
    :param engine: where blocks are selected.
    :param elsewhere: makes the `BlockSelector` of another process, and can be pickled.
    """
    with locked(folder / '.lock'):
        state, digest = read_state(folder, settings, pairs)
        job = Job(
            here=lambda: selector,
            elsewhere=elsewhere,
            steps='texts',
            key=content_id('build_toxic_prompts', settings),
            lookahead=AHEAD,
        )
        with bar_of('build', None, unit='pair') as bar:
            bar.update(state.n_read)
            tasks = _block_tasks(pairs, state.n_read)
            with closing(engine.run(job, tasks, bar)) as finished:
                for task, (rows, left_out) in finished:
                    state.pairs_read = _add_pairs(digest, task.data)
                    state.add_block(folder, selector.columns, task.data, rows, left_out)
                    bar.set_postfix_str(f'{state.n_kept} kept', refresh=False)
        if not state.n_read:
            raise UserError('the source has no pair of turns')
    return state


def _block_tasks(pairs: Iterator[TurnPair], n_before: int) -> Iterator[Task]:
    """
    Yield a task for each block of pairs, which are read only then.
    """
    while block := list(islice(pairs, BLOCK)):
        name = f'pairs {n_before + 1} to {n_before + len(block)}'
        yield Task(name, block, len(block))
        n_before += len(block)


def _add_pairs(digest: Any, pairs: Iterable[TurnPair]) -> str:
    """
    Add pairs to the hash of those before them, and return it.
    """
    for pair in pairs:
        digest.update(repr(pair).encode('utf-8', 'backslashreplace'))
    return str(digest.hexdigest())


def read_state(
    folder: Path, settings: JsonObject, pairs: Iterator[TurnPair]
) -> tuple[BuildState, Any]:
    """
    Return the state of the build in a folder, or of one that begins, and the hash of
    the pairs that it has read, past which the source is moved.

    :raises UserError: when the folder has a build with other settings or of other
        pairs.
    """
    path = folder / STATE
    digest = hashlib.sha256()
    if not path.is_file():
        return BuildState(dict(settings)), digest
    state = read_own_record(BuildState, path, 'another --out, or remove it')
    every = {**settings, **state.settings}
    changed = [k for k in every if state.settings.get(k) != settings.get(k)]
    if changed:
        problem = f'with another {", ".join(changed)}'
    elif _add_pairs(digest, islice(pairs, state.n_read)) != state.pairs_read:
        problem = 'of other pairs: the source has changed'
    else:
        return state, digest
    raise UserError(f'{folder} has a build {problem}; another --out is needed')


class BlockSelector(Worker):
    """
    Selects the pairs of blocks that are a toxic prompt with a safe answer, and gives
    them their features. Its models are loaded at once.

    :ivar missing: a line for each feature or detector that cannot be had: its columns
        stay empty.
    :raises UserError: when nothing is left that could tell what is toxic.
    """

    def __init__(
        self, chosen: SelectionOptions, features: FeatureOptions, machine: Machine
    ):
        self.chosen, self.max_entities = chosen, features.max_entities
        self.models = ModelHandle(machine)
        self.missing: list[str] = []
        self.read_entities: Any = None
        self.fill: list[Fill] = []
        titles = [  # read first: a mistake in them is told at once
            detector_title(detector_section(spec, named_by_user=True))
            for spec in chosen.detectors
        ]
        titles[:1] = ['toxicity'] * bool(titles)  # columns of the one that decides
        columns = self._load_features(features)
        filled = [f'{side}_{name}' for name in titles for side in SIDES]
        self.columns = ['id', 'split', *SIDES, *filled, *columns]
        for name, n in Counter(self.columns).items():
            if n > 1:
                raise UserError(
                    f'--detectors: two columns would be called {name}; NAME,called=… '
                    'calls a detector otherwise'
                )
        self.detectors = self._load_detectors(titles)
        if chosen.threshold != THRESHOLD and not chosen.recorded:
            raise UserError(
                '--threshold is of --recorded; a detector: NAME,threshold=…'
            )
        if not (self.detectors or chosen.recorded or chosen.words):
            raise UserError(
                '--detectors is needed (or --recorded, or --words): what is toxic?'
            )
        self.words = read_detector(chosen.words, self.models) if chosen.words else None
        self.threats = {word.casefold() for word in chosen.threats}

    def _load_detectors(self, titles: Sequence[str]) -> dict[str, ToxicityDetector]:
        """
        Return the detectors by their titles. Where one cannot be had, its columns stay
        empty, unless it is the one that decides.
        """
        detectors = {}
        for title, spec in zip(titles, self.chosen.detectors, strict=True):
            try:
                detectors[title] = read_detector(spec, self.models)
            except UserError as error:
                if title == titles[0] and not self.chosen.recorded:
                    raise
                self.missing.append(f'{error}; the columns of {title} stay empty')
        return detectors

    def _load_features(self, options: FeatureOptions) -> list[str]:
        """
        Load the models that the options name, and return the columns of all features.
        Where a model is not there, its columns stay empty.
        """
        from parlai_ext.scoring.chatmatch import load_pipeline

        every: list[str] = []
        for name, groups in FEATURES.items():
            columns = [column for own, _ in groups for column in own]
            every += columns
            if name == 'lengths':  # without a model
                self.fill.append(fill_lengths)
                continue
            spec = getattr(options, name)
            if spec is None:
                self.missing.append(f'{name}: none named; {", ".join(columns)} empty')
                continue
            model, _, label = spec.partition(',')
            try:
                if name == 'entities':
                    self.read_entities = load_pipeline(spec, name).read
                else:
                    loaded = self.models.classifier(model)
                    self.fill.append(classifier_fill(name, loaded, label))
            except UserError as error:
                self.missing.append(f'{name}: {error}; {", ".join(columns)} stay empty')
        return every

    def contents(self) -> dict[str, str]:
        """
        Return what must be equal wherever the selector works: the signatures of its
        models and detectors, and which models cannot be had.
        """
        detectors = dict(self.detectors)
        if self.words is not None:
            detectors['--words'] = self.words
        return {
            **self.models.signatures(),
            **{f'detector {n}': one.signature for n, one in detectors.items()},
            LACKING: str(self.missing),
        }

    def work(
        self, data: Sequence[TurnPair], tell: Tell
    ) -> tuple[list[Row], Mapping[str, int]]:
        """
        Return the rows of a block that are selected, with their features, and how many
        are not, by reason.
        """
        every = [
            {
                **pair.features,
                'id': pair.id,
                'toxic': single_spaced(pair.prompt),
                'answer': single_spaced(pair.answer),
            }
            for pair in data
        ]
        reasons = self.reasons(every)
        rows = [row for row, why in zip(every, reasons, strict=True) if why is None]
        counts = Counter(filter(None, reasons))
        few = self._masked_rows(rows)
        counts['too many named entities'] = len(rows) - len(few)
        for fill in self.fill if few else ():
            fill(few)
        for row in few:
            row['split'] = fold_of_prompt(row['toxic'])
        return few, +counts

    def _masked_rows(self, rows: list[Row]) -> list[Row]:
        """
        Write the masked texts of rows, and return those without too many entities; all
        where nobody finds entities.
        """
        if self.read_entities is None:
            return rows
        most = [0] * len(rows)
        for side in SIDES:
            found = self.read_entities([row[side] for row in rows])
            for i, one in enumerate(found):
                rows[i][f'{side}_ner'] = masked(*one)
                most[i] = max(most[i], len(one.entities))
        return [r for r, n in zip(rows, most, strict=True) if n <= self.max_entities]

    def reasons(self, rows: Sequence[Row]) -> list[str | None]:
        """
        Fill the detectors' columns of rows that may be selected, and return why each is
        not selected; `None` for those that are.

        Cheap tests come first: only what they leave is given to detectors, the prompts
        before the answers.
        """
        reasons = [self._cheap_reason(row) for row in rows]
        for n, (name, detector) in enumerate(self.detectors.items()):
            for side in SIDES:
                left = [i for i, reason in enumerate(reasons) if reason is None]
                found = detector.of_texts([rows[i][side] for i in left])
                for i, (value, toxic) in zip(left, found, strict=True):
                    rows[i][f'{side}_{name}'] = f'{value:.4f}'
                    if n or self.chosen.recorded or toxic == (side == 'toxic'):
                        continue
                    reasons[i] = (
                        'the answer is toxic' if toxic else 'the prompt is not toxic'
                    )
        return reasons

    def _cheap_reason(self, row: Row) -> str | None:
        if not row['toxic'] or not row['answer']:
            return 'an empty turn'
        if self.threats & set(split_words(row['answer'])):
            return 'a threat word in the answer'
        if self.words is not None:
            found = self.words.of_texts([row[side] for side in SIDES])
            in_prompt, in_answer = (number for number, _ in found)
            if not in_prompt:
                return 'no listed word in the prompt'
            if in_answer:
                return 'a listed word in the answer'
        recorded = self.chosen.recorded
        if recorded is None:
            return None
        cells = [row.get(f'{side}_{recorded}', '') for side in SIDES]
        if any(cell in MISSING for cell in cells):
            return f'no recorded {recorded}'
        prompt, answer = (_known_number(cell, recorded) for cell in cells)
        if prompt < self.chosen.threshold:
            return 'the prompt is not toxic'
        return 'the answer is toxic' if answer >= self.chosen.threshold else None


def _known_number(cell: str, column: str) -> float:
    if (value := parse_number(cell)) is None:
        raise UserError(f'column {column}: {cell!r} is no number')
    return value


def selector_elsewhere(
    chosen: SelectionOptions,
    features: FeatureOptions,
    machine: Machine,
    contents: Mapping[str, str],
    share: float,
) -> BlockSelector:
    """
    Return the selector of another process.

    :param contents: those of the selector in the process of the command.
    :param share: of the memory of its device; models ask for what is free.
    """
    use_data_folder(machine.datapath)
    selector = BlockSelector(chosen, features, machine)
    for name, content in selector.contents().items():
        refuse_difference(name, content, contents.get(name))
    return selector


def statistics(sources: Mapping[str, str]) -> dict[str, dict[tuple[str, str], str]]:
    """
    Return the rows of the paper's Table 4: by row, source and fold. Files are read
    once, one pair at a time; a row without any value is left out.

    :param sources: files or folders that the task reads, by what the source is called.
    :raises UserError: for what cannot be read.
    """
    known: Mapping[str, Mapping[str, str]] = moderation_data('statistics')
    turns = dict.fromkeys(product(sources, FOLDS), 0)
    # how often each cell of a column was seen
    seen: defaultdict[tuple[str, str, str], Counter[str]] = defaultdict(Counter)
    columns = {**known['means'], **known['majors']}
    for source, place in sources.items():
        for fold, pair in pairs_of_place(Path(place), ToxicData()):
            if not (pair.polite and pair.answer):
                continue
            turns[source, fold] += 1
            row = {'toxic': pair.prompt, 'answer': pair.answer}
            fill_lengths([row])
            row |= pair.features
            for name, column in columns.items():
                if row.get(column, '') not in MISSING:
                    seen[name, source, fold][row[column]] += 1
    rows = {'No. Turns': {place: str(n) for place, n in turns.items()}}
    for name, column in columns.items():
        for key in turns:
            if not (cells := seen.get((name, *key))):
                continue
            [(word, n)] = cells.most_common(1)
            text = f'{word} {100 * n / cells.total():.1f}%'
            if name in known['means']:
                total = sum(
                    _known_number(cell, column) * n for cell, n in cells.items()
                )
                text = f'{total / cells.total():.2f}'
            rows.setdefault(name, {})[key] = text
    return rows


def statistics_table(sources: Mapping[str, str]) -> Table:
    """
    Return the same statistics as a table, a column for each fold of each source.
    """
    rows = statistics(sources)
    places = list(product(sources, FOLDS))
    headings = ['', *(' '.join(place).strip() for place in places)]
    cells = ([name, *(row.get(p, DASH) for p in places)] for name, row in rows.items())
    return shown_table(headings, cells)
