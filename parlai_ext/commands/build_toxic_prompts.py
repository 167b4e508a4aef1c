"""
`build_toxic_prompts`: toxic prompts with safe answers, from dialogues of any size.
"""

from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from parlai_ext.commands.command import Command, print_lines
from parlai_ext.core import UserError, flag_values, frozen, option, optional
from parlai_ext.data.corpora import PairSource, ToxicData, TurnPair
from parlai_ext.engines import EngineOptions, open_engine
from parlai_ext.store import as_read
from parlai_ext.systems.fetch.public_sets import with_public_sets
from parlai_ext.toxic.build_prompts import (
    LACKING,
    TABLE,
    BlockSelector,
    FeatureOptions,
    SelectionOptions,
    build_prompts,
    selector_elsewhere,
    statistics_table,
)
from parlai_ext.view.page import print_report


@frozen
class SourceOptions(PairSource):
    """
    Where the dialogues are, and where the table goes.
    """

    title = 'dialogues'
    task: str | None = optional(
        metavar='TASK', help='a dialogue task of ParlAI, in place of --source'
    )
    max_pairs: int | None = optional(low=1, help='read only the first N pairs')
    out: str = option('', metavar='FOLDER', help='pairs.csv and state.json are written')
    statistics: tuple[str, ...] = option(
        (),
        nargs='+',
        metavar='[NAME=]PATH',
        help='build nothing, print Table 4 of what --toxic-data reads, by source',
    )


class BuildToxicPrompts(Command):
    """
    Select pairs of a toxic prompt and a safe answer from dialogues, with features.

    Memory does not grow with the source. The same command goes on where it was killed.
    The table is read by ``-t ext:toxic_prompts --toxic-data FOLDER/pairs.csv``.
    """

    usage = '--source FORMAT --path PATH --detectors NAME … --out FOLDER [option …]'
    declares = (
        SourceOptions,
        SelectionOptions,
        FeatureOptions,
        '--batchsize',
        '--datapath',
        '--no-cuda',
        EngineOptions,
    )

    def run(self) -> object:
        """
        Build the table, print its statistics, and return the state of the build; `None`
        if only statistics are asked for.
        """
        given = self.options(SourceOptions)
        if given.statistics:
            print_lines(statistics_table(statistics_sources(given.statistics)).lines())
            return None
        self.require(out='the folder of the table')
        models = (
            self.options(SelectionOptions),
            self.options(FeatureOptions),
            self.machine,
        )
        pairs = self._pairs(given)
        selector = BlockSelector(*models)
        print_lines(selector.missing)
        folder = Path(given.out)
        settings: dict[str, Any] = {}
        for cls in (SourceOptions, SelectionOptions, FeatureOptions):
            settings |= flag_values(cls, self.opt)
        settings |= selector.contents()
        # a reason why a model cannot be had may be in other words the next time
        del settings['out'], settings['statistics'], settings[LACKING]
        settings = as_read(settings)
        elsewhere = partial(selector_elsewhere, *models, selector.contents())
        with open_engine(self.options(EngineOptions), folder, self.machine) as engine:
            state = build_prompts(pairs, selector, folder, settings, engine, elsewhere)
        table = str(folder / TABLE)
        lines = statistics_table({'': table}).lines() if state.n_kept else ()
        print_report('built_prompts', table=table, state=state, statistics=lines)
        return state

    def _pairs(self, given: SourceOptions) -> Iterator[TurnPair]:
        """
        Return the pairs of the source, which is read while it is used.
        """
        from itertools import islice

        if given.task:
            if given.source or given.path:
                raise UserError('--task is in place of --source and --path')
            pairs = task_pairs(given.task, given.split)
        else:
            self.require(source='the format of the dialogues', path='the dialogues')
            pairs = given.pairs()
        return islice(pairs, given.max_pairs)


def statistics_sources(named: Sequence[str]) -> dict[str, str]:
    """
    Return the places of tables by the names of their sources.

    :param named: ``[NAME=]PATH`` of each.
    """
    parts = [one.rpartition('=') for one in named]
    sources = {name or Path(path).stem: path for name, _, path in parts}
    if len(sources) < len(parts):
        raise UserError('--statistics: two of one name; NAME=PATH names them')
    for name, path in sources.items():
        sources[name] = str(with_public_sets(ToxicData(path=path)).path)
    return sources


def task_pairs(task: str, split: str) -> Iterator[TurnPair]:
    """
    Yield text and first label of each example of a ParlAI task, once, in its order.

    :param split: train, valid or test.
    """
    from parlai_ext.systems.task_data import teachers_of

    fold = {'validation': 'valid'}.get(split, split)
    [teacher] = teachers_of(task, fold)
    number = 0
    while not teacher.epoch_done() and not (act := teacher.act()).is_padding():
        number += 1
        labels = act.get('labels') or act.get('eval_labels') or ['']
        prompt = str(act.get('text', '')).split('\n')[-1]
        yield TurnPair(f'{task}:{fold}:{number}', prompt, labels[0])
