"""
An audit that is against a ranking decides its headline, in terminal and page.
"""

import re
import shutil
from dataclasses import replace

import pytest

from parlai_ext.audit.record import (
    FAILS,
    HOLDS,
    NOT_SHOWN,
    Audit,
    Basis,
    Finding,
    Row,
    content_of_scores,
    write_audit,
)
from parlai_ext.audit.section import audit_doubt
from parlai_ext.commands.audit_run import AuditRun
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.report_run import ReportRun
from parlai_ext.judge_check.record import write_check
from parlai_ext.store import RunFolder
from tests.support.check_example import PASSES, example_check
from tests.support.planted_run import planted_run
from tests.support.written import on_one_line

WORTH = {'a': 3.0, 'b': 2.0, 'floor-c': 1.0, '<i>': 0.5}
SIGNATURE = 'scorer:made-up|v:1'
PART = 'canaries'


def beaten(canary, system, sure=0.0):
    return Row(PART, f'canary-{canary}', system, 'beaten', sure)


def audit(*rows, findings=(), signature=SIGNATURE, content='', dimension='Overall'):
    """
    Return an audit with five canaries, of which these rows say whom they beat.
    """
    kinds = ('flatterer', 'echo', 'question_spammer', 'parrot', 'injector')
    ranks = tuple(Row(PART, f'canary-{k}', k, 'rank', 2.0) for k in kinds)
    basis = Basis(signature, 'scores', content, 1, '0')
    about = ('test', 'made-up', dimension, 3, 1, 6)
    return Audit(*about, tuple(findings), ranks + rows, basis)


def finding(outcome, part='variance'):
    return Finding(part, 'Opener blocks turn the order over.', outcome)


def planted(folder, targets, step):
    def worth(first, second, n):
        return WORTH[first] + step * n

    about = {'ranking': {'bootstraps': 50}}
    return planted_run(folder, {'made-up': worth}, targets, 'pqrs', **about)


@pytest.fixture(scope='module')
def ranked(module_folder):
    run = planted(module_folder, WORTH, 0.01)
    check = replace(example_check({'Overall': PASSES}), signature=SIGNATURE)
    write_check(run.scores(SIGNATURE), check)
    RankSystems.main(run_dir=module_folder)
    return module_folder


@pytest.fixture
def run(ranked, tmp_path):
    return RunFolder.existing(shutil.copytree(ranked, tmp_path / 'run'))


def store(run, *rows, **about):
    content = content_of_scores(run.scores(SIGNATURE))
    write_audit(run, audit(*rows, **{'content': content, **about}))


def shown(run, capsys):
    """
    Return what the terminal and the page say of a run, each on one line.
    """
    capsys.readouterr()
    page = page_of(run)
    return on_one_line(capsys.readouterr().out), on_one_line(page)


def page_of(run):
    return ReportRun.main(run_dir=run.root).read_text('utf-8')


def cards(page):
    """
    Return the class and the text of each answer card.
    """
    (glance,) = re.findall('<dl class="glance".*?</dl>', page)
    found = re.findall(r'<div(?: class="(\w*)")?><dt>(.*?)</dt><dd>(.*?)</dd>', glance)
    return {re.sub(' <i>.*', '', q): (kind, text) for kind, q, text in found}


def test_a_canary_above_a_real_system_decides_the_headline(run, capsys):
    store(
        run,
        beaten('echo', 'b', 1.0),
        beaten('flatterer', 'b'),
        beaten('parrot', 'a', 1.0),
        findings=[finding(FAILS, PART), finding(HOLDS)],
    )
    words = '3 of 5 canaries fool this judge'
    printed, page = shown(run, capsys)
    assert f'judge check on Overall: pass, but {words}' in printed
    for text in (printed, page):
        doubt = f'{words}: echo, flatterer and parrot score above b and a'
        # the doubt comes before who leads
        _, _, rest = text.partition(doubt)
        assert '2 of them beyond chance' in rest
        assert 'On Overall, a comes first' in rest
    assert f'<p class="lead">{words}' in page
    # no "passed" above it, nor anywhere in the answers
    assert 'passed' not in page.partition('id="leaderboard"')[0].lower()
    answers = cards(page)
    assert answers['Believe it?'][0] == 'bad'
    assert f'No: {words}' in answers['Believe it?'][1]
    assert 'good' not in [kind for kind, _ in answers.values()]
    assert f'<h2>The judge <span class="tag warn">{words}</span>' in page


def test_a_run_that_its_audit_does_not_refute_is_as_before(run, capsys):
    store(run, findings=[finding(HOLDS), finding(NOT_SHOWN)])
    printed, page = shown(run, capsys)
    assert 'pass, but' not in printed
    answers = cards(page)
    for question in ('Who leads', 'By how much'):
        assert answers[question][0] == 'good'
    # the floor scores above a system, which is a caution further down
    news, text = answers['Believe it?']
    assert 'audit: not shown 1, holds 1' in text
    assert 'The judge passed its check, but read the 1 caution below' in text
    assert news == 'open'


def test_scores_that_never_vary_make_no_certain_claim(tmp_path, capsys):
    run = planted(tmp_path / 'run', 'ab', 0)
    RankSystems.main(run_dir=run.root)
    for text in shown(run, capsys):
        assert 'a comes first of 2 systems; as scores do not vary' in text
        assert 'its lead over every other is' not in text
    answers = cards(on_one_line(page_of(run)))
    assert answers['Who leads'][0] == answers['By how much'][0] == 'open'
    assert 'no interval' in answers['By how much'][1]


def test_a_canary_above_a_floor_alone_is_no_doubt():
    assert audit_doubt(audit(beaten('echo', 'floor-c', 1.0))) is None


def test_what_may_be_chance_is_said():
    doubt = audit_doubt(audit(beaten('echo', 'b')))
    assert '1 of 5 canaries fools this judge: echo scores above b' in doubt.sentence
    assert 'may be chance' in doubt.sentence and not doubt.is_refuted


def test_a_finding_that_does_not_hold_decides_the_headline(run, capsys):
    store(run, findings=[finding(HOLDS), finding(FAILS)])
    for text in shown(run, capsys):
        assert '1 of 2 audit findings does not hold' in text
        assert 'Opener blocks turn the order over.' in text


@pytest.mark.parametrize(
    'about',
    [
        {'content': 'older'},
        {'dimension': 'Fluency'},
    ],
)
def test_an_audit_of_other_scores_decides_nothing(run, capsys, about):
    store(run, beaten('echo', 'a', 1.0), **about)
    assert 'fools this judge' not in shown(run, capsys)[0]


def test_ranking_again_says_what_the_audit_found(run, printed):
    store(run, beaten('echo', 'a', 1.0))
    RankSystems.main(run_dir=run.root)
    text = on_one_line(printed())
    assert 'pass, but 1 of 5 canaries fools this judge' in text


# ------------------------------------------------------------------------ the section


@pytest.fixture(autouse=True)
def few_resamples(monkeypatch):
    monkeypatch.setattr('parlai_ext.audit.dependence.RESAMPLES', 40)


def audited(run):
    return AuditRun.main(run_dir=run.root, tables_only=True)


def test_every_finding_is_on_the_page_with_its_outcome(run):
    result = audited(run)
    (section,) = re.findall('<section id="audit">.*?</section>', page_of(run), re.S)
    rows = re.findall('<th scope="row">.*?</th>', section, re.S)
    outcomes = [re.sub('<.*?>', '', row).strip() for row in rows]
    assert sorted(outcomes) == sorted(one.outcome for one in result.findings)
    assert '<i>' not in section
    assert 'The run has changed' not in section


def test_an_audit_of_other_scores_says_so(run):
    audited(run)
    next((run.root / 'scores').glob('*/*/*.jsonl')).unlink()
    assert 'The run has changed' in page_of(run)


def test_an_audit_of_other_scores_is_named_and_not_shown(run):
    store(run, signature='scorer:another|v:1')
    page = page_of(run)
    assert 'of other scores' in page and '<caption>Can it be gamed?' not in page
