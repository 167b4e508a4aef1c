"""
Agents of ParlAI that misbehave, each in one way, and one that does not.

Those of `REPLIES` say something that is no plain text; the other classes do something.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import threading
import time
from hashlib import sha256
from pathlib import Path
from typing import Any, NoReturn

import numpy as np
import torch
from parlai.core.agents import Agent
from parlai.core.message import Message

WORDS = ('tea', 'rain', 'book', 'song', 'hill', 'boat', 'bread', 'garden')
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


class Talker(Agent):
    """
    Says words that depend on what it heard.
    """

    def __init__(self, opt: Any, shared: Any = None):
        super().__init__(opt, shared)
        self.id = type(self).__name__

    def act(self) -> Message:
        """
        Return five words.
        """
        digest = sha256((self.observation.get('text') or '').encode()).digest()
        text = ' '.join(WORDS[byte % len(WORDS)] for byte in digest[:5])
        return Message(id=self.id, text=text, episode_done=False)


def says(name: str, text: Any) -> type[Talker]:
    """
    Return a class of agents that say one text.
    """

    def act(self: Talker) -> Message:
        return Message(id=self.id, text=text, episode_done=False)

    return type(name, (Talker,), {'act': act, '__module__': __name__})


globals().update({name: says(name, text) for name, text in NO_TEXTS.items()})
globals().update({name: says(name, text) for name, text in TEXTS.items()})


class NoText(Talker):
    """
    Replies without a text.
    """

    def act(self) -> Message:
        return Message(id=self.id, episode_done=False)


class NoReply(Talker):
    """
    Replies nothing.
    """

    def act(self) -> None:
        return None


class ListReply(Talker):
    """
    Replies with a list in the place of a message.
    """

    def act(self) -> list[str]:
        return ['tea']


class FewerReplies(Talker):
    """
    Replies once to a batch.
    """

    def batch_act(self, observations: Any) -> list[Message]:
        return [self.act()]


class HangsAtAct(Talker):
    """
    Never replies.
    """

    def act(self) -> NoReturn:
        while True:
            time.sleep(60)


class LoopsAtAct(Talker):
    """
    Never replies, and computes meanwhile.
    """

    def act(self) -> NoReturn:
        while True:
            pass


class CrashesAtLoad(Talker):
    """
    Cannot be made.
    """

    def __init__(self, opt: Any, shared: Any = None):
        raise RuntimeError('no\nsuch \x1b[31mdevice')


class CrashesAtAct(Talker):
    """
    Raises in the place of a reply.
    """

    def act(self) -> NoReturn:
        raise RuntimeError('the tokenizer\nis \x1b[31mgone')


class CrashesAtObserve(Talker):
    """
    Raises when it hears something.
    """

    def observe(self, observation: Any) -> NoReturn:
        raise KeyError('text')


class CrashesAtReset(Talker):
    """
    Cannot be cloned for another dialogue, nor be reset.
    """

    def reset(self) -> NoReturn:
        raise RuntimeError('it cannot begin anew')

    def clone(self) -> NoReturn:
        raise RuntimeError('there is only one of it')


class RaisesWithBadWords(Talker):
    """
    Raises an exception that cannot be turned into words.
    """

    def act(self) -> NoReturn:
        class Bad(Exception):
            def __str__(self) -> NoReturn:
                raise RuntimeError('no words')

        raise Bad


class OutOfMemory(Talker):
    """
    Asks for more memory than there is.
    """

    def act(self) -> Message:
        return Message(id=self.id, text='x' * 10**13, episode_done=False)


class OutOfMemoryAtLoad(Talker):
    """
    Takes memory until there is none.
    """

    def __init__(self, opt: Any, shared: Any = None):
        super().__init__(opt, shared)
        self.parts: list[bytes] = []
        while True:
            self.parts.append(b'x' * 2**26)


class RaisesRecursion(Talker):
    """
    Calls itself without an end.
    """

    def act(self) -> Message:
        return self.act()


class RaisesSystemExit(Talker):
    """
    Asks Python to end.
    """

    def act(self) -> NoReturn:
        sys.exit(0)


class RaisesKeyboardInterrupt(Talker):
    """
    Pretends that somebody pressed Ctrl-C.
    """

    def act(self) -> NoReturn:
        raise KeyboardInterrupt


class RaisesGeneratorExit(Talker):
    """
    Raises what is no `Exception`.
    """

    def act(self) -> NoReturn:
        raise GeneratorExit


class EndsTheProcess(Talker):
    """
    Ends the process at once.
    """

    def act(self) -> NoReturn:
        os._exit(0)


class KillsTheProcess(Talker):
    """
    Ends the process as a fault in native code does.
    """

    def act(self) -> NoReturn:
        os.kill(os.getpid(), signal.SIGSEGV)
        time.sleep(60)
        raise AssertionError


class ChangesWhatItHeard(Talker):
    """
    Changes the observation that it was given.
    """

    def observe(self, observation: Any) -> Any:
        if 'text' in observation:
            observation.force_set('text', 'changed')
            observation.force_set('id', 'changed')
        return super().observe(observation)


class PrintsRubbish(Talker):
    """
    Prints what a terminal obeys, and closes standard output.
    """

    def act(self) -> Message:
        print('\x1b]0;owned\x07' + 'x' * 1000)
        print('error: everything is lost', file=sys.stderr)
        return super().act()


class ClosesOutput(Talker):
    """
    Closes standard output.
    """

    def act(self) -> Message:
        sys.stdout.close()
        return super().act()


class WritesFiles(Talker):
    """
    Writes into the working folder.
    """

    def act(self) -> Message:
        Path('manifest.json').write_text('{}')
        return super().act()


class ChangesFolder(Talker):
    """
    Goes to another folder.
    """

    def act(self) -> Message:
        os.chdir('..')
        return super().act()


class SeedsRandomNumbers(Talker):
    """
    Seeds all random numbers, and gives torch another default.
    """

    def act(self) -> Message:
        random.seed(1)
        np.random.seed(1)
        torch.manual_seed(1)
        torch.set_default_dtype(torch.float64)
        torch.set_grad_enabled(False)
        return super().act()


class StartsThreads(Talker):
    """
    Starts threads that never end.
    """

    def act(self) -> Message:
        threading.Thread(target=threading.Event().wait).start()
        return super().act()


class TakesSignals(Talker):
    """
    Lets no signal end the process.
    """

    def act(self) -> Message:
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_IGN)
        return super().act()
