"""
Commands that write files, each with tiny input, in the order in which they build on
each other.
"""

import csv
import itertools
import json
import logging
import shutil
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import torch

from parlai_ext.files.csv_file import csv_text
from tests.support.annotated_answers import HUMAN, TOXIC, answers_file
from tests.support.family_hf import make_model
from tests.support.fed_samples import make_gpt2
from tests.support.judged_samples import turn, written
from tests.support.planted_labels import FRAME
from tests.support.tiny_models import make_generator, sentences
from torture.forked import Forked, import_all, start_command
from torture.tiny_run import (
    CONFIG,
    PROTOCOL,
    differences,
    files_under,
    quiet,
    run_command,
    write_judgements,
    write_protocol,
)

FED = """
pairing: bipartite
openers: ext:everyday_openers
num_dialogues: 2
num_turns: 4
score: target
scorer: {name: fed, judge_model_file: 'zoo:mini/judge/model', followups: default}
ranking: {bootstraps: 20}
seed: 0
roster:
  targets: [{name: small, opt: {model_file: 'zoo:mini/step-50/model'}}]
  partners: [{name: echo, opt: {model: repeat_query}}]
"""
PATIENCE = 300.0  # seconds until a command is said to hang
BENCH = '--judged-path judged --sets fed_turn --bootstraps 20'
TRAINING = '--steps 6 --held-out 3 --tokens 24 --head-steps 2 --save-every 2'


@dataclass(frozen=True)
class Case:
    """
    A command to be tried.

    :param line: its command line, with paths from the folder in which it runs.
    :param after: names of the cases that are run first.
    :param once: it refuses a folder that it has finished.
    """

    name: str
    line: str
    after: tuple[str, ...] = ()
    once: bool = False

    @property
    def args(self) -> list[str]:
        """
        The words of the command line.
        """
        return self.line.split()


# these only print, or download, which is tried in tests/systems; fit_judge needs two
# models of 484 MB
UNTRIED = (
    'fit_judge',
    'check_roster',
    'cite_run',
    'doctor',
    'get_model',
    'judge_pairs',
    'show_dialogue',
    'verify_run',
)
CASES = {
    case.name: case
    for case in (
        Case('collect', f'collect_dialogues --config {CONFIG} --run-dir run'),
        Case('score', 'score_dialogues --run-dir run', ('collect',)),
        Case(
            'score_other',
            'score_dialogues --run-dir run --scorer distinct',
            ('collect', 'score'),
        ),
        Case('rank', 'rank_systems --run-dir run', ('collect', 'score')),
        Case('report', 'report_run --run-dir run', ('collect', 'score', 'rank')),
        Case('evaluate', f'evaluate_systems --config {CONFIG} --run-dir run'),
        Case(
            'evaluate_other', f'evaluate_systems --config other/{CONFIG} --run-dir run2'
        ),
        Case('evaluate_fed', 'evaluate_systems --config fed.yaml --run-dir run'),
        Case(
            'grow',
            f'evaluate_systems --config {CONFIG} --run-dir run --num-dialogues 4',
            ('evaluate',),
        ),
        Case(
            'validate',
            'validate_scorer --run-dir run --human-scores human.csv --bootstraps 20',
            ('evaluate',),
        ),
        Case('audit', 'audit_run --run-dir run', ('evaluate', 'grow')),
        Case('publish', 'publish_run --run-dir run --out packs/one.zip', ('evaluate',)),
        Case(
            'publish_other',
            'publish_run --run-dir run2 --out packs/two.zip',
            ('evaluate_other',),
        ),
        Case(
            'compare_runs',
            'compare_runs packs/one.zip packs/two.zip --out joined',
            ('evaluate', 'publish', 'evaluate_other', 'publish_other'),
            once=True,
        ),
        Case(
            'leaderboard',
            'build_leaderboard --packs packs --out site --draw 1',
            ('evaluate', 'publish', 'evaluate_other', 'publish_other'),
        ),
        Case('rate', 'rate_dialogues --run-dir run', ('collect',)),
        Case(
            'export_crowd',
            'export_crowdsourcing --run-dir run --format acute_eval',
            ('collect',),
        ),
        Case(
            'import_people',
            'import_judgements --run-dir run --format csv --answers human.csv '
            '--bootstraps 20',
            ('collect',),
        ),
        Case('import', 'import_dialogues --dialogues chats.csv --run-dir imported'),
        Case(
            'bench', f'run_bench {BENCH} --out bench --scorers length distinct bleu_2'
        ),
        Case('compare_metrics', 'compare_metrics bench --permutations 20', ('bench',)),
        Case(
            'toxic_prompts',
            'build_toxic_prompts --source csv --path talk.csv --out prompts '
            '--detectors words=words.txt',
        ),
        Case(
            'detectors',
            'compare_detectors --detectors words=words.txt --sets labels.csv '
            '--bootstraps 20 --out detectors',
        ),
        Case(
            'safety',
            'compare_safety --toxic-data talk.csv --fold train --out safety '
            '--detectors words=words.txt --answers old.csv --bootstraps 20 '
            '--systems fan=agent:fixed_response,fixed_response=hello',
        ),
        Case(
            'export_annotation',
            f'export_annotation --answers answers.csv --out set --human {HUMAN} '
            f'--toxic {TOXIC} --num-prompts 6 --num-sheets 2',
        ),
        Case(
            'import_annotation',
            'import_annotation --key exported --answers filled --bootstraps 20',
        ),
        Case('convert', 'convert_model --model-file tiny --output new.safetensors'),
        Case(
            'pairs',
            'build_pairs --corpus jsonl --path talk.jsonl --out pairs.jsonl '
            '--num-pairs 12 --kinds random',
        ),
        Case(
            'ask',
            'ask_contexts --corpus jsonl --path talk.jsonl --out asked '
            '--systems fan=agent:fixed_response,fixed_response=hello',
        ),
        Case(
            'train_judge',
            'train_judge --base llama --pairs pairs.jsonl --out judge --no-cuda '
            '--train-batchsize 4 --save-steps 1 --lora-r 2',
            ('pairs',),
            once=True,
        ),
        Case(
            'adapt',
            'adapt_model --kind lm --base gpt2 --corpus talk.txt --out adapted '
            f'--no-cuda {TRAINING}',
        ),
    )
}


def write_inputs(folder: Path) -> None:
    """
    Write what all cases read into a folder.
    """
    logging.disable(logging.WARNING)
    torch.manual_seed(0)
    write_protocol(folder)
    (folder / 'fed.yaml').write_text(FED)
    other = PROTOCOL.replace('name: short', 'name: long').replace('No.', 'Not at all.')
    for name in ('other', 'packs'):
        (folder / name).mkdir()
    (folder / 'other' / CONFIG).write_text(other)
    (folder / 'words.txt').write_text('grunk\n')
    talks = [sentences(5, seed) for seed in range(12)]
    write_judgements(folder)
    write_rows(
        folder / 'chats.csv',
        ['dialogue_id', 'speaker', 'text'],
        [
            [d, 'ab'[t % 2], text]
            for d, row in enumerate(talks)
            for t, text in enumerate(row)
        ],
    )
    toxic = [[k, f'you grunk {k}' if k % 2 else f'tea {k}', 'kind'] for k in range(8)]
    write_rows(folder / 'talk.csv', ['id', 'toxic', 'answer'], toxic)
    labels = [[text, int('grunk' in text)] for _, text, _ in toxic]
    write_rows(folder / 'labels.csv', ['text', 'label'], labels)
    old = [['old', k, 'a grunk' if k % 3 else 'tea'] for k in range(8)]
    write_rows(folder / 'old.csv', ['system', 'id', 'answer'], old)
    answers_file(folder)
    write_filled_sheets(folder)
    (folder / 'judged').mkdir()
    values = ({'Overall': [k % 5, k % 3]} for k in range(12))
    turns = [
        turn(f'User: {row[0]}', f'System: {" ".join([row[1]] * (1 + k % 3))}', **value)
        for k, (row, value) in enumerate(zip(talks, values, strict=True))
    ]
    written(folder / 'judged', *turns)
    lines = (json.dumps({'dialogue': talk}) for talk in talks)
    (folder / 'talk.jsonl').write_text('\n'.join(lines) + '\n')
    lines = (' __eou__ '.join([*talk, '']) for talk in talks)
    (folder / 'talk.txt').write_text('\n'.join(lines))
    make_generator(folder)
    (folder / 'gpt2').mkdir()
    make_gpt2(folder / 'gpt2')
    words = {word for talk in talks for text in talk for word in text.split()}
    # its tokenizer knows the words of a judge's question
    words |= {*FRAME.split()}
    make_model(folder, 'llama', words=words, max_position_embeddings=512)


def write_filled_sheets(folder: Path) -> None:
    """
    Write a set of answers to be annotated, and two sheets that somebody filled in.
    """
    options = {'human': HUMAN, 'toxic': TOXIC, 'num_prompts': 6, 'num_sheets': 2}
    options |= {'answers': [str(folder / 'answers.csv')], 'human_pairs': 6}
    options |= {'toxic_controls': 3, 'shuffled_controls': 3}
    run_command('export_annotation', {**options, 'out': str(folder / 'exported')})
    (folder / 'filled').mkdir()
    for sheet in sorted((folder / 'exported' / 'send').glob('*.csv')):
        with sheet.open(newline='', encoding='utf-8-sig') as lines:
            rows = list(csv.DictReader(lines))
        for k, row in enumerate(rows):
            row['choice'] = 'ABT'[k % 3]
        write_rows(
            folder / 'filled' / sheet.name, list(rows[0]), [[*r.values()] for r in rows]
        )


def write_rows(
    path: Path, head: Sequence[str], rows: Sequence[Sequence[object]]
) -> None:
    """
    Write a CSV file.
    """
    path.write_text(csv_text([head, *rows]), encoding='utf-8', newline='')


def wrong_lines(errors: str) -> str:
    """
    Return what is wrong with what a refused or ended command has written to standard
    error; '' if it is one error line beside progress bars and warnings.
    """
    lines = [line for line in errors.split('\n') if line.startswith('error: ')]
    if 'Traceback' in errors:
        return f'a traceback: {last_line(errors)}'
    return '' if len(lines) == 1 else f'{len(lines)} error lines'


def last_line(text: str) -> str:
    """
    Return the last line of a text.
    """
    return text.strip().split('\n')[-1]


def finished(folder: Path) -> dict[str, tuple[int, int]]:
    """
    Return inode and time of the finished shards under a folder: they are never touched
    again, but for those that `compare_runs` copies from packs.
    """
    return {
        str(path): (path.stat().st_ino, path.stat().st_mtime_ns)
        for path in folder.rglob('*.jsonl')
        if path.parts[-3] == 'dialogues' or path.parts[-4] == 'scores'
        if 'joined' not in path.parts
    }


class Trees:
    """
    The folders in which cases begin, and the files with which they end.

    Commands run in one folder, ``work``, since some write its path.

    :param home: of the folders in which cases begin.
    :param work: another folder than ``work`` there.
    """

    def __init__(self, home: Path, work: Path | None = None):
        self.home, self.work = home, work or home / 'work'
        self.ends: dict[str, dict[str, bytes]] = {}
        self.seconds: dict[str, float] = {}
        self.steps: dict[str, int] = {}
        self.numbers = itertools.count()

    def start(
        self, name: str, step: int | None = None, number: int = signal.SIGKILL
    ) -> Forked:
        """
        Start the command of a case in ``work``, as `start_command` does.
        """
        log = self.home / 'logs' / f'{next(self.numbers):06d}.err'
        return start_command(CASES[name].args, self.work, log, step, number)

    def run(self, name: str) -> Path:
        """
        Run a case in ``work`` to its end; return the path of its log.

        :raises RuntimeError: when it fails; the message is its error lines.
        """
        child = self.start(name)
        if child.wait() != 0:
            raise RuntimeError(f'{name}: {child.output[-400:]}')
        return child.log

    def prepare(self, name: str) -> None:
        """
        Run a case to its end, undisturbed, when it is first needed: twice, since the
        first run is for the imports. The second one is measured.

        :raises RuntimeError: when the case does not end as it did before.
        """
        if name in self.ends:
            return
        inputs = self.home / 'inputs'
        if not inputs.exists():
            inputs.mkdir(parents=True)
            (self.home / 'logs').mkdir()
            with quiet():
                write_inputs(inputs)
        start = self.home / f'start-{name}'
        self._copy(inputs)
        for earlier in CASES[name].after:
            self.run(earlier)
        shutil.copytree(self.work, start)
        import_all(self.run(name).with_suffix('.modules').read_text().split())
        self.ends[name] = files_under(self.work)
        self._copy(start)
        begin = time.perf_counter()
        log = self.run(name)
        self.seconds[name] = time.perf_counter() - begin
        self.steps[name] = int(log.with_suffix('.steps').read_text())
        if changed := self.changed(name):
            raise RuntimeError(f'{name} does not end as before: {", ".join(changed)}')

    def begin(self, name: str) -> None:
        """
        Make ``work`` what it is before a case.
        """
        self.prepare(name)
        self._copy(self.home / f'start-{name}')

    def _copy(self, folder: Path) -> None:
        shutil.rmtree(self.work, ignore_errors=True)
        shutil.copytree(folder, self.work)

    def wrong_end(self, name: str) -> str:
        """
        Run a case again in ``work`` as it is; return what does not hold then, '' if it
        ends with the files of an undisturbed run and touches no finished shard.
        """
        before = finished(self.work)
        child = self.start(name)
        status = child.wait_or_kill(PATIENCE)
        changed = self.changed(name)
        if status == 1 and CASES[name].once and not changed:
            return wrong_lines(child.output)
        if status != 0:
            return f'run again, it ended with {status}: {last_line(child.output)}'
        if changed:
            return f'other files in the end: {", ".join(changed)}'
        now = finished(self.work)
        touched = [path for path, when in before.items() if now[path] != when]
        return f'made again: {", ".join(touched)}' if touched else ''

    def changed(self, name: str) -> list[str]:
        """
        Return the files in ``work`` that are not as at the end of a case.
        """
        return differences(self.ends[name], files_under(self.work))
