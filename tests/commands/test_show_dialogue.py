import re
import shutil
import unicodedata

import pytest

from parlai_ext.commands import show_dialogue
from parlai_ext.commands.show_dialogue import ShowDialogue
from parlai_ext.view import number
from tests.report.test_report_reader import means
from tests.support.report_example import SCORER, example_run
from tests.support.user_error import user_error

HIDDEN = 'a\x1b[31m\u202eb\rc\nd\x00\x85'


@pytest.fixture
def run(tmp_path):
    return example_run(tmp_path / 'r')


def shown(run, printed, wanted, **options):
    dialogue = ShowDialogue.main(run_dir=run.root, dialogue_id=wanted, **options)
    return dialogue, printed()


def scores_of(run, id):
    read = run.scores(SCORER).scored_dialogues()
    return next(scored.scores for dialogue, scored in read if dialogue.id == id)


def finished(run):
    return next(d for d in run.iter_dialogues() if d.ended_by is None)


def test_every_turn_is_there_with_its_scores(run, printed):
    one = finished(run)
    dialogue, text = shown(run, printed, one.id)
    assert dialogue == one
    parts = re.split(r'\n\n(?=\d+  )', text)
    assert len(parts) == 1 + len(one.utterances)
    scores = scores_of(run, one.id)
    for k, (part, turn) in enumerate(zip(parts[1:], one.utterances, strict=True)):
        assert part.startswith(f'{k}  {turn.speaker}') and turn.text in part
        assert (', given' in part) == turn.given
        of_turn = [s for s in scores if s.utterance_index == k]
        assert all(f'{s.dimension} {number(s.value, 3)}' in part for s in of_turn)
        assert ('→' in part) == bool(of_turn)


def test_a_dialogue_that_was_broken_off_says_why_and_has_no_score(run, printed):
    one = next(d for d in run.iter_dialogues() if d.ended_by is not None)
    _, text = shown(run, printed, one.id)
    assert f'broken off by {one.ended_by}: the reply was empty' in text
    assert '→ not scored: the reply was empty' in text and 'mean of' not in text


def test_the_beginning_of_an_id_is_enough_and_one_dimension_may_be_shown(run, printed):
    one = finished(run)
    found, text = shown(run, printed, one.id[:8], dimension='Fluency')
    assert found == one
    assert 'Fluency' in text and 'Overall' not in text


@pytest.mark.parametrize(
    'wanted, options, words',
    [
        (
            '{id}',
            {'dimension': 'Fluncy'},
            "--dimension 'Fluncy'; .* 'Fluency'",
        ),
        ('{id}', {'worst': 1}, 'ID: not with --system'),
        ('{id:.3}', {}, 'no dialogue .* 4 letters'),
        ('x{rest}', {}, "did you mean '{id}'"),
        (None, {'system': 'bta'}, "--system 'bta'; did you mean 'beta'"),
        (None, {'worst': 1, 'best': 1}, '--worst and --best: one'),
    ],
)
def test_what_cannot_be_shown_is_one_line(run, wanted, options, words):
    id = finished(run).id
    wanted = wanted and wanted.format(id=id, rest=id[1:])
    with user_error(words.replace('{id}', id)):
        listed(run, dialogue_id=wanted, **options)


def test_the_beginning_of_several_ids_names_them_and_of_none_no_id(run, monkeypatch):
    monkeypatch.setattr(show_dialogue, 'FEWEST_LETTERS', 0)
    ids = [d.id for d in run.iter_dialogues()]
    with user_error(f'8 dialogues begin with .*{ids[0]}, .* and 5 others$'):
        show_dialogue.find_dialogue(run, '')
    with user_error('the page .* 8 that there are') as error:
        listed(run, dialogue_id='zzzzzz')
    assert not any(one in str(error.value) for one in ids)


def test_a_run_without_scores_is_shown_without(run, printed):
    shutil.rmtree(run.root / 'scores')
    one = finished(run)
    _, text = shown(run, printed, one.id)
    assert one.utterances[3].text in text and '→' not in text
    with user_error('need scores'):
        listed(run, best=1)
    assert [row.score for row in listed(run)] == [None] * 8


def test_control_characters_never_reach_the_terminal(tmp_path, printed):
    run = example_run(
        tmp_path / 'r', targets=(HIDDEN, 'b'), lines=[HIDDEN], reason=HIDDEN
    )
    for one in run.iter_dialogues():
        _, text = shown(run, printed, one.id)
        bad = [c for c in text if unicodedata.category(c) in ('Cc', 'Cf', 'Cs')]
        assert set(bad) == {'\n'}
        assert 'a␛[31m⟨U+202E⟩b␍c␊d␀⟨U+0085⟩' in text


def listed(run, **options):
    return ShowDialogue.main(run_dir=run.root, **options)


def test_without_an_id_the_dialogues_are_listed_with_their_targets_means(run, printed):
    rows = listed(run)
    assert [row.id for row in rows] == [d.id for d in run.iter_dialogues()]
    lines = printed().split('\n')
    assert lines[0].split() == ['dialogue', 'system', 'with', 'Overall']
    # what was broken off has no score
    assert {row.id: row.score for row in rows} == means(run, 'Overall')
    for row, line in zip(rows, lines[1:], strict=False):
        assert line.split()[:3] == [row.id, row.system, row.partner]
    assert {row.dimension for row in listed(run, dimension='Fluency')} == {'Fluency'}


def test_the_worst_and_the_best_of_a_system(run):
    ascending = sorted((r.score, r.id) for r in listed(run) if r.score is not None)
    worst, best = listed(run, worst=3), listed(run, best=3)
    assert [(r.score, r.id) for r in worst] == ascending[:3]
    assert [r.score for r in best] == [score for score, _ in ascending[:-4:-1]]
    assert {row.system for row in listed(run, system='beta')} == {'beta'}
    # a partner is listed when it is asked for, though nothing scores it
    assert {(r.system, r.score) for r in listed(run, system='mary')} == {('mary', None)}
