"""
Publish a run: one archive from which others can check, compare and cite it.
"""

from pathlib import Path

from parlai_ext.commands.command import Command
from parlai_ext.core import UserError, content_id, frozen, option, optional
from parlai_ext.view.page import print_report


@frozen
class PublishOptions:
    """
    What of a run is published, and where it goes.
    """

    out: str = option(metavar='FILE.zip', help='the pack that is written')
    scores: str | None = optional(
        metavar='HASH|NAME',
        help='only the scores with this hash, or of this scorer (default: all scores '
        'that are complete)',
    )
    withhold_text: bool = option(
        False,
        help='publish digests in the place of texts, as licences of openers may demand',
    )


class PublishRun(Command):
    """
    Write the pack of a scored run: the same run gives the same bytes.
    """

    usage = '--run-dir FOLDER --out FILE.zip [--withhold-text]'
    declares = (PublishOptions,)
    of_run = 'the folder of a scored run'

    def run(self) -> object:
        """
        Write the pack and return what is in it.
        """
        from parlai_ext.packs.publish import publish_run

        given = self.options(PublishOptions)
        path = Path(given.out)
        if path.suffix != '.zip' or path.is_dir():
            raise UserError(f'--out {path}: a file whose name ends in .zip is expected')
        run = self.existing_run
        pack = publish_run(
            run, path, scores=given.scores, withhold_text=given.withhold_text
        )
        print_report(
            'published',
            pack=pack,
            folders=[content_id(signature) for signature in pack.signatures],
            is_withheld=given.withhold_text,
            n_dialogues=run.n_dialogues,
        )
        return pack
