"""
The page in a real browser: nothing that a system said runs, all of it is shown.
"""

from dataclasses import replace

import pytest

from parlai_ext.report.page import write_report
from parlai_ext.view import one_line, visible
from tests.support.check_example import FAILS, WEAK, example_card, example_check
from tests.support.hostile_strings import RUN, SCRIPT, SCRIPTS
from tests.support.report_example import SCORER, example_ranking, example_run

pytest_plugins = ['tests.support.browser']
CONTROL = f'<img src="data:," onerror="{RUN}">'
PAYLOADS = [
    *SCRIPTS,
    f'<meta http-equiv=refresh content="0;url=javascript:{RUN}">',
    f'<base href="javascript:{RUN}//">',
    f'<template>{SCRIPT}</template>',
    f'" onmouseover="{RUN}" x="',
    f'\ud800{SCRIPT}',
]


@pytest.fixture(scope='module')
def hostile_page(module_folder):
    """
    A report in which every text that others wrote is an attack.
    """
    names, partners = PAYLOADS[:3], PAYLOADS[3:5]
    run = example_run(
        module_folder / 'run',
        targets=names,
        partners=partners,
        openers=PAYLOADS[:2],
        lines=PAYLOADS,
        num_turns=len(PAYLOADS) + 2,
        reason=PAYLOADS[5],
    )
    about = {'evidence_labels': PAYLOADS[6:9]}
    run.write_json(f'scores/{run.scores(SCORER).root.name}/scorer.json', about)
    notes = tuple(PAYLOADS)
    ranking = example_ranking(
        names,
        names[:1],
        PAYLOADS[5],
        ('Overall', 'Fluency', PAYLOADS[9]),
        notes=notes,
        protocol=PAYLOADS[12],
        signature=f'{PAYLOADS[1]} || {SCORER}',
        judge=example_card(PAYLOADS[16]),
        judge_check=example_check({'Overall': FAILS, PAYLOADS[9]: WEAK}, notes=notes),
    )
    lengths = ranking.baselines['mean_length']
    ranking = replace(ranking, baselines={**ranking.baselines, PAYLOADS[10]: lengths})
    protocol = run.manifest.protocol.model_copy(update={'openers': PAYLOADS[13]})
    run.manifest.versions[PAYLOADS[14]] = PAYLOADS[15]
    run.manifest = run.manifest.model_copy(update={'protocol': protocol})
    return write_report(run, ranking)


def test_escaping_alone_keeps_every_attack_from_running(hostile_page, browser):
    seen = browser.read_all(hostile_page)
    assert not browser.has_run()
    # every attack is shown as the text it is
    assert len(PAYLOADS) >= 30
    for payload in PAYLOADS:
        assert visible(payload) in seen or one_line(payload) in seen


@pytest.mark.parametrize('policy', [True, False])
def test_the_policy_alone_stops_what_escaping_would_let_through(
    hostile_page, browser, tmp_path, policy
):
    text = hostile_page.read_text('utf-8')
    page = tmp_path / 'page.html'
    page.write_text(text.replace('</body>', f'{CONTROL}</body>'), encoding='utf-8')
    browser.read_all(page, policy)
    assert browser.has_run() is not policy
    assert not browser.evaluate('document.getElementById("browser").hidden')


def test_the_first_screen_has_the_leaderboard_and_its_rows_tell_two_intervals(
    tmp_path, browser
):
    names = [f'system {k}' for k in range(5)]
    check = example_check({'Overall': WEAK})
    ranking = example_ranking(names, judge_check=check, judge=example_card())
    browser.show(width=1280, height=800)
    browser.open(write_report(example_run(tmp_path / 'run', targets=names), ranking))
    rows = '"#leaderboard .panel:first-of-type .board tr"'
    ends = browser.evaluate(
        f'[...document.querySelectorAll({rows})]'
        '.map((row) => row.getBoundingClientRect().bottom)'
    )
    assert len(ends) == 1 + len(names) and ends[-1] <= 800
    # a telephone has the numbers themselves: test_report_reader.py
    for width in (1280, 700):
        browser.show(width=width, height=800)
        tooltip = browser.evaluate("""(() => {
      const row = document.querySelector('svg.row');
      row.scrollIntoView({ block: 'center' });
      const box = row.getBoundingClientRect();
      const [x, y] = [box.x + box.width / 2, box.y + box.height / 2];
      return document.elementFromPoint(x, y).closest('svg').textContent;
    })()""")
        assert 'any partners like these: −1.50 to −0.50' in tooltip
        assert 'these partners only: −1.20 to −0.80' in tooltip


def test_reader_sees_why_there_is_no_score(tmp_path, browser):
    run = example_run(tmp_path / 'run', reason='it said nothing')
    seen = browser.read_all(write_report(run, example_ranking()))
    assert 'not scored: it said nothing' in seen
    assert 'NaN' not in seen and 'undefined' not in seen
