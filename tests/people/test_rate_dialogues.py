"""
What is given to annotators: pages of `rate_dialogues`, their questionnaires, and the
files of `export_crowdsourcing`: what is drawn, what is shown, what may not be shown.
"""

import json
import logging
import random
import re
from collections import Counter
from itertools import product
from types import SimpleNamespace

import pytest
import yaml
from parlai.utils.strings import normalize_reply

from parlai_ext.commands.command import run_directly
from parlai_ext.commands.export_crowdsourcing import ExportCrowdsourcing
from parlai_ext.commands.import_judgements import ImportJudgements
from parlai_ext.commands.rate_dialogues import RateDialogues
from parlai_ext.core import HumanJudgement
from parlai_ext.people.given_answers import read_crowd_answers
from parlai_ext.people.ranking import survival, win_rates
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
from tests.support.parlai_crowdsourcing import parlai_constant, parlai_method
from tests.support.planted_run import rated_run
from tests.support.report_example import example_run, standing
from tests.support.shared_data import shared
from tests.support.simulated_annotators import (
    answers_file,
    page_data,
    read_key,
    scores_by_system,
)
from tests.support.user_error import user_error
from tests.support.written import json_in, json_rows

TARGETS = ('quill', 'raven', 'tern')
OPENERS = ('hello there', 'good morning', 'nice day', 'how are you', 'what is new')


@pytest.fixture
def run(tmp_path):
    return example_run(tmp_path / 'run', TARGETS, openers=OPENERS).root


def test_a_page_names_no_system_and_no_dialogue(run):
    (path,) = RateDialogues.main(run_dir=run)
    text = path.read_text('utf-8')
    key = read_key(run)
    ids = {d['dialogue_id'] for item in key['items'].values() for d in item}
    names = (*TARGETS, 'mary', *ids)
    assert [name for name in names if re.search(rf'\b{name}\b', text)] == []


def test_pairs_of_systems_are_drawn_evenly_over_the_same_openers(run):
    RateDialogues.main(run_dir=run, num_items=15)
    items = read_key(run)['items'].values()
    pairs = Counter(frozenset(d['system'] for d in item) for item in items)
    assert sorted(pairs.values()) == [5, 5, 5]
    assert all(len({d['opener_id'] for d in item}) == 1 for item in items)
    assert len({item[0]['system'] for item in items}) == 3  # either comes first


def test_likert_items_are_drawn_evenly_over_systems_and_openers(run):
    RateDialogues.main(run_dir=run, questionnaire='likert_2022', num_items=9)
    dialogues = [d for (d,) in read_key(run)['items'].values()]
    shown = {(d['system'], d['opener_id']) for d in dialogues}
    openers = {opener for _, opener in shown}
    # three openers of each
    assert shown == set(product(TARGETS, openers)) and len(dialogues) == 9


def test_the_judged_speaker_is_marked_and_given_turns_are(run):
    options = {'questionnaire': 'likert_2022', 'num_items': 1000}
    (path,) = RateDialogues.main(run_dir=run, **options)
    shown = [d for item in page_data(path)['items'] for d in item['dialogues']]
    assert {len(d) for d in shown} == {6}  # none that was broken off
    assert [turn['own'] for turn in shown[0]] == [True, False] * 3
    assert [turn['given'] for turn in shown[0]] == [True, True] + [False] * 4


def test_pages_share_some_items_and_have_others_of_their_own(run):
    paths = RateDialogues.main(run_dir=run, num_items=6, num_pages=3, shared_items=2)
    pages = [{item['id'] for item in page_data(path)['items']} for path in paths]
    assert [len(page) for page in pages] == [6, 6, 6]
    assert len(set.intersection(*pages)) == 2
    assert len(set.union(*pages)) == 2 + 3 * 4
    with user_error('--shared-items 7: .* 6 items'):
        RateDialogues.main(run_dir=run, num_items=6, shared_items=7)


def test_every_page_has_all_systems(run):
    # else annotators of one page judge one system, and its score is their strictness
    options = {'questionnaire': 'likert_2022', 'num_items': 6, 'shared_items': 0}
    for path in RateDialogues.main(run_dir=run, num_pages=3, **options):
        shown = [
            read_key(run)['items'][item['id']] for item in page_data(path)['items']
        ]
        systems = Counter(dialogue['system'] for (dialogue,) in shown)
        assert systems == dict.fromkeys(TARGETS, 2)


def test_the_same_command_writes_the_same_bytes_and_other_items_no_key(run):
    (path,) = RateDialogues.main(run_dir=run)
    before = path.read_bytes()
    RateDialogues.main(run_dir=run)
    assert path.read_bytes() == before
    with user_error('--name'):  # answers to the former ones may come
        RateDialogues.main(run_dir=run, seed=1)
    RateDialogues.main(run_dir=run, seed=1, name='second')


@pytest.mark.parametrize(
    'flags, place',
    [
        (['--systems', 'qill'], '--systems'),
        (['--ask', 'Engagin'], '--ask'),
        (['--systems', 'quill'], '--run-dir'),
        (['--name', '../x'], '--name'),
    ],
)
def test_a_mistake_is_one_line_that_names_the_option(run, flags, place, exit_line):
    words = ['--run-dir', str(run), *flags]
    error = exit_line(run_directly, 'rate_dialogues', words)
    assert error.startswith(f'error: {place}')


# Questionnaires: the shipped ones, and mistakes in a file of one's own

SHORT = (
    'kind: likert\nsegments: [1, 3]\nlabels: [Speaker 1, Both, Speaker 2]\nquestions:\n'
    '  Human: {text: "Is <Speaker> a bot?", labels: [Bot, Unsure, Human],\n'
    '    values: [0, 1, 2]}\n  Fluent: {text: Who}\n'
)


def test_a_share_spotted_that_falls_is_pooled():
    # spotted within 2: 1 of 4, within 3: 3 of 4, within 5: 1 of 2. No distribution has
    # a share that falls, so 3 and 5 are pooled to 4 of 6
    segments = [(2, k < 1) for k in range(4)]
    segments += [(3, k < 3) for k in range(4)] + [(5, k < 1) for k in range(2)]
    assert survival(segments) == pytest.approx({2: 3 / 4, 3: 1 / 3, 5: 1 / 3})


def test_a_human_beats_an_undecided_one_and_that_one_a_bot():
    # x wins twice and y once; of equal ones neither does
    rates = win_rates(
        HumanJudgement(system, 'Human', value, rater, 'd', 3)
        for rater, values in enumerate(((2, 1), (1, 0), (0, 2), (1, 1)))
        for system, value in zip('xy', values, strict=True)
    )
    assert (rates.loc['x', 'y'], rates.loc['y', 'x']) == (2 / 3, 1 / 3)


def test_the_authors_crowd_wins_as_their_program_counts():
    names = [str(shared('spot_the_bot'))]
    ratings = read_crowd_answers('spot_the_bot', names, None).ratings
    rates = win_rates(one for one in ratings if one.dimension == 'Human')
    # the authors' win_function.py on the same files, rounded as it prints
    theirs = {'suckybot': 0.95, 'bert_rank': 0.85, 'huggingface': 0.72}
    theirs |= {'kvmemnn': 0.66, 'lost_in_conversation': 0.57}
    assert rates.loc['model', [*theirs]].round(2).to_dict() == theirs


def test_both_speakers_of_a_segment_are_judged(tmp_path, printed):
    page_run = tmp_path / 'run'
    openers = ('one', 'two', 'three')
    example_run(page_run, ('quill', 'raven'), ('mary',), openers=openers)
    (tmp_path / 'short.yaml').write_text(SHORT)
    options = {'questionnaire': tmp_path / 'short.yaml', 'num_items': 4}
    pages = RateDialogues.main(run_dir=page_run, **options, num_pages=2)
    items = [page_data(path)['items'] for path in pages]
    # a dialogue has another length on the next page
    lengths = [[[*map(len, i['dialogues'])] for i in page] for page in items]
    assert lengths == [[[2], [6]] * 2, [[6], [2]] * 2]
    key = read_key(page_run)
    said = {'Human (Speaker 1)': '3', 'Human (Speaker 2)': '1', 'Fluent': '1'}
    answers = [
        {'item': item, 'dimension': dimension, 'answer': answer}
        for item in key['items']
        for dimension, answer in said.items()
    ]
    strengths = dict.fromkeys(('quill', 'raven', 'mary'), 1)
    path = answers_file(tmp_path, key, 'Ann', strengths, answers=answers)
    rankings = ImportJudgements.main(run_dir=page_run, answers=[path], bootstraps=2)
    # who begins is a human and more fluent, the other one a bot: spotted at once
    scores = {one.dimension: scores_by_system(one) for one in rankings}
    assert scores['Human'] == {'quill': 2, 'raven': 2, 'mary': 0}
    assert scores['Fluent'] == {'quill': 1, 'raven': 1, 'mary': 0}
    wins = page_run / 'people' / 'judgements' / 'wins_Fluent.csv'
    assert wins.read_text().startswith('system,')
    shown = printed()
    assert re.search(r'mary +0\.00 +0\.00\n', shown)
    assert re.search(r'quill +1\.00 +1\.00\n', shown)


def test_the_shipped_studies_ask_what_the_papers_ask():
    spotted = read_questionnaire('spot_the_bot')
    assert spotted.segments == (2, 3, 5)
    names = ['Human (Speaker 1)', 'Human (Speaker 2)', 'Fluent', 'Sensible', 'Specific']
    assert [w.dimension for w in spotted.questions] == names
    *seven, overall = read_questionnaire('chatmatch_2022').questions
    asked = read_questionnaire('likert_2022').questions
    assert [len(w.answers) for w in (*seven, *asked)] == [5] * (7 + 4)
    assert overall.value('1') == 7 and overall.value('7') == 1


PAIR = 'kind: pair\nquestions:\n  Good:\n    text: Which?\n    first: x\n'


def test_acute_has_parlais_wordings():
    kinds = parlai_constant('acute_eval/fast_eval.py', 'ACUTE_EVAL_TYPES')
    questions = read_questionnaire('acute').questions
    assert {(wording.text, *wording.answers) for wording in questions} == {
        (kind['question'], kind['s1_choice'], kind['s2_choice'])
        for name, kind in kinds.items()
        if name not in ('roleplay', 'image')
    }


@pytest.mark.parametrize(
    'text, place',
    [
        ('kind: triple\nquestions: {}', 'kind'),
        ('kind: pair\nquestions: {}', 'questions'),
        (PAIR, 'questions.Good'),
        (PAIR + '    second: y\nlabels: [a, b]', 'labels'),
        ('kind: likert\nquestions: {Good: {text: How}}', 'labels'),
        (
            'kind: likert\nlabels: [a, b]\nquestions: {Good: {text: How, first: x}}',
            'questions.Good.first',
        ),
        (PAIR + '    second: y\ntie: equal', 'tie'),
        (
            'kind: likert\nlabels: [a, b]\nvalues: [1]\nquestions: {A: {text: x}}',
            'values',
        ),
        (
            'kind: likert\nlabels: [a, b]\nvalues: [1, x]\nquestions: {A: {text: x}}',
            r'values\[1\]',
        ),
        (
            'kind: likert\nlabels: [a, b]\nquestions: {A: {text: x, values: [1]}}',
            'questions.A.values',
        ),
        (SHORT.replace('[1, 3]', '[0]'), r'segments\[0\]'),
        (SHORT.replace('Speaker 1, Both', 'Both'), 'questions.Fluent'),
    ],
)
def test_a_mistake_is_refused_by_its_key(tmp_path, text, place):
    path = tmp_path / 'mine.yaml'
    path.write_text(text)
    with user_error(rf'mine\.yaml:\d+: {place}: '):
        read_questionnaire(str(path))


def test_an_unknown_questionnaire_gets_the_nearest():
    with user_error('acute'):
        read_questionnaire('acuta')


# What `export_crowdsourcing` writes is read by ParlAI's own code.


@pytest.fixture
def crowd_run(tmp_path):
    return rated_run(tmp_path / 'run', TARGETS).root


def export(crowd_run, format, **options):
    ExportCrowdsourcing.main(run_dir=crowd_run, format=format, **options)
    return crowd_run / 'people' / format


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


def test_acute_reads_the_pairings(crowd_run):
    folder = export(crowd_run, 'acute_eval', num_items=12, pairs_per_matchup=4)
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
        export(crowd_run, 'acute_eval', questionnaire='likert_2022')


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


def test_turn_annotations_annotate_the_judged_system_alone(crowd_run):
    folder = export(crowd_run, 'turn_annotations', num_items=6)
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


def test_model_chat_reads_the_papers_study(crowd_run):
    folder = export(crowd_run, 'model_chat')
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


def test_a_target_that_only_a_record_names_is_not_exported(crowd_run):
    change = {'model': 'no_such_module:Evil'}
    forge(
        crowd_run / 'manifest.json', lambda made: made['systems']['tern'].update(change)
    )
    with user_error('tern.*no_such_module.*only a record'):
        export(crowd_run, 'model_chat')


def test_pairs_whose_order_is_open_come_first():
    # ranks 1–2, 2–3, 3–4 overlap; 9 is settled against all, a and c against each other
    table = (('a', 1, 5.0), ('b', 2, 4.5), ('c', 3, 3.0), ('z', 9, -1.0))
    known = [standing(*row) for row in table]
    order = matchups_by_openness(['z', 'c', 'b', 'a'], known)
    assert order[:3] == [('a', 'b'), ('b', 'c'), ('a', 'c')]
    assert order[-1] == ('a', 'z')
