"""
The page in a real browser: nothing that a system said runs, all of it is shown.
"""

import html
import re
import subprocess
from dataclasses import replace

import pytest

from parlai_ext.core.display import one_line, visible
from parlai_ext.report.write import write_report
from tests.support.browser import BROWSER, MISSING
from tests.support.check_example import FAILS, WEAK, example_card, example_check
from tests.support.report_example import SCORER, example_ranking, example_run

pytestmark = pytest.mark.skipif(BROWSER is None, reason=MISSING)
FLAGS = [
    '--headless',
    '--no-sandbox',
    '--disable-gpu',
    '--disable-quic',
    '--no-first-run',
    '--disable-background-networking',
    '--disable-component-update',
    '--disable-sync',
    '--disable-dev-shm-usage',
    '--virtual-time-budget=3000',
    '--dump-dom',
]
RUN = 'document.documentElement.dataset.ran=1'
RAN = 'data-ran='
CONTROL = f'<img src="data:," onerror="{RUN}">'
PAYLOADS = [
    f'<script>{RUN}</script>',
    f'</script><script>{RUN}</script>',
    f'</ScRiPt ><script>{RUN}</script>',
    f'<!--<script>--><script>{RUN}</script>',
    f'--><script>{RUN}</script>',
    f'<img src=x onerror={RUN}>',
    f'"><img src=x onerror={RUN}>',
    f"'><img src=x onerror='{RUN}'>",
    f'<svg onload={RUN}>',
    f'<svg><script>{RUN}</script></svg>',
    f'</svg><script>{RUN}</script>',
    f'</style><script>{RUN}</script>',
    f'</title><script>{RUN}</script>',
    f'</textarea><script>{RUN}</script>',
    f'</table><script>{RUN}</script>',
    f'</noscript><script>{RUN}</script>',
    f'</code></pre><script>{RUN}</script>',
    f'<body onload={RUN}>',
    f'<details open ontoggle={RUN}>x',
    f'<video><source onerror={RUN}></video>',
    f'<audio src=x onerror={RUN}>',
    f'<input autofocus onfocus={RUN}>',
    f'<iframe srcdoc="<script>parent.{RUN}</script>"></iframe>',
    f'<iframe src="javascript:parent.{RUN}"></iframe>',
    f'<object data="javascript:{RUN}"></object>',
    f'<embed src="javascript:{RUN}">',
    f'<a href="javascript:{RUN}">click</a>',
    f'javascript:{RUN}',
    f'<form action="javascript:{RUN}"><input type=submit></form>',
    f'<math><mtext><script>{RUN}</script></mtext></math>',
    f'<marquee onstart={RUN}>x</marquee>',
    f'<meta http-equiv=refresh content="0;url=javascript:{RUN}">',
    f'<base href="javascript:{RUN}//">',
    f'<template><script>{RUN}</script></template>',
    f'" onmouseover="{RUN}" x="',
    f"' autofocus onfocus='{RUN}' x='",
    f'{{{{ {RUN} }}}}',
    f'${{{RUN}}}',
    f'\\u003cscript\\u003e{RUN}\\u003c/script\\u003e',
    f'&lt;script&gt;{RUN}&lt;/script&gt;',
    f'&#60;script&#62;{RUN}&#60;/script&#62;',
    f'\\";{RUN};//',
    f'</script\u2028><script>{RUN}</script>',
    f'<scr\x00ipt>{RUN}</scr\x00ipt>',
    f'\ud800<script>{RUN}</script>',
    f'\u202e<script>{RUN}</script>',
]
# opens all there is to open, and collects what a reader then sees
READER = """<script>
addEventListener('load', () => {
  let seen = document.body.innerText;
  document.querySelectorAll('#list button').forEach((b) => {
    b.click();
    document.querySelectorAll('details').forEach((d) => {
      d.open = true; d.dispatchEvent(new Event('toggle'));
    });
    seen += document.getElementById('dialogue').textContent + '\\n';
  });
  document.querySelectorAll('a').forEach((a) => a.click());
  document.querySelectorAll('*').forEach((e) => {
    e.dispatchEvent(new Event('mouseover')); if (e.focus) e.focus();
  });
  const box = document.createElement('pre');
  box.id = 'seen';
  box.textContent = seen;
  setTimeout(() => document.body.append(box), 500);
});
</script>"""


def opened(folder, text):
    """
    Return the page's document as the browser leaves it.
    """
    folder.mkdir(exist_ok=True)
    path = folder / 'page.html'
    path.write_text(text, encoding='utf-8')
    home = folder / 'profile'
    command = [BROWSER, *FLAGS, f'--user-data-dir={home}', path.as_uri()]
    done = subprocess.run(command, capture_output=True, timeout=120, check=True)
    return done.stdout.decode('utf-8')


def without_policy(text):
    changed = re.sub('<meta http-equiv="Content-Security-Policy"[^>]*>', '', text)
    assert changed != text
    return changed


# a window of a browser is 500 wide at least; a frame is as narrow as wished
NARROW = """<iframe id="frame" width="400" height="800" srcdoc="{}"></iframe><script>
addEventListener('load', () => {{
  const page = document.getElementById('frame').contentDocument;
  page.querySelectorAll('details').forEach((d) => {{ d.open = true; }});
  const sticking = [...page.querySelectorAll('[id$=judge] *')].filter(
    (e) => e.getBoundingClientRect().right > 400);
  const box = document.createElement('pre');
  box.id = 'width';
  box.textContent = page.documentElement.scrollWidth + ' ' + sticking.length;
  document.body.append(box);
}});
</script>"""


# where the last row of the first leaderboard ends in a frame of the first screen's size
FIRST_SCREEN = """<iframe id="frame" width="1280" height="800" srcdoc="{}"></iframe>
<script>
addEventListener('load', () => {{
  const page = document.getElementById('frame').contentDocument;
  const rows = page.querySelectorAll('#leaderboard .panel:first-of-type .board tr');
  const box = document.createElement('pre');
  box.id = 'end';
  box.textContent = rows.length + ' ' +
    Math.round(rows[rows.length - 1].getBoundingClientRect().bottom);
  document.body.append(box);
}});
</script>"""


def with_tail(text, tail):
    return text.replace('</body>', f'{tail}</body>')


@pytest.fixture(scope='module')
def hostile_page(tmp_path_factory):
    """
    A report in which every text that others wrote is an attack.
    """
    folder = tmp_path_factory.mktemp('hostile') / 'run'
    names, partners = PAYLOADS[:3], PAYLOADS[3:5]
    run = example_run(
        folder,
        targets=names,
        partners=partners,
        openers=PAYLOADS[:5],
        lines=PAYLOADS,
        num_turns=len(PAYLOADS) + 2,
        reason=PAYLOADS[5],
    )
    about = {'evidence_labels': PAYLOADS[6:9]}
    run.write_json(f'scores/{run.scores(SCORER).root.name}/scorer.json', about)
    ranking = example_ranking(
        names,
        names[:1],
        PAYLOADS[5],
        notes=tuple(PAYLOADS),
        protocol=PAYLOADS[12],
        signature=f'{PAYLOADS[1]} || {SCORER}',
    )
    overall, lengths = ranking.standings['Overall'], ranking.baselines['mean_length']
    ranking = replace(
        ranking,
        standings={**ranking.standings, PAYLOADS[9]: overall},
        baselines={**ranking.baselines, PAYLOADS[10]: lengths},
    )
    check = example_check({'Overall': FAILS, PAYLOADS[9]: WEAK}, notes=tuple(PAYLOADS))
    card = example_card(PAYLOADS[16])
    ranking = replace(ranking, judge_check=check, judge=card)
    protocol = run.manifest.protocol.model_copy(update={'openers': PAYLOADS[13]})
    run.manifest.versions[PAYLOADS[14]] = PAYLOADS[15]
    run.manifest = run.manifest.model_copy(update={'protocol': protocol})
    return write_report(run, ranking).read_text(encoding='utf-8')


@pytest.fixture(scope='module')
def read_page(hostile_page, tmp_path_factory):
    """
    The hostile page without its policy, after a reader opened all of it.
    """
    text = with_tail(without_policy(hostile_page), READER)
    return opened(tmp_path_factory.mktemp('read'), text)


def test_escaping_alone_keeps_every_attack_from_running(read_page):
    assert RAN not in read_page.split('<head>')[0]


def test_every_attack_is_shown_as_the_text_it_is(read_page):
    assert len(PAYLOADS) >= 30
    seen = html.unescape(read_page[read_page.rindex('<pre id="seen">') :])
    for payload in PAYLOADS:
        assert visible(payload) in seen or one_line(payload) in seen


def test_no_attack_runs_with_the_policy_either(hostile_page, tmp_path):
    document = opened(tmp_path, hostile_page)
    assert RAN not in document.split('<head>')[0]
    assert 'id="browser"' in document and 'id="browser" hidden' not in document


def test_policy_alone_stops_what_escaping_would_let_through(hostile_page, tmp_path):
    document = opened(tmp_path, with_tail(hostile_page, CONTROL))
    assert RAN not in document.split('<head>')[0]


def test_an_attack_that_runs_would_be_noticed(hostile_page, tmp_path):
    text = with_tail(without_policy(hostile_page), CONTROL)
    assert RAN in opened(tmp_path, text).split('<head>')[0]


def test_the_card_of_a_failed_judge_fits_into_a_narrow_window(tmp_path):
    check = example_check({'Overall': FAILS, 'Fluency': WEAK})
    ranking = example_ranking(judge_check=check, judge=example_card())
    text = write_report(example_run(tmp_path / 'run'), ranking).read_text('utf-8')
    frame = NARROW.format(html.escape(without_policy(text)))
    document = opened(tmp_path / 'out', f'<!DOCTYPE html><body>{frame}</body>')
    width, sticking = re.search('<pre id="width">(\\d+) (\\d+)', document).groups()
    assert int(width) <= 400 and int(sticking) == 0


def test_the_leaderboard_is_in_the_first_screen(tmp_path):
    names = [f'system {k}' for k in range(5)]
    check = example_check({'Overall': WEAK})
    ranking = example_ranking(names, judge_check=check, judge=example_card())
    run = example_run(tmp_path / 'run', targets=names)
    text = without_policy(write_report(run, ranking).read_text('utf-8'))
    frame = FIRST_SCREEN.format(html.escape(text))
    document = opened(tmp_path / 'out', f'<!DOCTYPE html><body>{frame}</body>')
    rows, end = re.search('<pre id="end">(\\d+) (\\d+)', document).groups()
    assert int(rows) == 1 + len(names) and int(end) <= 800


def test_reader_sees_why_there_is_no_score(tmp_path):
    run = example_run(tmp_path / 'run', reason='it said nothing')
    page = write_report(run, example_ranking()).read_text(encoding='utf-8')
    document = opened(tmp_path / 'out', with_tail(without_policy(page), READER))
    seen = document[document.rindex('<pre id="seen">') :]
    assert 'not scored: it said nothing' in seen
    assert 'NaN' not in seen and 'undefined' not in seen
