"""
From a scored run folder to `ranking.json`, on numbers that fit on a sheet of paper.

Contexts that are too long for the judge: counted, and said wherever scores are shown.
Then a tournament as the ranking rule, and the file itself, read again.
"""

import json
import random
import re
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pytest

from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.report_run import ReportRun
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.core import (
    HumanJudgement,
    JudgeModel,
    Opener,
    Score,
    ScoredDialogue,
    UserError,
)
from parlai_ext.core.protocol import Protocol
from parlai_ext.core.records import record_from_json
from parlai_ext.ranking.ratings import Rating
from parlai_ext.report.summary import rating_text, sentences, warnings
from parlai_ext.report.table import leaderboard_csv, terminal_table
from parlai_ext.results import ranking as rankings
from parlai_ext.results.ranking import (
    CardModel,
    CutContexts,
    Nearness,
    Ranking,
    ScoreTables,
    choose_scores,
    judge_card,
    rank_run,
    read_ranking,
    read_reference,
    read_tables,
    to_json,
    write_ranking,
)
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.store import ScorerRecord
from tests.collect.test_preflight import protocol, says
from tests.support.dialogues import spoken
from tests.support.mutations import mutations
from tests.support.plans import some_openers
from tests.support.planted_run import played_run
from tests.support.report_example import example_ranking
from tests.support.tiny_models import make_generator
from tests.support.user_error import user_error
from tests.support.written import csv_rows, json_in, on_one_line, rows_of_csv, written

SCORER = 'made-up|v:1'
TARGETS, PARTNERS = ('a', 'b', 'c', 'd'), ('p', 'q')
OPENERS = [
    Opener.from_utterances([f'Hello {i}.', f'Hi {i}.'], 'test') for i in range(4)
]
# what a target is worth
WORTH = {'a': 1.0, 'b': 2.0, 'c': 4.0, 'd': 3.0}


def scored_run(root, *, silent=None, silences=0, openers=OPENERS, **protocol):
    """
    Write a run whose dialogues score WORTH, with q a half more, on their two
    utterances, -1 and +1 around it; ``silent`` breaks off its first ``silences``
    dialogues with each partner.
    """

    def play(pair, opener, n):
        said = [*opener.utterances, 'one two three', 'yes', 'four five', 'no']
        if pair.first != silent or n >= silences:
            return spoken(pair, opener, said)
        ending = {'ended_by': pair.first, 'reason': 'empty reply'}
        return spoken(pair, opener, said[:4], **ending)

    sides, scores = (TARGETS, PARTNERS), {SCORER: judged}
    about = {'num_turns': 6, 'ranking': {'bootstraps': 20}, **protocol}
    return played_run(root, openers, *sides, play, scores, **about)


def judged(pairing, dialogue, _):
    middle = WORTH[pairing.first] + 0.5 * (pairing.second == 'q')
    scores = tuple(
        Score(dialogue.id, place, pairing.first, 'Overall', middle + place - 3)
        for place in range(2, len(dialogue.utterances), 2)
    )
    return ScoredDialogue(dialogue.id, scores)


def talk(pair, opener, n):
    return spoken(pair, opener, [*opener.utterances, 'one two', 'yes', 'three'])


def test_a_scorer_without_a_single_number_says_why(tmp_path, printed):
    def none_scored(pair, one, n):
        reason = 'the judge was silent' if n else 'it said "7 of 5"'
        score = Score(one.id, 2, pair.first, 'Overall', None, reason)
        return ScoredDialogue(one.id, (score,))

    sides = (TARGETS, PARTNERS)
    played_run(tmp_path, OPENERS, *sides, talk, {SCORER: none_scored}, num_turns=5)
    # 4 targets with 2 partners over 4 openers, the first of which has the other reason
    why = 'the judge was silent (24); it said "7 of 5" (8)'
    for command in (RankSystems, ReportRun):
        command.main(run_dir=tmp_path)
        shown = on_one_line(printed())
        assert f'no dialogue has a score on Overall: {why}' in shown


def ranked(root, human=None, **about):
    """
    Return the ranking of such a run.
    """
    return rank_run(scored_run(root, **about), SCORER, human=human)


def by_system(ranking):
    return {standing.system: standing for standing in ranking.standings['Overall']}


def people(scores=WORTH):
    return [HumanJudgement(name, 'Overall', value) for name, value in scores.items()]


@pytest.mark.parametrize('targets, said', [('ab', True), ('abc', False)])
def test_that_each_met_one_partner_only_is_said(tmp_path, targets, said):
    about = {'num_turns': 5, 'pairing': 'all_play_all'}
    run = played_run(tmp_path, OPENERS, targets, (), talk, {SCORER: judged}, **about)
    notes = rank_run(run, SCORER, bootstraps=50).notes
    one = 'one partner only: intervals cannot speak for other partners'
    assert (one in notes) is said


# the same difference everywhere is significant
RANKS = {'c': 1, 'd': 2, 'b': 3, 'a': 4}


def ranks(found):
    return {name: row.rank for name, row in found.items()}


def test_a_system_score_is_the_mean_of_its_dialogue_means(tmp_path):
    ranking = ranked(tmp_path)
    found = by_system(ranking)
    # each dialogue mean is worth, or worth + 0.5; over p and q that is worth + 0.25
    scores = {'a': 1.25, 'b': 2.25, 'c': 4.25, 'd': 3.25}
    assert {n: r.score for n, r in found.items()} == pytest.approx(scores)
    assert {row.n_dialogues for row in found.values()} == {8}
    assert ranks(found) == RANKS
    assert ranking.missing_scores is None


def test_one_opener_proves_nothing_however_far_apart_the_scores_are(tmp_path):
    # the reported failure: one judged reply for each partner, which all score the same
    ranking = ranked(tmp_path, human=people(), openers=OPENERS[:1])
    rows = by_system(ranking)
    assert ranks(rows) == RANKS
    for row in rows.values():
        assert (row.rank_low, row.rank_high, row.group) == (None, None, None)
        assert (row.low, row.high, row.low_fixed, row.high_fixed) == (None,) * 4
    found = ranking.reference['Overall']
    assert found.spearman.value == pytest.approx(1.0)
    assert found.spearman.low is None and 'openers: 1' in found.reason


def test_a_dialogue_that_a_target_broke_off_has_no_score(tmp_path):
    run = scored_run(tmp_path, silent='a', silences=1)
    ranking = rank_run(run, SCORER, max_failed_share=0.5)
    row = by_system(ranking)['a']
    assert (row.n_dialogues, row.n_unscored) == (8, 2)
    assert row.score == pytest.approx(1.25)  # not the half-told dialogues' 0.25
    bound = ranking.bounds['Overall']['a']
    assert bound.unscored_share == pytest.approx(2 / 8)
    # six dialogues of mean 1.25, two at the lowest (1.0) or highest (4.5) seen
    assert bound.worst == pytest.approx((6 * 1.25 + 2 * 1.0) / 8)
    assert bound.best == pytest.approx((6 * 1.25 + 2 * 4.5) / 8)


def test_a_target_that_fails_too_often_is_listed_and_not_ranked(tmp_path):
    ranking = ranked(tmp_path, silent='a', silences=1)
    found = by_system(ranking)
    assert ranks(found) == {**RANKS, 'a': None} and found['a'].score is not None
    failed = ranking.failures['a']
    assert (failed.n_failed, failed.n_dialogues) == (2, 8)
    assert failed.ranked is False and failed.reasons == {'empty reply': 2}


def without_scores(run, *pairs):
    """
    Delete the score files of these pairs; return their names in the run folder.
    """
    ids = [pair.id for pair in run.pairings if pair.speakers in pairs]
    paths = [run.scores(SCORER).path(run.shard(one, 0)) for one in ids]
    for path in paths:
        path.unlink()
    return [str(path.relative_to(run.root)) for path in paths]


def test_a_target_whose_scores_are_deleted_is_listed_and_not_ranked(tmp_path, printed):
    run = scored_run(tmp_path)
    # p adds nothing, so that without the scores with q both would seem worse
    [file_of_c, file_of_d] = without_scores(run, ('c', 'q'), ('d', 'q'))
    ranking = RankSystems.main(run_dir=tmp_path)
    assert ranks(by_system(ranking)) == {'b': 1, 'a': 2, 'c': None, 'd': None}
    missing = ranking.missing_scores
    assert missing.files == (file_of_c, file_of_d)
    assert missing.n_dialogues == {'c': 4, 'd': 4}
    words = on_one_line(printed())
    for system in 'cd':
        assert f'not ranked: {system} (the scores of 4 of its 8 dialogues' in words
    page = ReportRun.main(run_dir=tmp_path).read_text()
    for file in missing.files:
        assert file.rpartition('/')[0] in words.replace(' ', '') and file in page


def test_few_missing_scores_are_counted_and_the_target_is_ranked(tmp_path):
    run = scored_run(tmp_path)
    without_scores(run, ('c', 'q'))
    ranking = rank_run(run, SCORER, max_failed_share=0.5)
    row = by_system(ranking)['c']
    assert (row.rank, row.n_dialogues, row.n_unscored) == (1, 8, 4)
    assert ranking.missing_scores.not_ranked == ()
    assert any('missing: 1 file of scores' in note for note in ranking.notes)


def test_a_new_ranking_replaces_the_leaderboard_and_removes_the_page(tmp_path):
    run = scored_run(tmp_path)
    ranking = RankSystems.main(run_dir=tmp_path)
    assert read_ranking(run) == ranking
    page = ReportRun.main(run_dir=tmp_path)
    leaderboard = (tmp_path / 'leaderboard.csv').read_text()
    RankSystems.main(run_dir=tmp_path)
    assert page.exists()  # it shows this ranking
    without_scores(run, ('c', 'q'))
    RankSystems.main(run_dir=tmp_path)
    assert not page.exists()
    assert (tmp_path / 'leaderboard.csv').read_text() != leaderboard


def test_a_ranking_tells_whose_dialogues_changed_after_it(tmp_path):
    run = scored_run(tmp_path)
    RankSystems.main(run_dir=tmp_path)
    assert read_ranking(run).outdated is None
    next(tmp_path.glob('dialogues/c--*/*.jsonl')).unlink()
    ranking = read_ranking(run)
    assert ranking.outdated == ('c',)
    assert 'older than dialogues of c:' in warnings(ranking)[0]


def test_human_scores_replace_the_reference(tmp_path):
    human = people({'a': 1.0, 'b': 3.0, 'c': 4.0, 'd': 2.0, 'z': 9.0})
    ranking = ranked(tmp_path, human=human)
    found = ranking.reference['Overall']
    # places 1 2 4 3 against 1 3 4 2: 1 - 6 * 2 / (4 * 15)
    assert found.spearman.value == pytest.approx(0.8)
    assert (found.kind, found.n) == ('human', 4)
    assert any(note.endswith('of no target: z') for note in ranking.notes)


OWN, OTHER = {'name': 'fed'}, {'name': 'fed', 'polarity': 'both'}


def add_scores(run, signature, config):
    """
    Store the scores of the run as those of another scorer.
    """
    store = run.scores(signature)
    for shard in run.dialogue_shards() if signature != SCORER else ():
        store.write(shard, run.scores(SCORER).read(shard))
    about = {'signature': signature, 'config': config, 'given': False}
    run.write_json(f'scores/{store.root.name}/scorer.json', about)


@pytest.mark.parametrize('order', [(OWN, OTHER), (OTHER, OWN)])
def test_the_protocols_own_scorer_owns_ranking_json(tmp_path, order):
    run = scored_run(tmp_path)
    run.manifest.protocol.scorer.update(OWN)
    for config in order:
        name = f'made-up|polarity:{config.get("polarity", "negative")}'
        add_scores(run, name, config)
    add_scores(run, SCORER, {'name': 'else'})
    failed = run.scores('failed').root.name  # before its first shard
    run.write_text(f'scores/{failed}/signature.txt', 'failed\n')
    other = run.scores('made-up|polarity:both').root.name
    assert choose_scores(run, None) == ('made-up|polarity:negative', '')
    folder = f'rankings/{other}/'
    assert choose_scores(run, other) == ('made-up|polarity:both', folder)
    with user_error('choose one of'):
        choose_scores(run, 'nonsense')


def test_scores_that_were_interrupted_do_not_hide_the_protocols_own(tmp_path):
    run = scored_run(tmp_path)
    run.manifest.protocol.scorer.update(OWN)
    add_scores(run, SCORER, OWN)
    another = run.scores('scorer:another')  # killed before its record was written
    shard = run.dialogue_shards()[0]
    another.write(shard, run.scores(SCORER).read(shard))
    assert choose_scores(run, None) == (SCORER, '')


def test_scores_are_also_named_by_their_scorer_where_one_has_it(tmp_path):
    run = scored_run(tmp_path)
    for name in ('scorer:chatmatch|reading:paper', 'scorer:fed|v:1', 'scorer:fed|v:2'):
        add_scores(run, name, {'name': name})
    games = run.scores('scorer:chatmatch|reading:paper').root.name
    assert choose_scores(run, 'chatmatch') == choose_scores(run, games)
    with user_error(r'--scores: fed; choose one of \w+ \(fed\), \w+ \(fed\); '):
        choose_scores(run, 'fed')


def test_human_scores_that_fit_nothing_are_refused(tmp_path):
    run = scored_run(tmp_path)
    for wrong, hint in (('overall', 'Overall'), ('Fluency', 'Overall')):
        human = [HumanJudgement('a', wrong, 1.0)]
        with user_error(f'{wrong}.*{hint}'):
            rank_run(run, SCORER, human=human)
    with user_error("no target 'A'"):
        rank_run(run, SCORER, human=people({'A': 1.0}))


def test_a_baseline_is_correlated_the_way_round_it_is_ranked(tmp_path, monkeypatch):
    # a repeats itself most and is the worst: lower is better, so they agree fully
    share = [0.9, 0.5, 0.1, 0.3]
    read = rankings.read_tables

    def read_tables(*args):
        tables = read(*args)
        tables.baselines['repeated_share'][:] = np.reshape(share, (4, 1, 1))
        return tables

    monkeypatch.setattr(rankings, 'read_tables', read_tables)
    ranking = ranked(tmp_path, human=people())
    found = ranking.baseline_reference['repeated_share']['Overall']
    assert found.spearman.value == pytest.approx(1.0)


def test_overlap_with_the_partner_stands_beside_length(tmp_path):
    openers = [
        Opener.from_utterances([f'Two {i}.', f'ONE hi {i}!'], 'test') for i in range(4)
    ]
    ranking = ranked(tmp_path, openers=openers)
    # of "one two three" one word was heard, "Two" being its own; of "four five" none
    scores = {one.system: one.score for one in ranking.baselines['overlap']}
    assert scores == dict.fromkeys(TARGETS, pytest.approx(1 / 6))
    assert list(ranking.baselines)[0] == 'mean_length'
    # 2.5 words, given ones and the partner's left out
    assert {one.score for one in ranking.baselines['mean_length']} == {2.5}


@pytest.mark.parametrize('is_planted, n', [(False, 3), (True, 4)])
def test_a_floor_is_correlated_only_where_a_planted_order_names_it(
    tmp_path, monkeypatch, is_planted, n
):
    monkeypatch.setattr(rankings, 'is_floor', lambda name: name == 'a')
    order = {'reference_kind': 'planted', 'reference': {'Overall': WORTH}}
    about = order if is_planted else {'human': people()}
    ranking = ranked(tmp_path, **about)
    assert ranking.reference['Overall'].n == n
    assert len(ranking.standings['Overall']) == 4
    assert any('floors' in note for note in ranking.notes) != is_planted


def evaluate(folder):
    """
    Two given words, then two turns of each; the judge reads 20 tokens.

    Turns are joined by a newline, one token. What is judged of `short` has 5 and 9
    tokens; of `long-winded` 1 + 1 + 12 + 2 = 16, and 16 + 1 + 12 + 2 = 31, of which 11
    are cut: one of two in every dialogue.
    """
    rows = ['conv_id,utterance_idx,utterance', 'a,1,rain', 'a,2,book']
    rows += ['b,1,song', 'b,2,hill', '']
    openers = written(folder, 'openers.csv', '\n'.join(rows))
    judge = make_generator(folder, text_truncate=20)
    options = protocol(
        folder,
        [says('short', 'tea'), says('long-winded', ' '.join(['tea'] * 12))],
        [says('partner', 'tea')],
        num_turns=6,
        num_dialogues=2,
        openers='ext:empathetic_openers',
        scorer={'name': 'fed', 'judge_model_file': judge},
    )
    options |= {'openers_file': str(openers), 'check_sample': 4, 'no_cuda': True}
    return EvaluateSystems.main(**options, bootstraps=20)


@pytest.fixture(scope='module')
def finished(module_folder):
    return module_folder / 'run', evaluate(module_folder)


def test_ranking_counts_the_contexts_that_were_cut(finished):
    _, ranking = finished
    assert ranking.truncated == {'long-winded': CutContexts(4, 2, 0.5, False)}
    assert ranking.bootstraps == 20  # as every option of the main command


def test_leaderboard_csv_marks_the_system(finished):
    run, _ = finished
    rows = csv_rows(run / 'leaderboard.csv')
    marks = {(r['system'], r['truncated_share'], r['not_comparable']) for r in rows}
    assert marks == {('short', '0.0', 'False'), ('long-winded', '0.5', 'True')}


def test_page_marks_the_system_and_counts(finished):
    run, _ = finished
    page = (run / 'report.html').read_text()
    rows = [row for row in page.split('<tr') if 'not comparable</span>' in row]
    assert rows and all('long-winded' in row for row in rows)
    cells = re.findall(r'<td class="num">2 of 4</td>\s*<td class="num">50 %</td>', page)
    assert len(cells) == 1


def test_terminal_marks_the_system_and_says_why(finished):
    _, ranking = finished
    lines = terminal_table(ranking).split('\n')
    assert any(re.search(r'\blong-winded †', line) for line in lines)
    assert not any('short †' in line for line in lines)
    said = on_one_line(' '.join(lines))
    assert 'The scores of long-winded are not comparable: 50 % of its' in said


def test_as_many_cut_contexts_as_allowed_are_only_noted(finished):
    run, _ = finished
    ranking = RankSystems.main(run_dir=run, max_truncated_share=0.5)
    assert ranking.truncated['long-winded'].comparable
    assert not any('not comparable' in line for line in warnings(ranking))
    note = 'contexts too long for the judge, cut: long-winded 2 of 4 (50 %)'
    assert note in ranking.notes


def test_scoring_alone_says_how_many_were_cut(finished, tmp_path, printed):
    run, _ = finished
    judge = make_generator(tmp_path, text_truncate=4)
    report = ScoreDialogues.main(
        run_dir=run, judge_model_file=judge, no_cuda=True, batchsize=8, check_sample=4
    )
    # all eight contexts have five tokens and more
    assert report.n_truncated == report.n_utterances == 8
    assert 'read in part: 8 utterances\n' in printed()


# A tournament as the ranking rule: games, points and ratings that fit on paper.

NAMES = ('a', 'b', 'c')
OPENER = Opener.from_utterances(['How are you?'], 'test')
RULE = {'rule': 'tournament', 'rating': '3-1-0', 'bootstraps': 20}
# what each is worth on each dimension, in every game: a beats b beats c on wit, c beats
# b on joy, and a and c are equal there
GAME_WORTH = {
    'wit': {'a': 3.0, 'b': 2.0, 'c': 1.0},
    'joy': {'a': 2.0, 'b': 1.0, 'c': 2.0},
}


def played(
    root,
    *,
    rule=RULE,
    worth=GAME_WORTH,
    names=NAMES,
    silent=(),
    reference=None,
    openers=(OPENER,),
):
    """
    Write a run in which every ordered pair has one scored game over each opener.

    :param silent: pairs whose games were not scored.
    """

    def play(pair, opener, _):
        said = ['How are you?', 'one two', f'{pair.first} says three words']
        return spoken(pair, opener, said)

    run = played_run(
        root,
        openers,
        names,
        (),
        play,
        {SCORER: lambda pair, one, _: scored_game(one, pair, worth)},
        pairing='all_play_all',
        num_turns=3,
        score='both',
        ranking=rule,
        reference=reference or {},
        reference_kind='planted' if reference else None,
    )
    for pair in run.pairings:
        if pair.speakers in silent:
            run.scores(SCORER).path(run.shard(pair.id, 0)).unlink()
    return run


def scored_game(dialogue, pair, worth):
    # turns say something else: their mean must not enter the game
    scores = [Score(dialogue.id, 2, pair.first, d, -50.0) for d in worth]
    scores += [
        Score(dialogue.id, None, name, dimension, of[name])
        for dimension, of in worth.items()
        for name in pair.speakers
    ]
    return ScoredDialogue(dialogue.id, tuple(scores), {2: (0.0, None)})


def ranked_games(root, **about):
    """
    Return the ranking of such a run.
    """
    return rank_run(played(root, **about), SCORER)


def overall(ranking):
    return {one.system: one for one in ranking.standings['Overall']}


def test_points_rating_and_scores_are_those_on_paper(tmp_path):
    ranking = ranked_games(tmp_path)
    # two games a pair. a-b: a wins wit and joy, 2 points a game; a-c: wit, joy is
    # equal; b-c: one dimension each
    assert ranking.tournament.cross_table == {
        'a': {'a': None, 'b': 4, 'c': 2},
        'b': {'a': 0, 'b': None, 'c': 2},
        'c': {'a': 0, 'b': 2, 'c': None},
    }
    assert ranking.tournament.dimension_points['c'] == {'wit': 0, 'joy': 2}
    # a wins both matches: 6; b and c tie theirs: 1 each
    assert {n: (r.score, r.rank) for n, r in overall(ranking).items()} == {
        'a': (6.0, 1),
        'b': (1.0, 2),
        'c': (1.0, 2),
    }
    # whoever answers is judged too: two opponents, each once as first, once as second
    rows = {one.system: one for one in ranking.standings['wit']}
    assert [rows[name].n_dialogues for name in NAMES] == [4, 4, 4]
    assert {n: rows[n].score for n in NAMES} == pytest.approx(GAME_WORTH['wit'])


def test_signature_fixes_rating_seed_and_shuffles(tmp_path):
    run = played(tmp_path, rule={**RULE, 'rating': 'openskill'})
    one, two = (rank_run(run, SCORER, shuffles=n).signature for n in (1, 2))
    assert one != two
    assert 'rating:openskill' in one and 'seed:0' in one


def test_skill_has_its_uncertainty_and_the_ranks_it_leaves_open(tmp_path):
    run = played(tmp_path, openers=some_openers(3))
    ranking = rank_run(run, SCORER, rating='openskill')
    row = overall(ranking)['a']
    spread = ranking.tournament.ratings['openskill'].spreads['a']
    assert row.high - row.score == pytest.approx(1.96 * spread)
    assert row.rank_low <= row.rank <= row.rank_high
    # a rating without deviations leaves rank intervals unknown
    row = overall(rank_run(run, SCORER))['a']
    assert (row.rank, row.rank_low, row.rank_high) == (1, None, None)


@pytest.mark.parametrize('rating', ['openskill', '3-1-0'])
def test_games_over_one_opener_leave_ranks_and_intervals_unknown(tmp_path, rating):
    ranking = ranked_games(tmp_path, rule={**RULE, 'rating': rating})
    for rows in ranking.standings.values():
        for row in rows:
            assert row.n_openers == 1  # two games over it, one begun by each
            assert (row.low, row.rank_low, row.rank_high) == (None, None, None)
    assert 'first' not in sentences(ranking)[0]


def test_a_plan_is_refused_before_anything_is_written(tmp_path):
    run = played(tmp_path)
    with user_error('--plan: a tournament'):
        RankSystems.main(run_dir=run.root, plan='0.5')
    assert not (run.root / 'ranking.json').exists()


def test_planted_order_is_compared_by_tau_beside_baselines(tmp_path):
    reference = {'Overall': {'a': 3, 'b': 2, 'c': 1}}
    ranking = ranked_games(tmp_path, reference=reference)
    found = ranking.reference['Overall']
    # a-b and a-c agree, b and c tie in the rating: 2 / sqrt(2 * 3)
    of_rating = ranking.tournament.ratings['3-1-0'].tau
    assert found.kendall.value == of_rating.value == pytest.approx(2 / 6**0.5)
    assert set(ranking.baseline_reference) == set(ranking.baselines)
    # all speak alike
    length = ranking.baseline_reference['mean_length']['Overall']
    assert length.kendall.value is None and length.reason


def test_ranks_of_judges_are_averaged_and_the_smallest_is_best():
    ranks = {'r': (1, 2, 3), 's': (2, 1, 3)}
    said = [
        HumanJudgement(name, dimension, rank, rater)
        for dimension in ('rank', 'wit')
        for rater in ranks
        for name, rank in zip(NAMES, ranks[rater], strict=True)
    ]
    tables = ScoreTables(NAMES, (), {'wit': np.zeros((3, 1, 1))}, {}, {})
    reference = read_reference(Protocol('test'), said, tables, is_tournament=True)
    assert set(reference.by_dimension) == {'wit'}
    assert reference.rating == {'a': -1.5, 'b': -1.5, 'c': -3.0}


def test_one_without_a_game_leaves_the_others_their_places(tmp_path):
    silent = [(x, y) for x in NAMES for y in NAMES if 'a' in (x, y)]
    run = played(tmp_path, silent=silent)
    rows = overall(rank_run(run, SCORER, max_failed_share=1.0))
    # b wins on wit and c on joy: a tie, one point each
    places = {n: (row.rank, row.score) for n, row in rows.items()}
    assert places == {'a': (None, None), 'b': (1, 1), 'c': (1, 1)}
    assert rows['a'].why_unranked == 'undefined: none of its games has a result'


def test_an_incomplete_tournament_has_a_reason(tmp_path):
    run = played(tmp_path, silent=[('a', 'b'), ('b', 'a')])
    ranking = rank_run(run, SCORER)
    assert all(row.rank is None for row in overall(ranking).values())
    assert ranking.tournament.incomplete == 'never met: a and b'
    assert 'never met: a and b' in next(iter(overall(ranking).values())).why_unranked
    json.dumps(to_json(ranking), allow_nan=False)
    assert 'nan' not in terminal_table(ranking).casefold().split()


def test_ties_everywhere_are_a_shared_first_place(tmp_path):
    worth = {d: dict.fromkeys(NAMES, 1.0) for d in GAME_WORTH}
    ranking = ranked_games(
        tmp_path, worth=worth, reference={'Overall': {'a': 2, 'b': 1}}
    )
    found = ranking.reference['Overall']
    assert found.kendall.value is None and found.reason
    assert 'are all equal' in sentences(ranking)[0]


def test_leaderboard_has_points_and_uncertainty(tmp_path):
    ranking = ranked_games(tmp_path, rule={**RULE, 'rating': 'openskill'})
    rows = rows_of_csv(leaderboard_csv(ranking))
    points = {(r['dimension'], r['system']): r['points'] for r in rows}
    # a: 4 points against b, 2 against c
    assert points['Overall', 'a'] == '6' and points['wit', 'a'] == '4'
    spreads = {r['dimension']: r['rating_sd'] for r in rows if r['system'] == 'a'}
    assert float(spreads['Overall']) > 0 and spreads['wit'] == ''


def test_command_line_chooses_the_rule(tmp_path, printed):
    run = played(tmp_path, rule={})
    RankSystems.main(run_dir=run.root, rating='2-1-0', bootstraps=20)
    written = json_in(tmp_path / 'ranking.json')
    assert written['tournament']['rating'] == '2-1-0'
    assert 'points of each match' in printed()
    with user_error("rating: 'elo'.*openskill"):
        RankSystems.main(run_dir=run.root, rating='elo')


@pytest.mark.parametrize(
    'lines, right',
    [
        ('pairing: bipartite\nscore: both', 'pairing: all_play_all'),
        ('pairing: all_play_all\nscore: target', 'score: both'),
    ],
)
def test_tournament_needs_opponents_who_are_judged(tmp_path, lines, right):
    path = tmp_path / 'p.yaml'
    path.write_text(f'{lines}\nroster: mini\nranking: {{rule: tournament}}\n')
    with user_error(f'p.yaml.*a tournament needs {right}'):
        load_protocol_file(str(path))


@pytest.mark.parametrize(
    'spread, text', [(0.2, '25.1 ± 0.2'), (0.1, '25.12 ± 0.10'), (None, '25.1')]
)
def test_a_rating_with_a_narrow_interval_has_two_decimals(spread, text):
    # 2 * 1.96 * 0.1 is below 0.5, 2 * 1.96 * 0.2 is not
    spreads = {} if spread is None else {'a': spread}
    rating = Rating(values={'a': 25.123}, spreads=spreads, signature='')
    assert rating_text(SimpleNamespace(chosen_rating=rating), 'a') == text


# `ranking.json`: written, read again, and refused when it is damaged.
#
# The card of a judge, from a signature and from what lies beside its scores.


def test_a_damaged_place_is_named_with_the_command_that_mends_it(tmp_path):
    run = played(tmp_path)
    data = to_json(example_ranking())
    data['dimensions']['Overall'][1]['rank'] = 'first'
    run.write_json('ranking.json', data)
    place = r'dimensions\.Overall\[1\]\.rank: .*parlai rank_systems --run-dir'
    with user_error(place):
        read_ranking(run)


def test_a_ranking_that_was_edited_is_refused(tmp_path):
    run = played(tmp_path)
    write_ranking(run, example_ranking())
    path = tmp_path / 'ranking.json'
    path.write_text(path.read_text().replace('"score": -1.0', '"score": -0.5'))
    with user_error(r'checksum.*parlai rank_systems --run-dir'):
        ReportRun.main(run_dir=tmp_path)


def test_whatever_is_damaged_is_a_clear_line(tmp_path):
    # one value anywhere becomes another: it is read all the same, or refused by name
    run = played(tmp_path, reference={'Overall': {'a': 3, 'b': 2, 'c': 1}})
    text = json.dumps(to_json(rank_run(run, SCORER)))
    others = (None, 'x', [], {}, 1.5, True)
    changes = list(mutations(json.loads(text), others))
    for _, data in random.Random(0).sample(changes, 60):
        run.write_json('ranking.json', data)
        try:
            ranking = read_ranking(run)
            assert record_from_json(Ranking, to_json(ranking)) == ranking
        except UserError as error:
            assert 'ranking.json is damaged: ' in str(error)


SIGNATURE = (
    'scorer:fed|followups:94ff|polarity:negative|judge:(agent:TransformerGenerator|'
    'content:4b79|reads:#6c94|text_truncate:96|cut:right)'
)


def card_of(signature, *models):
    return judge_card(signature, ScorerRecord(models=models))


def test_size_and_name_are_those_recorded_and_input_is_what_was_signed():
    card = card_of(SIGNATURE, JudgeModel('likelihood', 'hf:a/b', 5, 'c' * 40))
    assert card.scorer == 'fed'
    assert card.settings == {'followups': '94ff', 'polarity': 'negative'}
    reads = {'text_truncate': '96', 'cut': 'right'}
    assert card.models == (CardModel('likelihood', 'hf:a/b', 5, reads, 'c' * 40),)


def test_each_model_has_its_own_entry():
    both = [JudgeModel(kind, kind, 1) for kind in ('likelihood', 'e')]
    signature = 'scorer:two|judge:(cut:left)|e:(text_truncate:256)'
    card = card_of(signature, *both)
    assert [(m.kind, m.name, dict(m.reads)) for m in card.models] == [
        ('likelihood', 'likelihood', {'cut': 'left'}),
        ('e', 'e', {'text_truncate': '256'}),
    ]


def test_a_scorer_without_a_model_has_a_card_without_one():
    assert card_of('scorer:length|v:1').models == ()
    assert card_of('scorer:fed|judge:(none)').models == ()
    assert card_of('made-up|v:1').scorer == 'made-up'


def test_nearness_is_the_mean_over_the_judged_responses(tmp_path):
    run = played(tmp_path, names=('a', 'b'))
    store = run.scores(SCORER)
    rows = dict(enumerate([(9, 0.5, 1), (9, 0.1, 0), (9, 0.3, 1)]))
    for shard in run.dialogue_shards():
        [scored] = store.by_dialogue(shard).values()
        store.path(shard).unlink()
        store.write(shard, [replace(scored, evidence=rows)])
    assert read_tables(run, SCORER).nearness is None
    about = {
        'evidence_labels': ['numbers', 'nearness', 'nearest_corpus'],
        'corpora': {'names': ['a', 'b'], 'threshold': 0.3},
    }
    run.write_json(f'scores/{store.root.name}/scorer.json', about)
    found = read_tables(run, SCORER).nearness
    assert found == Nearness(pytest.approx(0.3), 0.3, 'b')
