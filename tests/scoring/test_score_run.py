"""
Scoring a run.

What is there is kept, what is missing is done, byte for byte. After a `kill -9` within
a shard the batches that were saved are not computed again. What scorers of turns and of
dialogues are given for one judged dialogue, which utterances of a run are judged, and
of whom there is nothing to judge. Each of several scorers of one run has its own scores
and its own ranking.
"""

import re
import shlex
import shutil
import signal
from html import unescape

import pytest

from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.command import find_command
from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.report_run import ReportRun
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.core import Dialogue, Utterance, content_id
from parlai_ext.models.likelihood import EncoderDecoder
from parlai_ext.results.ranking import read_ranking
from parlai_ext.scoring.base import (
    ItemScore,
    Scorer,
    ScoringItem,
    judged_indices,
    unscored_systems,
)
from parlai_ext.scoring.registry import scorer_section
from parlai_ext.scoring.score_run import judged_scoring_items, score_run
from parlai_ext.store import RunFolder, disk
from tests.support.bench_samples import judged_dialogue
from tests.support.forked import said_in_child
from tests.support.interrupted import interrupted
from tests.support.published_runs import import_chats
from tests.support.scoring_samples import (
    FIRST,
    SECOND,
    KnownJudge,
    dialogue,
    followups_of,
    known_fed,
    small_run,
)
from tests.support.small_run import files_of, small_config
from tests.support.written import on_one_line

DIMENSIONS = ('Wit', 'Joy')
SETS = followups_of(
    'dimensions: {Wit: {negative: [dull, dim]}, Joy: {negative: [sad]}}'
)


def tell(context, continuation):
    """
    A number that depends on all of context and continuation.
    """
    return (-int(content_id(context, continuation)[:6], 16) / 2**20,)


class Refuser(Scorer):
    """
    Scores nothing; a response is the reason.
    """

    name = 'refuser'
    dimensions = ('Overall',)

    def score(self, items):
        return [ItemScore({'Overall': None}, {'Overall': i.response}) for i in items]


def test_the_three_commonest_reasons_of_missing_scores_are_printed(tmp_path, capsys):
    texts = ['once', *['twice'] * 2, *['four times'] * 4, *['thrice'] * 3]
    turns = [
        (n, turn) for n, text in enumerate(texts) for turn in ('me,Hi', f'x,{text}')
    ]
    run = import_chats(tmp_path, [f'{n},{turn}' for n, turn in turns])
    capsys.readouterr()
    scorer = f'{__name__}:Refuser'
    ScoreDialogues.main(run_dir=run.root, scorer=scorer, check_sample=0)
    line = '(10 values missing: four times (4); thrice (3); twice (2));'
    assert line in on_one_line(capsys.readouterr().out)


def fed():
    return known_fed(KnownJudge(tell), SETS)


def scored_run(folder, **options):
    run = small_run(folder, **options)
    return run, score_run(run, fed())


def scores(run, signature):
    return [
        (s.dialogue_id, s.utterance_index, s.system, s.dimension, s.value, s.reason)
        for shard in run.dialogue_shards()
        for one in run.scores(signature).read(shard)
        for s in one.scores
    ]


def test_every_judged_utterance_has_every_dimension(tmp_path):
    run, report = scored_run(tmp_path, score='both')
    rows = scores(run, report.signature)
    expected = {
        *((f'd{k}', i, (FIRST, SECOND)[i % 2]) for k in (0, 1) for i in (2, 3, 4, 5)),
        ('d2', 2, FIRST),
        ('d2', None, SECOND),
        ('d3', 3, SECOND),
        ('d3', None, FIRST),
    }
    assert {row[:4] for row in rows} == {(*e, d) for e in expected for d in DIMENSIONS}
    labels = run.scores(report.signature).about().evidence_labels
    dull, dim, _ = (tell(next(run.iter_dialogues()).texts[:5], x)[0] for x in labels)
    assert ('d0', 4, FIRST, 'Wit', -dull - dim, None) in rows
    reasons = {row[5] for row in rows if row[:3] == ('d3', None, FIRST)}
    assert reasons == {'it broke the dialogue off: empty reply'}


@pytest.mark.parametrize('deaths', [[0], [1], [0, 1]])
def test_a_broken_off_stage_ends_in_the_same_files(tmp_path, deaths):
    scored_run(tmp_path / 'whole')
    broken = small_run(tmp_path / 'broken')
    for n_answers in deaths:
        with interrupted(KnownJudge, 'answer', n_answers):
            score_run(broken, fed())
    score_run(broken, fed())
    assert files_of(tmp_path / 'broken') == files_of(tmp_path / 'whole')


def test_given_utterances_are_other_scores(tmp_path):
    run, plain = scored_run(tmp_path)
    given = score_run(run, fed(), include_given=True)
    judged = {row[:2] for row in scores(run, given.signature)}
    assert ('d0', 0) in judged
    assert ('d0', 0) not in {row[:2] for row in scores(run, plain.signature)}


def test_options_replace_parts_of_the_protocols_scorer():
    section = {'name': 'fed', 'judge_model_file': 'a', 'polarity': 'both'}
    opt = {'judge_model_file': 'b', 'fed_tokens': 'sum', 'fed_polarity': None}
    assert scorer_section(section, opt) == {
        'name': 'fed',
        'judge_model_file': 'b',
        'polarity': 'both',
        'token_reduction': 'sum',
    }


def test_command_scores_a_run_and_says_how_much(tmp_path, capsys):
    run, judge = small_run(tmp_path / 'run'), 'zoo:mini/judge/model'
    report = ScoreDialogues.main(run_dir=run.root, judge_model_file=judge, no_cuda=True)
    told = capsys.readouterr()
    assert 'scored 5 utterances of 4 dialogues' in told.out
    # two utterances of d0 and of d1, one of d2; d3 is broken off
    assert '5 inputs read' in told.err
    assert (report.n_shards, report.n_shards_scored) == (2, 2)
    assert (report.n_dialogues, report.n_unscored) == (4, 4)


COMPUTE = EncoderDecoder._encode_and_decode


@pytest.fixture
def n_batches(monkeypatch):
    """
    A function that scores a run in batches of one context, each of which is saved; it
    returns how many are computed, and the process is killed within the one after
    ``most``.
    """
    monkeypatch.setattr(disk, 'SAVE_SECONDS', 0)

    def score(run_dir, most=1000):
        computed = []

        def counted(self, *inputs):
            if len(computed) == most:
                signal.raise_signal(signal.SIGKILL)
            computed.append(inputs)
            return COMPUTE(self, *inputs)

        monkeypatch.setattr(EncoderDecoder, '_encode_and_decode', counted)
        ScoreDialogues.main(run_dir=run_dir, batchsize=1, check_sample=4)
        return len(computed)

    return score


def test_a_shard_that_was_killed_goes_on_after_its_last_saved_batch(
    tmp_path, n_batches
):
    config = small_config(tmp_path, targets=1, partners=1)
    whole, killed = tmp_path / 'whole', tmp_path / 'killed'
    CollectDialogues.main(config=config, run_dir=whole, num_dialogues=3)
    shutil.copytree(whole, killed)
    n_all = n_batches(whole)
    for most in (1, 3):  # killed once more while it goes on
        assert said_in_child(lambda m=most: n_batches(killed, m), 300) == 'never ended'
    [saved] = killed.glob('scores/*/*/*.partial')
    assert saved.read_bytes().count(b'\n') == 1 + 1 + 3  # a header before them
    assert not list(killed.glob('scores/*/*/*.jsonl'))
    assert n_batches(killed) == n_all - 4
    assert files_of(killed) == files_of(whole)
    # what a kill between writing and removing leaves is removed by the next command
    saved.write_bytes(b'')
    assert n_batches(killed) == 0 and not saved.exists()


# === What scorers are given ===========================================================

# the system's turns are `b`, `d` and, after a last question, nothing
DIALOGUE = judged_dialogue(1, 'a', 'b', 'c', 'd', 'e')


class OfTurns(Scorer):
    """
    A scorer that needs turns.
    """


class OfBoth(Scorer):
    """
    A scorer of turns that can judge a whole dialogue.
    """

    also_level = 'dialogue'


class OfDialogues(Scorer):
    """
    A scorer that needs whole dialogues.
    """

    level = 'dialogue'


def given(kind, *how, **more):
    """
    Return contexts and responses of the items for a scorer.
    """
    items = judged_scoring_items(DIALOGUE, kind(), *how, **more)
    return [(''.join(item.context), item.response) for item in items]


@pytest.mark.parametrize(
    'kind, how, items',
    [
        (OfTurns, 'auto', [('a', 'b'), ('abc', 'd')]),
        (OfTurns, 'whole', [('abcd', 'e')]),
        (OfBoth, 'auto', [('abcd', 'e')]),
        (OfBoth, 'all', [('a', 'b'), ('abc', 'd')]),
        (OfDialogues, 'auto', [('abcde', None)]),
        (OfDialogues, 'all', [('abcde', None)]),
    ],
)
def test_a_dialogue_is_given_whole_to_those_that_can_judge_it(kind, how, items):
    assert given(kind, how) == items


@pytest.mark.parametrize('kind', [OfTurns, OfBoth, OfDialogues])
def test_so_many_turns_are_drawn_where_turns_are_judged(kind):
    [(context, _)] = given(kind, most=1)
    assert (context in ('a', 'abc')) == (kind is OfTurns)


def test_the_judged_speaker_and_all_speakers_are_told():
    [item] = judged_scoring_items(DIALOGUE, OfBoth())
    speakers = ('User', 'bot', 'User', 'bot', 'User')
    whole = ScoringItem(tuple('abcd'), 'e', 'bot', extras={'speakers': speakers})
    assert item == whole


def test_given_utterances_are_judged_on_request():
    assert judged_indices(dialogue('abcdef'), True, include_given=True) == [0, 2, 4]


def broken(texts, who, given=2):
    return dialogue(texts, given=given, ended_by=who, reason='empty reply')


BROKE = 'it broke the dialogue off: empty reply'
SELF_PLAY = tuple(Utterance('one', text, i < 2) for i, text in enumerate('abcd'))


@pytest.mark.parametrize(
    'one, first_only, judged, unscored',
    [
        # 12 utterances, two given, then five exchanges (bipartite-play, Tables 4 and 5)
        (dialogue('abcdefghijkl'), True, [2, 4, 6, 8, 10], {}),
        (dialogue('abcd', given=1), False, [1, 2, 3], {}),
        (broken('abcde', FIRST), True, [], {FIRST: BROKE}),
        # its partner is judged
        (broken('abcd', FIRST), False, [3], {FIRST: BROKE}),
        # the target is judged on what there is
        (broken('abcde', SECOND), True, [2, 4], {}),
        (
            broken('ab', SECOND),
            True,
            [],
            {FIRST: 'partner broke the dialogue off before it spoke'},
        ),
        # who is silent is named even without an utterance
        (
            broken('', FIRST),
            True,
            [],
            {FIRST: BROKE},
        ),
        (
            broken('a', SECOND, given=0),
            False,
            [0],
            {SECOND: BROKE},
        ),
        # in self-play either side breaks it off
        (
            Dialogue('d', 'p', 'o', SELF_PLAY, ended_by='one', reason='empty reply'),
            True,
            [],
            {'one': BROKE},
        ),
    ],
)
def test_who_is_judged_and_why_a_system_is_not(one, first_only, judged, unscored):
    assert judged_indices(one, first_only) == judged
    assert unscored_systems(one, first_only) == unscored


# === One run, several scorers =========================================================

GAMES = {
    'A_B': 'A: do you like tea ?\nB: i like tea\nA: why ?\nB: it is hot\n',
    'B_A': 'B: what is new ?\nA: i read a book\nB: me too\nA: a long book\n',
}
CHATS = {'A_A': 'A_1: do you like tea ?\nA_2: i like tea\nA_1: why ?\n'}
CHATMATCH = """
pairing: all_play_all
score: both
scorer: {name: chatmatch, judge_model_file: none}
ranking: {rule: tournament, rating: 3-1-0, bootstraps: 20}
roster: mini
"""
FED = {'scorer': 'fed', 'judge_model_file': 'zoo:mini/judge/model'}


@pytest.fixture
def chatmatch(tmp_path):
    path = tmp_path / 'chatmatch.yaml'
    path.write_text(CHATMATCH)
    return str(path)


def imported(folder, games, **options):
    (folder / 'games').mkdir()
    for name, text in games.items():
        (folder / 'games' / f'{name}.txt').write_text(text)
    run = folder / 'run'
    ImportDialogues.main(
        dialogues=[str(folder / 'games')], run_dir=run, format=None, **options
    )
    return run


def test_one_page_has_both_scorers_and_the_commands_of_each(tmp_path, chatmatch):
    run = imported(tmp_path, GAMES, **FED)
    ScoreDialogues.main(run_dir=run)
    RankSystems.main(run_dir=run, bootstraps=20)
    ReportRun.main(run_dir=run)
    first = (run / 'ranking.json').read_bytes()
    ScoreDialogues.main(run_dir=run, scorer=chatmatch)
    own = content_id(read_ranking(RunFolder.existing(run)).scorer_signature)
    (other,) = (p.name for p in run.glob('scores/*') if p.name != own)
    ranking = RankSystems.main(run_dir=run, scores=other)
    assert ranking.tournament.rating == '3-1-0'  # the protocol's, which came with it
    assert (run / 'ranking.json').read_bytes() == first
    # the page of the first scorer says nothing wrong, and stays
    text = (run / 'report.html').read_text()
    assert f'data-scorer="{other}"' not in text
    text = ReportRun.main(run_dir=run, scores=other).read_text()
    assert text.index(f'data-scorer="{own}"') < text.index(f'data-scorer="{other}"')
    commands = [unescape(line) for line in re.findall('<code>(parlai .*)</code>', text)]
    assert [shlex.split(line)[1] for line in commands] == [
        'import_dialogues',  # all there is to the first
        'import_dialogues',
        'score_dialogues',
        'rank_systems',
        'report_run',
    ]
    # the commands on the page make the same ranking from the same files
    again = tmp_path / 'again'
    for line in commands[1:]:
        _, name, *words = shlex.split(line)
        words = [
            {'NEW_FOLDER': str(again), 'games': str(tmp_path / 'games')}.get(w, w)
            for w in words
        ]
        words += ['--bootstraps', '20'] if name == 'rank_systems' else []
        find_command(name).main(*words)
    made, before = (
        (folder / 'rankings' / other / 'ranking.json').read_bytes()
        for folder in (again, run)
    )
    assert made == before and (again / 'report.html').exists()


def test_one_bot_is_no_tournament(tmp_path, chatmatch, printed):
    run = imported(tmp_path, CHATS, config=chatmatch)
    ScoreDialogues.main(run_dir=run)
    ranking = RankSystems.main(run_dir=run)
    (one,) = ranking.standings['Overall']
    assert one.rank is None and one.score is None
    assert '1 system; a tournament needs two' in printed()
    page = ReportRun.main(run_dir=run).read_text()
    assert '1 self-chats are no games of two systems' in page
    assert 'NaN' not in page.split('<script')[0]


def test_self_chats_rank_by_sums_of_ranks(tmp_path, chatmatch):
    # B asks more and repeats fewer characters; of the other five fluency is not
    # measured and four are tied: A has 4 * 1.5 + 2 * 2, B 4 * 1.5 + 2 * 1
    chats = {**CHATS, 'B_B': 'B_1: what is new ?\nB_2: tea ?\nB_1: why ?\n'}
    run = imported(tmp_path, chats, config=chatmatch)
    ScoreDialogues.main(run_dir=run)
    ranking = RankSystems.main(run_dir=run, rating='sum_of_ranks')
    scores = {one.system: one.score for one in ranking.standings['Overall']}
    assert scores == {'A': -10, 'B': -8}
