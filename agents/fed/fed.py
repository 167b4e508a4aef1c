"""
``-m ext:fed`` is ``-m ext:scorer --scorer fed``, with FED's options as flags.
"""

from parlai_ext.agents.scorer.scorer import ScorerAgent


class FedAgent(ScorerAgent):
    """
    `ScorerAgent` with FED.
    """

    scorer_name = 'fed'
