"""
Turns the dialogue of a file into one of two systems that take turns, or refuses it.

Nothing is mended unless an option asks for it.
"""

import re
from collections.abc import Mapping, Sequence, Set
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import groupby, pairwise

from parlai_ext.core.options import named_pairs, one_value, option
from parlai_ext.data.source_file import (
    Problem,
    SourceDialogue,
    SourceTurn,
    brief,
)

# what generation leaves at the end of a text, whole or cut off
MARKERS = re.compile(r'\s*<\s*(?:/\s*s|s|pad|bos|eos|\|endoftext\|)\s*(?:>|$)')
SIDE = re.compile(r'(.+)_([12])')
EMPTY_TURNS = ('refuse', 'keep')


@dataclass(frozen=True)
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
    self_chats: bool | None = option(
        None,
        help='NAME_1 and NAME_2 in one dialogue are NAME with itself (default: yes in '
        'the formats chatmatch and parlai)',
    )
    name_by_file: bool = option(
        False, help='call a system NAME@FILE, to tell files apart'
    )
    rename: tuple[str, ...] = option(
        (), read=one_value, metavar='OLD=NEW', help='call a system NEW'
    )
    humans: str | None = option(
        None, help='names, by commas, of people: they speak and are not judged'
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
    alone = len(speakers) == 1 and source.self_chat
    if problem := _first_problem(source, turns, speakers, alone, rules):
        line, text = problem
        problems = (Problem(source.file, line, source.place + text),)
        return replace(source, problems=problems)
    one_system = bool(source.self_chat or rules.self_chats)
    names = _system_names(speakers, one_system and not source.two_systems)
    people = _human_speakers(names, source.humans | rules.people, rules.new_names)
    run_names = {}
    for old, name in names.items():
        by_file = rules.name_by_file and stem and old not in people
        full = f'{name}@{stem}' if by_file else name
        run_names[old] = rules.new_names.get(full, full)
    first, second = run_names[speakers[0]], run_names[speakers[-1]]
    if first == second and len(set(names.values())) == 2:
        text = f'both speakers are called {brief(first)} by now; --rename one of them'
        return replace(source, problems=(Problem(source.file, source.line, text),))
    humans = set() if rules.judge_humans else {run_names[old] for old in people}
    renamed_turns = tuple(
        replace(
            turn,
            speaker=run_names[turn.speaker],
            # no system produced the turns of people, and empty ones
            given=turn.given
            or run_names[turn.speaker] in humans
            or not turn.text.strip(),
        )
        for turn in turns
    )
    return replace(
        source,
        turns=renamed_turns,
        humans=frozenset(humans),
        num_joined=len(source.turns) - len(turns),
    )


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
    source: SourceDialogue,
    turns: Sequence[SourceTurn],
    speakers: Sequence[str],
    alone: bool,
    rules: ImportRules,
) -> tuple[int, str] | None:
    """
    Return the line and the description of the first problem.
    """
    if not turns:
        return source.line, 'no turns: the dialogue is empty'
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
        return source.line, (
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


def _human_speakers(
    names: Mapping[str, str], humans: Set[str], renamed: Mapping[str, str]
) -> set[str]:
    """
    Return the speakers who are people.

    :param names: the system behind each speaker.
    :param humans: people, by their name in the file or in the run.
    """
    return {
        speaker
        for speaker, name in names.items()
        if humans & {speaker, name, renamed.get(name)}
    }
