"""
`build_toxic_prompts`: toxic prompts with safe answers, from dialogues of any size.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parlai_ext.commands.command import Command
from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_own_json
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import content_id
from parlai_ext.core.options import Flags, flag_values, option
from parlai_ext.data.turn_pairs import SOURCES, PairSource, TurnPair
from parlai_ext.engines.engine import refuse_difference
from parlai_ext.engines.open_engine import EngineOptions, open_engine
from parlai_ext.moderation.pair_features import FeatureOptions

if TYPE_CHECKING:
    from parlai_ext.models.handle import ModelHandle
    from parlai_ext.moderation.build_prompts import (
        BlockSelector,
        BuildState,
        Selection,
    )


@dataclass(frozen=True)
class SourceOptions:
    """
    Where the dialogues are, and where the table goes.
    """

    source: str | None = option(
        None,
        metavar='FORMAT',
        choices=SOURCES,
        help=f'format of --path: {", ".join(SOURCES)}',
    )
    task: str | None = option(
        None, metavar='TASK', help='a dialogue task of ParlAI, in place of --source'
    )
    path: str | None = option(None, path=True, metavar='PATH', help='file or folder')
    split: str = option('train', help='of DailyDialog or of --task (train)')
    prompt_column: str = option('toxic', help='of a CSV file: the prompts (toxic)')
    answer_column: str = option('answer', help='of a CSV file: the answers (answer)')
    id_column: str = option('id', help='of a CSV file: ids (id)')
    max_pairs: int | None = option(None, low=1, help='read only the first N pairs')
    out: str | None = option(
        None, metavar='FOLDER', path=True, help='pairs.csv and state.json are written'
    )


@dataclass(frozen=True)
class SelectionOptions:
    """
    What makes a prompt toxic and an answer safe.
    """

    detectors: tuple[str, ...] = option(
        (),
        nargs='+',
        metavar='DETECTOR',
        help='the first decides what is toxic; each gives two columns '
        '(parlai compare_detectors --help lists them)',
    )
    recorded: str | None = option(
        None,
        metavar='NAME',
        help='columns toxic_NAME and answer_NAME of the source decide, such as '
        'perspective_score or azure_score, not a detector',
    )
    threshold: float = option(0.5, help='of --recorded: toxic from here on (0.5)')
    words: str | None = option(
        None,
        metavar='DETECTOR',
        help='words=FILE or parlai_matcher[=FILE]: prompts need an entry of the list, '
        'answers may have none',
    )
    threats: tuple[str, ...] = option(
        ('kill', 'suicide'),
        metavar='WORD,…',
        help='words that no answer may have (kill,suicide)',
    )


class BuildToxicPrompts(Command):
    """
    Select pairs of a toxic prompt and a safe answer from dialogues, with features.

    Memory does not grow with the source. The same command goes on where it was killed.
    The table is read by ``-t ext:toxic_prompts --toxic-data FOLDER/pairs.csv``.
    """

    usage = '--source FORMAT --path PATH --detectors NAME … --out FOLDER [option …]'
    declares = (
        Flags(SourceOptions, 'dialogues'),
        Flags(SelectionOptions, 'selection'),
        Flags(FeatureOptions, 'features'),
        *('--batchsize', '--datapath', '--no-cuda'),
        EngineOptions,
    )

    def run(self) -> BuildState:
        """
        Build the table, print its statistics, and return the state of the build.
        """
        from parlai_ext.moderation import build_prompts as building

        given = self.options(SourceOptions)
        self.require(out='the folder of the table')
        pairs = self._pairs(given)
        machine = self.machine
        parts = SelectorParts(
            self.options(SelectionOptions),
            self.options(FeatureOptions),
            machine,
        )
        selector = parts.selector()
        for line in selector.features.missing:
            print(line)
        folder = Path(str(given.out))
        settings: dict[str, Any] = {}
        for cls in (SourceOptions, SelectionOptions, FeatureOptions):
            settings |= flag_values(cls, self.opt)
        settings.pop('out')
        settings = parse_own_json(json.dumps(settings))  # as they are read again
        with open_engine(self.options(EngineOptions), folder, machine) as engine:
            state = building.build_prompts(
                pairs,
                selector.selection,
                selector.features,
                selector.max_entities,
                folder,
                settings,
                engine=engine,
                elsewhere=partial(selector_elsewhere, parts, parts.contents(selector)),
            )
        self._show(state, folder)
        return state

    def _show(self, state: BuildState, folder: Path) -> None:
        from parlai_ext.moderation import build_prompts as building

        print(f'{folder / building.TABLE}: {state.n_kept} of {state.n_read} pairs')
        for reason, n in sorted(state.left_out.items(), key=lambda pair: -pair[1]):
            print(f'  {n:>10}  {reason}')
        if state.n_kept:
            table = building.statistics(folder / building.TABLE)
            print('\n'.join(building.statistics_lines(table)))

    def _pairs(self, given: SourceOptions) -> Iterator[TurnPair]:
        """
        Return the pairs of the source, which is read while it is used.
        """
        from itertools import islice

        if given.task:
            pairs = task_pairs(given.task, given.split, self.opt['datapath'])
        else:
            self.require(source='the format of the dialogues', path='the dialogues')
            pairs = PairSource(
                str(given.source),
                Path(str(given.path)),
                given.split,
                given.prompt_column,
                given.answer_column,
                given.id_column,
            ).pairs()
        return islice(pairs, given.max_pairs)


@dataclass(frozen=True)
class SelectorParts:
    """
    What a `BlockSelector` is made from, as plain data.
    """

    chosen: SelectionOptions
    features: FeatureOptions
    machine: Machine

    def selector(self) -> BlockSelector:
        """
        Return the selector, its models loaded; its features have a line for each that
        cannot be had.
        """
        from parlai_ext.models.handle import ModelHandle
        from parlai_ext.moderation.build_prompts import BlockSelector
        from parlai_ext.moderation.pair_features import load_features

        models = ModelHandle(self.machine)
        features = load_features(self.features, models)
        selection = self._selection(models, features.missing)
        most = self.features.max_entities
        return BlockSelector(selection, features, most)

    def contents(self, selector: BlockSelector) -> dict[str, str]:
        """
        Return what must be equal wherever the selector works: the signatures of its
        models, hashes of its lists of words, and which models cannot be had.
        """
        from parlai_ext.models.handle import ModelHandle

        selection = selector.selection
        lists = {one.name: one.model for one in selection.detectors}
        lists['--words'] = selection.words
        return {
            **ModelHandle(self.machine).signatures(),
            **{
                f'the word list of {name}': content_id(sorted(model.phrases))
                for name, model in lists.items()
                if hasattr(model, 'phrases')
            },
            'models that cannot be had': str(selector.features.missing),
        }

    def _selection(self, models: ModelHandle, missing: list[str]) -> Selection:
        """
        Return how pairs are selected; a detector that cannot be had is named.

        :raises UserError: when nothing is left that could tell what is toxic.
        """
        from parlai_ext.moderation.build_prompts import Selection
        from parlai_ext.moderation.detectors import read_detector, short_name

        chosen = self.chosen
        detectors, absent = [], []
        for place, spec in enumerate(chosen.detectors):
            try:
                detectors.append(read_detector(spec, models))
            except UserError as error:
                if not place and not chosen.recorded:
                    raise  # the one that decides
                absent.append(short_name(spec.partition(',')[0]))
                missing.append(f'{error}; the columns of {absent[-1]} stay empty')
        if not (detectors or chosen.recorded or chosen.words):
            raise UserError(
                '--detectors is needed (or --recorded, or --words): what is toxic?'
            )
        words = read_detector(chosen.words, models).model if chosen.words else None
        return Selection(
            detectors,
            chosen.recorded,
            chosen.threshold,
            words,
            frozenset(word.casefold() for word in chosen.threats),
            absent,
        )


def selector_elsewhere(
    parts: SelectorParts, contents: Mapping[str, str], share: float
) -> BlockSelector:
    """
    Return the selector of another process.

    :param contents: as `SelectorParts.contents` returns in the process of the command.
    :param share: of the memory of its device; models ask for what is free.
    """
    selector = parts.selector()
    for name, content in parts.contents(selector).items():
        refuse_difference(name, content, contents.get(name))
    return selector


def task_pairs(task: str, split: str, datapath: str | None) -> Iterator[TurnPair]:
    """
    Yield text and first label of each example of a ParlAI task, once, in its order.

    :param split: train, valid or test.
    """
    from parlai.core.params import ParlaiParser
    from parlai.core.teachers import create_task_agent_from_taskname

    from parlai_ext.commands import plugin

    plugin.register()
    fold = {'validation': 'valid'}.get(split, split)
    datatype = 'train:evalmode' if fold == 'train' else fold
    opt = {'task': task, 'datatype': datatype}
    if datapath:
        opt['datapath'] = datapath
    parsed = ParlaiParser(True, False).parse_kwargs(**opt)
    [teacher] = create_task_agent_from_taskname(parsed)
    number = 0
    while not teacher.epoch_done():
        act = teacher.act()
        if act.is_padding():
            break
        number += 1
        labels = act.get('labels') or act.get('eval_labels') or ['']
        prompt = str(act.get('text', '')).split('\n')[-1]
        yield TurnPair(f'{task}:{fold}:{number}', prompt, labels[0])
