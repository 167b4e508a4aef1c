"""
The package in which the `parlai` command looks for commands (core/script.py:44).

A regular package that merges with a user's own `parlai_internal`.
"""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)
