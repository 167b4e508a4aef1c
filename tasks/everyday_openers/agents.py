"""
The shipped openers as a ParlAI teacher: one example a dialogue, the same in each fold.
"""

from collections.abc import Iterator
from typing import Any

from parlai.core.opt import Opt
from parlai.core.teachers import DialogTeacher

from parlai_ext.files import EVERYDAY, read_openers_file


class DefaultTeacher(DialogTeacher):
    """
    The first utterance is the text, the second the label.
    """

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        self.id = 'everyday_openers'
        opt['datafile'] = str(EVERYDAY)
        super().__init__(opt, shared)

    def setup_data(self, datafile: str) -> Iterator[tuple[dict[str, Any], bool]]:
        for conv_id, (first, second) in read_openers_file(datafile).openers.items():
            yield {'text': first, 'labels': [second], 'conv_id': conv_id}, True
