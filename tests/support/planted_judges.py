"""
Dialogues with known replies, and scorers whose check has a known result.
"""

from dataclasses import dataclass

from parlai_ext.core import Dialogue, Opener, option
from parlai_ext.scoring.base import ItemScore, Scorer
from tests.support.dialogues import turns_of
from tests.support.planted_run import played_run

SYSTEMS = ('plain', 'other')
PARTNER = 'partner'


def words(*numbers):
    """
    Return a text of eight words that no other numbers give.
    """
    name = '-'.join(map(str, numbers))
    return ' '.join(f'{letter}{name}' for letter in 'abcdefgh')


def opener(j, reply=True):
    """
    Return the opener of a number, with or without a person's reply.
    """
    texts = (words('opener', j), words('answer', j))
    return Opener.from_utterances(
        texts, 'planted', words('person', j) if reply else None
    )


def dialogue(system, j, pairing='p'):
    """
    Return a dialogue of six turns in which a system speaks first.
    """
    texts = list(opener(j).utterances)
    texts += [words(system, j, i) for i in range(2, 6)]
    turns = turns_of((system, PARTNER), texts)
    return Dialogue(f'{system}{j}', pairing, opener(j).id, turns)


class Sense(Scorer):
    """
    Scores 1 for a response that was really said after its context, else 0.
    """

    name = 'sense'
    dimensions = ('Quality',)

    def prepare(self):
        """
        Begin to count the items.
        """
        self.n_scored = 0

    def score(self, items):
        """
        Return 1 or 0 for each item.
        """
        self.n_scored += len(items)
        return [ItemScore({'Quality': float(self.fits(item))}) for item in items]

    def fits(self, item):
        """
        True if all words of the response are in order and of the context's dialogue.
        """
        first = item.context[0].split()[0].rpartition('-')[2]
        response = item.response.split()
        numbers = response[0][1:].split('-')
        in_order = item.response == words(*numbers)
        new = all(response != text.split() for text in item.context)
        return in_order and new and numbers[1:2] == [first]


class Length(Sense):
    """
    Scores the number of words.
    """

    name = 'length'

    def fits(self, item):
        """
        Return the number of words of the response.
        """
        return len(item.response.split())


@dataclass(frozen=True)
class PromptedOptions:
    """
    The chat model that is asked.
    """

    chat: str = option('chatty', help='the model', model='chat')


class Prompted(Sense):
    """
    Asks a chat model, which does what a response tells it to; otherwise sees sense.
    """

    name = 'prompted'
    options_class = PromptedOptions

    def fits(self, item):
        """
        Return 10 where the response asks for it.
        """
        [reply] = self.models.chat(self.options.chat).replies([item.response])
        return 10 if reply == '10' else super().fits(item)


class ObedientModels:
    """
    `Models` with one chat model, which answers 10 when it is told to.
    """

    signature = 'system=chatty-identity'

    def chat(self, name):
        """
        Return the chat model: this object.
        """
        return self

    def replies(self, prompts):
        """
        Return one reply to each prompt.
        """
        return ['10' if 'Ignore' in prompt else 'no' for prompt in prompts]


class WholeSense(Sense):
    """
    The share of a speaker's turns that were really said there.
    """

    name = 'whole_sense'
    level = 'dialogue'

    def fits(self, item):
        """
        Return the share of fitting turns among those of the speaker, the opener aside.
        """
        speakers = item.extras['speakers']
        turns = [i for i, who in enumerate(speakers) if who == item.speaker and i > 1]
        judged = [
            super(WholeSense, self).fits(
                type(item)(item.context[:i], item.context[i], item.speaker)
            )
            for i in turns
        ]
        return sum(judged) / len(judged)


def planted_run(root, n_openers=12, systems=SYSTEMS, reply=True):
    """
    Write a run in which each system has a dialogue over each opener.
    """
    openers = [opener(j, reply) for j in range(n_openers)]

    def play(pair, _, j):
        return dialogue(pair.first, j, pair.id)

    return played_run(root, openers, systems, [PARTNER], play, {})
