"""
A reader uses the page of a report in a real browser: nothing that a system said runs,
all of it is shown, and games are found under either system.
"""

import json
from collections import Counter
from dataclasses import replace
from urllib.parse import quote, unquote

import pytest

from parlai_ext.core import (
    Dialogue,
    Score,
    ScoredDialogue,
    Utterance,
    content_id,
    dialogue_means,
)
from parlai_ext.report.page import (
    dialogue_candidates,
    read_page_dialogues,
    scored_data,
    turn_marks,
    write_report,
)
from parlai_ext.report.summary import tournament_sentence
from parlai_ext.results.ranking import rank_run, read_tables, write_ranking
from parlai_ext.view import one_line, signed, spreadsheet_text, visible
from tests.results.test_ranking import GAME_WORTH, played
from tests.results.test_ranking import SCORER as MADE_UP
from tests.support.browser import STICKING
from tests.support.check_example import FAILS, WEAK, example_card, example_check
from tests.support.hostile_strings import RUN, SCRIPT, SCRIPTS
from tests.support.report_example import (
    SCORER,
    example_ranking,
    example_run,
    tournament_result,
)
from tests.support.written import csv_rows, json_rows

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
        module_folder / 'attacked',
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
    # a telephone has the numbers themselves: see below
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


# A reader uses the page in a real browser: search, sort, pages, keys, links, several
# scorers, systems side by side, files, narrow windows, and an accessibility engine.

OTHER = 'scorer:words|v:1'


def word_counts(pair, one, _):
    """
    Return the number of words of what the target says, as scores.
    """
    scores = tuple(
        Score(one.id, i, pair.first, 'Words', float(len(turn.text.split())))
        for i, turn in enumerate(one.utterances)
        if turn.speaker == pair.first and not turn.given
    )
    return ScoredDialogue(one.id, scores)


def written(folder, **about):
    """
    Return a run of three targets, two partners and ten openers with two scorers, and
    its page.
    """
    made = {'targets': ('alpha', 'beta', '7'), 'ranking': {'bootstraps': 50}}
    made['openers'] = [f'hello number {n}' for n in range(10)]
    run = example_run(folder, more_scores={OTHER: word_counts}, **made | about)
    ranking = rank_run(run, SCORER)
    write_ranking(run, ranking)
    other = rank_run(run, OTHER)
    write_ranking(run, other, f'rankings/{content_id(OTHER)}/')
    return run, write_report(run, ranking)


@pytest.fixture(scope='module')
def made(module_folder):
    return written(module_folder / 'run')


@pytest.fixture
def page(browser, made):
    browser.show()
    browser.open(made[1], '#dialogues')
    return browser


def rows(browser):
    return browser.evaluate(
        '[...document.querySelectorAll("#list button")].map((b) => b.innerText)'
    )


def text_of(browser, selector):
    return browser.evaluate(f'document.querySelector({json.dumps(selector)}).innerText')


def address(browser):
    return unquote(browser.evaluate('location.hash').replace('+', ' '))


def search(browser, text):
    browser.evaluate('document.getElementById("filter-text").select()')
    browser.write(text)


def means(run, dimension, signature=SCORER):
    """
    Return the mean of each dialogue by its id, as the score files have it.
    """
    found = {}
    for shard in run.dialogue_shards():
        by_id = run.scores(signature).by_dialogue(shard)
        target = run.pairing(shard.pairing_id).first
        for one in run.read_dialogues(shard):
            means_of = dialogue_means(one, by_id[one.id], target)
            found[one.id] = means_of.get(dimension)
    return found


def known_means(*about):
    return [mean for mean in means(*about).values() if mean is not None]


def scores_of(rows):
    return [float(row.split('\n')[1].replace('\u2212', '-')) for row in rows]


def test_all_dialogues_are_there_fifty_rows_at_a_time(page):
    assert text_of(page, '#count') == '60 of 60 dialogues'
    assert len(rows(page)) == 50
    page.click('#page-after')
    assert len(rows(page)) == 10
    assert page.evaluate('document.getElementById("page-after").disabled')


def test_search_finds_texts_whatever_their_case(page):
    search(page, 'NUMBER 3')
    assert text_of(page, '#count') == '6 of 60 dialogues'
    assert text_of(page, '#dialogue mark') == 'number 3'
    assert 'q=NUMBER 3' in address(page)
    search(page, 'nobody says this')
    assert rows(page) == []


def test_rows_are_sorted_by_the_chosen_dimension(page, made):
    page.click('#choose-dimension button:nth-child(2)')
    page.choose('#sort', 'low')
    values = sorted(known_means(made[0], 'Fluency'))
    assert scores_of(rows(page)[:5]) == pytest.approx(values[:5], abs=0.01)


def test_filters_leave_what_they_name(page):
    page.choose('#filter-target', 'beta')
    page.choose('#filter-partner', 'tom')
    assert text_of(page, '#count') == '10 of 60 dialogues'
    options = '[...document.getElementById("filter-target").options]'
    # in the order of the run's dialogues, where a name is a number, too
    values = page.evaluate(f'{options}.map((o) => o.value)')
    assert values == ['', 'alpha', 'beta', '7']
    page.choose('#filter-which', 'broken off')  # one for each pair with tom
    assert text_of(page, '#count') == '1 of 60 dialogues'
    assert 'Broken off by beta: the reply was empty' in text_of(page, '#dialogue')


def test_keys_go_through_the_list_and_into_the_search(page):
    before = rows(page)
    page.evaluate('document.querySelector("#list button").focus()')
    page.press('ArrowDown')
    page.press('j')
    current = 'document.querySelector("#list [aria-current]")'
    index = f'[...{current}.closest("ol").children].indexOf({current}.parentNode)'
    assert page.evaluate(index) == 2
    page.press('k')
    assert page.evaluate(index) == 1
    assert page.evaluate(f'document.activeElement === {current}')
    page.press('End')  # it is on the second page
    assert len(rows(page)) == 10 and page.evaluate(index) == 9
    page.press('Home')
    assert rows(page) == before
    page.press('/')
    assert page.evaluate('document.activeElement.id') == 'filter-text'
    page.write('j/k')  # in a field a letter is a letter
    assert page.evaluate('document.activeElement.value') == 'j/k'


def test_a_link_opens_the_same_view_again(page, made):
    page.choose('#choose-scorer', content_id(OTHER))
    page.choose('#filter-target', '7')
    page.choose('#sort', 'low')
    search(page, 'hello')
    page.click('#list li:nth-child(4) button')
    page.click('.beside input')

    def shown():
        return [text_of(page, where) for where in ('#list', '#dialogue', '#count')]

    link, seen = page.evaluate('location.hash'), shown()
    page.open(made[1], link)
    assert shown() == seen
    scorer = page.evaluate('document.getElementById("choose-scorer").value')
    assert scorer == content_id(OTHER)
    # another link into the open page
    page.evaluate('location.hash = "#pairs?dimension=Fluency"')
    page.wait_for('document.getElementById("sort").value === ""')
    assert text_of(page, '#choose-dimension [aria-pressed=true]') == 'Fluency'


def test_a_link_to_a_dialogue_of_another_page_says_so(page, made):
    page.open(made[1], '#dialogues?dialogue=0123456789abcdef')
    assert '0123456789abcdef is not on this page' in text_of(page, '#dialogue')
    page.click('#list button')
    assert 'not on this page' not in text_of(page, '#dialogue')


def test_the_answers_are_those_of_the_chosen_dimension(page):
    shown = '.glance:not([hidden])'
    assert 'on Overall' in text_of(page, shown)
    page.click('#choose-dimension button:nth-child(2)')
    assert 'on Fluency' in text_of(page, shown)
    page.click('nav a[href="#pairs"]')  # a link within the page keeps the choice
    assert address(page) == '#pairs?dimension=Fluency'


def test_each_scorer_has_its_own_view_and_figures(page, made):
    shown = '.view:not([hidden]) .glance:not([hidden])'
    names = f'document.querySelectorAll("{shown}").length'
    assert page.evaluate(names) == 1
    assert '(Words)' not in text_of(page, '#dialogue')
    page.choose('#choose-scorer', content_id(OTHER))
    assert page.evaluate(names) == 1
    page.choose('#sort', 'high')
    best = max(known_means(made[0], 'Words', OTHER))
    assert scores_of(rows(page)[:1]) == pytest.approx([best], abs=0.01)
    assert 'Words' in text_of(page, '#dialogue')
    assert 'Fluency' not in text_of(page, '#dialogue')


def test_systems_stand_side_by_side_with_differences(page, made):
    run, path = made
    by_opener = {
        run.pairing(d.pairing_id).speakers: d.id
        for d in run.iter_dialogues()
        if d.texts[0] == 'hello number 4'
    }
    value = means(run, 'Overall')
    alpha, beta = (by_opener[name, 'mary'] for name in ('alpha', 'beta'))
    page.open(path, f'#dialogues?dialogue={alpha}')
    assert page.evaluate('document.querySelector("table.side")') is None
    page.click('.beside input[value=beta]')
    # the focus stays on what was clicked
    assert page.evaluate('document.activeElement.value') == 'beta'
    heads = page.evaluate(
        '[...document.querySelectorAll(".side thead th")].map((e) => e.innerText)'
    )
    digits = len(heads[1].split('\n')[1].rpartition('.')[2])
    assert [head.split('\n')[0] for head in heads] == ['Turn', 'alpha', 'beta']
    assert f'({signed(value[beta] - value[alpha], digits)})' in heads[2]
    assert page.evaluate('document.querySelectorAll(".side tbody tr").length') == 6


def test_files_hold_what_is_listed(page, made):
    run = made[0]
    page.choose('#filter-target', 'beta')
    lines = csv_rows(page.save('#save-dialogues-csv'))
    dialogues = {d.id: d for d in run.iter_dialogues() if d.speakers[0] == 'beta'}
    assert {line['dialogue_id'] for line in lines} == set(dialogues)
    assert len(lines) == sum(len(d.utterances) for d in dialogues.values())
    for line in lines:
        dialogue = dialogues[line['dialogue_id']]
        turn = dialogue.utterances[int(line['utterance_index'])]
        assert (line['text'], line['speaker']) == (turn.text, turn.speaker)
        is_judged = turn.speaker == 'beta' and not turn.given
        assert bool(line['Overall']) == (is_judged and not dialogue.ended_by)
    records = json_rows(page.save('#save-dialogues-jsonl'))
    value = means(run, 'Overall')
    assert {record['dialogue_id'] for record in records} == set(dialogues)
    for record in records:
        mean = value[record['dialogue_id']]
        assert record['means']['Overall'] == (mean and pytest.approx(mean, rel=1e-5))
        assert set(record['partner_means'].values()) == {None}  # it is not judged


def test_saved_leaderboard_and_pairs_of_many_systems_are_those_of_the_run(
    tmp_path, browser
):
    names = [f'system {k:080}' for k in range(30)]
    run, path = written(tmp_path / 'run', targets=names)
    browser.open(path)
    saved = browser.save('#save-leaderboard').read_bytes()
    assert saved == (run.root / 'leaderboard.csv').read_bytes()
    pairs = Counter(line['dimension'] for line in csv_rows(browser.save('#save-pairs')))
    assert pairs == {'Fluency': 30 * 29 // 2, 'Overall': 30 * 29 // 2}


def test_intervals_are_numbers_and_nothing_sticks_out_also_on_paper(browser, made):
    cells = '[...document.querySelectorAll("#leaderboard td.ends")]'
    seen = f'{cells}.filter((c) => c.offsetWidth).map((c) => c.textContent)'
    browser.show(width=1280)
    browser.open(made[1], '#dialogues?beside=beta&beside=7&q=lake')
    intervals = browser.evaluate(seen)
    assert any(' to ' in text for text in intervals)
    # A4 with the browser's own margins, and telephones
    for media, width in (('print', 735), ('', 400), ('', 320)):
        browser.show(width=width)
        browser.ask('Emulation.setEmulatedMedia', media=media)
        assert set(intervals) <= set(browser.evaluate(seen))
        assert browser.evaluate(STICKING)[1] == []


@pytest.mark.slow
def test_an_accessibility_engine_finds_nothing(browser, made):
    # dark and narrow: tests/view/test_pages.py
    browser.show()
    browser.open(made[1], '#dialogues?beside=beta&q=lake&target=alpha&partner=tom')
    assert browser.violations() == []
    # a field without a name would be found
    browser.evaluate('document.body.append(document.createElement("select"))')
    found = browser.violations('document.body.lastChild')
    assert [line for line in found if line.startswith('critical select-name')]


# ------------------------------------------------------------------- hostile texts


@pytest.fixture(scope='module')
def hostile(module_folder):
    folder = module_folder / 'hostile'
    formulas = ('=1+1', '@SUM(A1)', ' +2', '-3', '\t=4', '＝5', 'plain')
    return written(
        folder,
        targets=PAYLOADS[:3],
        partners=(PAYLOADS[6], '=cmd|x'),
        openers=PAYLOADS[:2],
        lines=(*PAYLOADS, *formulas),
        num_turns=len(PAYLOADS) + len(formulas) + 2,
        reason=PAYLOADS[5],
    )


def is_unharmed(browser):
    """
    True if no attack ran, and the script of the page got to its end.
    """
    is_hidden = browser.evaluate('document.getElementById("browser").hidden')
    return not browser.has_run() and is_hidden is False


def test_nothing_in_the_address_runs(browser, made, hostile):
    browser.show()
    assert 'dataset.ran' in RUN
    words = ('constructor', '__proto__', 'toString', '%', '%zz', '?&=')
    # the first ones are names and texts of a run, too
    for (_, path), texts in (
        (hostile, PAYLOADS[:8]),
        (made, [*PAYLOADS[8:], *words]),
    ):
        for k, payload in enumerate(texts):
            text = quote(payload.encode('utf-8', 'replace'))
            if k % 20:  # within the open page; the others as it is loaded
                browser.evaluate(f'location.hash = {json.dumps(fragment_of(text))}')
                browser.evaluate('new Promise((done) => setTimeout(done, 5))')
            else:
                browser.open(path, fragment_of(text))
            assert is_unharmed(browser)
            assert text_of(browser, '#count').endswith(' dialogues')


def fragment_of(text):
    """
    Return an address in which every value, and the anchor, is one text.
    """
    keys = ('scorer', 'dimension', 'q', 'target', 'partner', 'which', 'sort', 'beside')
    query = '&'.join(f'{key}={text}' for key in (*keys, 'dialogue'))
    return f'#{text}?{query}'


def test_hostile_texts_stand_side_by_side_and_marked_as_they_are(browser, hostile):
    browser.show()
    wanted = quote(PAYLOADS[2])
    names = '&'.join(f'beside={quote(name)}' for name in PAYLOADS[:3])
    browser.open(hostile[1], f'#dialogues?q={wanted}&{names}')
    # \x00 and other hidden characters are spelled out
    seen = browser.evaluate('document.querySelector("table.side").textContent')
    for payload in PAYLOADS:
        assert visible(payload) in seen
    assert visible(PAYLOADS[2]) in browser.evaluate(
        '[...document.querySelectorAll("#dialogue mark")].map((e) => e.textContent)'
    )
    assert is_unharmed(browser)


def test_no_cell_of_a_saved_file_is_a_formula(browser, hostile):
    browser.open(hostile[1], '#dialogues')
    lines = csv_rows(browser.save('#save-dialogues-csv'))
    texts = {line['text'] for line in lines}
    for text in ('=1+1', '@SUM(A1)', ' +2', '-3', '＝5', 'plain'):
        assert spreadsheet_text(text) in texts
    partners = {spreadsheet_text(PAYLOADS[6]), "'=cmd|x"}
    assert {line['partner'] for line in lines} == partners
    for name in ('#save-pairs', '#save-leaderboard'):
        saved = browser.save(name).read_text('utf-8')
        assert '\n=' not in saved and ',=' not in saved


# Games of a tournament on the page: found under either system, with their points.


def shelf_of(run, ranking):
    found = candidates_of(run, ranking)
    return {
        (one['target'], one['partner']): one['scored'][0]
        for one in read_page_dialogues(run, [ranking], found).dialogues
    }


def ranked(folder, **about):
    run = played(folder, **about)
    return run, rank_run(run, MADE_UP)


def candidates_of(run, ranking):
    return dialogue_candidates(read_tables(run, MADE_UP), ranking, run.manifest)


def test_points_of_the_games_add_up_to_the_cross_table(tmp_path):
    run, ranking = ranked(tmp_path)
    shelf, sums = shelf_of(run, ranking), Counter()
    # b has more wit, c more joy
    assert shelf['c', 'b']['won'] == (['joy'], ['wit'])
    for pair, one in shelf.items():
        for names, won in zip((pair, pair[::-1]), one['won'], strict=True):
            sums[names] += len(won)
    table = ranking.tournament.cross_table
    assert sums == {(a, b): table[a][b] for a in table for b in table if a != b}


def test_a_game_is_chosen_by_its_lead(tmp_path):
    # wit alone, the first dimension, would give 3, the mean of a
    found = candidates_of(*ranked(tmp_path))
    [one] = [one for one in found if (one.target, one.partner) == ('a', 'b')]
    assert one.value == 2.0


def test_a_dialogue_is_found_under_its_second_speaker_too(tmp_path, browser):
    browser.open(write_report(*ranked(tmp_path)))
    browser.choose('#filter-target', 'c')
    rows = browser.evaluate(
        '[...document.querySelectorAll("#list button")].map((b) => b.textContent)'
    )
    # a-c and c-a: a wins wit; b-c and c-b: one dimension each
    starts = [row[:4] + row[4:].split('with ')[1][:1] for row in sorted(rows)]
    assert starts == ['a1–0c', 'b1–1c', 'c0–1a', 'c1–1b']


def test_the_leader_sentence_names_the_system_whose_rating_is_near():
    # 1.96 deviations of a difference are 1.96 * sqrt(3² + 4²) = 9.8
    ratings = {'a': 30.0, 'b': 20.3, 'c': 20.1}, {'a': 3.0, 'b': 4.0, 'c': 4.0}
    result = tournament_result(*ratings)
    first, near = tournament_sentence(result, n_openers=3).split('; ')
    for part in ('openskill', ' a ', '3 systems', '30.0 ± 3.0'):
        assert part in first
    assert 'over b is' in near


def test_a_rating_without_deviations_claims_no_lead():
    result = tournament_result({'a': 0.2, 'b': 0.1}, {})
    text = tournament_sentence(result, n_openers=3)
    assert 'comes first' not in text and 'may be chance' in text


# ---- turns that brought a penalty or a bonus, with the earlier turn


LABELS = ('repeats_turn', 'contradicts_turn', 'recalls_turn', 'perplexity')
DIVERSITY = example_ranking(dimensions=('diversity',))
PENALTY = {'diversity': -1.0, 'consistency': 0.0, 'relevance': 0.0}


@pytest.mark.parametrize(
    'scores, evidence, parts',
    [
        (PENALTY, (3, None, None, 9.5), ['repeats turn 3']),
        (
            {'consistency': -1.0, 'relevance': 1.0},
            (None, 2, 5, None),
            ['turn 2', 'turn 5, 4 turns later'],
        ),
        # a turn that does not count is not marked
        ({'diversity': 0.0, 'relevance': 'not counted: repeated'}, (3, None, 5), []),
        (PENALTY, (None, None, None, None), ['empty']),
    ],
)
def test_marks_say_with_what_a_turn_brought_a_penalty_or_a_bonus(
    scores, evidence, parts
):
    marks = [mark['words'] for mark in turn_marks(9, scores, LABELS, evidence)]
    assert len(marks) == len(parts)
    for mark, part in zip(marks, parts, strict=True):
        assert part in mark


def game():
    turns = tuple(Utterance('ab'[i % 2], f'text {i}') for i in range(4))
    values = [(2, 'a', -1.0), (0, 'a', 0), (None, 'a', -1.0), (None, 'b', -4)]
    scores = tuple(Score('d', i, n, 'diversity', value) for i, n, value in values)
    scored = ScoredDialogue('d', scores, {2: (0.0, None, None, 12.5)})
    return Dialogue('d', 'p', 'o', turns), scored


def test_turns_named_by_evidence_are_no_numbers_and_both_sides_have_a_value():
    data = scored_data(*game(), ('a', 'b'), DIVERSITY, LABELS)
    assert data['turns']['2']['evidence'] == [12.5]
    assert [mark['turn'] for mark in data['turns']['2']['marks']] == [0]
    assert (data['whole'], data['whole_partner']) == ([-1.0], [-4.0])
    assert data['won'] is None  # which is of a tournament


def test_a_corpus_named_by_evidence_is_no_number_and_columns_may_be_missing():
    dialogue, scored = game()
    labels = ('numbers', 'nearness', 'nearest_corpus')
    scored = replace(scored, evidence={0: (0.5, 0.25, 3), 2: (0.5,)})
    turns = scored_data(dialogue, scored, ('a', 'b'), DIVERSITY, labels)['turns']
    assert [turns[i]['evidence'] for i in ('0', '2')] == [[0.5, 0.25], [0.5]]


def test_reader_sees_tournament_and_marks(tmp_path, browser):
    run = played(tmp_path / 'run', worth={'diversity': GAME_WORTH['wit']})
    name = run.scores(MADE_UP).root.name
    labels = ['repeats_turn', 'contradicts_turn']
    run.write_json(f'scores/{name}/scorer.json', {'evidence_labels': labels})
    ranking = rank_run(run, MADE_UP)
    seen = browser.read_all(write_report(run, ranking))
    assert '−1 diversity: repeats turn 0How are you?' in seen
    assert 'Points of each match' in seen and 'turn 2' in seen
    assert 'NaN' not in seen and 'undefined' not in seen


def test_names_in_a_tournament_are_shown_and_never_run(tmp_path, browser):
    names = PAYLOADS[5:8]
    worth = {PAYLOADS[8]: dict(zip(names, (1.0, 2.0, 3.0), strict=True))}
    browser.read_all(write_report(*ranked(tmp_path, names=names, worth=worth)))
    assert not browser.has_run()
    section = browser.evaluate('document.getElementById("tournament").textContent')
    assert all(name in section for name in names)
