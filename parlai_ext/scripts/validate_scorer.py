"""
Does a scorer agree with people, and which of its follow-ups make it agree?
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parlai_ext.command import Command
from parlai_ext.errors import UserError
from parlai_ext.options import MACHINE, PLAN, add_options

if TYPE_CHECKING:
    from parlai_ext.records import HumanJudgement
    from parlai_ext.scoring.fed import Fed
    from parlai_ext.stages.agreement import Scores

BOOTSTRAPS = 2000
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
        from parlai_ext.bridge.safe.trust import trusting

        with trusting(self.opt):
            return self.validated()

    def validated(self) -> dict[str, Any]:
        """
        Do the job, with what the user trusts trusted.
        """
        from parlai_ext.human_scores import read_human_scores
        from parlai_ext.stages.agreement import agreement
        from parlai_ext.stages.agreement_table import agreement_csv, agreement_table

        opt = self.opt
        if not opt['human_scores']:
            raise UserError('--human-scores is needed: a CSV file of what people said')
        human = read_human_scores(opt['human_scores'])
        of_file = opt['dialogues_file'] is not None
        scores, signature = self.of_file(human) if of_file else self.of_run()
        found = agreement(
            scores,
            human,
            source=f'--human-scores {opt["human_scores"]}',
            bootstraps=opt['bootstraps'] or BOOTSTRAPS,
        )
        found = {**found, 'signature': signature}
        if opt['run_dir'] and not of_file:
            from parlai_ext.store import RunFolder

            run = RunFolder.existing(opt['run_dir'])
            with run.lock():
                run.write_json('agreement.json', found)
        if opt['out']:
            write(opt['out'], agreement_csv(found))
        print(agreement_table(found))
        print(f'scorer {signature}')
        return found

    def of_run(self) -> tuple[Scores, str]:
        """
        Collect what is missing, score it, and return its scores and their signature.
        """
        from parlai_ext.stages import collect, plan, score
        from parlai_ext.stages.agreement import variant_scores

        ours = ('bootstraps', *(() if self.opt['config'] else SCORERS))
        run, planned = plan.prepare({**self.opt, **dict.fromkeys(ours)})
        with run.lock():
            problems = collect.collect(run, self.opt).problems
            for line in (*planned.left_out, *problems):
                print(f'left out: {line}')
            if not run.dialogue_shards():
                raise UserError('no dialogues: ' + '; '.join(problems or ['none yet']))
            section = run.manifest['protocol'].get('scorer') or {}
            scorer = self.scorer(section)
            config = {**section, 'polarity': 'both'}
            report = score.score_run(run, scorer, config=config)
            store = run.scores(report.signature)
            pairs = (
                pair
                for shard in run.dialogue_shards()
                for pair in zip(
                    run.read_dialogues(shard.pairing_id, shard.index),
                    store.read(shard.pairing_id, shard.index),
                    strict=True,
                )
            )
            return variant_scores(pairs, scorer), report.signature

    def of_file(self, human: Sequence[HumanJudgement]) -> tuple[Scores, str]:
        """
        Score what the judged systems say in a file of dialogues.
        """
        from parlai_ext.config import load_protocol
        from parlai_ext.stages.agreement import variant_scores
        from parlai_ext.stages.dialogues_file import read_dialogues

        dialogues = read_dialogues(self.opt['dialogues_file'])
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
                f'--human-scores {self.opt["human_scores"]}: column system: none of '
                f'these speaks in --dialogues-file; there: {", ".join(there)}'
            )
        config = self.opt['config']
        scorer = self.scorer(load_protocol(config).scorer if config else {})
        scored = scorer.score(dialogues, indices)
        pairs = zip(dialogues, scored, strict=True)
        return variant_scores(pairs, scorer), scorer.signature

    def scorer(self, section: Any) -> Fed:
        """
        Return the scorer of a protocol, asked for all follow-ups there are.
        """
        from parlai_ext.scoring.fed import Fed
        from parlai_ext.stages.score import build_scorer, scorer_config

        found = build_scorer(
            scorer_config(section, {**self.opt, 'fed_polarity': 'both'}),
            datapath=self.opt['datapath'],
            no_cuda=bool(self.opt['no_cuda']),
            fp16=self.opt['fp16'],
            batchsize=self.opt['batchsize'],
        )
        if not isinstance(found, Fed):
            raise UserError(
                'validate_scorer: scorer: only fed has praise and complaints'
            )
        return found


def write(path: str, text: str) -> None:
    """
    Write a file of the user's.
    """
    try:
        Path(path).write_text(text, encoding='utf-8', newline='\n')
    except OSError as e:
        raise UserError(f'--out {path}: {e.strerror}') from None
