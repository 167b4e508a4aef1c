"""
Responses after their contexts, as judges with labels (PairEval, DirectEval) read them.
"""

from dataclasses import dataclass

FORMATS = ('plain', 'chat')  # how a judge is asked
CONTEXT_TURNS = 4  # utterances before a response that are read


@dataclass(frozen=True)
class Candidate:
    """
    A response after its context.

    :param facts: the knowledge that the response should use, where a judge is shown it.
    """

    context: tuple[str, ...]
    response: str
    facts: str = ''
