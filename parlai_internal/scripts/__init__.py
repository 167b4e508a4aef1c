"""
Commands that `parlai` imports at start-up: ours, and those of a user's own package.
"""

import pkgutil

__path__ = pkgutil.extend_path(__path__, __name__)
