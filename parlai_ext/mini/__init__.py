"""
The shipped small models and the small-talk generator. `benchmarks/mini_training/`
trains them.
"""

from pathlib import Path


def zoo_path() -> str:
    """
    Return the folder that ``parlai.zoo.__path__`` needs for ``zoo:mini/…``.
    """
    return str(Path(__file__).parent / 'zoo_hook')
