"""
Agents of ParlAI that misbehave, each in one way, and one that does not.

Those of `NO_TEXTS` and `TEXTS` say something that is no plain text; the others do
something.
"""

import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from parlai.agents.fixed_response.fixed_response import FixedResponseAgent
from parlai.core.message import Message

from benchmarks.support.instant_agent import InstantAgent

# what is no text, or no utterance: the dialogue ends there
NO_TEXTS: dict[str, Any] = {
    'EmptyText': '',
    'BlankText': ' \n\t\u3000',
    'NoneText': None,
    'BytesText': b'tea',
    'ListText': ['tea'],
    'NumberText': 7,
    'NaNText': float('nan'),
    'HugeText': 'tea ' * 12_500_000,  # 50 MB
}
# texts, and how they are stored: as they are, or with U+FFFD for half a character
TEXTS: dict[str, str] = {
    'SurrogateText': 'tea \ud83d and \udc00',
    'BidiText': 'tea \u202e\u2066 abc \u2069\u200f\u061c',
    'ControlText': ''.join(map(chr, range(1, 32))) + '\x7f\x80\x85\x9f tea',
    'EscapeText': '\x1b]0;owned\x07\x1b]52;c;b3duZWQ=\x07\x1b[2J\x1b[?25l\x1b[31m tea',
    'NulText': 'tea\0 and \0rain',
    'LineText': 'tea\r\nrain\u2028book\u2029song\x85hill\x0bboat\x0cbread',
    'ShardText': '{"id": "x", "checksum": "0"}\n{"dialogue": [], "of": 1}\n',
    'LargeText': 'tea ' * 100_000,
}


class Talker(InstantAgent):
    """
    Says five words that depend on what it heard.
    """

    num_words = 5


class Says(FixedResponseAgent):
    """
    Says words that are an option of its.
    """


class Raises(Says):
    """
    Raises its words in the place of a reply.
    """

    def act(self) -> NoReturn:
        raise RuntimeError(self.fixed_response)


class Fails(Says):
    """
    Raises its words when it is made.
    """

    def __init__(self, opt: Any, shared: Any = None):
        super().__init__(opt, shared)
        raise RuntimeError(self.fixed_response)


class WithoutWords(Exception):
    """
    An exception that cannot be turned into words.
    """

    def __str__(self) -> NoReturn:
        raise RuntimeError('no words')


def misfit(**methods: Callable[..., Any]) -> type[Talker]:
    """
    Return a class of agents with methods in the place of those of a `Talker`.
    """
    return type('Misfit', (Talker,), methods)


def says(text: Any) -> type[Talker]:
    """
    Return a class of agents that say one text.
    """
    return misfit(act=lambda self: Message(id=self.id, text=text, episode_done=False))


def raises(error: BaseException, *names: str) -> type[Talker]:
    """
    Return a class of agents some of whose methods, by default `act`, raise.
    """

    def method(self: Talker, *args: Any, **kwargs: Any) -> NoReturn:
        raise error

    return misfit(**dict.fromkeys(names or ('act',), method))


def acts(*deeds: Callable[[], object]) -> type[Talker]:
    """
    Return a class of agents that do something before each reply.
    """

    def act(self: Talker) -> Message:
        for deed in deeds:
            deed()
        return Talker.act(self)

    return misfit(act=act)


def change_what_was_heard(self: Talker, observation: Any) -> Any:
    """
    Change the observation that was given, in the place of `observe`.
    """
    for key in ('text', 'id') if 'text' in observation else ():
        observation.force_set(key, 'changed')
    return Talker.observe(self, observation)


AGENTS: dict[str, type[Talker]] = {
    **{name: says(text) for name, text in {**NO_TEXTS, **TEXTS}.items()},
    'NoText': misfit(act=lambda self: Message(id=self.id, episode_done=False)),
    'NoReply': misfit(act=lambda self: None),
    'ListReply': misfit(act=lambda self: ['tea']),
    'FewerReplies': misfit(batch_act=lambda self, observations: [self.act()]),
    'HangsAtAct': acts(lambda: time.sleep(10**6)),
    # in C code, which looks at no signal
    'LoopsAtAct': acts(lambda: all(itertools.repeat(True))),
    'CrashesAtLoad': raises(RuntimeError('no\nsuch \x1b[31mdevice'), '__init__'),
    'CrashesAtAct': raises(RuntimeError('the tokenizer\nis \x1b[31mgone')),
    'CrashesAtObserve': raises(KeyError('text'), 'observe'),
    # it cannot be cloned for another dialogue, nor be reset
    'CrashesAtReset': raises(RuntimeError('there is one'), 'reset', 'clone'),
    'RaisesWithBadWords': raises(WithoutWords()),
    'OutOfMemory': acts(lambda: 'x' * 10**13),
    'OutOfMemoryAtLoad': misfit(
        __init__=lambda *args, **more: [b'x' * 2**26 for _ in itertools.count()]
    ),
    'RaisesRecursion': misfit(act=lambda self: self.act()),
    'RaisesSystemExit': raises(SystemExit(0)),
    'RaisesKeyboardInterrupt': raises(KeyboardInterrupt()),
    'RaisesGeneratorExit': raises(GeneratorExit()),
    'EndsTheProcess': acts(lambda: os._exit(0)),
    # as a fault in native code does
    'KillsTheProcess': acts(lambda: os.kill(os.getpid(), signal.SIGSEGV)),
    'ChangesWhatItHeard': misfit(observe=change_what_was_heard),
    'PrintsRubbish': acts(
        lambda: print('\x1b]0;owned\x07' + 'x' * 1000),
        lambda: print('error: everything is lost', file=sys.stderr),
    ),
    'ClosesOutput': acts(lambda: sys.stdout.close()),
    'WritesFiles': acts(lambda: Path('manifest.json').write_text('{}')),
    'ChangesFolder': acts(lambda: os.chdir('..')),
    'SeedsRandomNumbers': acts(
        lambda: random.seed(1),
        lambda: np.random.seed(1),
        lambda: torch.manual_seed(1),
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_grad_enabled(False),
    ),
    'StartsThreads': acts(
        lambda: threading.Thread(target=threading.Event().wait).start()
    ),
    'TakesSignals': acts(
        lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    ),
}
for class_name, agent in AGENTS.items():
    agent.__name__ = agent.__qualname__ = class_name
globals().update(AGENTS)  # where a roster's `module:Class` finds them
