"""
Does a scorer agree with people, and which of its follow-ups make it agree?
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import MACHINE, PLAN, add_options
from parlai_ext.core.errors import UserError

if TYPE_CHECKING:
    from parlai_ext.bench.variants import Scores
    from parlai_ext.core.nouns import Dialogue, HumanJudgement, ScoredDialogue
    from parlai_ext.scoring.fed import Fed
    from parlai_ext.store import RunFolder

BOOTSTRAPS = 2000
AT_ONCE = 16  # dialogues of a file that the judge reads together
# of a run that goes on as it is, another scorer is no part
SCORERS = ('judge_model_file', 'followups')


class ValidateScorer(Command):
    """
    Correlate FED, FED without complaints and FED without praise with people's scores.

    The dialogues are those of a file, of a run, or of a run that is collected first.
    """

    description = 'Correlate FED, w/o neg and w/o pos with human scores of dialogues'

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        add_options(parser, *PLAN, '--judge-model-file', '--followups')
        add_options(parser, '--human-scores', '--bootstraps')
        parser.add_argument(
            '--dialogues-file',
            help="dialogues that people judged, in ParlAI's Conversations format; "
            'nothing is collected then',
        )
        parser.add_argument('--out', help='CSV file for the table')
        add_options(parser, *MACHINE)

    def run(self) -> dict[str, Any]:
        """
        Return what `agreement.json` holds, and print it as a table.
        """
        from parlai_ext.systems.safe.trust import trust_files

        opt = self.opt
        with trust_files(opt.get('trust_model_code'), opt.get('datapath')):
            return self.validated()

    def validated(self) -> dict[str, Any]:
        """
        Do the job, with what the user trusts trusted.
        """
        from parlai_ext.bench.agreement_table import agreement_csv, agreement_table
        from parlai_ext.bench.variants import agreement
        from parlai_ext.files.human_scores import read_human_scores

        opt = self.opt
        if not opt['human_scores']:
            raise UserError('--human-scores is needed: a CSV file of what people said')
        human = read_human_scores(opt['human_scores'])
        of_file = opt['dialogues_file'] is not None
        if of_file and opt['run_dir']:
            raise UserError(
                '--run-dir: with --dialogues-file nothing is collected and no run is '
                'written; --out FILE.csv keeps the table'
            )
        if opt['out'] and not Path(opt['out']).resolve().parent.is_dir():
            raise UserError(f'--out {opt["out"]}: there is no such folder')
        scores, signature = self.of_file(human) if of_file else self.of_run(human)
        found = agreement(
            scores,
            human,
            source=self.source,
            bootstraps=opt['bootstraps'] or BOOTSTRAPS,
        )
        found = {**found, 'signature': signature}
        if opt['run_dir']:
            from parlai_ext.store import RunFolder

            run = RunFolder.existing(opt['run_dir'])
            with run.lock():
                run.write_json('agreement.json', found)
        if opt['out']:
            write(opt['out'], agreement_csv(found))
        print(agreement_table(found))
        print(f'scorer {signature}')
        return found

    @property
    def source(self) -> str:
        """
        Return where the judgements come from, for mistakes in them.
        """
        return f'--human-scores {self.opt["human_scores"]}'

    def of_run(self, human: Sequence[HumanJudgement]) -> tuple[Scores, str]:
        """
        Collect what is missing, score it, and return its scores and their signature.
        """
        from parlai_ext.bench.variants import variant_scores
        from parlai_ext.collect import plan
        from parlai_ext.results.tables import scored_dialogues
        from parlai_ext.scoring import score_run as score
        from parlai_ext.store import imported

        there = (
            None if self.opt['config'] else imported.imported_run(self.opt['run_dir'])
        )
        left_out: Sequence[str] = ()
        if there is None:
            ours = ('bootstraps', *(() if self.opt['config'] else SCORERS))
            run, planned = plan.prepare({**self.opt, **dict.fromkeys(ours)})
            left_out = planned.left_out
        else:
            run = there
        section = run.manifest['protocol'].get('scorer') or {}
        self.check(human, section)
        with run.lock():
            if there is None:
                self.collect(run, left_out)
            scorer = self.scorer(section)
            config = score.scorer_config(section, {**self.opt, 'fed_polarity': 'both'})
            report = score.score_run(run, scorer, config=config)
            read = scored_dialogues(run, plan.plan_of_run(run), report.signature)
            pairs = ((dialogue, scored) for _, dialogue, scored in read if scored)
            return variant_scores(pairs, scorer), report.signature

    def collect(self, run: RunFolder, left_out: Sequence[str]) -> None:
        """
        Collect what is missing, and say what does not come.
        """
        from parlai_ext.collect import collect

        problems = collect.collect(run, self.opt).problems
        for line in (*left_out, *problems):
            print(f'left out: {line}')
        if not run.dialogue_shards():
            raise UserError('no dialogues: ' + '; '.join(problems or ['none yet']))

    def of_file(self, human: Sequence[HumanJudgement]) -> tuple[Scores, str]:
        """
        Score what the judged systems say in a file of dialogues.
        """
        from parlai_ext.bench.variants import variant_scores
        from parlai_ext.data.parlai_conversations import read_dialogues
        from parlai_ext.files.protocol_file import load_protocol

        config = self.opt['config']
        section = load_protocol(config).scorer if config else {}
        self.check(human, section)
        dialogues = read_dialogues(self.opt['dialogues_file'], '--dialogues-file')
        judged = {one.system for one in human}
        indices = [
            [
                i
                for i, one in enumerate(dialogue.utterances)
                if one.speaker in judged and not one.given
            ]
            for dialogue in dialogues
        ]
        if not any(indices):
            there = sorted({u.speaker for d in dialogues for u in d.utterances})
            raise UserError(
                f'{self.source}: column system: none of these speaks in '
                f'--dialogues-file; there: {", ".join(there)}'
            )
        scorer = self.scorer(section)
        pairs = scored_pairs(scorer, dialogues, indices)
        return variant_scores(pairs, scorer), scorer.signature

    def check(self, human: Sequence[HumanJudgement], section: Any) -> None:
        """
        Refuse judgements of what is not asked before hours go by.
        """
        from parlai_ext.bench.variants import check_dimensions
        from parlai_ext.scoring.fed import followups_of
        from parlai_ext.scoring.score_run import scorer_config

        config = scorer_config(section, self.opt)
        asked = followups_of(config, self.opt['datapath']).dimensions
        check_dimensions(tuple(asked), human, self.source)

    def scorer(self, section: Any) -> Fed:
        """
        Return the scorer of a protocol, asked for all follow-ups there are.
        """
        from parlai_ext.scoring.fed import Fed
        from parlai_ext.scoring.score_run import scorer_config, scorer_of

        config = scorer_config(section, {**self.opt, 'fed_polarity': 'both'})
        found = scorer_of(config, self.opt)
        if not isinstance(found, Fed):
            raise UserError(
                'validate_scorer: scorer: only fed has praise and complaints'
            )
        return found


def scored_pairs(
    scorer: Fed, dialogues: Sequence[Dialogue], indices: Sequence[Sequence[int]]
) -> Iterator[tuple[Dialogue, ScoredDialogue]]:
    """
    Yield dialogues with their scores, some at a time, under a progress bar.
    """
    from parlai_ext.core.progress import bar_of

    with bar_of('score', len(dialogues)) as bar:
        for start in range(0, len(dialogues), AT_ONCE):
            some = dialogues[start : start + AT_ONCE]
            scored = scorer.score(some, indices[start : start + AT_ONCE])
            yield from zip(some, scored, strict=True)
            bar.update(len(some))


def write(path: str, text: str) -> None:
    """
    Write a file of the user's.
    """
    try:
        Path(path).write_text(text, encoding='utf-8', newline='\n')
    except OSError as e:
        raise UserError(f'--out {path}: {e.strerror}') from None
