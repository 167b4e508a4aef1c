"""
Packs: runs that are published, checked by others, compared and cited.
"""
