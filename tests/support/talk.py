"""
What a player says, and the data of a small training.
"""


def heard(player, texts):
    """
    Return a participant for each text, which it heard.
    """
    participants = [player.join() for _ in texts]
    for participant, text in zip(participants, texts, strict=True):
        participant.hear(text, 'other')
    return participants


def replies_together_and_alone(player, texts):
    """
    Return the replies to these texts in one batch, and one after the other.
    """
    together = player.respond(heard(player, texts))
    return together, [player.respond([one])[0] for one in heard(player, texts)]


def write_pairs(path, answer, texts):
    """
    Write toxic prompts with one answer to all: two thirds to train, others to validate
    and to test, a sixth each.
    """
    sixth = len(texts) // 6
    folds = ['train'] * 4 * sixth + ['valid'] * sixth + ['test'] * sixth
    rows = zip(range(len(texts)), texts, folds, strict=True)
    lines = [f'{i},{text},{answer},{fold}\n' for i, text, fold in rows]
    path.write_text('id,toxic,answer,split\n' + ''.join(lines))
    return path
