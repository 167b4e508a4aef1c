"""
Made-up answers of three systems and a person, for annotation.
"""

import csv

SYSTEMS = ('quill', 'raven', 'tern')
HUMAN, TOXIC = 'mary', 'rude'


def answers_file(folder, num_prompts=8):
    """
    Write answers whose texts tell which system they are of; return the path.
    """
    path = folder / 'answers.csv'
    with path.open('w', newline='', encoding='utf-8') as out:
        writer = csv.writer(out)
        writer.writerow(['system', 'prompt', 'answer'])
        for k in range(num_prompts):
            for name in (*SYSTEMS, HUMAN, TOXIC):
                writer.writerow([name, f'prompt {k}', f'{code(name)} to {k}'])
    return path


def code(name):
    """
    Return a word that stands for a system in its answers and is not its name.
    """
    return {'quill': 'Q', 'raven': 'R', 'tern': 'T', HUMAN: 'M', TOXIC: 'X'}[name]
