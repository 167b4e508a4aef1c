"""
The shipped small models, their trainer and the small-talk generator.
"""

from pathlib import Path


def zoo_path() -> str:
    """
    Return the folder to append to ``parlai.zoo.__path__``, so that ``zoo:mini/…`` works.
    """
    return str(Path(__file__).parent / 'zoo_hook')
