"""
Imported by every `parlai` call: puts parlai_ext in place.
"""

from parlai_ext.commands import plugin

plugin.register()
