"""
Runs a fix right after the module that it changes has been imported.

Nothing is imported early, and a module that is never used is never touched.
"""

import sys
from collections.abc import Callable, Sequence
from functools import cache, wraps
from importlib.abc import MetaPathFinder
from importlib.machinery import ModuleSpec, PathFinder
from types import ModuleType
from typing import Any

Fix = Callable[..., Any]
FIXES: dict[str, list[Fix]] = {}  # module name -> functions that change the module


def fixes(*modules: str) -> Callable[[Fix], Fix]:
    """
    Return a decorator that registers a function as a fix of these modules.
    """

    def register(fix: Fix) -> Fix:
        for name in modules:
            FIXES.setdefault(name, []).append(fix)
        return fix

    return register


def replaces(module: str, method: str) -> Callable[[Fix], Fix]:
    """
    Return a decorator that registers a function as the new body of ``Class.method``; it
    is given the original and the arguments.
    """

    def register(ours: Fix) -> Fix:
        @fixes(module)
        def replace(imported: Any) -> None:
            owner_name, _, name = method.partition('.')
            owner = getattr(imported, owner_name)
            original = getattr(owner, name)

            @wraps(original)
            def replaced(*args: Any, **kwargs: Any) -> Any:
                return ours(original, *args, **kwargs)

            setattr(owner, name, replaced)

        return ours

    return register


@cache
def apply() -> None:
    """
    Fix the modules that are imported already, and the others when they are imported.
    Further calls do nothing.
    """
    for name in FIXES:
        if name in sys.modules:
            fix_module(sys.modules[name])
    sys.meta_path.insert(0, AfterImport())


def fix_module(module: ModuleType) -> None:
    """
    Run the fixes of ``module``.
    """
    for fix in FIXES[module.__name__]:
        fix(module)


class AfterImport(MetaPathFinder):
    """
    Finds a module that needs a fix, and fixes it once it has been executed.
    """

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        spec = PathFinder.find_spec(name, path) if name in FIXES else None
        if spec is None or spec.loader is None:
            return None
        execute = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            execute(module)
            fix_module(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec
