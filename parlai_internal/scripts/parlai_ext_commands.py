"""
Imported by every call of `parlai`: adds the commands of parlai_ext.
"""

from parlai_ext.commands import plugin

plugin.register()
