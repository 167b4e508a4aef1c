"""
The study of Sato et al. (2022), section 5.2: people talk with systems in ParlAI's
model_chat, and others rate these chats.
"""

import pytest

from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.commands.import_judgements import ImportJudgements
from parlai_ext.commands.rate_dialogues import RateDialogues
from parlai_ext.store import RunFolder
from tests.support.model_chats import SAID, write_chat
from tests.support.simulated_annotators import answers_file, ranked_names, read_key
from tests.support.user_error import user_error
from tests.support.written import csv_rows

SYSTEMS = {'good': 4.0, 'fair': 2.0, 'poor': 0.0}


@pytest.fixture
def chats(tmp_path):
    folder = tmp_path / 'chats'
    folder.mkdir()
    for system in SYSTEMS:
        for k in range(6):
            name = f'{system}{k}'
            write_chat(folder, name, system=system, worker=f'worker {k}')
    return folder


def import_chats(tmp_path, chats, **options):
    run = tmp_path / 'run'
    ImportDialogues.main(
        dialogues=[str(chats)], run_dir=run, scorer='length', **options
    )
    return run


def test_a_chat_becomes_a_dialogue_of_a_person_with_the_system(tmp_path, chats):
    run = RunFolder.existing(import_chats(tmp_path, chats))
    assert set(run.manifest.targets) == set(SYSTEMS)
    (dialogue,) = [one for one in run.iter_dialogues() if one.id == 'good0']
    assert dialogue.speakers == ('human', 'good') * 2
    assert dialogue.texts == ('Hi!', *SAID)
    assert [u.given for u in dialogue.utterances] == [True, False] * 2


def test_an_opening_that_parlai_put_into_the_systems_mouth_is_not_judged(tmp_path):
    # blended_skill_talk: both begin with an utterance of the data set
    said = [{'agent_idx': k, 'text': f'said {k}', 'id': 'x'} for k in (0, 1)]
    seeds = [{**turn, 'fake_start': True} for turn in said]
    personas = [['I like tea.'], ['I like dogs.']]
    path = write_chat(tmp_path, '7', dialog=seeds + said, personas=personas)
    run = RunFolder.existing(import_chats(tmp_path, path))
    (dialogue,) = run.iter_dialogues()
    assert [u.given for u in dialogue.utterances] == [True, True, True, False]


@pytest.mark.parametrize(
    'changed, place',
    [
        ({'bad_workers': ['w1']}, 'bad_live.json:1: a chat of annotators'),
        ({'acceptability_violations': ['safety']}, 'bad_live.json:1: a chat with a'),
        ({'task_description': {}}, "bad_live.json:1: task_description: 'model_nick"),
        ({'dialog': [{'text': 'Hi!'}]}, r'bad_live.json:1: dialog\[0\]: an agent_idx'),
    ],
)
def test_a_chat_of_no_use_is_refused_or_left_out(tmp_path, chats, changed, place):
    write_chat(chats, 'bad', **changed)
    with user_error(place):
        import_chats(tmp_path, chats)
    run = RunFolder.existing(import_chats(tmp_path, chats, skip_bad_rows=True))
    assert run.manifest.imported.left_out == 1


def test_others_rate_the_chats_and_nobody_their_own(tmp_path, chats):
    run = import_chats(tmp_path, chats)
    RateDialogues.main(
        run_dir=run, questionnaire='likert_2022', ask=('Overall',), num_items=18
    )
    key = read_key(run)
    answers = tmp_path / 'answers'
    answers.mkdir()
    for rater in ('worker 0', 'worker 1', 'somebody else'):
        answers_file(answers, key, rater, SYSTEMS)
    (ranking,) = ImportJudgements.main(
        run_dir=run, answers=[str(answers)], chats=[str(chats)], bootstraps=20
    )
    assert ranked_names(ranking) == list(SYSTEMS)
    # three chats of each of two raters are their own
    rows = csv_rows(run / 'people/judgements/judgements.csv')
    raters = [(row['rater'], row['dialogue_id']) for row in rows]
    assert len(raters) == 3 * 18 - 2 * 3
    assert ('worker 0', 'good0') not in raters
    assert ('worker 0', 'good1') in raters
