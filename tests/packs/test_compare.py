"""
Packs made apart rank as one run with all of their targets; others are refused by key.
Two runs side by side: what differs, by pencil; nothing else, and nothing that acts.
"""

import shutil
from contextlib import ExitStack
from dataclasses import replace
from html import unescape

import pytest

from parlai_ext.commands.compare_runs import CompareRuns
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.core import Utterance
from parlai_ext.judge_check.check import check_run
from parlai_ext.packs.compare import (
    Side,
    chosen_dialogues,
    differing_settings,
    join_packs,
    marked_words,
    pack_differences,
    system_table,
    worst_check,
)
from parlai_ext.packs.pack import open_pack
from parlai_ext.report.page import write_report
from parlai_ext.results.ranking import rank_run, write_ranking
from parlai_ext.scoring.score_run import ChosenScorer
from parlai_ext.store import RunFolder
from tests.packs.test_verify import better_answer, raise_score
from tests.support.check_example import FAILS, PASSES, WEAK, example_check
from tests.support.published_runs import make_run, publish
from tests.support.report_example import (
    LINES,
    SCORER,
    example_ranking,
    example_run,
    standing,
)
from tests.support.user_error import user_error


@pytest.fixture
def opened(packs):
    with ExitStack() as stack:
        yield {n: stack.enter_context(open_pack(path)) for n, path in packs.items()}


@pytest.fixture
def join(tmp_path):
    """
    Return a function that joins packs, and returns their ranking as well.
    """

    def join(*packs):
        joined = join_packs(packs, tmp_path / 'joined')
        (signature,) = joined.signatures
        return joined, joined.rank(signature)

    return join


def ranked(run):
    (scores,) = run.score_stores()
    return rank_run(run, scores.signature)


@pytest.fixture
def pack_of(tmp_path):
    """
    Return a function that publishes a run and opens the pack.
    """
    with ExitStack() as stack:

        def pack_of(run, name='other', **options):
            path = publish(run, tmp_path / f'{name}.zip', **options).path
            return stack.enter_context(open_pack(path))

        yield pack_of


def test_two_runs_made_apart_rank_as_one_run_of_both_targets(
    runs, packs, tmp_path, printed
):
    out = tmp_path / 'joined'
    pair = [str(packs[name]) for name in ('generic', 'talker')]
    (ranking,) = CompareRuns.main(*pair, '--out', str(out))
    assert '--page' in printed().splitlines()[-1]
    assert replace(ranking, notes=()) == replace(ranked(runs['both']), notes=())
    assert (out / 'report.html').exists()
    assert ranking.standings == ranked(RunFolder.existing(out)).standings


def test_the_scorer_of_the_protocol_comes_first(tmp_path, pack_of):
    run = make_run(tmp_path / 'run', ['talker'], scorer={'name': 'repetition'})
    ScoreDialogues.main(run_dir=run.root, scorer='length', check_sample=0)
    pack = pack_of(run)
    # by the names of their folders the other one is first
    assert 'length' in pack.signatures[0]
    joined = join_packs([pack], tmp_path / 'joined')
    assert ['repetition' in one for one in joined.signatures] == [True, False]


def test_so_do_withheld_texts_but_for_trivial_baselines(runs, pack_of, join):
    packs = [pack_of(runs[n], n, withhold_text=True) for n in ('generic', 'talker')]
    _, ranking = join(*packs)
    assert ranking.standings == ranked(runs['both']).standings
    assert not ranking.baselines


@pytest.mark.slow
def test_a_run_in_other_files_is_the_same_run(runs, opened, pack_of, join, tmp_path):
    wide = make_run(tmp_path / 'wide', ['talker'], batchsize=64)
    assert wide.manifest.shard_size != runs['talker'].manifest.shard_size
    pack = pack_of(wide)
    assert pack_differences([opened['generic']], pack) == []
    _, ranking = join(opened['generic'], pack)
    assert ranking.standings == ranked(runs['both']).standings


@pytest.mark.parametrize('withhold_text', [False, True])
def test_a_target_in_two_packs_counts_once_and_a_note_says_that_they_agree(
    runs, opened, pack_of, join, withhold_text
):
    joined, _ = join(
        opened['both'], pack_of(runs['talker'], withhold_text=withhold_text)
    )
    assert list(joined.run.manifest.targets) == ['generic', 'talker']
    note = 'talker is in several packs, with the same 10 dialogues and scores'
    assert note in joined.notes


def test_withheld_texts_that_differ_are_named(runs, copy_of, pack_of, join):
    other = copy_of('talker', better_answer, 'dialogues/talker*/00000.jsonl')
    for shard in other.dialogue_shards():
        (store,) = other.score_stores()
        store.write(shard, runs['talker'].scores(store.signature).read(shard))
    packs = [
        pack_of(run, name, withhold_text=True)
        for run, name in ((runs['talker'], 'mine'), (other, 'other'))
    ]
    joined, _ = join(*packs)
    assert any('in other, 1 of its 10 dialogues' in one for one in joined.notes)


def test_a_target_whose_scores_differ_is_named(copy_of, opened, pack_of, join):
    other = pack_of(copy_of('talker', raise_score))
    joined, ranking = join(opened['both'], other)
    assert any('in other, 1 of its 10 dialogues' in one for one in joined.notes)
    assert ranking.standings == ranked(opened['both'].run).standings


@pytest.mark.parametrize(
    'name, model, names, note',
    [
        # another system of the same name gets another name
        (
            'talker',
            'SlowStart',
            {'talker', 'talker (other)'},
            'talker of other is another system than the first of this name; it is '
            'called talker (other)',
        ),
        pytest.param(
            'chatty',
            'Talker',
            {'talker', 'chatty'},
            'one system under several names: talker, chatty',
            marks=pytest.mark.slow,
        ),
    ],
)
def test_names_and_systems_that_do_not_fit_are_noted(
    opened, pack_of, join, tmp_path, name, model, names, note
):
    systems = {name: {'model': f'tests.support.trial_agents:{model}'}}
    run = make_run(tmp_path / 'run', [name], systems=systems)
    joined, ranking = join(opened['talker'], pack_of(run))
    (rows,) = ranking.standings.values()
    assert {(row.system, row.n_dialogues) for row in rows} == {(n, 10) for n in names}
    assert note in joined.notes


@pytest.mark.parametrize(
    'section, changed, key',
    [
        ('partners.calm', {'identity': 'other'}, 'partners.calm: '),
        ('openers.0', {'id': 'other'}, 'openers.content: '),
        ('protocol', {'ranking': {'bootstraps': 60}}, 'ranking.bootstraps: 50 → 60'),
    ],
)
def test_what_differs_is_named(opened, forged, section, changed, key):
    def change(manifest):
        for key in section.split('.'):
            manifest = manifest[int(key) if key.isdigit() else key]
        manifest.update(changed)

    path = forged('manifest.json', change, 'talker')
    with open_pack(path) as other:
        (line,) = pack_differences([opened['generic']], other)
    assert line.startswith(key)


def test_another_scorer_and_another_version_are_named(opened, forged):
    def change(manifest):
        newer = manifest['signature'].replace('parlai_ext:', 'parlai_ext:9')
        manifest['signature'] = newer

    with open_pack(forged('manifest.json', change, 'talker')) as other:
        (signature,) = other.signatures
        wiser = (signature.replace('length', 'wisdom'),)
        lines = pack_differences([opened['generic']], replace(other, signatures=wiser))
    assert 'scorer: scorer: length → wisdom' in lines
    assert any(line.startswith('parlai_ext: ') for line in lines)


def test_packs_without_scores_cannot_be_compared(opened):
    scored = opened['generic']
    bare = replace(scored, signatures=())
    for pack, names in ((scored, 'generic'), (bare, 'generic nor in generic')):
        lines = pack_differences([pack], bare)
        assert lines == [f'scorer: there are no scores in {names}']


@pytest.mark.slow
def test_targets_that_never_met_cannot_be_joined(tmp_path, pack_of):
    packs = []
    for name in ('salad', 'talker'):
        run = make_run(tmp_path / name, ['generic', name], pairing='all_play_all')
        packs.append(pack_of(run, name))
    (line,) = pack_differences(packs[:1], packs[1])
    assert "'salad' and 'talker' never talked" in line


def test_each_dimension_takes_the_worst_of_its_outcomes():
    checks = {
        # the check of one pack leaves a dimension out
        'a': example_check(
            {'Fluency': FAILS, 'Odd': PASSES, 'Overall': PASSES, 'Wit': PASSES}
        ),
        'b': example_check({'Fluency': PASSES, 'Overall': WEAK, 'Wit': PASSES}),
    }
    worst, words = worst_check(checks)
    assert words == 'Fluency fail, a; Overall weak, b; Wit pass, a'
    assert worst.notes[-1].startswith('2 checks') and worst.notes[-1].endswith(' a')
    outcomes = {name: one.outcome for name, one in worst.dimensions.items()}
    assert outcomes == {'Fluency': 'fail', 'Overall': 'weak', 'Wit': 'pass'}


def test_a_pack_without_a_check_leaves_the_judge_of_all_unchecked(
    copy_of, opened, pack_of, join
):
    run = copy_of('talker')
    check_run(run, ChosenScorer(run.manifest.protocol.scorer).build())
    joined, ranking = join(pack_of(run, 'checked'), opened['generic'])
    assert ranking.judge_check is None
    note = 'judge check of length: unchecked, since there is none in generic (2)'
    assert note in joined.notes


def test_packs_that_share_scorers_only_two_by_two_are_no_ranking_of_all(
    packs, copy_of, tmp_path, printed
):
    """
    Two scorers scored the first pack, one each the others.
    """
    both, other = copy_of('both'), copy_of('talker')
    for run in (both, other):
        ScoreDialogues.main(run_dir=run.root, scorer='distinct', check_sample=0)
    (length,) = [s for s in other.score_stores() if 'length' in s.signature]
    shutil.rmtree(length.root)
    paths = [publish(both, tmp_path / 'first.zip').path, packs['generic']]
    paths.append(publish(other, tmp_path / 'third.zip').path)
    with user_error('1 of 3 packs .*third.zip'):
        CompareRuns.main(*map(str, paths))
    ranking, _, refused = printed().partition('refused')
    assert 'generic' in ranking
    assert 'scorer: none has scored all of first, generic, third' in refused


def test_a_folder_with_something_else_and_three_runs_on_a_page_are_refused(
    packs, tmp_path
):
    (tmp_path / 'joined').mkdir()
    (tmp_path / 'joined' / 'thesis.txt').touch()
    pair = [str(packs[name]) for name in ('generic', 'talker')]
    with user_error('a new folder is expected'):
        CompareRuns.main(*pair, '--out', str(tmp_path / 'joined'))
    assert [path.name for path in (tmp_path / 'joined').iterdir()] == ['thesis.txt']
    page = ['--page', str(tmp_path / 'x.html')]
    for paths in ([*pair, pair[0]], [*pair, '--out', str(tmp_path / 'x')]):
        with user_error('--page'):
            CompareRuns.main(*paths, *page)


HOSTILE = '</div><script>alert(1)</script>'


def side(folder, *standings, signature=SCORER, **about):
    """
    Return a run with these standings, on one dimension.
    """
    run = example_run(folder, **about)
    shown = {'standings': {'Overall': standings}, 'signature': f'x || {signature}'}
    return Side(folder.name, run, example_ranking(**shown))


def compared(folder, *sides, signature=SCORER):
    """
    Compare two runs; return, for each system, what is shown of it.

    :param sides: system, rank and score of each standing of a run.
    """
    first, other = ([standing(*one) for one in some] for some in sides)
    both = (side(folder / 'a', *first), side(folder / 'b', *other, signature=signature))
    table = system_table(*both, 'Overall')
    return [
        [column.cell(row).in_terminal() for column in table.columns]
        for row in table.rows
    ]


def test_differences_are_the_second_score_less_the_first(tmp_path):
    # intervals for these partners reach 0.2 to each side: they meet up to 0.4
    first = [('alpha', 2, 1.0), ('beta', 1, 3.0)]
    beta, alpha = compared(tmp_path, first, [('alpha', 1, 2.5), ('beta', 2, 2.75)])
    assert beta == [
        *('beta', '1', '3.000 [2.800, 3.200]', '2', '2.750 [2.550, 2.950]'),
        *('−0.250', 'overlap'),
    ]
    assert alpha[1::2] == ['2', '1', '+1.500'] and alpha[-1] == 'apart'


@pytest.mark.parametrize(
    'first, other, signature, shown',
    [
        # scores of different judges are not subtracted
        (
            [('alpha', 1, 1.0)],
            [('alpha', 1, 9.0)],
            'fed|v:2|judge:tiny',
            [['1', '1.000 [0.800, 1.200]', '1', '9.000 [8.800, 9.200]']],
        ),
        # a system of one run stands last and has no difference
        (
            [('beta', 1, 3.0), ('alpha', 2, 1.0)],
            [('alpha', 1, 2.0)],
            SCORER,
            [..., ['1', '3.000 [2.800, 3.200]', *['–'] * 4]],
        ),
    ],
)
def test_what_cannot_be_subtracted_has_no_difference(
    tmp_path, first, other, signature, shown
):
    rows = compared(tmp_path, first, other, signature=signature)
    assert [row[0] for row in rows] == ['alpha', 'beta'][: len(shown)]
    for row, cells in zip(rows, shown, strict=True):
        assert cells in (..., row[1:])


def settings_of(*sides):
    manifests = [one.run.manifest for one in sides]
    signatures = [one.ranking.scorer_signature for one in sides]
    return differing_settings(manifests, signatures)


def test_settings_are_those_that_differ_and_other_systems_of_one_name(tmp_path):
    first = side(tmp_path / 'a', signature='fed|v:1|judge:tiny')
    other = side(
        tmp_path / 'b', signature='fed|v:1|judge:large', targets=('alpha',), num_turns=8
    )
    settings = settings_of(first, other)
    assert 'num_turns: 6 → 8' in settings
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
    shard = same.shard(pairing.id, 0)
    alike, before = same.read_dialogues(shard)
    turns = (*before.utterances[:-1], Utterance('mary', 'Something else.'))
    same.dialogues_path(shard).unlink()
    same.write_dialogues(shard, [alike, replace(before, utterances=turns)])
    [(*speakers, shown)] = chosen_dialogues(first, same)
    assert speakers == [*pairing.speakers]
    assert [*shown] == [*zip(before.utterances, turns, strict=True)]


def test_the_page_links_to_both_runs_and_escapes_what_was_said(tmp_path, printed):
    names = (HOSTILE, 'beta')
    for place, lines in enumerate((LINES, [HOSTILE])):
        run = example_run(tmp_path / f'run{place}', targets=names, lines=lines)
        ranking = example_ranking(names)
        write_ranking(run, ranking)
        write_report(run, ranking)
    page = tmp_path / 'pages' / 'both.html'
    runs = [str(tmp_path / f'run{place}') for place in range(2)]
    first, _ = CompareRuns.main(*runs, '--page', str(page))
    assert first.protocol == 'example' and str(page) in printed()
    text = page.read_text()
    assert '../run0/report.html' in text and '../run1/report.html' in text
    assert '<script' not in text and HOSTILE in unescape(text)


def test_packs_and_folders_stand_beside_each_other(packs, runs, tmp_path):
    odd = make_run(tmp_path / 'odd', ['talker'], seed=1)
    page = tmp_path / 'both.html'
    CompareRuns.main(str(packs['talker']), str(odd.root), '--page', str(page))
    text = page.read_text()
    assert '>seed<' in text and '1 settings differ' not in text
    assert text.count('report.html') == 1
