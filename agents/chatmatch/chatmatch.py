"""
``-m ext:chatmatch`` is ``-m ext:scorer --scorer chatmatch``, with its options as flags.
"""

from parlai_ext.agents.scorer.scorer import ScorerAgent


class ChatmatchAgent(ScorerAgent):
    """
    `ScorerAgent` with ChatMatch.
    """

    scorer_name = 'chatmatch'
