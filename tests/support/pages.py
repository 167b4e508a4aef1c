"""
Every kind of page that the program makes, from made-up data: without a model.
"""

from parlai_ext.audit.record import (
    FAILS,
    HOLDS,
    NOT_SHOWN,
    Audit,
    Basis,
    Finding,
    content_of_scores,
    write_audit,
)
from parlai_ext.bench.bench_files import read_points
from parlai_ext.bench.compare import compare_bench
from parlai_ext.bench.run_bench import BenchPlan, Variant, run_bench
from parlai_ext.bench.tables import (
    paper_tables,
    render_bench_page,
    render_comparison_page,
)
from parlai_ext.commands.compare_runs import CompareRuns
from parlai_ext.commands.compare_safety import CompareSafety
from parlai_ext.commands.rate_dialogues import RateDialogues
from parlai_ext.packs.check_pack import check_pack
from parlai_ext.packs.site import build_site
from parlai_ext.ranking.standings import RankRange
from parlai_ext.ranking.stopping_rule import Look, PairOutcome, Stopping
from parlai_ext.report.page import write_report
from parlai_ext.results.ranking import write_ranking
from parlai_ext.toxic.comparison import PAGE
from tests.support.bench_samples import judged_set
from tests.support.check_example import FAILS as FAILED
from tests.support.check_example import WEAK, example_card, example_check
from tests.support.planted_run import rated_run
from tests.support.published_runs import make_run, publish
from tests.support.report_example import LINES, SCORER, example_ranking, example_run
from tests.support.written import written

NAMES = ('a-system-with-a-rather-long-name-v2', 'beta', 'gamma')


def run_page(folder):
    """
    Return the page of a run with a judge, an audit and a stop.
    """
    run = example_run(folder / 'run', targets=NAMES)
    pairs = tuple(
        PairOutcome(*names, 'order', 40, 60, 0.4, 0.1, 0.7)
        for names in (NAMES[:2], NAMES[1:])
    )
    looks = (Look(20, 0, 0, 2), Look(60, 2, 0, 0))
    ranks = {name: RankRange(k + 1, k + 1) for k, name in enumerate(NAMES)}
    about = ('when-ranked', 'Overall', 0.1, 0.95, 100, 6)
    stopping = Stopping(*about, looks, pairs, ranks, SCORER)
    content = content_of_scores(run.scores(SCORER))
    basis = Basis(SCORER, 'scores', content, run.n_dialogues, '0')
    outcomes = {'target sets': HOLDS, 'variance': NOT_SHOWN, 'canaries': FAILS}
    findings = tuple(
        Finding(part, f'{outcome}: what its check says, in a sentence.', outcome)
        for part, outcome in outcomes.items()
    )
    judge = {'judge_check': example_check({'Overall': FAILED, 'Fluency': WEAK})}
    judge['judge'] = example_card()
    ranking = example_ranking(NAMES, **judge, stopping=stopping)
    audit = Audit('example', 'fed', 'Overall', 3, 2, 2, findings, (), basis)
    write_audit(run, audit)
    return write_report(run, ranking)


def bench_pages(folder):
    """
    Return the page of a bench, and that of the comparison of its scorers.
    """
    here = 'tests.support.bench_samples'
    names = {'words counted': f'{here}:Counted', 'dialogues': f'{here}:Whole'}
    names['length'] = 'length'
    variants = tuple(Variant(label, {'name': name}) for label, name in names.items())
    sets = {f'set_{k}': judged_set(f'set_{k}', 6) for k in range(2)}
    bench, *_ = run_bench(BenchPlan(variants=variants), sets, folder, bootstraps=50)
    texts = {'set_0': [['<b>hello</b>', 'well ' * 30]] * 30}
    points = [read_points(folder, 'set_0')]
    papers = paper_tables(bench, points)
    bench_page = render_bench_page(bench, papers, 'length agrees best.', points, texts)
    comparison = render_comparison_page(compare_bench(folder))
    return {
        'bench': written(folder, 'bench.html', bench_page),
        'comparison': written(folder, 'comparison.html', comparison),
    }


def safety_page(folder):
    """
    Return the page of what three systems answered to toxic prompts.
    """
    answer = 'and what are you? ' * 5
    rows = [
        {'system': name, 'prompt': f'you fool number {i}', 'answer': answer}
        for name in NAMES
        for i in range(8)
    ]
    CompareSafety.main(
        answers=[str(written(folder, 'answers.jsonl', rows))],
        detectors=[f'words={written(folder, "words.txt", "you")}'],
        bootstraps=50,
        out=str(folder / 'safety'),
    )
    return folder / 'safety' / PAGE


def site_pages(folder):
    """
    Return the list of published protocols, and the page of one.
    """
    for name in ('generic', 'talker'):
        publish(make_run(folder / name, [name]), folder / 'packs' / f'{name}.zip')
    site = build_site(folder / 'packs', folder / 'site', check_pack)
    return {'list': site.index, 'protocol': site.pages['tiny']}


def side_by_side_page(folder):
    """
    Return the page of two runs side by side, which differ in lines, judge and systems,
    and whose folders have one name.
    """
    sides = []
    for name, lines in (('first', LINES), ('second', LINES[1:])):
        run = example_run(folder / name / 'run', targets=NAMES, lines=lines)
        judge = {
            'judge': example_card(),
            'judge_check': example_check({'Overall': WEAK}),
        }
        ranking = example_ranking(NAMES[1:] if sides else NAMES, **judge)
        write_ranking(run, ranking)
        write_report(run, ranking)
        sides.append(str(run.root))
    page = folder / 'sides.html'
    CompareRuns.main(*sides, '--page', str(page))
    return page


def rating_page(folder):
    """
    Return a page on which people compare dialogues.
    """
    rated_run(folder / 'rated', NAMES)
    (page,) = RateDialogues.main(run_dir=folder / 'rated')
    return page


def example_pages(folder):
    """
    Return a page of every kind by the kind's name.
    """
    return {
        'run': run_page(folder),
        **bench_pages(folder),
        'safety': safety_page(folder),
        **site_pages(folder),
        'side_by_side': side_by_side_page(folder),
        'rating': rating_page(folder),
    }
