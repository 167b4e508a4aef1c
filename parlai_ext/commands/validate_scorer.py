"""
`validate_scorer`: how well a scorer agrees with people, on a file or a run.
"""

from dataclasses import replace
from pathlib import Path

from parlai_ext.bench.agreement import (
    SCHEMA,
    MeanScores,
    agreement,
    agreement_lines,
    agreement_table,
    check_dimensions,
    mean_scores,
)
from parlai_ext.collect.options import PlanOptions
from parlai_ext.collect.plan import requested_protocol
from parlai_ext.commands.command import ModelCommand, print_lines
from parlai_ext.commands.options import PLAN, resamples
from parlai_ext.commands.scorer_options import SCORER_CHOICE
from parlai_ext.core import (
    Dialogue,
    JsonObject,
    ScoredDialogue,
    UserError,
    chunks,
    errors_about,
    frozen,
    optional,
    record_to_json,
)
from parlai_ext.data.chat_logs import read_dialogues
from parlai_ext.engines import EngineOptions, Machine
from parlai_ext.judge_check.record import CheckOptions, JudgeCheck, check_to_json
from parlai_ext.report.judge import check_lines
from parlai_ext.scoring.base import judged_indices
from parlai_ext.scoring.registry import scorer_class
from parlai_ext.scoring.score_run import ChosenScorer, choose_scorer, score_run
from parlai_ext.store import write_text
from parlai_ext.view.progress import bar_of

BATCH = 16  # dialogues of a file that are scored together
# options of the scorer, which are no part of a run that is resumed
SCORERS = ('judge_model_file', 'followups')


@frozen
class ValidateOptions:
    """
    Which dialogues people judged, and what is computed of it.
    """

    bootstraps: int = resamples(2000)
    dialogues_file: str | None = optional(
        help="dialogues that people judged, in ParlAI's Conversations format; "
        'nothing is collected then',
    )
    out: str | None = optional(help='CSV file for the table')


class ValidateScorer(ModelCommand):
    """
    Correlate a scorer with people's scores; FED also without complaints and without
    praise.

    The dialogues are those of a file, of a run, or of a run that is collected first.
    """

    declares = (
        *PLAN,
        *SCORER_CHOICE,
        '--human-scores',
        ValidateOptions,
        CheckOptions,
        Machine,
    )

    def check_early(self) -> None:
        """
        Refuse a run and a file of dialogues, and places where no table can be written.
        """
        super().check_early()
        self.require(human_scores='a CSV file of human judgements')
        self.human_judgements  # noqa: B018 - read for its errors
        given = self.options(ValidateOptions)
        if given.dialogues_file is not None and self.opt['run_dir']:
            raise UserError(
                '--run-dir: with --dialogues-file nothing is collected and no run is '
                'written; --out FILE.csv keeps the table'
            )
        if given.out and not Path(given.out).resolve().parent.is_dir():
            raise UserError(f'--out {given.out}: there is no such folder')

    def run(self) -> object:
        """
        Return what `agreement.json` holds, and print it as a table.
        """
        given = self.options(ValidateOptions)
        of_run = given.dialogues_file is None
        read = self.scores_of_run if of_run else self.scores_of_file
        scores, signature, check = read()
        agreed = agreement(
            scores,
            self.human_judgements,
            source=self.source,
            bootstraps=given.bootstraps,
        )
        result = {
            'schema': SCHEMA,
            **record_to_json(agreed),
            'signature': signature,
        }
        if check is not None:
            result['judge_check'] = check_to_json(check)
        if self.opt['run_dir']:
            run = self.existing_run
            with run.lock():
                run.write_json('agreement.json', result)
        if given.out:
            write_text(Path(given.out), agreement_table(agreed.rows).csv())
        print_lines(agreement_lines(agreed))
        if check is not None:
            print_lines(check_lines(check))
        print(f'scorer {signature}')
        return result

    @property
    def source(self) -> str:
        """
        Return where the judgements come from, for messages.
        """
        return f'--human-scores {self.opt["human_scores"]}'

    def scores_of_run(self) -> tuple[MeanScores, str, JudgeCheck | None]:
        """
        Collect the missing dialogues of a run, score it, and return the mean scores,
        the signature of the scorer and its check.
        """
        from parlai_ext.collect.collect import collected_run
        from parlai_ext.judge_check.check import check_run

        ours = ('bootstraps', *(() if self.opt['config'] else SCORERS))
        given = {**self.opt, **dict.fromkeys(ours)}
        asked = requested_protocol(PlanOptions.from_options(given))
        chosen = self.choose(asked.protocol.scorer, asked.scorer_is_named)
        with collected_run(asked, self.machine, EngineOptions()) as collected:
            run, problems = collected.run, collected.report.problems
            print_lines(f'left out: {line}' for line in collected.left_out)
            if not run.dialogue_shards():
                raise UserError(f'no dialogues: {"; ".join(problems or ["none yet"])}')
            scorer = chosen.build(self.machine)
            report = score_run(run, scorer, chosen)
            check = check_run(run, scorer, sample=self.opt['check_sample'])
            read = run.scores(report.signature).scored_dialogues()
            pairs = ((dialogue, scored) for dialogue, scored in read if scored)
            return mean_scores(pairs, scorer), report.signature, check

    def scores_of_file(self) -> tuple[MeanScores, str, JudgeCheck | None]:
        """
        Score the utterances of the judged systems in a file of dialogues. Return the
        mean scores, the signature of the scorer and its check.
        """
        from parlai_ext.judge_check.check import check_on_dialogues

        protocol = self.own_protocol
        chosen = self.choose(protocol.scorer if protocol else {}, True)
        with errors_about('--dialogues-file'):
            dialogues = read_dialogues(self.opt['dialogues_file'])
        judged = {judgement.system for judgement in self.human_judgements}
        indices = [
            judged_indices(one, first_speaker_only=False, speakers=judged)
            for one in dialogues
        ]
        if not any(indices):
            there = sorted({u.speaker for d in dialogues for u in d.utterances})
            raise UserError(
                f'{self.source}: column system: none of these speaks in '
                f'--dialogues-file; there: {", ".join(there)}'
            )
        scorer = chosen.build(self.machine)
        pairs: list[tuple[Dialogue, ScoredDialogue]] = []
        with bar_of('score', len(dialogues)) as bar:
            blocks = chunks(dialogues, BATCH), chunks(indices, BATCH)
            for some, places in zip(*blocks, strict=True):
                pairs += zip(some, scorer.score_dialogues(some, places), strict=True)
                bar.update(len(some))
        sample = self.opt['check_sample']
        check = check_on_dialogues(scorer, pairs, sample=sample)
        return mean_scores(pairs, scorer), scorer.signature, check

    def choose(self, recorded: JsonObject, is_own: bool) -> ChosenScorer:
        """
        Return the scorer of the options, set to give the evidence for its variants.

        :param is_own: the user named what is recorded.
        :raises UserError: for judgements in no dimension of it, or a scorer that judges
            no dialogues, before hours go by.
        """
        chosen = choose_scorer(recorded, self.opt, named_by_user=is_own)
        kind = scorer_class(chosen.section, named_by_user=chosen.named_by_user)
        chosen = replace(chosen, section=kind.with_evidence(chosen.section))
        scorer = chosen.prepared()
        scorer.require_dialogues()
        check_dimensions(scorer.dimensions, self.human_judgements, self.source)
        return chosen
