"""
The options that choose a scorer, of the commands that score.
"""

from parlai_ext.commands.options import SCORES
from parlai_ext.core import Flags
from parlai_ext.scoring.likelihood import Fed, FedOptions
from parlai_ext.scoring.registry import ScorerChoice

# FED has flags for its options
SCORER_CHOICE = (
    Flags(ScorerChoice, SCORES),
    Flags(FedOptions, SCORES, prefix=Fed.name, not_given=True),
)
