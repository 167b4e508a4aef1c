"""
One run, several scorers: each has its own scores and its own ranking.
"""

import re
import shlex
from html import unescape

import pytest

from parlai_ext.commands.command import find_command
from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.report_run import ReportRun
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.core import content_id
from parlai_ext.results.ranking import read_ranking
from parlai_ext.store import RunFolder

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
