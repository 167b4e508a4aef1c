"""
What a player says, and the data of a small training.
"""

from parlai.core.message import Message

from parlai_ext.core import System
from parlai_ext.systems.parlai_agents import load_system
from tests.support.tiny_models import sentences


def loaded(name='a', /, **opt):
    """
    Return the player of a system with these options.
    """
    return load_system(System(name, opt))


def after_turns(player, turns):
    """
    Return a participant after these turns, the last of which is the other's.
    """
    participant = player.join()
    for place, text in enumerate(turns):
        if (len(turns) - place) % 2:
            participant.hear(text, 'other')
        else:
            participant.take_as_own(text)
    return participant


def heard(player, texts):
    """
    Return a participant for each text, which it heard.
    """
    return [after_turns(player, [text]) for text in texts]


def answers(agent, texts):
    """
    Return what an agent says to each text, one after the other, in one dialogue.
    """
    said = []
    for text in texts:
        agent.observe(Message(text=text, episode_done=False))
        said.append(agent.act()['text'])
    return said


def replies_to(player, dialogues):
    """
    Return the text that follows each dialogue, in one batch.
    """
    participants = [after_turns(player, turns) for turns in dialogues]
    return [reply.text for reply in player.respond(participants)]


def replies_alone(player, dialogues):
    """
    Return the text that follows each dialogue, one after the other.
    """
    return [replies_to(player, [turns])[0] for turns in dialogues]


def write_pairs(path, answer):
    """
    Write toxic prompts with one answer to all: two thirds to train, others to validate
    and to test, a sixth each.
    """
    folds = ['train'] * 16 + ['valid'] * 4 + ['test'] * 4
    rows = zip(sentences(24, 5), folds, strict=True)
    lines = [f'{i},{text},{answer},{fold}\n' for i, (text, fold) in enumerate(rows)]
    path.write_text('id,toxic,answer,split\n' + ''.join(lines))
    return path
