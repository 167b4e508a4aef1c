"""
Made-up answers of three systems and a person, for annotation.
"""

from tests.support.written import written

SYSTEMS = ('quill', 'raven', 'tern')
HUMAN, TOXIC = 'mary', 'rude'
# the word that stands for a system in its answers, which is not its name
CODES = {'quill': 'Q', 'raven': 'R', 'tern': 'T', HUMAN: 'M', TOXIC: 'X'}


def answers_file(folder):
    """
    Write answers whose texts tell which system they are of; return the path.
    """
    rows = ['system,prompt,answer']
    for k in range(8):
        rows += [f'{name},prompt {k},{code} to {k}' for name, code in CODES.items()]
    return written(folder, 'answers.csv', '\n'.join([*rows, '']))
