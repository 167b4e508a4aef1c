"""
The shipped openers as a ParlAI teacher: one example a dialogue, the same in each fold.
"""

from typing import Any

from parlai.core.opt import Opt

from parlai_ext.files import EVERYDAY
from parlai_ext.tasks.openers_teacher import OpenersTeacher


class DefaultTeacher(OpenersTeacher):
    """
    The shipped file, whatever the datatype.
    """

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        self.id = 'everyday_openers'
        opt['datafile'] = str(EVERYDAY)
        super().__init__(opt, shared)
