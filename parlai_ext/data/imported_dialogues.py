"""
Finds the files of dialogues, tells their format, reads all of them and checks them
together: names, ids, losses.
"""

import re
import zipfile
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from difflib import SequenceMatcher
from functools import cached_property
from glob import glob, has_magic
from itertools import groupby, islice, pairwise
from pathlib import Path
from shlex import quote

from parlai_ext.core import (
    UserError,
    frozen,
    named_pairs,
    nearest,
    one_value,
    option,
    optional,
    require_known,
    short_hash,
)
from parlai_ext.data.chat_logs import (
    FORMATS,
    ZIPPED_LOG,
    BadRecord,
    SourceDialogue,
    SourceFile,
    SourceTurn,
    Unread,
    brief,
    numbered_records,
    self_chat_models,
)
from parlai_ext.data.corpora import END, Turns, archived_texts, marked_utterances
from parlai_ext.view import single_spaced
from parlai_ext.view.progress import bar_of

JSON_KEY = re.compile(r'"(\w+)": ?')
SUFFIXES = ('.csv', '.json', '.jsonl', '.log', '.txt', ZIPPED_LOG)


def find_files(given: Sequence[str]) -> list[Path]:
    """
    Return the files that paths, folders and patterns name, each once, by name.

    :raises UserError: for a path without any.
    """
    paths = list(dict.fromkeys(path for pattern in given for path in _files(pattern)))
    resolved: dict[Path, Path] = {}
    for path in paths:
        other = resolved.setdefault(path.resolve(), path)
        if other != path:
            raise UserError(f'{other} and {path} are one file; name it once')
    return sorted(paths, key=lambda path: (path.name, str(path)))


def _files(given: str) -> list[Path]:
    """
    Return the files that one path, folder or glob pattern names.
    """
    path = Path(given)
    if path.is_dir():
        inside = [entry for entry in path.iterdir() if not entry.name.startswith('.')]
        if paths := [p for p in inside if p.is_file() and p.suffix in SUFFIXES]:
            return paths
        folders = sorted(entry.name for entry in inside if entry.is_dir())
        hint = f'; it has folders: {", ".join(folders[:8])}' if folders else ''
        known = ', '.join(SUFFIXES)
        raise UserError(f'{path}: no files with dialogues ({known}){hint}')
    if path.exists():
        return [path]
    if has_magic(given):
        if paths := [Path(path) for path in glob(given) if Path(path).is_file()]:
            return paths
        raise UserError(f'{given}: no file fits this pattern')
    raise UserError(f'{given}: no such file or folder')


def detect_format(source: SourceFile, before: str | None = None) -> str:
    """
    Return the name of a file's format.

    :param before: the format of the file before it, taken for one that fits no format.
    :raises UserError: when there is none either.
    """
    for name, form in FORMATS.items():
        if (form.columns or not source.columns) and form.looks_like(source):
            return name
    if before is not None:
        return before
    if not source.first_line:
        raise UserError(f'{source.file}: the file is empty')
    if source.file.endswith('.csv'):
        return 'csv'  # whose reader says what is wrong with the header
    raise _unknown_format(source)


def _unknown_format(source: SourceFile) -> UserError:
    """
    Return the error about a file in no known format, with the three nearest formats.
    """
    is_json = source.first_line.lstrip().startswith(('{', '['))
    start = single_spaced(' '.join(line[:200] for line in source.lines[:20]))[:200]
    keys = {*JSON_KEY.findall(start)}

    def likeness(name: str) -> tuple[int, float]:
        example = FORMATS[name].example
        ratio = SequenceMatcher(None, example, start).ratio()
        return len(keys.intersection(JSON_KEY.findall(example))), ratio

    names = [n for n, form in FORMATS.items() if (form.example[0] in '{[') == is_json]
    nearest_three = sorted(names, key=likeness, reverse=True)[:3]
    width = max(map(len, nearest_three))
    return UserError(
        f'{source.file}: no dialogues in a known format; '
        f'{_look_of_file(source, is_json)}; the nearest are:',
        [
            *(f'  {name:{width}}  {FORMATS[name].example}' for name in nearest_three),
            '--columns gives other names of columns or keys, --help lists all formats',
        ],
    )


def _look_of_file(source: SourceFile, is_json: bool) -> str:
    """
    Return what the first line or record of a file looks like.
    """
    records = numbered_records(source) if is_json else ()
    for line, place, record in islice(records, 1):
        match record:
            case BadRecord():
                return f'line {line}: {place}{record}'
            case {'messages': [dict() as message, *_]}:
                return f'its messages have the keys {brief(", ".join(message))}'
            case _:
                return f'its objects have the keys {brief(", ".join(record))}'
    return f'its first line is {brief(source.first_line)}'


def read_sources(
    paths: Sequence[Path],
    wanted: str | None,
    columns: Mapping[str, str] | None,
) -> Iterator[tuple[str, SourceFile]]:
    """
    Yield the files, one at a time in memory, each with the format that all have.

    :param columns: the files' own names of columns or keys, by ours.
    :raises UserError: for an unknown format, or files of two.
    """
    if wanted is not None:
        require_known(wanted, FORMATS, f'--format {wanted}')
    first = None
    for path in paths:
        source = SourceFile.from_path(path, columns)
        name = wanted or detect_format(source, first[0] if first else None)
        if columns and not FORMATS[name].columns:
            with_columns = [key for key, form in FORMATS.items() if form.columns]
            raise UserError(
                f'--columns: for the formats {" and ".join(with_columns)}, not {name}'
            )
        if first is not None and first[0] != name:
            raise UserError(
                f'{first[1]} looks like {first[0]}, {source.file} like {name}: '
                'name files of one format, or say it with --format'
            )
        first = first or (name, source.file)
        yield name, source


def read_dialogue_texts(given: Sequence[str]) -> list[Turns]:
    """
    Return the utterances of every dialogue in files, folders or patterns. Dialogues of
    fewer than two utterances, and those that cannot be read, are left out.

    :raises UserError: when a path names no file, or no dialogue is in one of them.
    """
    dialogues = []
    for path in find_files(given):
        is_archive = path.suffix != ZIPPED_LOG and zipfile.is_zipfile(path)
        # other files of DailyDialog's archives hold labels; a Mac adds hidden ones
        if is_archive:
            lines = '\n'.join(archived_texts(path, '[!.]*.txt')).split('\n')
        else:
            source = SourceFile.from_path(path)
            lines = [*source.lines]
        if is_archive or any(END in line for line in lines[:5]):
            texts = [marked_utterances(line) for line in lines if END in line]
        else:
            texts = [
                tuple(t for turn in dialogue.turns if (t := turn.text.strip()))
                for dialogue in FORMATS[detect_format(source)].read(source)
                if not dialogue.problems
            ]
        long = [turns for turns in texts if len(turns) > 1]
        if not long:
            raise UserError(f'{path}: no dialogue of two utterances or more is in it')
        dialogues += long
    return dialogues


# --- rules ----------------------------------------------------------------------------
# Turn the dialogue of a file into one of two systems that take turns, or refuse it.
#
# Nothing is mended unless an option asks for it.

# what generation leaves at the end of a text, whole or cut off
MARKERS = re.compile(r'(?<!\s)\s*<\s*(?:/\s*s|s|pad|bos|eos|\|endoftext\|)\s*(?:>|$)')
SIDE = re.compile(r'(.+)_([12])')
EMPTY_TURNS = ('refuse', 'keep')


@frozen
class ImportRules:
    """
    How dialogues are changed as they are imported: by default not at all.
    """

    empty_turns: str = option(
        'refuse',
        choices=EMPTY_TURNS,
        help='refuse them (default), or keep them as they are',
    )
    join_turns: bool = option(
        False, help="join one speaker's turns in a row, one a line"
    )
    strip_markers: bool = option(
        False,
        help='remove what generation left at the end of a text, such as </s> and <pad>',
    )
    self_chats: bool | None = optional(
        help='NAME_1 and NAME_2 in one dialogue are NAME with itself (default: yes in '
        'the formats chatmatch and parlai)',
    )
    name_by_file: bool = option(
        False, help='call a system NAME@FILE, to tell files apart'
    )
    rename: tuple[str, ...] = option(
        (), read=one_value, metavar='OLD=NEW', help='call a system NEW'
    )
    humans: str | None = optional(
        help='names, by commas, of people: they speak and are not judged'
    )
    judge_humans: bool = option(False, help='rank people as systems are')

    @cached_property
    def new_names(self) -> dict[str, str]:
        """
        The new name of each system that is renamed, by its old one.
        """
        return named_pairs('--rename', self.rename, 'OLD=NEW')

    @property
    def people(self) -> frozenset[str]:
        """
        Those who are people, by their name in the file or in the run, besides those
        that the file marks.
        """
        names = (name.strip() for name in (self.humans or '').split(','))
        return frozenset(filter(None, names))


def apply_rules(
    source: SourceDialogue, stem: str, rules: ImportRules
) -> SourceDialogue:
    """
    Return the dialogue of two systems, whose turns have their names and whose humans
    are those that are not judged; with a problem, when it is none.
    """
    if source.problems:
        return source
    turns = _mended_turns(source.turns, rules)
    speakers = list(dict.fromkeys(turn.speaker for turn in turns))
    alone = len(speakers) == 1 and source.num_systems == 1
    if problem := _first_problem(turns, speakers, alone, rules):
        line, text = problem
        place = f'{source.file}:{line or source.line}: {source.place}'
        return replace(source, problems=(place + text,))
    one_system = source.num_systems == 1 if source.num_systems else rules.self_chats
    names = _system_names(speakers, bool(one_system))
    run_names, people = names_in_run(names, source.humans, stem, rules)
    first, second = run_names[speakers[0]], run_names[speakers[-1]]
    if first == second and len(set(names.values())) == 2:
        text = f'both speakers are called {brief(first)} by now; --rename one of them'
        return replace(source, problems=(f'{source.file}:{source.line}: {text}',))
    humans = set() if rules.judge_humans else {run_names[old] for old in people}
    renamed_turns = [
        replace(
            turn,
            speaker=run_names[turn.speaker],
            # no system produced the turns of people, and empty ones
            given=turn.given
            or run_names[turn.speaker] in humans
            or not turn.text.strip(),
        )
        for turn in turns
    ]
    return replace(
        source,
        turns=renamed_turns,
        humans=frozenset(humans),
        num_joined=len(source.turns) - len(turns),
    )


def names_in_run(
    names: Mapping[str, str], marked: frozenset[str], stem: str, rules: ImportRules
) -> tuple[dict[str, str], set[str]]:
    """
    Return what the speakers of a dialogue are called in the run, and which are people.

    :param names: the system behind each speaker.
    :param marked: those that the file marks as people.
    :param stem: of the file's name.
    """
    new, marked = rules.new_names, marked | rules.people
    # by their name in the file or in the run
    people = {one for one, name in names.items() if marked & {one, name, new.get(name)}}
    run_names = {}
    for old, name in names.items():
        by_file = rules.name_by_file and stem and old not in people
        full = f'{name}@{stem}' if by_file else name
        run_names[old] = new.get(full, full)
    return run_names, people


def _mended_turns(turns: Sequence[SourceTurn], rules: ImportRules) -> list[SourceTurn]:
    """
    Return the turns, mended as the rules ask.
    """
    if rules.strip_markers:
        turns = [replace(turn, text=MARKERS.sub('', turn.text)) for turn in turns]
    if not rules.join_turns:
        return list(turns)
    joined = []
    for _, some in groupby(turns, key=lambda turn: (turn.speaker, turn.given)):
        same_speaker = list(some)
        first = same_speaker[0]
        if len(same_speaker) > 1:  # references of a part are none of the whole
            text = '\n'.join(turn.text for turn in same_speaker)
            first = replace(first, text=text, references=())
        joined.append(first)
    return joined


def _first_problem(
    turns: Sequence[SourceTurn],
    speakers: Sequence[str],
    alone: bool,
    rules: ImportRules,
) -> tuple[int | None, str] | None:
    """
    Return the line, if it is not that of the dialogue, and the description of the first
    problem.
    """
    if not turns:
        return None, 'no turns: the dialogue is empty'
    if len(speakers) > 2:
        third = next(turn for turn in turns if turn.speaker == speakers[2])
        names = f'{brief(speakers[2])} after {brief(speakers[0])} and '
        problem = f'a third speaker, {names}{brief(speakers[1])}; a dialogue has two'
        return third.line, problem
    for turn in turns:
        if not turn.speaker:
            return turn.line, 'a turn without the name of its speaker'
        if not turn.text.strip() and rules.empty_turns == 'refuse':
            problem = f'an empty turn of {brief(turn.speaker)}'
            return turn.line, f'{problem}; --empty-turns keep takes it as it is'
    if len(turns) == 1:
        return turns[0].line, 'one turn only; a dialogue has two speakers'
    if len(speakers) == 1 and not alone:
        return None, (
            f'one speaker only, {brief(speakers[0])}; a dialogue has two (the sides of '
            'a self-chat are told apart as NAME_1 and NAME_2, see --self-chats)'
        )
    for before, turn in pairwise(() if alone else turns):
        if turn.speaker == before.speaker:
            problem = f'{brief(turn.speaker)} speaks twice in a row'
            return turn.line, f'{problem}; --join-turns makes one turn of that'
    return None


def _system_names(speakers: Sequence[str], self_chats: bool) -> dict[str, str]:
    """
    Return the system behind each speaker: one for both sides of a self-chat.
    """
    sides = [SIDE.fullmatch(name) for name in speakers]
    stems = {side[2]: side[1] for side in sides if side}
    if self_chats and len(stems) == 2 and stems['1'] == stems['2']:
        return dict.fromkeys(speakers, stems['1'])
    return {name: name for name in speakers}


# --- what was read --------------------------------------------------------------------


@dataclass
class ImportedDialogues:
    """
    The dialogues to import, and what is left out and why.

    `n_left_out` counts the dialogues that `problems` (bad rows) spoil; `n_people` those
    in which only people speak, who are not judged. `files` are names with checksums,
    `unused` says which options name nobody.
    """

    format: str = ''
    dialogues: list[SourceDialogue] = field(default_factory=list)
    problems: dict[str, None] = field(default_factory=dict)
    n_left_out: int = 0
    n_people: int = 0
    files: dict[str, str] = field(default_factory=dict)
    unused: list[str] = field(default_factory=list)
    by_id: dict[str, SourceDialogue] = field(default_factory=dict)

    @property
    def names(self) -> list[str]:
        """
        Return the names of all speakers, sorted.
        """
        return sorted({name for one in self.dialogues for name in one.names})

    @property
    def humans(self) -> frozenset[str]:
        """
        Return the names of people, who are not judged.
        """
        return frozenset().union(*(dialogue.humans for dialogue in self.dialogues))

    @property
    def silent(self) -> dict[str, int]:
        """
        Return the number of empty turns that were kept, by system.
        """
        counts = Counter(
            turn.speaker
            for dialogue in self.dialogues
            for turn in dialogue.turns
            if not turn.text.strip() and turn.speaker not in dialogue.humans
        )
        return dict(sorted(counts.items()))

    @property
    def unread(self) -> Unread:
        """
        Return what the imported dialogues' records hold beside their turns.
        """
        return sum((dialogue.unread for dialogue in self.dialogues), Unread())

    def add(self, imported: SourceDialogue) -> None:
        """
        Add a dialogue, or count it as left out.
        """
        problems = imported.problems
        if not problems:
            if {*imported.names} <= imported.humans:
                self.n_people += 1
                return
            same = imported
            if imported.id is not None:
                same = self.by_id.setdefault(imported.id, imported)
            if same is imported:
                self.dialogues.append(imported)
                return
            what = f'the id {brief(imported.id)} is that of the dialogue in '
            what += f'{same.file}:{same.line} already'
            problems = (f'{imported.file}:{imported.line}: {what}',)
        self.problems.update(dict.fromkeys(problems))
        self.n_left_out += 1


def read_imports(
    paths: Sequence[Path],
    wanted: str | None,
    rules: ImportRules,
    *,
    skip_bad_rows: bool | None = False,
    columns: Mapping[str, str] | None = None,
) -> ImportedDialogues:
    """
    Return the dialogues of these files.

    :param wanted: their format; `None`: it is detected.
    :param skip_bad_rows: leave out what cannot be read instead of stopping there;
        `None` where a user cannot ask for that.
    :param columns: the files' own names of columns or keys, by ours.
    :raises UserError: for the first bad row, for names that cannot be told apart, and
        when nothing is left.
    """
    refuse_equal_stems(paths if rules.name_by_file else ())
    imports = ImportedDialogues()
    models: dict[str, str] = {}
    with bar_of('read', None, delay=1) as bar:
        for imports.format, source in read_sources(paths, wanted, columns):
            form = FORMATS[imports.format]
            file_rules = rules
            if rules.self_chats is None:
                file_rules = replace(rules, self_chats=form.self_chats)
            text = '\n'.join(source.lines).encode('utf-8', 'surrogateescape')
            checksum = short_hash(text)
            name = Path(source.file).name
            if name in imports.files:
                name = f'{Path(source.file).parent.name}/{name}'
            imports.files[name] = checksum
            if not rules.name_by_file and imports.format == 'parlai':
                _check_one_model(models, source)
            for source_dialogue in form.read(source):
                bar.update()
                imports.add(apply_rules(source_dialogue, source.stem, file_rules))
                if imports.problems and not skip_bad_rows:
                    first = next(iter(imports.problems))
                    hint = ' (--skip-bad-rows leaves it out)'
                    raise UserError(f'{first}{"" if skip_bad_rows is None else hint}')
    _check(imports, rules)
    return imports


def refuse_equal_stems(paths: Iterable[Path]) -> None:
    """
    Refuse files by which systems cannot be named, since two have one name.
    """
    stems: dict[str, Path] = {}
    for path in paths:
        if (other := stems.setdefault(path.stem, path)) != path:
            raise UserError(
                f'--name-by-file: {other} and {path} would both be NAME@{path.stem}; '
                'give these files different names'
            )


def _check(imports: ImportedDialogues, rules: ImportRules) -> None:
    """
    Refuse an import without dialogues, and names that differ too little.
    """
    if not imports.dialogues:
        lost = [f'{imports.n_left_out} cannot be read'] if imports.n_left_out else []
        lost += [f'{imports.n_people} are of people only'] if imports.n_people else []
        lost = lost or [f'none is in {", ".join(imports.files)}']
        first = ''.join(f'; the first bad row: {p}' for p in [*imports.problems][:1])
        raise UserError(f'no dialogues to import: {", ".join(lost)}{first}')
    folded: dict[str, str] = {}
    for name in imports.names:
        other = folded.setdefault(single_spaced(name.casefold()), name)
        if other != name:
            raise UserError(
                f'one bot named twice? {brief(other)} and {brief(name)} differ in case '
                f'or blanks only; make them one or two: --rename {quote(name)}=NEW'
            )
    _note_unknown_names(imports, rules)


def _note_unknown_names(imports: ImportedDialogues, rules: ImportRules) -> None:
    """
    Refuse options that name nobody; where the speaker may be in what is left out, they
    are noted only.
    """
    names, rename = imports.names, rules.new_names
    options = {f'--rename {a}={b}': a for a, b in rename.items() if b not in names}
    people = sorted(rules.people - {*names, *rename})
    options |= {f'--humans {name}': name for name in people}
    for given, name in options.items():
        problem = f'{given}: no speaker has this name; {nearest(name, names)}'
        if not (imports.n_people or imports.n_left_out):
            raise UserError(problem)
        imports.unused.append(problem)


def _check_one_model(models: dict[str, str], source: SourceFile) -> None:
    """
    Refuse self-chats of two models, which ParlAI may call by one name, their class.

    :param models: gets the model of this file; the files before it, by their models.
    """
    with suppress(BadRecord):  # metadata that cannot be read, which its reader tells
        model = ' and '.join(self_chat_models(source.metadata))
        if model and source.metadata.get('self_chat'):
            models.setdefault(model, source.file)
    if len(models) > 1:
        raise UserError(
            f'{" and ".join(models.values())} are self-chats of two models '
            '(model_file in .metadata), whose speakers ParlAI may call by one name; '
            'tell them apart with --name-by-file'
        )
