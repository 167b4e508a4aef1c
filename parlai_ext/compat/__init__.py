"""
Fixes of ParlAI 1.7.2, where it fails with current libraries or gives wrong results.

Each fix is a function that is given the module that it changes. Its docstring says
where ParlAI goes wrong and what the fix does.
"""

from parlai_ext.compat import agents, libraries, worlds  # noqa: F401  (fixes)
from parlai_ext.compat.after_import import apply as apply
