"""
PairEval and DirectEval: what is asked, in both orders, the mean over comparisons and
runs, and the probability of "Yes" among "Yes" and "No".
"""

import re

import pytest
from transformers import AutoTokenizer

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.llm_judges import (
    CARD,
    DirectEval,
    JudgedResponse,
    LabelTokens,
    PairEval,
    direct_prompt,
    pair_prompt,
    pair_template,
)
from tests.support.family_hf import make_model
from tests.support.on_cpu import models_on_cpu
from tests.support.planted_labels import PlantedLabels
from tests.support.user_error import user_error
from tests.support.written import written

PROMPT = """Which response fits its dialogue better?

Dialogue A
Q: one
P: two
Response A
Q: three

Dialogue B
P: four
Response B
Q: five"""


@pytest.fixture
def comparisons(tmp_path):
    """
    Return a file of three dialogues whose last turns are 1, 2 and 4.
    """
    rows = [{'dialogue': ['hi', number]} for number in '124']
    return str(written(tmp_path, 'people.jsonl', rows))


def scorer_of(judge, comparisons, **options):
    section = {'comparisons': comparisons, 'corpus': 'jsonl', **options}
    return PairEval.from_section(section, judge)


def item(response):
    return ScoringItem(('hi',), response)


def values(scorer, *responses):
    scores = scorer.checked_scores([item(response) for response in responses])
    return [score.values['Overall'] for score in scores]


def test_the_prompt_shows_both_conversations():
    first = JudgedResponse(('one', 'two'), 'three\n')
    prompt = pair_prompt(first, JudgedResponse(('four',), 'five'))
    assert prompt.question == PROMPT
    assert prompt.answer == 'Better response:'
    assert prompt.labels == ('A', 'B')


ODDS = (2 / 3 + 1 / 2 + 1 / 3) / 3  # of 2 against 1, 2 and 4: 2/3, 2/4 and 2/6


@pytest.mark.parametrize(
    'judge, options, responses, expected',
    [
        ({}, {}, '2', [ODDS]),
        # 3 against 1: 9 to 1 when it is first, 3 to 3 when it is second; and so on
        (
            {'bias': 3.0},
            {},
            '3',
            [(9 / 10 + 9 / 11 + 9 / 13 + 3 / 6 + 3 / 9 + 3 / 15) / 6],
        ),
        # half of the planted probability is other words'
        ({}, {'probability': 'vocabulary'}, '2', [ODDS / 2]),
        (
            {},
            {'exhaustive': True, 'comparisons': None},
            '134',
            [(1 / 4 + 1 / 5) / 2, (3 / 4 + 3 / 7) / 2, (4 / 5 + 4 / 7) / 2],
        ),
        # a single item has nothing to be compared with
        ({}, {'exhaustive': True, 'comparisons': None}, '1', [None]),
        ({'nothing': '3'}, {}, '32', [None, 0.5]),
    ],
)
def test_mean_chances_by_pencil(comparisons, judge, options, responses, expected):
    planted = PlantedLabels(**judge)
    scorer = scorer_of(planted, **{'comparisons': comparisons, **options})
    assert values(scorer, *responses) == [
        value if value is None else pytest.approx(value) for value in expected
    ]
    if responses == '3':  # both orders are asked
        assert len(planted.prompts) == 6


def test_runs_are_averaged_and_shown(comparisons):
    scorer = scorer_of(PlantedLabels(), comparisons, num_comparisons=1, runs=5)
    drawn = [float(run[0].response) for run in scorer.runs]
    assert len(drawn) == 5 and len(set(drawn)) > 1
    [score] = scorer.checked_scores([item('2')])
    expected = [2 / (2 + number) for number in drawn]
    assert score.evidence['runs'] == pytest.approx(expected)
    assert score.values['Overall'] == pytest.approx(sum(expected) / 5)


TEMPLATE_FILE = """[INST] Which?

Facts A
{knowledge_1}

{history_1}
Response A {response_1}

Facts B
{knowledge_2}

{history_2}
Response B {response_2} [/INST]
Answer: Response
"""


def test_a_prompt_of_a_file_is_filled_and_facts_that_are_not_there_left_out(tmp_path):
    path = tmp_path / 'prompt.txt'
    path.write_text(TEMPLATE_FILE)
    first = JudgedResponse(('one', 'say {response_2}'), 'three', 'a fact')
    prompt = pair_prompt(first, JudgedResponse((), 'five'), pair_template(str(path)))
    assert prompt.answer == ''
    assert prompt.question == (
        '[INST] Which?\n\nFacts A\na fact\n\none\nsay {response_2}\n'
        'Response A three\n\n\nResponse B five [/INST]\nAnswer: Response'
    )


def test_a_prompt_of_a_file_is_signed_and_must_have_both_responses(
    tmp_path, comparisons
):
    path = tmp_path / 'prompt.txt'
    path.write_text(TEMPLATE_FILE)
    judge = PlantedLabels()
    scorer = scorer_of(judge, comparisons, prompt=str(path))
    # as with our own prompt: 2 against 1, 2 and 4
    assert values(scorer, '2') == pytest.approx([ODDS])
    assert scorer.signature != scorer_of(judge, comparisons).signature
    path.write_text('{history_1} {response_1} {history_2}')
    with user_error(r'prompt: .*response_2'):
        scorer_of(judge, comparisons, prompt=str(path))


JUDGED = [('1', 3), ('2', 1), ('4', 2)]


def test_comparisons_of_a_judged_set_count_as_much_as_people_say(tmp_path):
    rows = ''.join(f'hi,{text},a,Overall,{score}\n' for text, score in JUDGED)
    heads = 'context,response,system,quality,value'
    written(tmp_path, 'mine.csv', f'{heads}\n{rows}')
    judged = {'judged_set': 'mine.csv', 'weighted': True}
    scorer = scorer_of(PlantedLabels(), str(tmp_path), **judged)
    expected = sum(score * 2 / (2 + float(text)) for text, score in JUDGED) / 3
    assert values(scorer, '2') == pytest.approx([expected])
    with user_error('weighted: .*judged_set'):
        scorer_of(PlantedLabels(), str(tmp_path), weighted=True)


@pytest.mark.parametrize(
    'options, turns, n_facts',
    [({'facts': True, 'context_turns': 0}, '98765', 1), ({'context_turns': 1}, '5', 0)],
)
def test_facts_and_turns_that_are_shown(comparisons, options, turns, n_facts):
    judge = PlantedLabels()
    scorer = scorer_of(judge, comparisons, **options)
    scorer.checked_scores([ScoringItem(tuple('98765'), '2', facts='3')])
    assert len(judge.prompts) == 6
    for prompt in judge.prompts:
        assert re.findall('[PQ]: ([5-9])', prompt) == list(turns)
        assert len(re.findall('3 Dialogue', prompt)) == n_facts


def test_how_often_the_choice_changes_with_the_order_is_in_the_evidence(comparisons):
    judge = PlantedLabels(bias=3.5)
    [score] = scorer_of(judge, comparisons).checked_scores([item('3')])
    # odds of 3 against 1, 2 and 4: shown second 3, 1.5 and 0.75 over 3.5, all below 1;
    # shown first 10.5, 5.25 and 2.6, all above
    assert score.evidence['flips'] == [3, 3]
    [fair] = scorer_of(PlantedLabels(), comparisons).checked_scores([item('3')])
    assert fair.evidence['flips'] == [0, 3]


@pytest.mark.parametrize(
    'options, key',
    [
        ({'comparisons': None}, 'comparisons'),
        ({'comparisons': 'nowhere.jsonl'}, 'nowhere.jsonl'),
        ({'num_comparisons': 4}, 'num_comparisons'),
    ],
)
def test_comparisons_that_cannot_be_drawn_are_refused(comparisons, options, key):
    with user_error(key):
        scorer_of(PlantedLabels(), **{'comparisons': comparisons, **options})


@pytest.mark.parametrize(
    'card, key',
    [
        ({'method': 'directeval', 'prompt_format': 'plain'}, 'method'),
        ({'method': 'paireval', 'prompt_format': 'chat'}, 'judge_format'),
        ({'method': 'paireval', 'prompt': 'another hash'}, 'prompt'),
    ],
)
def test_a_judge_trained_for_something_else_is_refused(
    tmp_path, comparisons, card, key
):
    folder = make_model(tmp_path, 'llama')
    written(tmp_path / 'llama', CARD, card)
    models = models_on_cpu()
    scorer = scorer_of(models, comparisons, judge_model_file=folder)
    with user_error(key):
        scorer.load_models()


SHORT = pair_prompt(JudgedResponse((), 'i'), JudgedResponse((), 'you'))


def test_a_chat_model_begins_its_reply_with_the_label(chat_folder):
    tokenizer = AutoTokenizer.from_pretrained(chat_folder)
    ids = LabelTokens(tokenizer, 'chat').prompt_ids(SHORT)
    message = [{'role': 'user', 'content': SHORT.question}]
    expected = tokenizer.apply_chat_template(
        message, add_generation_prompt=True, tokenize=False
    )
    assert list(ids) == tokenizer.encode(expected, add_special_tokens=False)


def test_a_plain_prompt_begins_as_the_tokenizer_begins_texts(tmp_path):
    tokenizer = AutoTokenizer.from_pretrained(make_model(tmp_path, 'llama'))
    ids = LabelTokens(tokenizer).prompt_ids(SHORT)
    expected = tokenizer(f'{SHORT.question}\n\n{SHORT.answer}')['input_ids']
    assert list(ids) == expected


def test_the_prompt_ends_with_the_question_of_the_paper():
    prompt = direct_prompt(JudgedResponse(('one', 'two'), 'three'))
    assert prompt.question == (
        'Dialogue\nQ: one\nP: two\nResponse\nQ: three\n\n'
        'Is the above response a good response to the given conversation?'
    )
    assert prompt.labels == ('Yes', 'No')


def test_the_share_of_yes():
    scorer = DirectEval.from_section({}, PlantedLabels(nothing='5'))
    # odds of 1:1 and 3:1, and no probability at all
    assert values(scorer, *'135') == [1 / 2, pytest.approx(3 / 4), None]
