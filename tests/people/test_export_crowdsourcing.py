"""
What `export_crowdsourcing` writes is read by ParlAI's own code.
"""

import json
import logging
import random
from types import SimpleNamespace

import pytest
import yaml
from parlai.utils.strings import normalize_reply

from parlai_ext.commands.export_crowdsourcing import ExportCrowdsourcing
from parlai_ext.people.rating_set import (
    DialogueReference,
    RatingItem,
    ShownTurn,
    acute_files,
    flags_of_opt,
    matchups_by_openness,
    read_questionnaire,
)
from tests.isolation.test_policy import forge
from tests.support.parlai_crowdsourcing import parlai_method
from tests.support.planted_run import rated_run
from tests.support.report_example import standing
from tests.support.user_error import user_error
from tests.support.written import json_in, json_rows

TARGETS = ('quill', 'raven', 'tern')


@pytest.fixture
def run(tmp_path):
    return rated_run(tmp_path / 'run', TARGETS).root


def export(run, format, **options):
    ExportCrowdsourcing.main(run_dir=run, format=format, **options)
    return run / 'people' / format


def read_by_acute(path):
    """
    Return the onboarding tasks and the tasks that ACUTE-Eval's runner reads.
    """
    load = parlai_method(
        'acute_eval/acute_eval_runner.py',
        'AcuteEvalRunner',
        '_load_conversation_data',
        json=json,
        random=random,
    )
    blueprint = SimpleNamespace(
        pairings_filepath=str(path), s1_choice='1', s2_choice='2', eval_question='?'
    )
    onboarding, tasks = [], []
    args = SimpleNamespace(blueprint=blueprint)
    load(SimpleNamespace(args=args, onboarding_tasks=onboarding, desired_tasks=tasks))
    return onboarding, tasks


def test_acute_reads_the_pairings(run):
    folder = export(run, 'acute_eval', num_items=12, pairs_per_matchup=4)
    onboarding, tasks = read_by_acute(folder / 'pairings.jsonl')
    assert (len(onboarding), len(tasks)) == (1, 12)
    for task in tasks:
        specs = task['task_specs']
        for side in (specs['model_left'], specs['model_right']):
            speakers = [turn['id'] for turn in side['dialogue']]
            assert speakers == [side['name'], 'other_speaker'] * 3
    # fast ACUTE reads the chats as the judged systems'
    config = json_in(folder / 'fast_acute_models.json')
    acutify = parlai_method(
        'acute_eval/fast_eval.py',
        'FastAcuteExecutor',
        '_acutify_convo',
        normalize_reply=normalize_reply,
    )
    assert sorted(config) == sorted(TARGETS)
    for name, about in config.items():
        self = SimpleNamespace(model_config=config)
        for said in json_rows(folder / about['log_path']):
            chat = acutify(self, said, name)
            assert chat['speakers'] == [name, 'other_speaker']
            assert len(chat['dialogue']) == 6
    with user_error('--questionnaire'):
        export(run, 'acute_eval', questionnaire='likert_2022')


def test_fast_acute_has_chats_whoever_begins():
    items, turns = [], {}
    for own in (True, False):
        said = [ShownTurn(own, False, 'hi'), ShownTurn(not own, False, 'ho')]
        pair = tuple(
            DialogueReference(f'{n}{own}', n, ('o', 'p', own), 'p', 0) for n in 'ab'
        )
        turns |= dict.fromkeys(pair, said)
        items.append(RatingItem(str(own), pair))
    wording = read_questionnaire('acute').questions[0]
    files = acute_files(items, turns, wording)
    chats = [json.loads(line) for line in files['self_chats/0.jsonl'].splitlines()]
    speakers = [[act['id'] for act in chat['dialog'][0]] for chat in chats]
    assert speakers == [['a', 'other_speaker'], ['other_speaker', 'a']]


def test_turn_annotations_annotate_the_judged_system_alone(run):
    folder = export(run, 'turn_annotations', num_items=6)
    process = parlai_method(
        'turn_annotations_static/turn_annotations_blueprint.py',
        'TurnAnnotationsStaticBlueprint',
        '_process_conversation',
        logging=logging,
    )
    rows = json_rows(folder / 'dialogues.jsonl')
    assert len(rows) == 6
    for row in rows:
        turns = process(None, row)
        # the target began: of its three utterances the given first one is not judged
        annotated = [turn for turn in turns if turn['do_annotate']]
        known = [turn['other_metadata'] for turn in annotated]
        assert [k['utterance_index'] for k in known] == [2, 4]
        assert all(k['system'] in TARGETS for k in known)
        assert 'opener' in turns[0]['text']


def test_model_chat_reads_the_papers_study(run):
    folder = export(run, 'model_chat')
    settings = json_in(folder / 'blueprint.json')
    needed = parlai_method(
        'model_chat/model_chat_blueprint.py',
        'ModelChatBlueprint',
        '_process_conversations_needed',
    )
    args = SimpleNamespace(blueprint=SimpleNamespace(**settings))
    assert needed(None, args) == dict.fromkeys(TARGETS, 50)
    assert (settings['num_turns'], settings['conversation_start_mode']) == (6, 'hi')
    assert settings['final_rating_question'].count('|') == 3
    opts = yaml.safe_load((folder / 'model_opts.yaml').read_text())
    assert sorted(opts) == sorted(TARGETS)


def test_flags_are_what_parlai_splits_at_blanks():
    opt = {'model_file': 'zoo:x/model', 'beam_size': 3, 'skip_generation': False}
    flags = '--model-file zoo:x/model --beam-size 3 --skip-generation false'
    assert flags_of_opt('a', opt) == flags
    for value in ('two words', '', None, [1], 'a\n', '--model=os:system'):
        with user_error("system 'a': prompt"):
            flags_of_opt('a', {'prompt': value})


def test_a_target_that_only_a_record_names_is_not_exported(run):
    change = {'model': 'no_such_module:Evil'}
    forge(run / 'manifest.json', lambda made: made['systems']['tern'].update(change))
    with user_error('tern.*no_such_module.*only a record'):
        export(run, 'model_chat')


def test_pairs_whose_order_is_open_come_first():
    # ranks 1–2, 2–3, 3–4 overlap; 9 is settled against all, a and c against each other
    table = (('a', 1, 5.0), ('b', 2, 4.5), ('c', 3, 3.0), ('z', 9, -1.0))
    known = [standing(*row) for row in table]
    order = matchups_by_openness(['z', 'c', 'b', 'a'], known)
    assert order[:3] == [('a', 'b'), ('b', 'c'), ('a', 'c')]
    assert order[-1] == ('a', 'z')
