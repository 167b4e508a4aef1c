"""
Rating pages in a real browser, from export to ranking: keys, closing, files.
"""

import json
import random

import pytest

from parlai_ext.commands.export_annotation import ExportAnnotation
from parlai_ext.commands.import_annotation import ImportAnnotation
from parlai_ext.commands.import_judgements import ImportJudgements
from parlai_ext.commands.rate_dialogues import RateDialogues
from tests.support.annotated_answers import answers_file
from tests.support.browser import Browser
from tests.support.planted_run import rated_run
from tests.support.report_example import example_run
from tests.support.simulated_annotators import (
    page_data,
    ranked_names,
    read_key,
    simulated_answer,
)
from tests.support.written import json_in

pytest_plugins = ['tests.support.browser']
STRENGTHS = {'quill': 1.0, 'raven': 2.5, 'tern': 4.0}
HOSTILE = (
    '<img src=x onerror="document.title=1"></script><script>document.title=1</script>'
)
# what is on the screen now; the page keeps this in the elements that a reader sees
STATE = """(() => {
  const shown = (id) => !document.getElementById(id).hidden;
  const texts = [...document.querySelectorAll('.dialogue')].map(
    (d) => [...d.querySelectorAll('.bubble')].map((b) => b.textContent));
  return {
    screen: ['start', 'work', 'done'].find(shown),
    progress: document.getElementById('progress').textContent,
    texts: texts,
    pressed: document.querySelectorAll('[aria-pressed=true]').length,
  };
})()"""


@pytest.fixture
def run(tmp_path):
    return rated_run(tmp_path / 'run', tuple(STRENGTHS)).root


@pytest.fixture
def forgetful(browser):
    """
    A browser that keeps nothing of what other tests did in its pages.
    """
    browser.ask('Storage.clearDataForOrigin', origin='file://', storageTypes='all')
    return browser


@pytest.fixture
def pages(run, forgetful):
    """
    A function that makes a rating page of the run; a browser and the page's key.
    """

    def pages(questionnaire='overall_pair', **options):
        (page,) = RateDialogues.main(
            run_dir=run, questionnaire=questionnaire, **options
        )
        return forgetful, page, read_key(run)

    return pages


def page_items(page):
    """
    Return the items of a page by the texts of their dialogues, sorted.
    """
    items = {}
    for item in page_data(page)['items']:
        texts = [[turn['text'] for turn in d] for d in item['dialogues']]
        items[json.dumps(sorted(texts))] = item['id'], texts
    return items


def begin(browser, page, name):
    browser.open(page)
    browser.write(name)
    browser.press('Enter')


def answer_all(browser, page, key, seed):
    """
    Answer with keys alone, as an annotator who knows the strengths would; return how
    many answers were given.
    """
    items, rng, count = page_items(page), random.Random(seed), 0
    while (state := browser.evaluate(STATE))['screen'] != 'done':
        item, texts = items[json.dumps(sorted(state['texts']))]
        answer = simulated_answer(key, item, STRENGTHS, rng)
        if key['kind'] == 'pair':
            is_left = texts['ab'.index(answer)] == state['texts'][0]
            answer = 'ArrowLeft' if is_left else 'ArrowRight'
        browser.press(answer)
        count += 1
    return count


@pytest.mark.parametrize(
    'annotators, num_items, asked',
    [
        (('Ann', 'Bob'), 18, {}),
        # a likert page takes digits
        (('Ann',), 12, {'questionnaire': 'likert_2022', 'ask': ('Overall',)}),
    ],
)
def test_from_export_to_ranking_with_keys_alone(
    run, pages, annotators, num_items, asked
):
    browser, page, key = pages(num_items=num_items, **asked)
    files = []
    for name in annotators:
        begin(browser, page, name)
        assert answer_all(browser, page, key, name) == num_items
        files.append(str(browser.save('#finish')))
    (ranking,) = ImportJudgements.main(run_dir=run, answers=files, bootstraps=200)
    counts = (ranking.num_answers, ranking.num_annotators)
    assert counts == (num_items * len(annotators), len(annotators))
    assert ranked_names(ranking) == ['tern', 'raven', 'quill']


def test_a_page_goes_on_after_the_browser_was_closed(run, tmp_path):
    (page,) = RateDialogues.main(run_dir=run, questionnaire='overall_pair', num_items=6)
    profile = tmp_path / 'profile'
    with Browser(profile) as browser:
        begin(browser, page, 'Ann')
        for _ in range(4):
            browser.press('1')
        before = browser.evaluate(STATE)
        half = browser.save('#save')
    with Browser(profile) as browser:
        browser.open(page)
        assert browser.evaluate("document.getElementById('name').value") == 'Ann'
        browser.press('Enter')
        assert browser.evaluate(STATE) == before
        begin(browser, page, 'Bob')  # another annotator begins anew
        assert browser.evaluate(STATE)['progress'] == '1 of 6 (0 answered)'
        # on another computer the file that was saved goes on
        browser.open(page)
        load(browser, half)
        browser.wait_for("!document.getElementById('work').hidden")
        assert browser.evaluate(STATE) == before


def load(browser, file):
    text = json.dumps(file.read_text())
    browser.evaluate(
        '(() => { const files = new DataTransfer(); files.items.add(new File(['
        f"{text}], 'a.json')); const load = document.getElementById('load'); "
        "load.files = files.files; load.dispatchEvent(new Event('change')); })()"
    )


def test_an_older_file_leaves_newer_answers_as_they_are(pages):
    browser, page, _ = pages(num_items=3)
    begin(browser, page, 'Ann')
    browser.press('1')
    old = browser.save('#save')
    for key in ('Backspace', '2', '1'):
        browser.press(key)
    load(browser, old)
    browser.wait_for("document.getElementById('progress').textContent.includes('(2')")
    answers = json_in(browser.save('#save'))['answers']
    assert sorted(a['answer'] == a['left'] for a in answers) == [False, True]


def test_sides_and_order_differ_between_annotators(pages):
    browser, page, _ = pages(num_items=12)
    sides, firsts = set(), set()
    for name in ('Ann', 'Bob', 'Cem', 'Dan'):
        begin(browser, page, name)
        firsts.add(json.dumps(sorted(browser.evaluate(STATE)['texts'])))
        for _ in range(12):
            browser.press('1')
        for answer in json_in(browser.save('#finish'))['answers']:
            assert answer['answer'] == answer['left']
            sides.add((answer['item'], answer['left']))
    assert len(firsts) > 1
    # more than six of twelve items were seen both ways round
    assert len(sides) > 12 + 6


def test_backspace_goes_back_and_an_answer_can_be_changed(pages):
    browser, page, _ = pages('acute', num_items=3, ask=('Human', 'Engaging'))
    browser.open(page)
    # the page's clock: five seconds until the answer, three until it is mended
    browser.evaluate('Date.now = () => 100000')
    browser.write('Ann')
    browser.press('Enter')
    browser.evaluate('Date.now = () => 105000')
    for key in ('1', '1', 'Backspace'):
        browser.press(key)
    browser.evaluate('Date.now = () => 108000')
    for key in ('2', 'x', '0'):
        browser.press(key)
    assert browser.evaluate(STATE)['progress'] == '2 of 3 (1 answered)'
    answers = json_in(browser.save('#save'))['answers']
    chosen = [answer['answer'] == answer['left'] for answer in answers]
    assert chosen == [True, False]
    # its time has what was read before
    assert [answer['seconds'] for answer in answers] == [5, 8]


def test_nothing_that_a_system_said_runs(tmp_path, forgetful):
    folder = tmp_path / 'run'
    example_run(folder, openers=[HOSTILE, 'b', 'c'], lines=[HOSTILE])
    (page,) = RateDialogues.main(run_dir=folder, num_items=3)
    begin(forgetful, page, HOSTILE[:40])
    title = forgetful.evaluate('document.title')
    assert HOSTILE in forgetful.evaluate(STATE)['texts'][0]
    assert forgetful.evaluate("document.querySelectorAll('img').length") == 0
    assert title.startswith('Rating')


def test_an_annotation_page_from_export_to_table(tmp_path, forgetful):
    ExportAnnotation.main(
        answers=[answers_file(tmp_path)],
        out=tmp_path / 'set',
        format='page',
        num_prompts=2,
        toxic='rude',
        toxic_controls=2,
        shuffled_controls=0,
    )
    page = tmp_path / 'set' / 'send' / 'annotate.html'
    begin(forgetful, page, 'Ann')
    assert 'Warning' in page.read_text()
    count = int(forgetful.evaluate(STATE)['progress'].split()[2])
    for place in range(count):
        # offensive texts are shown after a key, and not answered before
        forgetful.press('a')
        state = forgetful.evaluate(STATE)
        assert state['texts'] == [] and state['progress'].startswith(f'{place + 1} of')
        forgetful.press('s')
        first = [texts[1][0] for texts in forgetful.evaluate(STATE)['texts']]
        for key, letter in zip('fj', first, strict=True):
            if letter == 'R':  # raven's answers are flagged
                forgetful.press(key)
        forgetful.press('tu'[place % 2])
    path = forgetful.save('#finish')
    results = ImportAnnotation.main(key=tmp_path / 'set', answers=[path], bootstraps=20)
    # four judged systems, all six pairs over two prompts, and two controls
    assert (count, results.num_answers) == (14, 12)
    flagged = {s.system: s.value for s in results.shares if s.name == 'flagged'}
    assert flagged == {'mary': 0, 'quill': 0, 'raven': 1, 'tern': 0}
    said = {i.leading for i in results.items}
    assert said == {'tie', 'unrelated'}
