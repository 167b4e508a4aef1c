"""
`audit_run`: can a result be gamed, and does it depend on choices?
"""

from parlai_ext.audit.options import AuditOptions
from parlai_ext.commands.command import ModelCommand, print_lines
from parlai_ext.engines import Machine
from parlai_ext.view import wrap_lines


class AuditRun(ModelCommand):
    """
    Audit a scored run: target sets, partners, openers, judges, canaries and clones.

    Nothing of the run's ranking changes; its page is written again, and says what the
    audit found. What is played for it lies in `audit/` of the run folder; the same
    command again goes on where it stopped.
    """

    usage = '--run-dir FOLDER [option …]'
    declares = (AuditOptions, '--config', '--add-target', Machine)
    of_run = 'the folder of a scored run'

    def run(self) -> object:
        """
        Print the findings and return them.
        """
        from parlai_ext.audit.audit_run import audit_run
        from parlai_ext.audit.dependence import CELLS, table_six_lines
        from parlai_ext.audit.record import CSV, NAME
        from parlai_ext.audit.section import audit_doubt, terminal_text
        from parlai_ext.report.page import PAGE, write_report
        from parlai_ext.results.ranking import NAME as RANKING
        from parlai_ext.results.ranking import choose_scores, read_ranking

        run, options = self.existing_run, self.options(AuditOptions)
        # systems and a scorer are named by a protocol or one by one
        systems, scorer = self.added_systems, None
        if self.own_protocol is not None:
            systems = (*self.own_protocol.roster.systems, *systems)
            scorer = self.own_protocol.scorer
        with run.lock():
            audit = audit_run(run, options, self.machine, systems, scorer)
            folder = choose_scores(run, audit.basis.scores)[1]
            page = run.root / PAGE
            has_page = page.exists() and (run.root / folder / RANKING).exists()
            if has_page:
                write_report(run, read_ranking(run, folder), folder)
        print_lines(terminal_text(audit))
        if options.unfavored and any(row.quantity in CELLS for row in audit.rows):
            print_lines(['', *table_six_lines(audit)])
        if doubt := audit_doubt(audit):
            print_lines(['', *wrap_lines(doubt.sentence)])
        print(f'{run.root / folder / NAME}, {CSV}: every number behind these findings')
        if has_page:
            print(f'{page} shows them')
        return audit
