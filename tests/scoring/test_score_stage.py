"""
The scoring stage: what is there is kept, what is missing is done, byte for byte. After
a `kill -9` within a shard the batches that were saved are not computed again.
"""

import shutil
import signal

import pytest

from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.core import content_id
from parlai_ext.models.likelihood import EncoderDecoder
from parlai_ext.scoring.base import ItemScore, Scorer
from parlai_ext.scoring.registry import scorer_section
from parlai_ext.scoring.score_run import score_run
from parlai_ext.store import disk
from tests.support.forked import said_in_child
from tests.support.interrupted import interrupted
from tests.support.published_runs import import_chats
from tests.support.scoring_samples import (
    FIRST,
    SECOND,
    KnownJudge,
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
