"""
Small judged sets in the format of FED.
"""

from parlai_ext import zoo_configs
from tests.support import written as files


def turn(context, response, **annotations):
    """
    Return a judged turn as an object of ``fed_data.json``.
    """
    return {
        'context': context,
        'response': response,
        'system': 'Meena',
        'annotations': annotations,
    }


def written(folder, *objects):
    """
    Return the path of a new ``fed_data.json``.
    """
    return str(files.written(folder, 'fed_data.json', objects))


def changed_card(folder, name, old, new):
    """
    Return the path of a shipped card in which a text is another one.
    """
    text = (zoo_configs.HOME / 'judged' / f'{name}.yaml').read_text()
    return str(files.written(folder, 'mine.yaml', text.replace(old, new)))
