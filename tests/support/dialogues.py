"""
Dialogues from texts.
"""

from parlai_ext.core import Dialogue, Utterance
from parlai_ext.store import dialogue_id


def turns_of(speakers, texts, given=2):
    """
    Return the utterances of speakers who take turns, the first ``given`` not their own.
    """
    return tuple(
        Utterance(speakers[i % len(speakers)], text, i < given)
        for i, text in enumerate(texts)
    )


def dialogue(texts, given=2, name='d', speakers=('target', 'partner'), **fields):
    """
    Return a dialogue of speakers who take turns.
    """
    turns = turns_of(speakers, texts, given)
    fields = {'pairing_id': 'p', 'opener_id': 'o', **fields}
    return Dialogue(name, utterances=turns, **fields)


def spoken(pairing, opener, texts, **fields):
    """
    Return the dialogue of a pair over an opener.

    :param texts: all of them, those of the opener first.
    """
    turns = turns_of((pairing.first, pairing.second), texts, len(opener.utterances))
    name = dialogue_id(pairing.id, opener.id)
    return Dialogue(name, pairing.id, opener.id, turns, **fields)
