"""
All dialogues of some files, checked together: names, ids, and what is left out.
"""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path

from tqdm import tqdm

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.data.formats import FORMATS, sources
from parlai_ext.data.parlai_conversations import judged_model
from parlai_ext.data.two_speakers import Rules, Settled, settle
from parlai_ext.data.source_dialogue import Problem, Source, brief


@dataclass
class Haul:
    """
    What files hold: the dialogues to import, and what is not imported and why.

    `n_left_out` counts dialogues that `problems` (bad rows) spoil; `n_people` those in
    which only people speak, who are not judged. `files` maps names to checksums.
    """

    format: str = ''
    dialogues: list[Settled] = field(default_factory=list)
    problems: dict[Problem, None] = field(default_factory=dict)
    n_left_out: int = 0
    n_people: int = 0
    files: list[tuple[str, str]] = field(default_factory=list)

    @property
    def names(self) -> list[str]:
        """
        Everybody who speaks, by name.
        """
        return sorted({name for d in self.dialogues for name in (d.first, d.second)})

    @property
    def humans(self) -> frozenset[str]:
        """
        Those of them who are people and are not judged.
        """
        return frozenset().union(*(dialogue.humans for dialogue in self.dialogues))

    @property
    def silent(self) -> dict[str, int]:
        """
        How many empty turns were kept, by system.
        """
        said = Counter(
            turn.speaker
            for dialogue in self.dialogues
            for turn in dialogue.turns
            if not turn.text.strip() and turn.speaker not in dialogue.humans
        )
        return dict(sorted(said.items()))

    def refuse(self, problems: Sequence[Problem]) -> None:
        """
        Count a dialogue that cannot be had.
        """
        self.problems.update(dict.fromkeys(problems))
        self.n_left_out += 1


def gather(
    paths: Sequence[Path],
    wanted: str | None,
    rules: Rules,
    *,
    self_chats: bool | None = None,
    skip_bad_rows: bool | None = False,
    progress: bool = True,
) -> Haul:
    """
    Return the dialogues of these files.

    :param wanted: their format; `None` has it found.
    :param self_chats: replaces the format's own habit.
    :param skip_bad_rows: leave out what cannot be read instead of stopping there;
        `None` where a user cannot ask for that.
    :raises UserError: for the first bad row, for names that cannot be told apart, and
        when nothing is left.
    """
    haul = Haul()
    ids: dict[str, Settled] = {}
    self_chats_of: list[Source] = []
    with tqdm(desc='read', unit=' dialogues', disable=not progress, delay=1) as bar:
        for haul.format, source in sources(paths, wanted):
            form = FORMATS[haul.format]
            own = replace(
                rules, self_chats=form.self_chats if self_chats is None else self_chats
            )
            haul.files.append((Path(source.file).name, _checksum(source)))
            if not rules.name_by_file and haul.format == 'parlai':
                _one_model(self_chats_of, source)
            for talk in form.read(source):
                bar.update()
                _take(haul, settle(talk, source.stem, own), ids)
                if haul.problems and not skip_bad_rows:
                    first = next(iter(haul.problems))
                    hint = ' (--skip-bad-rows leaves it out)'
                    raise UserError(f'{first}{"" if skip_bad_rows is None else hint}')
    _check(haul, rules)
    return haul


def _take(
    haul: Haul, one: Settled | tuple[Problem, ...], ids: dict[str, Settled]
) -> None:
    """
    Put a dialogue where it belongs.
    """
    if not isinstance(one, Settled):
        haul.refuse(one)
    elif {one.first, one.second} <= one.humans:
        haul.n_people += 1
    elif one.id is not None and one.id in ids:
        where = f'{ids[one.id].file}:{ids[one.id].line}'
        what = f'the id {brief(one.id)} is that of the dialogue in {where} already'
        haul.refuse([Problem(one.file, one.line, what)])
    else:
        haul.dialogues.append(one)
        if one.id is not None:
            ids[one.id] = one


def _check(haul: Haul, rules: Rules) -> None:
    """
    Refuse an empty haul, and names that cannot be what was meant.
    """
    if not haul.dialogues:
        lost = [f'{haul.n_left_out} cannot be read'] if haul.n_left_out else []
        lost += [f'{haul.n_people} are of people only'] if haul.n_people else []
        first = ''.join(f'; the first bad row: {p}' for p in [*haul.problems][:1])
        raise UserError(
            f'no dialogues to import: {", ".join(lost) or "none is there"}{first}'
        )
    folded: dict[str, str] = {}
    for name in haul.names:
        other = folded.setdefault(' '.join(name.casefold().split()), name)
        if other != name:
            raise UserError(
                f'one bot named twice? {brief(other)} and {brief(name)} differ in case '
                f'or blanks only; make them one or two: --rename {name}=NEW'
            )
    _check_options(haul, rules)


def _check_options(haul: Haul, rules: Rules) -> None:
    """
    Refuse options that speak of nobody.
    """
    if haul.n_people or haul.n_left_out:
        return  # whoever is meant may be in one of these
    names, rename, humans = haul.names, rules.rename, rules.humans
    for old, new in rename.items():
        if new not in names:
            raise UserError(f'--rename {old}={new}: {nearest(old, names)}')
    for name in sorted(humans - {*names, *rename}):
        raise UserError(
            f'--humans {name}: nobody has this name; {nearest(name, names)}'
        )


def _one_model(before: list[Source], source: Source) -> None:
    """
    Refuse self-chats of two models, which ParlAI may call by one name, their class.
    """
    model = judged_model(source)
    if model is None:
        return
    before.append(source)
    if judged_model(before[0]) != model:
        raise UserError(
            f'{before[0].file} and {source.file} are self-chats of two models '
            '(model_file in .metadata), whose speakers ParlAI may call by one name; '
            'tell them apart with --name-by-file'
        )


def _checksum(source: Source) -> str:
    text = '\n'.join(source.lines).encode('utf-8', 'surrogateescape')
    return hashlib.sha256(text).hexdigest()[:16]
