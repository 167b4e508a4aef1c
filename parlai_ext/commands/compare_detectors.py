"""
`compare_detectors`: how well detectors find what people call toxic.
"""

from pathlib import Path

from parlai_ext.commands.command import Command, print_lines
from parlai_ext.commands.options import Resamples
from parlai_ext.core import FOLDS, UserError, frozen, option, optional
from parlai_ext.data.corpora import SETS, LabelledText, labelled_texts, sets_in
from parlai_ext.scoring.toxicity import DetectorChoice, load_detectors
from parlai_ext.store import write_texts


@frozen(kw_only=True)
class CompareDetectorsOptions(DetectorChoice, Resamples):
    """
    Which labelled texts are scored, and where the numbers go.
    """

    sets: tuple[str, ...] = option(
        (),
        nargs='+',
        metavar='SET',
        help='diasafety, toxichat, or a CSV file with columns text and label '
        '(default: the folders that are there)',
    )
    toxic_path: str | None = optional(
        metavar='FOLDER',
        help='a folder with the folders diasafety and toxichat, or one of them; '
        'where it is not given, --sets diasafety toxichat are fetched',
    )
    fold: str = option('test', choices=FOLDS, help='which files are read (test)')
    max_texts: int | None = optional(low=2, help='only the first N texts of each set')
    out: str | None = optional(
        metavar='FOLDER',
        help='writes CSV files, without texts; the same command goes on where it was '
        'killed',
    )


class CompareDetectors(Command):
    """
    Score labelled texts by several detectors; print precision, recall and areas under
    the ROC and precision-recall curves with intervals, and what each detector makes of
    harmless sentences about people.

    A detector that cannot be had is named, and the others are compared.
    """

    usage = '--toxic-path FOLDER --detectors NAME … [option …]'
    declares = (CompareDetectorsOptions, '--batchsize', '--datapath', '--no-cuda')
    with_texts = ('texts',)

    def run(self) -> object:
        """
        Return the table, print it, and write it where ``--out`` says.

        :raises UserError: when no detector can be had, or two have one name.
        """
        from parlai_ext.models.handle import ModelHandle

        given = self.options(CompareDetectorsOptions)
        self.require(detectors='what is compared')
        models = ModelHandle(self.machine)
        detectors, missing = load_detectors(given.detectors, models, named_by_user=True)
        if not detectors:
            raise UserError('; '.join(missing))
        for name in detectors:
            if name in (*LabelledText.__dataclass_fields__, 'set'):
                raise UserError(
                    f'--detectors: {name} is another column of the tables; '
                    'NAME,called=… calls the detector otherwise'
                )
        from parlai_ext.toxic import detector_table as tables

        table = tables.compare_detectors(
            detectors,
            self._texts(given),
            bootstraps=given.bootstraps,
            seed=given.seed,
            folder=Path(given.out, 'scores') if given.out else None,
        )
        print_lines(tables.table_lines(table))
        if given.out:
            files = tables.detector_files(table)
            write_texts(Path(given.out), files)
            print(f'{given.out}: {", ".join(files)}')
        print_lines(f'left out: {line}' for line in missing)
        return table

    def _texts(self, given: CompareDetectorsOptions) -> dict:
        from parlai_ext.systems.fetch.public_sets import fetch_public_set

        if not given.sets:
            self.require(toxic_path='the folder of DiaSafety and ToxiChat; or --sets')
        texts = {}
        home = Path(given.toxic_path or '')
        for name in given.sets or sets_in(home):
            folder = home
            if name in SETS and not given.toxic_path:
                folder = fetch_public_set(name)
            title = Path(name).stem
            if title in texts:
                raise UserError(f'--sets: two are called {title}; rename a file')
            texts[title] = labelled_texts(name, folder, given.fold)[: given.max_texts]
        return texts
