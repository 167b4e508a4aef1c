"""
Preflight: two dialogues a system before a long run, to see whether it is fit to talk.

Each system talks with a script, so that no system is blamed for another. Nothing of it
is kept; the run folder is not touched.
"""

import itertools
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.collect.plan import Plan
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue, Pairing, content_id, is_floor
from parlai_ext.engines.machine import Machine
from parlai_ext.store import RunFolder
from parlai_ext.systems.players import Player
from parlai_ext.systems.spending import spending_of
from parlai_ext.view.progress import bar_of
from parlai_ext.worlds.block_player import BlockPlayer
from parlai_ext.worlds.lockstep import BatchRow

DIALOGUES = 2
# generated utterances in a dialogue, three replies of the system among them
GENERATED = 6
CANNOT = 'cannot be loaded: '
SCRIPT = 'preflight script'
LINES = (
    'That is interesting. Can you tell me more about it?',
    'I see. How do you feel about that?',
    'I had a busy week myself. What do you like to do in your free time?',
    'Maybe you are right. What would you do in my place?',
    'It was nice to hear that. What are your plans for today?',
    'Thank you for telling me. Is there anything you want to ask me?',
)
# a short reply may repeat what was said by chance, every second one does not
COPIED_SHARE = 0.5
FEWEST_COPIES = 2
# a reply that begins with so many words of what it heard was copied
QUOTED_WORDS = 4
SHOWN = 60


class Script(Agent):
    """
    An agent that says prepared lines, whatever it hears; its clones say others.
    """

    def __init__(self, opt: Any, shared: Any = None):
        super().__init__(opt, shared)
        self.id = SCRIPT
        self.lines = shared['lines'] if shared else itertools.cycle(LINES)

    def share(self) -> dict[str, Any]:
        """
        Return what a clone needs; all take their lines from one supply.
        """
        return {**super().share(), 'lines': self.lines}

    def act(self) -> Message:
        """
        Return the next line.
        """
        return Message(id=self.id, text=next(self.lines), episode_done=False)


class HeardReply(NamedTuple):
    """
    One reply, the utterance right before it, and the dialogue's first utterance.
    """

    text: str
    heard: str
    first: str


@dataclass(frozen=True)
class SystemCheck:
    """
    Why a system stops a run (`None`: it does not), and what is odd about its replies.
    """

    system: str
    stop: str | None = None
    warnings: tuple[str, ...] = ()
    n_replies: int = 0


def preflight(plan: Plan, machine: Machine, run: RunFolder | None) -> list[SystemCheck]:
    """
    Let every system that the run needs talk with the script, and check its replies.

    :param run: the run folder as it is, `None` when it is not there yet.
    """
    player = BlockPlayer.from_plan(plan, machine)
    blocks = player.missing_blocks(run)
    needed = {name for block in blocks for name in player.speakers(block)}
    systems = plan.roster.systems
    names = [system.name for system in systems if system.name in needed]
    checks = []
    with bar_of('preflight', len(names), unit='system') as bar:
        for i, name in enumerate(names):
            checks.append(try_system(player, name, i))
            bar.update()
    player.cache.clear()
    return checks


def try_system(player: BlockPlayer, name: str, index: int) -> SystemCheck:
    """
    Play a system's dialogues with the script as the run plays, and check its replies.

    :param index: chooses the openers, others for each index as far as there are.
    """
    plan, problems = player.plan, player.cache.problems
    loaded = player.cache.load_all([plan.roster.system(name)])
    if name not in loaded:
        return SystemCheck(name, CANNOT + _reason(name, problems))
    places = range(DIALOGUES * index, DIALOGUES * (index + 1))
    openers = [plan.openers[place % len(plan.openers)] for place in places]
    given = max(len(opener.utterances) for opener in openers)
    pair = Pairing('preflight', name, SCRIPT, 'preflight')
    before = tokens_written(loaded[name])
    dialogues = player.play_rows(
        [BatchRow(pair, opener) for opener in openers],
        {name: loaded[name], SCRIPT: Player(SCRIPT, Script({}))},
        min(plan.protocol.num_turns, given + GENERATED),
        content_id('preflight', plan.protocol.seed, name),
    )
    if name in problems:
        return SystemCheck(name, _reason(name, problems))
    played = [dialogue for dialogue in dialogues if dialogue]
    # a floor, and a system whose place in the ranking is planted
    bad_on_purpose = is_floor(name) or name in plan.protocol.planted_systems
    check = check_system(name, played, bad_on_purpose=bad_on_purpose)
    texts = [reply.text for d in played for reply in replies_in(d, name)]
    cut = cut_warning(loaded[name], texts, before)
    return replace(check, warnings=(*check.warnings, *([cut] if cut else [])))


def _reason(name: str, problems: Mapping[str, str]) -> str:
    return problems[name].removeprefix(f'system {name!r}: ')


def cut_warning(player: Player, texts: Sequence[str], before: float) -> str | None:
    """
    Return a warning when all replies are as long as the agent's options allow.

    :param before: the tokens that the system had written before these replies.
    """
    cap = player.longest_reply or 0
    if cap <= 0 or not texts:
        return None
    if written := tokens_written(player) - before:
        is_cut = written >= cap * len(texts)
    else:  # the end token is one
        is_cut = min(player.count_tokens(texts) or [0]) >= cap - 1
    return f'all replies are cut at the longest, {cap} tokens' if is_cut else None


def tokens_written(player: Player) -> float:
    """
    Return how many tokens a system has written, 0 when it does not count them.
    """
    return (spending_of(player.agent) or {}).get('completion_tokens') or 0


def check_system(
    system: str, dialogues: Sequence[Dialogue], *, bad_on_purpose: bool = False
) -> SystemCheck:
    """
    Return what is wrong with a system's replies in these dialogues.

    :param bad_on_purpose: it is meant to say the same whatever it hears, as a floor
        does; copied replies are a warning then.
    """
    replies = [replies_in(dialogue, system) for dialogue in dialogues]
    broken = [str(d.reason) for d in dialogues if d.ended_by == system]
    stop = f'{broken[0]} (dialogue ended)' if broken else empty_replies_problem(replies)
    copied = copied_replies_problem(replies)
    if copied and not stop and not bad_on_purpose:
        stop, odd = copied, None
    else:
        odd = copied or constant_replies_warning(replies)
    return SystemCheck(system, stop, (odd,) if odd else (), sum(map(len, replies)))


def replies_in(dialogue: Dialogue, system: str) -> list[HeardReply]:
    """
    Return the replies that a system generated in a dialogue.
    """
    turns = dialogue.utterances
    return [
        HeardReply(turn.text, turns[i - 1].text, turns[0].text)
        for i, turn in enumerate(turns)
        if i and turn.speaker == system and not turn.given
    ]


def empty_replies_problem(dialogues: Sequence[Sequence[HeardReply]]) -> str | None:
    """
    Return the reason to stop when no reply has a word in it, otherwise `None`.
    """
    replies = [reply for dialogue in dialogues for reply in dialogue]
    if replies and not any(re.search(r'\w', r.text) for r in replies):
        return f'empty replies: nothing but {_quoted(replies[0].text)}'
    return None


def copied_replies_problem(dialogues: Sequence[Sequence[HeardReply]]) -> str | None:
    """
    Return the reason to stop when half of the replies repeat the utterance before
    them, or when they are the same in all dialogues; otherwise `None`.

    :param dialogues: the replies of one system, dialogue by dialogue.
    """
    replies = [reply for dialogue in dialogues for reply in dialogue]
    repeated = [reply for reply in replies if is_repeat(reply)]
    if len(repeated) >= max(FEWEST_COPIES, COPIED_SHARE * len(replies)):
        return (
            f'copied replies: {len(repeated)} of {len(replies)} repeat what was heard '
            f'({_quoted(repeated[0].text)})'
        )
    several = [dialogue for dialogue in dialogues if len(dialogue) > 1]
    texts = {tuple(plain_words(r.text) for r in dialogue) for dialogue in several}
    heard = {tuple(plain_words(r.heard) for r in dialogue) for dialogue in several}
    if len(texts) == 1 and len(heard) > 1:
        return (
            'copied replies: the same in all dialogues, whatever the other said '
            f'({_quoted(several[0][0].text)}, …)'
        )
    return None


def is_repeat(reply: HeardReply) -> bool:
    """
    True if a reply is the utterance before it, or begins with that or with the
    dialogue's first utterance (as a model does whose prompt was not cut off).
    """
    mine, heard = plain_words(reply.text), plain_words(reply.heard)
    if mine and mine == heard:
        return True
    words = mine.split()
    quotes = [heard.split(), plain_words(reply.first).split()]
    return any(len(q) >= QUOTED_WORDS and words[: len(q)] == q for q in quotes)


def constant_replies_warning(dialogues: Sequence[Sequence[HeardReply]]) -> str | None:
    """
    Return a warning when a system says one thing throughout each dialogue, otherwise
    `None`.
    """
    several = [dialogue for dialogue in dialogues if len(dialogue) > 1]
    if several and all(len({plain_words(r.text) for r in d}) == 1 for d in several):
        return f'says one thing throughout a dialogue ({_quoted(several[0][0].text)})'
    return None


def plain_words(text: str) -> str:
    """
    Return a text without case, punctuation and odd spaces.

    >>> plain_words("Well,  I'm FINE .")
    'well i m fine'
    """
    return ' '.join(re.findall(r'\w+', text.casefold()))


def _quoted(text: str) -> str:
    line = ' '.join(text.split())
    return repr(line if len(line) <= SHOWN else line[: SHOWN - 1] + '…')


def check_report(checks: Sequence[SystemCheck]) -> list[str]:
    """
    Return one line for each system, with what is wrong with it below.
    """
    width = max((len(check.system) for check in checks), default=0)
    lines = []
    for check in checks:
        word = 'STOP' if check.stop else 'warn' if check.warnings else 'ok'
        lines.append(
            f'preflight  {check.system:{width}}  {word:4}  {check.n_replies} replies'
        )
        reasons = [check.stop] if check.stop else []
        lines += [f'           {"":{width}}  {r}' for r in (*reasons, *check.warnings)]
    return lines


def stop_unless_fit(
    checks: Sequence[SystemCheck], *, skip_missing: bool = False
) -> None:
    """
    End a command whose systems are not fit to talk.

    :param skip_missing: the run does without systems that cannot be loaded.
    :raises UserError: one line that names them all, with reasons.
    """
    stops = [check for check in checks if check.stop]
    if skip_missing and len(stops) < len(checks):
        stops = [check for check in stops if not (check.stop or '').startswith(CANNOT)]
    if stops:
        reasons = '; '.join(f'system {check.system!r}: {check.stop}' for check in stops)
        raise UserError(
            f'preflight: {len(stops)} of {len(checks)} systems are not fit to talk, so '
            f'nothing was collected: {reasons}'
        )
