"""
The door through which the `parlai` command finds parlai_ext (core/script.py:44).

A regular package that merges with a user's own `parlai_internal`.
"""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)
