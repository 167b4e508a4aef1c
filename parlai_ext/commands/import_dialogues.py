"""
`import_dialogues`: dialogues that exist already become a run folder, without a model.
"""

from collections.abc import Mapping
from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

from parlai_ext.collect.import_run import write_run
from parlai_ext.commands.command import Command
from parlai_ext.core import (
    IMPORTED,
    Protocol,
    UserError,
    frozen,
    named_pairs,
    option,
    optional,
    require_known,
)
from parlai_ext.data.chat_logs import COLUMNS, PEOPLE
from parlai_ext.data.imported_dialogues import (
    ImportedDialogues,
    ImportRules,
    find_files,
    read_imports,
)
from parlai_ext.scoring.registry import DEFAULT, WITH_REFERENCES, find_scorer
from parlai_ext.view.page import print_report


@frozen
class ImportReport:
    """
    The counts of an import: `n_no_turns` messages, such as instructions, are no turns,
    and `n_joined` turns were joined with the one before; `written` is False when
    nothing was missing.
    """

    systems: tuple[str, ...]
    n_dialogues: int
    n_utterances: int
    n_no_turns: int
    n_joined: int
    written: bool


@frozen
class ImportDialoguesOptions:
    """
    Which dialogues are imported, and which scorer they get.
    """

    dialogues: tuple[str, ...] = option(
        nargs='+', metavar='PATH', help='files, folders or patterns in quotes'
    )
    format: str | None = optional(
        help='chatmatch, parlai, model_chat, spot_the_bot, dstc9, openai, sharegpt, '
        'inspect, mt_bench, langsmith, langfuse, telegram, whatsapp, csv, jsonl (else '
        'detected)',
    )
    columns: str | None = optional(
        metavar='OURS=THEIRS,…',
        help='what a csv or jsonl file calls dialogue_id, speaker, text, turn, given '
        'or reference',
    )
    skip_bad_rows: bool = option(False, help='leave out and count what cannot be read')
    scorer: str | None = optional(
        metavar='NAME',
        help='the scorer of the run (default: learned, or learned_references where '
        'every judged turn has a reference; fed with --followups)',
    )


class ImportDialogues(Command):
    """
    Make a run folder of dialogues that exist already, to score and rank them.
    """

    usage = '--dialogues PATH [PATH …] --run-dir FOLDER [option …]'
    declares = (
        '--run-dir',
        '--config',
        '--judge-model-file',
        '--followups',
        ImportDialoguesOptions,
        ImportRules,
    )

    def run(self) -> object:
        """
        Return what was imported.
        """
        self.require(run_dir='the folder of the new run')
        opt = self.opt
        given = self.options(ImportDialoguesOptions)
        protocol = self._protocol()
        pairs = given.columns.split(',') if given.columns else ()
        columns = named_pairs('--columns', pairs, 'OURS=THEIRS')
        for ours, theirs in columns.items():
            require_known(ours, COLUMNS, f'--columns {ours}={theirs}')
        imports = read_imports(
            find_files(given.dialogues),
            given.format,
            self.options(ImportRules),
            skip_bad_rows=given.skip_bad_rows,
            columns=columns,
        )
        if not (opt['scorer'] or opt['config'] or opt['followups']):
            scorer = {**protocol.scorer, 'name': fitting_scorer(imports)}
            protocol = replace(protocol, scorer=scorer)
        # what differs from the default, to repeat the import by
        default = vars(self.parser().parse_args([]))
        changed = {k: v for k, v in opt.items() if k in default and v != default[k]}
        changed.pop('run_dir', None)
        changed['dialogues'] = [Path(path).name for path in given.dialogues]
        written = write_run(Path(opt['run_dir']), imports, protocol, changed)
        return show(imports, written, opt['run_dir'])

    def _protocol(self) -> Protocol:
        """
        Return the protocol by which the dialogues are scored and ranked.
        """
        opt = self.opt
        if opt['scorer'] and opt['config']:
            raise UserError(
                '--scorer and --config: each names a scorer; give one of them'
            )

        # follow-ups are FED's alone, so that naming them names it
        named = opt['scorer'] or ('fed' if opt['followups'] else DEFAULT)
        find_scorer(named, named_by_user=True)
        scorer: dict[str, Any] = {'name': named}
        ranking: Mapping[str, Any] = {}
        if own := self.own_protocol:
            scorer, ranking = dict(own.scorer), own.ranking
        for key in ('judge_model_file', 'followups'):
            if opt[key] is not None:
                scorer[key] = opt[key]
        return Protocol(
            IMPORTED, IMPORTED, score='both', scorer=scorer, ranking=ranking
        )


def fitting_scorer(imports: ImportedDialogues) -> str:
    """
    Return the name of the scorer that dialogues get by themselves, and print why.
    """
    turns = [t for one in imports.dialogues for t in one.turns if not t.given]
    n_with = sum(bool(turn.references) for turn in turns)
    name = WITH_REFERENCES if 0 < n_with == len(turns) else DEFAULT
    why = f'{n_with} of {len(turns)} judged turns have a reference'
    print(f'scorer: {name}, since {why}; --scorer NAME takes another')
    return name


def show(imports: ImportedDialogues, written: bool, run_dir: str) -> ImportReport:
    """
    Print what was imported and what was left out, and return the counts.
    """
    dialogues = imports.dialogues
    report = ImportReport(
        tuple(name for name in imports.names if name not in imports.humans),
        len(dialogues),
        sum(len(dialogue.turns) for dialogue in dialogues),
        sum(imports.unread.messages.values()),
        sum(dialogue.num_joined for dialogue in dialogues),
        written,
    )
    texts = sorted({tuple((t.speaker, t.text) for t in d.turns) for d in dialogues})
    print_report(
        'imported',
        imports=imports,
        report=report,
        run_dir=run_dir,
        n_repeated=len(dialogues) - len(texts),
        # in their order a dialogue stands right before those that begin like it
        n_begun=sum(b[: len(a)] == a for a, b in pairwise(texts)),
        person_like=[name for name in report.systems if name.casefold() in PEOPLE],
    )
    return report
