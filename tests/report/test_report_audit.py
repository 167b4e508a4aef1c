"""
The audit's section of the page.
"""

import re

import pytest

from parlai_ext.commands.audit_run import AuditRun
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.report_run import ReportRun
from tests.support.planted_run import planted_run

pytestmark = pytest.mark.usefixtures('no_power_cuts')
WORTH = {'a': 3.0, '<b>': 2.0, 'c': 1.0}


@pytest.fixture
def run(tmp_path):
    run = planted_run(
        tmp_path,
        {'made-up': lambda first, second, n: WORTH[first] + 0.01 * n},
        tuple(WORTH),
        ('p', 'q'),
    )
    RankSystems.main(run_dir=str(tmp_path), bootstraps=50)
    return run


def page_of(run):
    ReportRun.main(run_dir=str(run.root))
    return (run.root / 'report.html').read_text('utf-8')


def test_a_run_without_an_audit_has_no_such_section(run):
    assert 'id="audit"' not in page_of(run)


def test_every_finding_is_on_the_page_with_its_outcome(run):
    result = AuditRun.main(run_dir=str(run.root), tables_only=True)
    (section,) = re.findall('<section id="audit">.*?</section>', page_of(run), re.S)
    rows = re.findall('<th scope="row">.*?</th>', section, re.S)
    outcomes = [re.sub('<.*?>', '', row).strip() for row in rows]
    assert sorted(outcomes) == sorted(one.outcome for one in result.findings)
    assert '<b>' not in section
    assert 'The run has changed' not in section


def test_an_audit_that_another_version_wrote_is_no_error(run):
    AuditRun.main(run_dir=str(run.root), tables_only=True)
    data = run.read_json('audit.json')
    run.write_json('audit.json', {**data, 'schema': 1})
    page = page_of(run)
    assert 'another version' in page and '<caption>Can it be gamed?' not in page


def test_an_audit_of_another_scorer_is_named_and_not_shown(run):
    AuditRun.main(run_dir=str(run.root), tables_only=True)
    data = run.read_json('audit.json')
    basis = {**data['basis'], 'signature': 'scorer:another|v:1'}
    run.write_json('audit.json', {**data, 'basis': basis})
    page = page_of(run)
    assert 'of other scores' in page and '<caption>Can it be gamed?' not in page


def test_an_audit_of_other_scores_says_so(run):
    AuditRun.main(run_dir=str(run.root), tables_only=True)
    next((run.root / 'scores').glob('*/*/*.jsonl')).unlink()
    assert 'The run has changed' in page_of(run)
