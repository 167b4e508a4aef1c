"""
Agents of ParlAI that misbehave, each in one way, and one that does not.
"""

import itertools
import os
import random
import signal
import sys
import threading
import time
from collections.abc import Callable
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
import yaml
from parlai.agents.fixed_response.fixed_response import FixedResponseAgent
from parlai.core.agents import Agent
from parlai.core.message import Message

WORDS = ('tea', 'rain', 'book', 'song', 'hill', 'boat', 'bread', 'garden')
TABLE = yaml.safe_load(Path(__file__).with_name('cases.yaml').read_text())['says']
# what is no text, or no utterance: the dialogue ends there
NO_TEXTS: dict[str, Any] = {**TABLE['no texts'], 'HugeText': 'tea ' * 12_500_000}
# texts, and how they are stored: as they are, or with U+FFFD for half a character
TEXTS: dict[str, str] = {**TABLE['texts'], 'LargeText': 'tea ' * 100_000}


class Talker(Agent):
    """
    Says five words that depend on the last utterance that it heard.
    """

    def __init__(self, opt: Any, shared: Any = None) -> None:
        super().__init__(opt, shared)
        self.id = type(self).__name__

    def act(self) -> Message:
        """
        Reply at once.
        """
        digest = sha256((self.observation.get('text') or '').encode()).digest()
        text = ' '.join(WORDS[byte % len(WORDS)] for byte in digest[:5])
        return Message(id=self.id, text=text, episode_done=False)


class Raises(FixedResponseAgent):
    """
    Raises the words that are its option in the place of a reply.
    """

    def act(self) -> NoReturn:
        raise RuntimeError(self.fixed_response)


class Fails(Raises):
    """
    Raises them when it is made.
    """

    def __init__(self, opt: Any, shared: Any = None):
        super().__init__(opt, shared)
        self.act()


class WithoutWords(Exception):
    """
    An exception that cannot be turned into words.
    """

    def __str__(self) -> NoReturn:
        raise RuntimeError('no words')


# what an agent has in the place of methods of `Talker`
Methods = dict[str, Callable[..., Any]]


def _says(text: Any) -> Methods:
    return {'act': lambda self: Message(id=self.id, text=text, episode_done=False)}


def _raises(error: BaseException, *names: str) -> Methods:
    def method(*args: Any, **kwargs: Any) -> NoReturn:
        raise error

    return dict.fromkeys(names or ('act',), method)


def _does(*deeds: Callable[[], object]) -> Methods:
    def act(self: Talker) -> Message:
        for deed in deeds:
            deed()
        return Talker.act(self)

    return {'act': act}


def _change_what_was_heard(self: Talker, observation: Any) -> Any:
    for key in ('text', 'id') if 'text' in observation else ():
        observation.force_set(key, 'changed')
    return Talker.observe(self, observation)


AGENTS: dict[str, Methods] = {
    **{name: _says(text) for name, text in {**NO_TEXTS, **TEXTS}.items()},
    'NoText': {'act': lambda self: Message(id=self.id, episode_done=False)},
    'NoReply': {'act': lambda self: None},
    'ListReply': {'act': lambda self: ['tea']},
    'FewerReplies': {'batch_act': lambda self, observations: [self.act()]},
    'HangsAtAct': _does(lambda: time.sleep(10**6)),
    # in C code, which looks at no signal
    'LoopsAtAct': _does(lambda: all(itertools.repeat(True))),
    'CrashesAtLoad': _raises(RuntimeError('no\nsuch \x1b[31mdevice'), '__init__'),
    'CrashesAtAct': _raises(RuntimeError('the tokenizer\nis \x1b[31mgone')),
    'CrashesAtObserve': _raises(KeyError('text'), 'observe'),
    # it cannot be cloned for another dialogue, nor be reset
    'CrashesAtReset': _raises(RuntimeError('there is one'), 'reset', 'clone'),
    'RaisesWithBadWords': _raises(WithoutWords()),
    'OutOfMemory': _does(lambda: 'x' * 10**13),
    'OutOfMemoryAtLoad': {
        '__init__': lambda *args, **more: [b'x' * 2**26 for _ in itertools.count()]
    },
    'RaisesRecursion': {'act': lambda self: self.act()},
    'RaisesSystemExit': _raises(SystemExit(0)),
    'RaisesKeyboardInterrupt': _raises(KeyboardInterrupt()),
    'RaisesGeneratorExit': _raises(GeneratorExit()),
    'EndsTheProcess': _does(lambda: os._exit(0)),
    # as a fault in native code does
    'KillsTheProcess': _does(lambda: os.kill(os.getpid(), signal.SIGSEGV)),
    'ChangesWhatItHeard': {'observe': _change_what_was_heard},
    'PrintsRubbish': _does(
        lambda: print('\x1b]0;owned\x07' + 'x' * 1000),
        lambda: print('error: everything is lost', file=sys.stderr),
    ),
    'ClosesOutput': _does(lambda: sys.stdout.close()),
    'WritesFiles': _does(lambda: Path('manifest.json').write_text('{}')),
    'ChangesFolder': _does(lambda: os.chdir('..')),
    'SeedsRandomNumbers': _does(
        lambda: random.seed(1),
        lambda: np.random.seed(1),
        lambda: torch.manual_seed(1),
        lambda: torch.set_default_dtype(torch.float64),
        lambda: torch.set_grad_enabled(False),
    ),
    'StartsThreads': _does(
        lambda: threading.Thread(target=threading.Event().wait).start()
    ),
    'TakesSignals': _does(
        lambda: signal.signal(signal.SIGINT, signal.SIG_IGN),
        lambda: signal.signal(signal.SIGTERM, signal.SIG_IGN),
    ),
}
for name, methods in AGENTS.items():  # where a roster's `module:Class` finds them
    globals()[name] = type(name, (Talker,), methods)
