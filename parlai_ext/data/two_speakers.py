"""
From a talk to a dialogue of two systems that take turns, or what is in the way.

Nothing is mended unless an option asks for it.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from itertools import groupby

from parlai_ext.data.source_dialogue import Problem, Talk, Turn, brief

# what generation leaves at the end of a text, whole or cut off
MARKERS = re.compile(r'\s*<\s*(?:/\s*s|s|pad|bos|eos|\|endoftext\|)\s*(?:>|$)')
SIDE = re.compile(r'(.+)_([12])')
EMPTY_TURNS = ('refuse', 'keep')


@dataclass(frozen=True)
class Rules:
    """
    What is done to talks.

    :param self_chats: ``NAME_1`` and ``NAME_2`` in one talk are NAME with itself.
    :param humans: speakers who are people, besides those that the file names.
    :param judge_humans: people are ranked as systems are.
    """

    self_chats: bool = False
    empty_turns: str = 'refuse'
    join_turns: bool = False
    strip_markers: bool = False
    name_by_file: bool = False
    rename: Mapping[str, str] = field(default_factory=dict)
    humans: frozenset[str] = frozenset()
    judge_humans: bool = False


@dataclass(frozen=True)
class Settled:
    """
    A dialogue: the system that begins, the other one, who of them is a person, and what
    was said in turns.
    """

    first: str
    second: str
    turns: tuple[Turn, ...]
    humans: frozenset[str]
    id: str | None
    file: str
    line: int


def settle(talk: Talk, stem: str, rules: Rules) -> Settled | tuple[Problem, ...]:
    """
    Return the dialogue that a talk is, or all that is wrong with it.
    """
    if talk.problems:
        return talk.problems
    turns = _turns(talk.turns, rules)
    speakers = list(dict.fromkeys(turn.speaker for turn in turns))
    alone = len(speakers) == 1 and talk.self_chat
    if wrong := _wrong(talk, turns, speakers, alone, rules):
        return (Problem(talk.file, wrong[0], talk.place + wrong[1]),)
    names = _names(speakers, alone or talk.self_chat or rules.self_chats)
    people = {
        old
        for old, name in names.items()
        if {old, name, rules.rename.get(name)} & (talk.humans | rules.humans)
    }
    called = {
        old: _called(name, '' if old in people else stem, rules)
        for old, name in names.items()
    }
    first, second = called[speakers[0]], called[speakers[-1]]
    if first == second and len(set(names.values())) == 2:
        what = f'both speakers are called {brief(first)} by now; --rename one of them'
        return (Problem(talk.file, talk.line, what),)
    humans = set() if rules.judge_humans else {called[old] for old in people}
    told = tuple(
        replace(
            turn,
            speaker=called[turn.speaker],
            given=turn.given or not_judged(turn, called[turn.speaker] in humans),
        )
        for turn in turns
    )
    where = (talk.id, talk.file, talk.line)
    return Settled(first, second, told, frozenset(humans), *where)


def not_judged(turn: Turn, human: bool) -> bool:
    """
    Tell whether no system said a turn: a person did, or nobody anything.
    """
    return human or not turn.text.strip()


def _turns(turns: Sequence[Turn], rules: Rules) -> list[Turn]:
    """
    Return the turns with what the rules ask to mend.
    """
    if rules.strip_markers:
        turns = [replace(turn, text=MARKERS.sub('', turn.text)) for turn in turns]
    if not rules.join_turns:
        return list(turns)
    joined = []
    for _, some in groupby(turns, key=lambda turn: (turn.speaker, turn.given)):
        said = list(some)
        joined.append(replace(said[0], text='\n'.join(turn.text for turn in said)))
    return joined


def _wrong(
    talk: Talk,
    turns: Sequence[Turn],
    speakers: Sequence[str],
    alone: bool,
    rules: Rules,
) -> tuple[int, str] | None:
    """
    Return the line and the words for the first thing that is wrong.
    """
    if not turns:
        return talk.line, 'no turns: the dialogue is empty'
    if len(speakers) > 2:
        third = next(turn for turn in turns if turn.speaker == speakers[2])
        names = f'{brief(speakers[2])} after {brief(speakers[0])} and '
        what = f'a third speaker, {names}{brief(speakers[1])}; a dialogue has two'
        return third.line, what
    for turn in turns:
        if not turn.speaker:
            return turn.line, 'a turn without the name of its speaker'
        if not turn.text.strip() and rules.empty_turns == 'refuse':
            what = f'an empty turn of {brief(turn.speaker)}'
            return turn.line, f'{what}; --empty-turns keep takes it as it is'
    if len(turns) == 1:
        return turns[0].line, 'one turn only; a dialogue has two speakers'
    if len(speakers) == 1 and not alone:
        return talk.line, (
            f'one speaker only, {brief(speakers[0])}; a dialogue has two (the sides of '
            'a self-chat are told apart as NAME_1 and NAME_2, see --self-chats)'
        )
    return None if alone else _out_of_turn(turns)


def _out_of_turn(turns: Sequence[Turn]) -> tuple[int, str] | None:
    for before, turn in zip(turns, turns[1:], strict=False):
        if turn.speaker == before.speaker:
            what = f'{brief(turn.speaker)} speaks twice in a row'
            return turn.line, f'{what}; --join-turns makes one turn of that'
    return None


def _names(speakers: Sequence[str], self_chats: bool) -> dict[str, str]:
    """
    Return the system behind each speaker: one for both sides of a self-chat.
    """
    sides = [SIDE.fullmatch(name) for name in speakers]
    found = {side[2]: side[1] for side in sides if side}
    if self_chats and len(found) == 2 and found['1'] == found['2']:
        return dict.fromkeys(speakers, found['1'])
    return {name: name for name in speakers}


def _called(name: str, stem: str, rules: Rules) -> str:
    """
    Return the name that somebody has in the run.
    """
    found = f'{name}@{stem}' if stem and rules.name_by_file else name
    return rules.rename.get(found, found)
