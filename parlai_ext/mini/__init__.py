"""
The shipped small models and the small-talk generator. `benchmarks/mini_training/`
trains them.
"""

from pathlib import Path

# the folder that ``parlai.zoo.__path__`` needs for ``zoo:mini/…``
ZOO_HOOK = Path(__file__).parent / 'zoo_hook'
SHIPPED = Path(__file__).parent / 'zoo'  # the models
