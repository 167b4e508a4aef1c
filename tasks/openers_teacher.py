"""
A ParlAI teacher of a file of openers: one example a dialogue.
"""

from collections.abc import Iterator

from parlai.core.teachers import DialogTeacher

from parlai_ext.files import read_openers_file


class OpenersTeacher(DialogTeacher):
    """
    The first utterance is the text, the second the label. Subclasses name the file.
    """

    def setup_data(self, datafile: str) -> Iterator[tuple[dict[str, object], bool]]:
        openers = read_openers_file(datafile)
        for conv_id, (first, second) in openers.openers.items():
            act: dict[str, object] = {
                'text': first,
                'labels': [second],
                'conv_id': conv_id,
            }
            if reply := openers.replies.get(conv_id):
                act['reply'] = reply
            yield act, True
