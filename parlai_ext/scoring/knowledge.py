"""
The knowledge behind a response as one text: for metrics trained on it.
"""

from __future__ import annotations

from parlai_ext.scoring.base import ScoringItem

NO_KNOWLEDGE = 'the item has neither facts nor a persona'
PERSONA = 'your persona: '
NO_FACT = '_nofact'  # what Topical-Chat says where there is no knowledge


def has_knowledge(item: ScoringItem) -> bool:
    """
    True if the item has facts or a persona.
    """
    return bool(item.facts) or bool(item.persona)


def knowledge_text(item: ScoringItem) -> str:
    """
    Return the facts, else the persona with a sentence a line as PersonaChat writes it,
    else the word that stands for no fact in Topical-Chat.
    """
    if item.facts:
        return item.facts
    return '\n'.join(PERSONA + line for line in item.persona) or NO_FACT
