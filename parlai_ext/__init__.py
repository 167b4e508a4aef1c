"""
Automatic evaluation of open-domain dialogue systems, as an extension of ParlAI.

    import parlai_ext

    run = parlai_ext.evaluate('demo', 'runs/demo')
    print(run.to_pandas())

`evaluate`, `score`, `check_judge`, `rank`, `load_run` and `plot` are in docs/python.md.
Importing this package imports nothing heavy: no parlai, no torch, no numpy.
"""

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from parlai_ext.api import Run as Run
    from parlai_ext.api import check_judge as check_judge
    from parlai_ext.api import evaluate as evaluate
    from parlai_ext.api import load_run as load_run
    from parlai_ext.api import plot as plot
    from parlai_ext.api import rank as rank
    from parlai_ext.api import score as score
    from parlai_ext.core import UserError as UserError

__version__ = '0.1.0'
__all__ = ['Run', 'UserError', 'check_judge', 'evaluate', 'load_run', 'plot', 'rank']
__all__ += ['score']


def __getattr__(name: str) -> Any:
    """
    Return a member of the Python interface, importing it only now.
    """
    if name == 'plugin':  # where `parlai doctor` had users import it from before
        from parlai_ext.commands import plugin

        return plugin
    if name not in __all__:
        raise AttributeError(f'module {__name__!r} has no attribute {name!r}')
    from parlai_ext import api

    return getattr(api, name)


def __dir__() -> list[str]:
    return sorted([*globals(), *__all__])
