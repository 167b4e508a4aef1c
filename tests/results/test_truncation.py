"""
Contexts that are too long for the judge: counted, and said wherever scores are shown.
"""

import csv
import io
import json
import re

import pytest
import yaml
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.report.summary import warnings
from parlai_ext.report.table import terminal_table
from parlai_ext.results.ranking import CutContexts
from tests.support.tiny_models import make_generator


class Short(Agent):
    """
    Says one word.
    """

    words = 1

    def __init__(self, opt, shared=None):
        super().__init__(opt, shared)
        self.id = type(self).__name__

    def act(self):
        return Message(id=self.id, text=' '.join(['tea'] * self.words))


class LongWinded(Short):
    """
    Says twelve.
    """

    words = 12


def evaluate(folder, **opt):
    """
    Two given words, then two turns of each; the judge reads 20 tokens.

    Turns are joined by a newline, one token. What is judged of `short` has 5 and 9
    tokens; of `long-winded` 1 + 1 + 12 + 2 = 16, and 16 + 1 + 12 + 2 = 31, of which 11
    are cut: one of two in every dialogue.
    """
    openers = folder / 'openers.csv'
    said = {'a': ('rain', 'book'), 'b': ('song', 'hill')}
    rows = [f'{c},{i},{w}' for c, words in said.items() for i, w in enumerate(words, 1)]
    openers.write_text('\n'.join(['conv_id,utterance_idx,utterance', *rows]) + '\n')
    here = 'tests.results.test_truncation'
    protocol = {
        'num_turns': 6,
        'num_dialogues': 2,
        'scorer': {
            'name': 'fed',
            'judge_model_file': make_generator(folder, text_truncate=20),
        },
        'roster': {
            'targets': [
                {'name': 'short', 'opt': {'model': f'{here}:Short'}},
                {'name': 'long-winded', 'opt': {'model': f'{here}:LongWinded'}},
            ],
            'partners': [{'name': 'partner', 'opt': {'model': f'{here}:Short'}}],
        },
    }
    config = folder / 'protocol.yaml'
    config.write_text(yaml.safe_dump(protocol))
    return EvaluateSystems.main(
        config=str(config),
        run_dir=folder / 'run',
        openers_file=str(openers),
        bootstraps=20,
        check_sample=4,
        no_cuda=True,
        **opt,
    )


@pytest.fixture(scope='module')
def finished(tmp_path_factory):
    folder = tmp_path_factory.mktemp('run')
    return folder / 'run', evaluate(folder)


def test_ranking_counts_the_contexts_that_were_cut(finished):
    _, ranking = finished
    assert ranking.truncated == {'long-winded': CutContexts(4, 2, 0.5, False)}


def test_scores_say_how_many_tokens_were_cut(finished):
    run, _ = finished
    found = [
        json.loads(line)['truncated']
        for path in sorted(run.glob('scores/*/*/*.jsonl'))
        for line in path.read_text().split('\n')
        if line
    ]
    # two dialogues of each target; of the long-winded ones the utterance 4
    assert sorted(found, key=len) == [{}, {}, {'4': 11}, {'4': 11}]


def test_leaderboard_csv_marks_the_system(finished):
    run, _ = finished
    rows = csv.DictReader(io.StringIO((run / 'leaderboard.csv').read_text()))
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
    said = ' '.join(' '.join(lines).split())
    assert 'The scores of long-winded are not comparable: 50 % of its' in said


def test_as_many_cut_contexts_as_allowed_are_only_noted(finished):
    run, _ = finished
    ranking = RankSystems.main(run_dir=run, max_truncated_share=0.5)
    assert ranking.truncated['long-winded'].comparable
    assert not any('not comparable' in line for line in warnings(ranking))
    note = 'contexts too long for the judge, cut: long-winded 2 of 4 (50 %)'
    assert note in ranking.notes


def test_the_option_of_the_main_command_holds(tmp_path):
    ranking = evaluate(tmp_path, max_truncated_share=0.6)
    assert ranking.truncated['long-winded'] == CutContexts(4, 2, 0.5, True)


def test_scoring_alone_says_how_many_were_cut(finished, tmp_path, capsys):
    run, _ = finished
    judge = make_generator(tmp_path, text_truncate=4)
    report = ScoreDialogues.main(
        run_dir=run, judge_model_file=judge, no_cuda=True, batchsize=8, check_sample=4
    )
    # all eight contexts have five tokens and more
    assert report.n_truncated == report.n_utterances == 8
    assert '8 contexts were too long for the judge' in capsys.readouterr().out
