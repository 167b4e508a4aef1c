"""
Openers from EmpatheticDialogues as a ParlAI teacher: one example a dialogue.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from parlai.core.opt import Opt
from parlai.core.teachers import DialogTeacher

from parlai_ext.core.options import DeclaresOptions, Flags, option
from parlai_ext.files.openers_file import read_openers_file, report_too_short
from parlai_ext.tasks.empathetic_openers.build import SPLITS, build


@dataclass(frozen=True)
class OpenersOptions:
    """
    Where the openers are from.
    """

    openers_file: str | None = option(
        None,
        help='CSV with columns conv_id, utterance_idx, utterance, instead of the '
        'download',
    )
    openers_split: str | None = option(
        None,
        choices=SPLITS,
        help='which part of EmpatheticDialogues (default: that of --datatype)',
    )


class DefaultTeacher(DeclaresOptions, DialogTeacher):
    """
    The first utterance is the text, the second the label.
    """

    declares = (Flags(OpenersOptions, 'Empathetic openers'),)

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        self.id = 'empathetic_openers'
        if shared is None:
            split = opt.get('openers_split') or opt['datatype'].split(':')[0]
            given = opt.get('openers_file')
            opt['datafile'] = given or build(opt['datapath'], split)
        super().__init__(opt, shared)

    def setup_data(self, datafile: str) -> Iterator[tuple[dict[str, Any], bool]]:
        openers = read_openers_file(datafile)
        report_too_short(datafile, openers)
        for conv_id, (first, second) in openers.openers.items():
            reply = openers.replies.get(conv_id)
            yield (
                {
                    'text': first,
                    'labels': [second],
                    'conv_id': conv_id,
                    **({'reply': reply} if reply else {}),
                },
                True,
            )
