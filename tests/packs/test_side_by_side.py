"""
Two runs side by side: what differs, by pencil; nothing else, and nothing that acts.
"""

from dataclasses import replace
from html import unescape

import pytest

from parlai_ext.commands.compare_runs import CompareRuns
from parlai_ext.core.nouns import Dialogue, Utterance
from parlai_ext.packs.compare import differing_settings
from parlai_ext.packs.side_by_side import (
    Side,
    chosen_dialogues,
    marked_words,
    system_table,
)
from parlai_ext.report.write import write_report
from parlai_ext.results.ranking import write_ranking
from tests.support.published_runs import make_run
from tests.support.report_example import (
    LINES,
    SCORER,
    example_ranking,
    example_run,
    standing,
)
from tests.support.user_error import user_error

HOSTILE = '</div><script>alert(1)</script>'


def side(folder, *standings, signature=SCORER, **about):
    """
    Return a run with these standings, on one dimension.
    """
    run = example_run(folder, **about)
    ranking = replace(
        example_ranking(),
        standings={'Overall': standings},
        signature=f'x || {signature}',
    )
    return Side(folder.name, run, ranking)


@pytest.fixture
def compared(tmp_path):
    """
    Return a function that compares two runs and returns, for each system, what is shown
    of it.
    """

    def compared(first, other, signature=SCORER):
        sides = (
            side(tmp_path / 'a', *first),
            side(tmp_path / 'b', *other, signature=signature),
        )
        table = system_table(*sides, 'Overall')
        return [
            [column.cell(row).in_terminal() for column in table.columns]
            for row in table.rows
        ]

    return compared


def test_differences_are_the_second_score_less_the_first(compared):
    # intervals for these partners reach 0.2 to each side: they meet up to 0.4
    beta, alpha = compared(
        [standing('alpha', 2, 1.0), standing('beta', 1, 3.0)],
        [standing('alpha', 1, 2.5), standing('beta', 2, 2.75)],
    )
    assert beta[0::2] == [
        'beta',
        '3.000 [2.800, 3.200]',
        '2.750 [2.550, 2.950]',
        'overlap',
    ]
    assert alpha[1::2] == ['2', '1', '+1.500'] and alpha[-1] == 'apart'
    assert beta[5] == '−0.250'


def test_scores_of_different_judges_are_not_subtracted(compared):
    found = compared(
        [standing('alpha', 1, 1.0)], [standing('alpha', 1, 9.0)], 'fed|v:2|judge:tiny'
    )
    assert found == [
        ['alpha', '1', '1.000 [0.800, 1.200]', '1', '9.000 [8.800, 9.200]']
    ]


def test_a_system_of_one_run_stands_last_and_has_no_difference(compared):
    found = compared(
        [standing('beta', 1, 3.0), standing('alpha', 2, 1.0)],
        [standing('alpha', 1, 2.0)],
    )
    assert [row[0] for row in found] == ['alpha', 'beta']
    assert found[1][3:] == ['–'] * 4


def test_a_system_without_a_score_has_no_difference(compared):
    ((*_, difference, intervals),) = compared(
        [standing('alpha', None, None)], [standing('alpha', 1, 2.0)]
    )
    assert (difference, intervals) == ('–', '–')


def settings_of(*sides):
    manifests = [one.run.manifest for one in sides]
    return differing_settings(
        manifests, [one.ranking.scorer_signature for one in sides]
    )


def test_settings_are_those_that_differ_and_other_systems_of_one_name(tmp_path):
    first = side(tmp_path / 'a', signature='fed|v:1|judge:tiny')
    other = side(
        tmp_path / 'b', signature='fed|v:1|judge:large', targets=('alpha',), num_turns=8
    )
    settings = settings_of(first, other)
    assert 'collect.num_turns: 6 → 8' in settings
    assert 'scorer.judge: tiny → large' in settings
    assert not any('alpha' in line or 'beta' in line for line in settings)
    assert settings_of(first, first) == []
    alpha = first.run.manifest.targets['alpha']
    targets = {'alpha': alpha.model_copy(update={'identity': 'another'})}
    first.run.manifest = first.run.manifest.model_copy(update={'targets': targets})
    line = f'systems.alpha: "another" → "{alpha.identity}"'
    assert line in settings_of(first, other)


@pytest.mark.parametrize(
    'first, other, parts',
    [
        ('a b c', 'a b c', ([('a b c', False)], [('a b c', False)])),
        (
            'I like  big dogs',
            'I like dogs a lot',
            (
                [('I like', False), ('big', True), ('dogs', False)],
                [('I like', False), ('dogs', False), ('a lot', True)],
            ),
        ),
        ('', 'hello', ([], [('hello', True)])),
    ],
)
def test_words_that_the_other_text_lacks_are_marked(first, other, parts):
    found = marked_words(first, other)
    assert parts == tuple(
        [(' '.join(words), lacks) for words, lacks in own if words] for own in found
    )


def test_of_each_system_the_first_dialogue_that_differs_is_shown(tmp_path):
    first, same = (example_run(tmp_path / name) for name in 'ab')
    pairing = next(p for p in same.pairings if p.first == 'beta')
    dialogues = same.read_dialogues(pairing.id, 0)
    turns = (*dialogues[1].utterances[:-1], Utterance('mary', 'Something else.'))
    changed: list[Dialogue] = [dialogues[0], replace(dialogues[1], utterances=turns)]
    (tmp_path / 'b' / 'dialogues' / pairing.id / '00000.jsonl').unlink()
    same.write_dialogues(pairing.id, 0, changed)
    ((system, partner, shown),) = chosen_dialogues(first, same)
    assert (system, partner) == (pairing.first, pairing.second)
    assert shown[-1] == (
        dialogues[1].utterances[-1],
        turns[-1],
    )
    assert [one for one, _ in shown] == [*dialogues[1].utterances]


def test_the_page_links_to_both_runs_and_escapes_what_was_said(tmp_path, capsys):
    names = (HOSTILE, 'beta')
    for place, lines in enumerate((LINES, [HOSTILE])):
        run = example_run(tmp_path / f'run{place}', targets=names, lines=lines)
        ranking = example_ranking(names)
        write_ranking(run, ranking)
        write_report(run, ranking)
    page = tmp_path / 'pages' / 'both.html'
    runs = [str(tmp_path / f'run{place}') for place in range(2)]
    first, _ = CompareRuns.main(*runs, '--page', str(page))
    assert first.protocol == 'example' and str(page) in capsys.readouterr().out
    text = page.read_text()
    assert '../run0/report.html' in text and '../run1/report.html' in text
    assert '<script' not in text and HOSTILE in unescape(text)


def test_packs_and_folders_stand_beside_each_other(packs, runs, tmp_path):
    odd = make_run(tmp_path / 'odd', ['talker'], seed=1)
    page = tmp_path / 'both.html'
    CompareRuns.main(str(packs['talker']), str(odd.root), '--page', str(page))
    text = page.read_text()
    assert 'collect.seed' in text and '1 settings differ' not in text
    assert text.count('report.html') == 1


def test_three_runs_are_one_line(packs, tmp_path):
    paths = [str(packs[name]) for name in ('generic', 'talker', 'both')]
    with user_error('--page'):
        CompareRuns.main(*paths, '--page', str(tmp_path / 'x.html'))
