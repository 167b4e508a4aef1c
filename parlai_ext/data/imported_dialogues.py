"""
Reads all dialogues of some files and checks them together: names, ids, losses.
"""

import hashlib
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.data.formats import FORMATS, read_sources
from parlai_ext.data.import_rules import ImportRules, apply_rules
from parlai_ext.data.parlai_logs import self_chat_model
from parlai_ext.data.source_file import (
    Problem,
    SourceDialogue,
    SourceFile,
    Unread,
    brief,
)
from parlai_ext.view.progress import bar_of


@dataclass
class ImportedDialogues:
    """
    The dialogues to import, and what is left out and why.

    `n_left_out` counts the dialogues that `problems` (bad rows) spoil; `n_people` those
    in which only people speak, who are not judged. `files` are names with checksums.
    """

    format: str = ''
    dialogues: list[SourceDialogue] = field(default_factory=list)
    problems: dict[Problem, None] = field(default_factory=dict)
    n_left_out: int = 0
    n_people: int = 0
    files: list[tuple[str, str]] = field(default_factory=list)
    by_id: dict[str | None, SourceDialogue] = field(default_factory=dict)

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
        return Unread.total(dialogue.unread for dialogue in self.dialogues)

    def add(self, imported: SourceDialogue) -> None:
        """
        Add a dialogue, or count it as left out.
        """
        problems = imported.problems
        if not problems:
            if {*imported.names} <= imported.humans:
                self.n_people += 1
                return
            same = self.by_id.get(imported.id)
            if same is None:
                self.dialogues.append(imported)
                if imported.id is not None:
                    self.by_id[imported.id] = imported
                return
            what = f'the id {brief(imported.id)} is that of the dialogue in '
            what += f'{same.file}:{same.line} already'
            problems = (Problem(imported.file, imported.line, what),)
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
    imports = ImportedDialogues()
    self_chat_files: list[SourceFile] = []
    with bar_of('read', None, delay=1) as bar:
        for imports.format, source in read_sources(paths, wanted, columns):
            form = FORMATS[imports.format]
            file_rules = rules
            if rules.self_chats is None:
                file_rules = replace(rules, self_chats=form.self_chats)
            text = '\n'.join(source.lines).encode('utf-8', 'surrogateescape')
            checksum = hashlib.sha256(text).hexdigest()[:16]
            imports.files.append((Path(source.file).name, checksum))
            if not rules.name_by_file and imports.format == 'parlai':
                _check_one_model(self_chat_files, source)
            for source_dialogue in form.read(source):
                bar.update()
                imports.add(apply_rules(source_dialogue, source.stem, file_rules))
                if imports.problems and not skip_bad_rows:
                    first = next(iter(imports.problems))
                    hint = ' (--skip-bad-rows leaves it out)'
                    raise UserError(f'{first}{"" if skip_bad_rows is None else hint}')
    _check(imports, rules)
    return imports


def _check(imports: ImportedDialogues, rules: ImportRules) -> None:
    """
    Refuse an import without dialogues, and names that differ too little.
    """
    if not imports.dialogues:
        lost = [f'{imports.n_left_out} cannot be read'] if imports.n_left_out else []
        lost += [f'{imports.n_people} are of people only'] if imports.n_people else []
        first = ''.join(f'; the first bad row: {p}' for p in [*imports.problems][:1])
        raise UserError(
            f'no dialogues to import: {", ".join(lost) or "none is there"}{first}'
        )
    folded: dict[str, str] = {}
    for name in imports.names:
        other = folded.setdefault(' '.join(name.casefold().split()), name)
        if other != name:
            raise UserError(
                f'one bot named twice? {brief(other)} and {brief(name)} differ in case '
                f'or blanks only; make them one or two: --rename {name}=NEW'
            )
    if imports.n_people or imports.n_left_out:
        return  # the speaker that is meant may be in one of these
    names, rename, humans = imports.names, rules.new_names, rules.people
    for old, new in rename.items():
        if new not in names:
            raise UserError(f'--rename {old}={new}: {nearest(old, names)}')
    for name in sorted(humans - {*names, *rename}):
        raise UserError(
            f'--humans {name}: no speaker has this name; {nearest(name, names)}'
        )


def _check_one_model(before: list[SourceFile], source: SourceFile) -> None:
    """
    Refuse self-chats of two models, which ParlAI may call by one name, their class.
    """
    model = self_chat_model(source)
    if model is None:
        return
    before.append(source)
    if self_chat_model(before[0]) != model:
        raise UserError(
            f'{before[0].file} and {source.file} are self-chats of two models '
            '(model_file in .metadata), whose speakers ParlAI may call by one name; '
            'tell them apart with --name-by-file'
        )
