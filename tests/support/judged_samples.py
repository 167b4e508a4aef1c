"""
Small judged sets in the format of FED.
"""

import json


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
    path = folder / 'fed_data.json'
    path.write_text(json.dumps(objects), encoding='utf-8')
    return str(path)
