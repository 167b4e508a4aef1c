"""
The Python interface: evaluate systems, score dialogues, rank, read a run, plot.

Nothing is printed unless ``verbose=True``. A mistake in a value raises `UserError`, an
unknown argument name raises `TypeError` with the nearest right name.
"""

from __future__ import annotations

import difflib
import functools
import inspect
import io
import numbers
import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, redirect_stderr, redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any, ParamSpec, TypeAlias, TypeVar

from parlai_ext.commands.command import find_command
from parlai_ext.core import (
    Dialogue,
    JsonObject,
    ScoredDialogue,
    UserError,
    Utterance,
    frozen,
    grouped,
    half_character,
    nearest,
    options_of,
    plain_value,
    read_options,
    reference_texts,
    require_known,
)
from parlai_ext.engines import Machine, data_in

if TYPE_CHECKING:
    import pandas
    from matplotlib.figure import Figure

    from parlai_ext.judge_check.record import JudgeCheck
    from parlai_ext.results.ranking import Ranking
    from parlai_ext.scoring.base import Scorer
    from parlai_ext.store import RunFolder

P = ParamSpec('P')
R = TypeVar('R')

Turn = str | tuple[str, str] | Mapping[str, Any] | Utterance
Dialogues: TypeAlias = (
    'Sequence[Turn | Sequence[Turn] | Dialogue] | Dialogue | pandas.DataFrame'
)
TURN_KEYS = ('speaker', 'text', 'given', 'reference')
# options of the commands that are about what they print
PRINTED = {'dry_run', 'pilot', 'plan', 'json', 'quiet', 'help'}
TABLES = ('ranking', 'scores', 'dialogues')
# options of the machine that `score` and `check_judge` take
MACHINE = ('batchsize', 'no_cuda', 'fp16', 'datapath')


def _checks_names(command: str = '') -> Callable[[Callable[P, R]], Callable[P, R]]:
    """
    Return a decorator: an unknown argument is a `TypeError` with the nearest name.

    :param command: whose options are the function's further keyword arguments.
    """

    def decorate(function: Callable[P, R]) -> Callable[P, R]:
        names = {*inspect.signature(function).parameters} - {'options'}

        @functools.wraps(function)
        def checked(*args: P.args, **kwargs: P.kwargs) -> R:
            known = names
            if command and not names.issuperset(kwargs):
                flags = find_command(command).parser()._actions
                known = names | {flag.dest for flag in flags} - PRINTED
            for name in kwargs:
                if name not in known:
                    raise TypeError(_no_argument(function.__name__, name, known))
            return function(*args, **kwargs)

        return checked

    return decorate


def _no_argument(function: str, name: str, names: Iterable[str]) -> str:
    return f'{function}() has no argument {name!r}; {nearest(name, names)}'


@frozen
class Run:
    """
    A run folder. Every property reads the files anew: keep what you use often.

    :param path: the folder.
    """

    path: Path

    @property
    def dialogues(self) -> list[Dialogue]:
        """
        All dialogues, pair by pair; each has `utterances` with speaker and text.
        """
        return list(self.open().iter_dialogues())

    @property
    def scores(self) -> pandas.DataFrame:
        """
        The scores of the protocol's scorer (or of the only one), in the form that
        `score` returns.
        """
        return self.to_pandas('scores')

    @property
    def ranking(self) -> Ranking:
        """
        The ranking of the protocol's scorer, as `rank_systems` wrote it.

        Raises `UserError` when the run has not been ranked.
        """
        from parlai_ext.results.ranking import read_ranking

        return read_ranking(self.open())

    def to_pandas(self, table: str = 'ranking') -> pandas.DataFrame:
        """
        Return a table of the run.

        :param table: ``ranking`` (one row for each dimension and system, best first),
            ``scores`` (one row for each judged utterance, one column for each
            dimension), or ``dialogues`` (one row for each utterance).
        :raises UserError: for another name, or when the run lacks this table.
        """
        from parlai_ext.report import frames
        from parlai_ext.report.table import file_table
        from parlai_ext.results.ranking import choose_scores

        require_known(str(table), TABLES, f'table: {table!r}')
        if table == 'ranking':
            return file_table(self.ranking).frame()
        run = self.open()
        if table == 'scores':
            return frames.scores_frame(run, choose_scores(run, None)[0])
        return frames.dialogues_frame(run)

    def open(self) -> RunFolder:
        """
        Return the run folder's own reader and writer.
        """
        from parlai_ext.store import RunFolder

        return RunFolder.existing(self.path)


@_checks_names('evaluate_systems')
def evaluate(
    config: str | os.PathLike[str],
    run_dir: str | os.PathLike[str],
    *,
    verbose: bool = False,
    **options: Any,
) -> Run:
    """
    Let systems talk, score their utterances, rank them, write the page; return the run.

    The same call again resumes the run; with more targets it extends the run.

    :param config: the protocol: a shipped name or a YAML file.
    :param run_dir: the run folder, new or begun.
    :param verbose: print what `parlai evaluate_systems` prints.
    :param options: the options of that command, with underscores: ``num_dialogues``,
        ``add_target`` (a list), … (`parlai evaluate_systems --help` has all).
    :raises UserError: for what the command would print as one line.
    :raises TypeError: for an unknown argument; it names the nearest one.
    """
    given = {'config': config, 'run_dir': run_dir, **options}
    _run_command('evaluate_systems', given, verbose)
    return Run(Path(run_dir))


@_checks_names('rank_systems')
def rank(
    run: Run | str | os.PathLike[str],
    *,
    verbose: bool = False,
    **options: Any,
) -> Ranking:
    """
    Rank the targets of a scored run, write `ranking.json`, and return the ranking.

    :param run: a run or its folder.
    :param verbose: print what `parlai rank_systems` prints.
    :param options: the options of that command, with underscores: ``scores``,
        ``human_scores``, ``bootstraps``, … (`parlai rank_systems --help` has all).
    :raises UserError: for what the command would print as one line.
    :raises TypeError: for an unknown argument; it names the nearest one.
    """
    path = run.path if isinstance(run, Run) else run
    ranking: Ranking = _run_command(
        'rank_systems', {'run_dir': path, **options}, verbose
    )
    return ranking


def _run_command(name: str, given: Mapping[str, object], verbose: bool) -> Any:
    with _printing(verbose):
        return find_command(name).main(**given)


@_checks_names()
def load_run(path: str | os.PathLike[str]) -> Run:
    """
    Return the run in a folder, with `dialogues`, `scores`, `ranking` and `to_pandas`.

    :raises UserError: when the folder holds no run.
    """
    run = Run(Path(path).expanduser())
    run.open()
    return run


def score(
    dialogues: Dialogues,
    scorer: str | type[Scorer] | Scorer | None = None,
    *,
    speakers: Sequence[str] | None = None,
    verbose: bool = False,
    **options: Any,
) -> pandas.DataFrame:
    """
    Score the utterances of dialogues; no run folder is needed.

    A turn is a text, a tuple ``(speaker, text)``, a mapping with ``text`` and perhaps
    ``speaker``, ``given`` and ``reference`` (what people said in its place, for scorers
    with references), a message with ``role`` and ``content`` as chat models take it, or
    an `Utterance`. Without speakers, two take turns and are called ``A`` and ``B``.
    Turns that are ``given`` are context and not judged. So are messages of the role
    ``user`` or ``human``, unless `speakers` names it; instructions (``system``,
    ``developer``) are no turns.

    :param dialogues: a list of turns (one dialogue), a list of such lists, `Dialogue`
        objects, or a DataFrame with one turn in each row: ``text`` and perhaps
        ``speaker``, ``dialogue_id``, ``given`` and ``reference``.
    :param scorer: ``fed``, ``chatmatch``, the ``module:Class`` of a scorer of yours, or
        a `Scorer` class or object (`None`: the default one, ``learned``).
    :param speakers: judge the utterances of these speakers, or of this one, only.
    :param verbose: print what loading and scoring print.
    :param options: options of the scorer, such as ``judge_model_file`` of FED, and of
        the machine: ``batchsize`` (contexts that go through a model together: 64),
        ``no_cuda`` (use the CPU even if there is a GPU), ``fp16`` (half precision on a
        GPU) and ``datapath`` (ParlAI's data folder, where its models are).
    :returns: a DataFrame with one row for each judged utterance: ``dialogue_id``,
        ``utterance_index``, ``speaker``, ``text``, one column for each dimension (NaN:
        no score), ``reason`` (why a score is missing) and ``cut_tokens`` (tokens of the
        context that the model did not see). The score of a whole dialogue has no index
        and no text.
    :raises UserError: for a turn that cannot be read, a speaker who is not there, or a
        wrong value of an option.
    :raises TypeError: for an unknown argument or option; it names the nearest one.
    """
    from parlai_ext.report.frames import score_frame

    with _printing(verbose), data_in(options.get('datapath')):
        judging = _scorer_with_options(score, scorer, options)
        given, scored = _score_spoken(judging, dialogues, speakers)
    return score_frame(zip(given, scored, strict=True), judging.dimensions)


def check_judge(
    dialogues: Dialogues,
    scorer: str | type[Scorer] | Scorer | None = None,
    *,
    sample: int = 200,
    speakers: Sequence[str] | None = None,
    verbose: bool = False,
    **options: Any,
) -> JudgeCheck | None:
    """
    Try a scorer on perturbed copies of what was said in dialogues (docs/judges.md).

    The dialogues and the other arguments are those of `score`. The dialogues should
    begin differently: a reply of another dialogue is expected not to fit.

    :param sample: responses that are perturbed, at most.
    :returns: the check: `dimensions` maps each dimension to its outcome, reasons, and
        results by kind. `None` where there is nothing to judge.
    :raises UserError: for a turn that cannot be read or a wrong value of an option.
    :raises TypeError: for an unknown argument or option; it names the nearest one.
    """
    from parlai_ext.judge_check import check
    from parlai_ext.scoring.base import turn_items

    if not isinstance(sample, numbers.Integral) or sample < 1:
        raise UserError(f'sample: a whole number from 1 is expected, not {sample!r}')
    with _printing(verbose), data_in(options.get('datapath')):
        judging = _scorer_with_options(check_judge, scorer, options)
        if judging.level == 'pair':
            spoken = zip(*_spoken(dialogues, speakers), strict=True)
            items = [item for pair in spoken for item in turn_items(*pair)]
            return check.check_pairs(judging, items, sample=sample)
        given, scored = _score_spoken(judging, dialogues, speakers)
        pairs = zip(given, scored, strict=True)
        return check.check_on_dialogues(judging, pairs, sample=sample)


def _score_spoken(
    scorer: Scorer, given: Any, speakers: Sequence[str] | None
) -> tuple[list[Dialogue], list[ScoredDialogue]]:
    """
    Return the dialogues that a user gave, and the scores of what these speakers
    (`None`: all) said and was not given.
    """
    dialogues, indices = _spoken(given, speakers)
    return dialogues, scorer.score_dialogues(dialogues, indices)


def _spoken(
    given: Any, speakers: Sequence[str] | None
) -> tuple[list[Dialogue], list[list[int]]]:
    """
    Return the dialogues that a user gave, and the places of what these speakers said
    and was not given.
    """
    from parlai_ext.scoring.base import judged_indices

    if isinstance(speakers, str) or not isinstance(speakers, Iterable | None):
        speakers = [speakers]
    if speakers is not None:
        speakers = [str(name) for name in speakers]
    dialogues = _read_dialogues(given, speakers or ())
    known = {turn.speaker for one in dialogues for turn in one.utterances}
    for name in speakers if speakers and known else ():
        require_known(name, known, f'speakers: nobody is called {name!r}')
    return dialogues, [
        judged_indices(dialogue, first_speaker_only=False, speakers=speakers)
        for dialogue in dialogues
    ]


@_checks_names()
def plot(ranking: Ranking | Run, dimension: str | None = None) -> Figure:
    """
    Draw a ranking: one row for each system, its score and both 95 % intervals.

    It is a figure of matplotlib, which a notebook shows; ``savefig`` writes it.

    :param ranking: a ranking, or a run that has been ranked.
    :param dimension: the dimension to draw (`None`: the first one of the page).
    :raises UserError: for an unknown dimension, with the nearest one.
    """
    from parlai_ext.report.plot import plot_ranking
    from parlai_ext.results.ranking import Ranking

    chosen = ranking.ranking if isinstance(ranking, Run) else ranking
    if not isinstance(chosen, Ranking):
        raise UserError(f'plot: a ranking or a run is expected, not {chosen!r:.80}')
    return plot_ranking(chosen, dimension)


@contextmanager
def _printing(verbose: bool) -> Iterator[None]:
    """
    Let nothing be printed inside, unless it is wanted.
    """
    if verbose:
        yield
        return
    with redirect_stdout(io.StringIO()), redirect_stderr(io.StringIO()):
        yield


def _scorer_with_options(
    function: Callable[..., Any],
    scorer: str | type[Scorer] | Scorer | None,
    options: JsonObject,
) -> Scorer:
    """
    Return the scorer with its options, among which those of the machine are.
    """
    from parlai_ext.models.handle import ModelHandle
    from parlai_ext.scoring.base import Scorer
    from parlai_ext.scoring.registry import DEFAULT, find_scorer

    cls = DEFAULT if scorer is None else scorer
    if isinstance(cls, str):
        cls = find_scorer(cls, named_by_user=True)
    kind = cls if isinstance(cls, type) else type(cls)
    if not issubclass(kind, Scorer):
        problem = 'a name, or a class or an object of Scorer is expected'
        raise UserError(f'scorer: {problem}, not {cls!r:.80}')
    known = options_of(kind.options_class) if kind is cls else {}
    for name in options:
        if name not in known and name not in MACHINE:
            ours = {*inspect.signature(function).parameters, *MACHINE} - {'options'}
            raise TypeError(_no_argument(function.__name__, name, {*known, *ours}))
    if isinstance(cls, type):
        own = {name: plain_value(value) for name, value in options.items()}
        machine = {name: own.pop(name) for name in MACHINE if name in own}
        return cls.from_section(own, ModelHandle(read_options(Machine, machine)))
    return cls.with_options()


def _read_dialogues(given: Any, speakers: Sequence[str]) -> list[Dialogue]:
    """
    Return the dialogues that a user gave in one of the forms that `score` takes.

    :param speakers: who is to be judged, also where that is a role of people.
    """
    if isinstance(given, Dialogue):
        return [given]
    if hasattr(given, 'columns'):
        return _dialogues_from_frame(given)
    if isinstance(given, str | Mapping) or not isinstance(given, Iterable):
        raise UserError(
            f'dialogues: a list of turns or of dialogues is expected, not {given!r:.80}'
        )
    items = list(given)
    if items and _is_turn(items[0]):
        return [_dialogue('0', items, 'dialogues', speakers)]
    dialogues = []
    for i, value in enumerate(items):
        where = f'dialogues[{i}]'
        if isinstance(value, Dialogue):
            dialogues.append(value)
        elif _is_turn(value) or not isinstance(value, Sequence):
            raise UserError(f'{where}: a list of turns is expected, not {value!r:.80}')
        else:
            dialogues.append(_dialogue(str(i), value, where, speakers))
    return dialogues


def _is_turn(value: Any) -> bool:
    pair = isinstance(value, tuple) and len(value) == 2
    return pair or isinstance(value, str | Mapping | Utterance)


def _dialogue(
    id: str, turns: Iterable[Any], where: str, speakers: Sequence[str] = ()
) -> Dialogue:
    from parlai_ext.data.chat_logs import INSTRUCTIONS, PEOPLE, BadRecord, message_text

    utterances = []
    for i, turn in enumerate(turns):
        speaker = 'AB'[i % 2]
        if isinstance(turn, Mapping) and 'content' in turn:  # a message of a chat
            role = turn.get('role', turn.get('speaker'))
            if role is None:
                raise UserError(f'{where}[{i}]: `role` is missing beside `content`')
            if role in INSTRUCTIONS:
                continue
            try:
                text = message_text(turn, 'content', f'{where}[{i}]')
            except BadRecord as error:
                raise UserError(str(error)) from None
            given = str(role).casefold() in PEOPLE and role not in speakers
            turn = {'speaker': role, 'given': given, **turn, 'text': text}
        utterances.append(_utterance(turn, speaker, f'{where}[{i}]'))
    return Dialogue(id, '', '', tuple(utterances))


def _utterance(turn: Any, speaker: str, where: str) -> Utterance:
    if isinstance(turn, Utterance):
        return turn
    if isinstance(turn, tuple) and len(turn) == 2:
        turn = {'speaker': turn[0], 'text': turn[1]}
    if isinstance(turn, str):
        turn = {'text': turn}
    if not isinstance(turn, Mapping) or not isinstance(turn.get('text'), str):
        raise UserError(
            f'{where}: a text, (speaker, text) or a mapping with `text`, or `role` and '
            f'`content`, is expected, not {turn!r:.80}'
        )
    _refuse_misspelt(turn, TURN_KEYS, where)
    if half_character(turn['text']):
        raise UserError(f'{where}: half a character in {ascii(turn["text"][:40])}')
    named = speaker if turn.get('speaker') is None else turn['speaker']
    reference = turn.get('reference')
    # an array, as Parquet files hold lists
    if reference is not None and hasattr(reference, 'tolist'):
        reference = reference.tolist()
    try:
        references = reference_texts(reference)
    except ValueError as error:
        raise UserError(f'{where}: reference: {error}') from None
    given = turn.get('given') or False
    if given not in (True, False):
        raise UserError(f'{where}: given: True or False is expected, not {given!r}')
    return Utterance(str(named), turn['text'], bool(given), references)


def _refuse_misspelt(keys: Iterable[Any], known: Sequence[str], where: str) -> None:
    """
    Refuse a key that is nearly a known one, where that is not there; other keys are
    passed over, as turns of a data set may have their own.
    """
    absent = [name for name in known if name not in keys]
    for key in keys:
        near = difflib.get_close_matches(str(key).lower(), absent, n=1, cutoff=0.8)
        if near and key not in known:
            raise UserError(f'{where}: no key {key!r:.60}; did you mean {near[0]!r}?')


def _dialogues_from_frame(frame: pandas.DataFrame) -> list[Dialogue]:
    """
    Return the dialogues of a DataFrame with one turn in each row, in its order.
    """
    problem = 'dialogues: a column `text` is needed'
    require_known('text', [*map(str, frame.columns)], problem)
    import pandas

    known = ('dialogue_id', *TURN_KEYS)
    for name in set(known).intersection(frame.index.names):
        if name not in frame.columns:
            problem = 'is the index, which is not read; reset_index() makes it a column'
            raise UserError(f'dialogues: `{name}` {problem}')
    _refuse_misspelt(frame.columns, known, 'dialogues')
    columns = [c for c in known if c in frame.columns]
    if 'dialogue_id' in columns and frame['dialogue_id'].isna().any():
        raise UserError('dialogues: column `dialogue_id`: is empty in some rows')
    turns = [
        {
            str(name): value
            for name, value in row.items()
            if not pandas.api.types.is_scalar(value) or pandas.notna(value)
        }
        for row in frame[columns].to_dict('records')
    ]
    by_id = grouped((str(turn.get('dialogue_id', '0')), turn) for turn in turns)
    return [_dialogue(id, rows, f'dialogue {id}') for id, rows in by_id.items()]
