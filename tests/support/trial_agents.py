"""
Agents that try a trial: each is fit or unfit to talk in one way.

Time passes where `CLOCK` says; only `SlowTalker` takes any.
"""

import time
from hashlib import sha256

from parlai.core.agents import Agent
from parlai.core.message import Message

# tiny models know them
WORDS = (
    *('i', 'you', 'we', 'like', 'saw', 'old', 'blue', 'again'),
    *('tea', 'rain', 'book', 'song', 'hill', 'boat', 'bread', 'garden'),
)


class Clock:
    """
    A clock that only agents move.
    """

    now = 0.0

    def __call__(self):
        return self.now


CLOCK = Clock()
BATCHES = []


class Talker(Agent):
    """
    Says words that depend on what it heard, which takes its time and its money.

    Loading takes 2 s, a batch of n replies 0.5 + 0.25 n s, a reply $0.01.
    """

    def __init__(self, opt, shared=None):
        super().__init__(opt, shared)
        self.id = 'Talker'
        self.used = shared['used'] if shared else {'n': 0}
        if shared is None:
            CLOCK.now += 2

    def share(self):
        return {**super().share(), 'used': self.used}

    @property
    def usage(self):
        n = self.used['n']
        return {
            'requests': n,
            'cached': 0,
            'prompt_tokens': 30 * n,
            'completion_tokens': 5 * n,
            'cost': 0.01 * n,
        }

    def batch_act(self, observations):
        n = len(observations)
        BATCHES.append(n)
        self.used['n'] += n
        CLOCK.now += 0.5 + 0.25 * n
        return [self.reply(seen.get('text') or '') for seen in observations]

    def reply(self, heard):
        digest = sha256(heard.encode()).digest()
        text = ' '.join(WORDS[byte % len(WORDS)] for byte in digest[:5])
        return Message(id=self.id, text=text, episode_done=False)


class SlowStart(Talker):
    """
    Sets much up in its first batch, which takes 10 s more.
    """

    def batch_act(self, observations):
        CLOCK.now += 0 if self.used['n'] else 10
        return super().batch_act(observations)


class SlowTalker(Talker):
    """
    Takes 30 ms of true time for a reply, so that a run can be disturbed in the middle.
    """

    usage = None

    def batch_act(self, observations):
        time.sleep(0.03 * len(observations))
        return [self.reply(seen.get('text') or '') for seen in observations]


class Cached(Talker):
    """
    Half of its replies cost nothing.
    """

    @property
    def usage(self):
        n = self.used['n']
        half = {'requests': n / 2, 'cached': n / 2, 'prompt_tokens': 0}
        return {**half, 'completion_tokens': 0, 'cost': 0.01 * n / 2}


class Capped(Talker):
    """
    May write five tokens, and always does.
    """

    label_truncate = 5


class Raises(Agent):
    """
    Raises instead of replying.
    """

    def act(self):
        raise RuntimeError('the tokenizer is gone')


class Quotes(Agent):
    """
    Raises an error that quotes what it heard, as endpoints do.
    """

    def act(self):
        raise RuntimeError(f'cannot tokenize: {self.observation["text"]}')


class Silent(Agent):
    """
    Replies an empty text.
    """

    text = ''

    def act(self):
        return Message(id='Silent', text=self.text, episode_done=False)


class Dots(Silent):
    """
    Replies with nothing to read.
    """

    text = '...'


class Unbuildable(Agent):
    """
    Cannot be loaded.
    """

    def __init__(self, opt, shared=None):
        raise RuntimeError('no such device')
