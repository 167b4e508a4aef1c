"""
Small judged sets in the format of FED.
"""

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
