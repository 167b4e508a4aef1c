"""
Configs of Hugging Face that would have code of the hub fetched and run, unasked.
"""

from __future__ import annotations

from typing import Any

KINDS = ('_attn_implementation', '_experts_implementation')
LONGEST = 200


def kernel_of(config: Any) -> str | None:
    """
    Return the kernel of the hub that a config names: transformers would fetch and run
    it without asking for the trust that it asks for elsewhere.
    """
    parts = [config, *(getattr(config, name, None) for name in config.sub_configs)]
    named = [str(getattr(part, kind, None)) for part in parts for kind in KINDS]
    found = next((name for name in named if '/' in name), None)
    return found and found[:LONGEST]
