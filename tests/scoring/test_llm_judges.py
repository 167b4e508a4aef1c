"""
LLM judges: prompts and what a file of them may hold, the expected value and the
probability of "Yes" as transformers computes them, ratings in the words of a model,
endpoints with and without log-probabilities, both orders of a pair. PairEval and
DirectEval: what is asked, in both orders, the mean over comparisons and runs, and the
probability of "Yes" among "Yes" and "No".
"""

import json
import math
import re

import pytest
from transformers import AutoTokenizer

from parlai_ext import zoo_configs
from parlai_ext.files.yaml_file import read_text
from parlai_ext.judge_check.check import perturbations_for
from parlai_ext.scoring.base import ScoringItem, swapped_item
from parlai_ext.scoring.likelihood import Fed
from parlai_ext.scoring.llm_judges import (
    CARD,
    DirectEval,
    JudgedResponse,
    LabelTokens,
    LlmJudge,
    PairEval,
    Prompted,
    RatingPrompt,
    direct_prompt,
    expected_rating,
    json_ratings,
    label_probabilities,
    label_rating,
    pair_prompt,
    pair_template,
)
from parlai_ext.scoring.score_run import ChosenScorer, spending_lines
from parlai_ext.systems.chat.messages import ChatReply
from tests.support.chat_server import control, received
from tests.support.family_hf import make_model
from tests.support.fed_samples import chat_loss
from tests.support.on_cpu import models_on_cpu
from tests.support.planted_labels import PlantedLabels
from tests.support.remote_samples import NAME
from tests.support.scoring_samples import reason_of, scores_of
from tests.support.tiny_models import WORDS
from tests.support.user_error import user_error
from tests.support.written import written

pytest_plugins = ['tests.support.remote_samples']
HOW, SO, WHY = (' '.join(WORDS[k : k + 3]) for k in (0, 3, 6))
ITEM = ScoringItem(('Hi!', 'How are you?'), 'Fine.')
HANDLE = models_on_cpu()


def write_prompt(folder, level, shown, labels):
    path = folder / f'{level}.yaml'
    path.write_text(
        f'level: {level}\nlabels: {labels}\ndimensions: {{Overall: tea}}\n'
        f"prompt: '{shown} {{question}}'\n"
    )
    return str(path)


@pytest.fixture
def judge_name(url, tmp_path):
    control(url)
    cache = f'remote_cache={tmp_path}/cache.sqlite,remote_concurrency=1'
    return f'{url}/v1,remote_model=tiny,remote_dated_model={NAME},{cache}'


def answered(text, **alternatives):
    """
    Return what the server shall do: answer so, with these alternatives of the only
    token, as probabilities.
    """
    told = [
        {'token': token.strip('_'), 'logprob': math.log(p)}
        for token, p in alternatives.items()
    ]
    logprob = math.log(alternatives.get(f'_{text}', 1))
    place = {'token': text, 'logprob': logprob, 'top_logprobs': told}
    choice = {'message': {'role': 'assistant', 'content': text}}
    if told:
        choice['logprobs'] = {'content': [place]}
    return {'status': 200, 'body': {'model': NAME, 'choices': [choice]}}


def scored(scorer, judge, items=(ITEM,), **options):
    return scores_of(scorer, items, HANDLE, judge_model_file=judge, **options)


def sent(url):
    return [json.loads(one['body']) for one in received(url)]


def test_a_local_rating_is_the_expected_value(chat_folder, tmp_path):
    labels = dict(zip(WORDS[:3], (1, 2, 5), strict=True))
    shown = write_prompt(tmp_path, 'turn', '{context} {response}', labels)
    [score] = scored(
        'llm_judge', chat_folder, [ScoringItem((HOW, SO), WHY)], prompt=shown
    )
    text = f'B: {HOW}\nA: {SO} B: {WHY} tea'
    # a word and the end of the message
    chances = {x: math.exp(-2 * chat_loss(chat_folder, text, x)) for x in labels}
    expected = sum(labels[k] * p for k, p in chances.items()) / sum(chances.values())
    assert score.values['Overall'] == pytest.approx(expected, abs=1e-4)
    told = score.evidence['Overall']['probabilities']
    assert told == pytest.approx(chances, rel=1e-3)


def test_swapping_a_pair_turns_the_preference_round(chat_folder, tmp_path):
    labels = {WORDS[0]: 1, WORDS[1]: 0, WORDS[2]: 0.5}
    shown = write_prompt(tmp_path, 'pair', '{context} {first} {second}', labels)
    item = ScoringItem((HOW,), SO, extras={'other': WHY})
    pair = [item, swapped_item(item)]
    one, other = scored('llm_pair', chat_folder, pair, prompt=shown)
    assert one.values['Overall'] == pytest.approx(1 - other.values['Overall'], abs=1e-5)
    orders = one.evidence['Overall']
    [first] = scored('llm_pair', chat_folder, [item], prompt=shown, orders='given')
    assert first.values['Overall'] == pytest.approx(orders['first'], abs=1e-5)
    assert one.values['Overall'] == pytest.approx(
        (orders['first'] + orders['second']) / 2
    )


def test_a_pair_without_another_response_has_a_reason(chat_folder):
    [score] = scored('llm_pair', chat_folder)
    assert 'other' in reason_of(score)


def test_a_judge_of_pairs_refuses_dialogues_before_it_looks_for_its_model():
    section = {'name': 'llm_pair', 'judge_model_file': 'no/model'}
    with user_error('needs two responses'):
        ChosenScorer(section, named_by_user=True).check()


class Recorder:
    """
    `Models` with one chat model, which records the prompts and replies 3.
    """

    signature = 'recorder'

    def __init__(self):
        self.prompts = []

    def chat(self, name):
        return self

    def rating_replies(self, prompts, logprobs):
        self.prompts += prompts
        return [ChatReply('3') for _ in prompts]


@pytest.mark.parametrize(
    'speakers, judged',
    [
        (('bot', 'ann', 'bot'), 'speaker A'),
        (('ann', 'bot', 'ann'), 'speaker B'),
        (('bot', 'bot', 'bot'), 'the conversation'),
        (None, 'the conversation'),
    ],
)
def test_who_is_judged_in_a_dialogue(speakers, judged):
    models = Recorder()
    extras = {'speakers': speakers} if speakers else {}
    item = ScoringItem(('One.', 'Two.', 'Three.'), None, 'bot', extras=extras)
    [score] = scores_of('llm_dialogue', [item], models, rating='parsed')
    assert score.values == {'Overall': 3.0}
    [prompt] = models.prompts
    assert 'A: One.\nB: Two.\nA: Three.' in prompt
    assert f'You rate {judged}:' in prompt


def test_an_item_without_what_the_prompt_shows_has_a_reason(tmp_path):
    shown = write_prompt(
        tmp_path, 'turn', '{context} {response} {facts}', '{a: 1, b: 2}'
    )
    models = Recorder()
    options = {'rating': 'parsed', 'prompt': shown}
    [score] = scores_of('llm_judge', [ITEM], models, **options)
    assert 'facts' in reason_of(score)
    assert models.prompts == []


def test_an_endpoints_log_probabilities_give_the_expected_value(url, judge_name):
    control(url, answered('4', _4=0.5, _5=0.25, _3=0.125, Good=0.125))
    [score] = scored('llm_judge', judge_name)
    # (4 * 0.5 + 5 * 0.25 + 3 * 0.125) / 0.875
    assert score.values['Overall'] == pytest.approx(3.625 / 0.875)
    assert score.evidence['Overall']['manner'] == 'expected'
    [body] = sent(url)
    assert body['logprobs'] is True and body['top_logprobs'] == 20
    assert body['temperature'] == 0


@pytest.mark.parametrize(
    'reply, options, value, reason',
    [
        (answered('I would say 4/5.'), {}, 4.0, None),
        (answered('4'), {'rating': 'expected'}, None, 'log-probabilities'),
        (answered('I cannot judge people.'), {}, None, 'I cannot judge'),
        ('filter', {}, None, 'content filter'),
        (answered('2', _2=0.5, _5=0.5), {'rating': 'parsed'}, 2.0, None),
    ],
)
def test_a_reply_without_log_probabilities(
    url, judge_name, reply, options, value, reason
):
    control(url, reply)
    [score] = scored('llm_judge', judge_name, **options)
    assert score.values['Overall'] == value
    if value is None:
        assert reason in score.reasons['Overall']
    else:
        assert score.evidence['Overall']['manner'] == 'parsed'
    assert ('logprobs' in sent(url)[0]) == (options != {'rating': 'parsed'})


def test_an_endpoint_that_refuses_log_probabilities(url, judge_name):
    words = {'error': {'message': 'logprobs are not supported with this model'}}
    control(url, {'status': 400, 'body': words})
    with user_error('rating: parsed'):
        scored('llm_judge', judge_name)


def test_a_second_scoring_is_paid_for_only_when_asked_anew(url, judge_name):
    control(url, answered('4'), answered('2'))
    scorer = LlmJudge.from_section({'judge_model_file': judge_name}, HANDLE)

    def value():
        return scorer.checked_scores([ITEM])[0].values['Overall']

    assert [value(), value(), len(sent(url))] == [4, 4, 1]
    with scorer.models.changed(asks_anew=True):
        assert [value(), len(sent(url))] == [2, 2]
    assert value() == 4  # the cache stays as it was


def test_what_a_judge_cost_is_told(url, judge_name):
    reply = answered('4')
    reply['body']['usage'] = {'prompt_tokens': 200, 'completion_tokens': 1}
    control(url, reply)
    price = 'remote_price_prompt=100,remote_price_completion=1000'
    options = {'judge_model_file': f'{judge_name},{price}'}
    scorer = LlmJudge.from_section(options, HANDLE)
    scorer.checked_scores([ITEM])
    scorer.checked_scores([ITEM])
    [line] = spending_lines(scorer)
    # 200 * 100 / 1e6 + 1 * 1000 / 1e6
    for told in ('1 requests', '1 replies from the cache', '200 + 1 tokens', '$0.021'):
        assert told in line


def test_llm_eval_reads_four_numbers_from_one_reply(url, judge_name):
    words = '{"Appropriateness": 4, "Content": 3.5, "Grammar": 9, "Relevance": 0}'
    control(url, answered(f'Here: {words}'))
    [score] = scored('llm_eval', judge_name)
    # 9 is no rating from 0 to 5
    assert list(score.values.values()) == [4, 3.5, None, 0]
    [body] = sent(url)
    assert 'number from\n0 (worst) to 5 (best)' in body['messages'][0]['content']


def test_the_signature_follows_the_prompts_text(tmp_path):
    signatures = set()
    for words in ('{a: 1, b: 2}', '{a: 1, b: 3}'):
        shown = write_prompt(tmp_path, 'turn', '{context} {response}', words)
        options = {'rating': 'parsed', 'prompt': shown}
        signatures.add(LlmJudge.from_section(options, Recorder()).signature)
    assert len(signatures) == 2
    assert all(one.endswith('|chat:(recorder)') for one in signatures)


FIVE = 'scale: {lowest: 1, highest: 5}'
PAIR = "labels: {X: 1, Y: 0, Tie: 0.5, 'Not at all': 0.1}"


def prompt(text):
    doc = read_text(text, 'mine.yaml')
    return doc.record(RatingPrompt)


def asked(labels=FIVE, answer='label', dimensions='{Overall: good}'):
    text = f'level: turn\nanswer: {answer}\n{labels}\ndimensions: {dimensions}\n'
    question = '{question}' if answer == 'label' else '{questions}'
    text += f"prompt: '{{context}} {{response}} {question}'"
    return prompt(text)


@pytest.mark.parametrize(
    'reply, value',
    [
        (' **4**.', 4),
        ('I give it 5 out of 5.', 5),
        ('4.5', 4.5),
        ('4 4', 4),
        ('The 1st response is a 3', 3),
        ('no idea', None),
        ('4 or 5', None),
        ('10', None),
        ('-3', None),
        ('', None),
    ],
)
def test_a_number_of_a_scale(reply, value):
    rating = label_rating(reply, asked())
    assert rating.value == value
    assert (rating.reason is None) == (value is not None)


@pytest.mark.parametrize(
    'reply, value',
    [
        ('X', 1),
        ('"y".', 0),
        ('The answer is Y', 0),
        ('tie', 0.5),
        ('Not at all', 0.1),
        ('X or Y', None),
        ('x is better than what y said', None),
        ('neither', None),
    ],
)
def test_a_label_in_words(reply, value):
    assert label_rating(reply, asked(PAIR)).value == value


def test_labels_without_any_probability_have_no_expected_value():
    assert expected_rating({'1': 0.0, '5': 0.0}, asked()).value is None


@pytest.mark.parametrize(
    'alternatives, scale, expected',
    [
        # what is one label is added, at the first place that is one
        (
            [
                [['Rating', 0.0]],
                [[' 4', math.log(0.5)], ['4', math.log(0.25)], ['5', math.log(0.125)]],
            ],
            FIVE,
            {'1': 0, '2': 0, '3': 0, '4': 0.75, '5': 0.125},
        ),
        # no token is a label
        ([[['Good', -0.1], ['4', -2.0]]], FIVE, None),
        # a label that begins another, 10, is not told by one token
        ([[['1', -0.1]]], 'scale: {lowest: 1, highest: 10}', None),
    ],
)
def test_probabilities_of_labels(alternatives, scale, expected):
    found = label_probabilities(alternatives, asked(scale))
    assert found == (expected and pytest.approx(expected))


BOTH = asked('scale: {lowest: 0, highest: 5}', 'json', '{Content: a, Grammar: b}')


def test_a_json_object_with_words_around_it():
    ratings = json_ratings('Sure {x}: {"content": 4.5, "Grammar": "3"} bye', BOTH)
    assert [ratings[name].value for name in BOTH.dimensions] == [4.5, 3.0]


@pytest.mark.parametrize(
    'reply',
    [
        '{"Grammar": 3}',
        '{"Content": 6}',
        '{"Content": true}',
        '{"Content": NaN}',
        f'{{"Content": 1{"0" * 400}}}',  # a model that does not stop
    ],
)
def test_a_dimension_that_json_lacks_is_missing_with_a_reason(reply):
    rating = json_ratings(reply, BOTH)['Content']
    assert rating.value is None and rating.reason


GOOD = """level: turn
scale: {lowest: 1, highest: 3}
dimensions: {Overall: good}
prompt: 'A {context} B {response} {"json": 1}'
"""


def test_what_is_filled_in_is_not_filled_again():
    filled = prompt(GOOD).filled({'context': '{response}', 'response': 'yes'})
    assert filled == 'A {response} B yes {"json": 1}'


@pytest.mark.parametrize(
    'old, new, place',
    [
        ('level: turn', 'level: turns', 'mine.yaml:1: level'),
        ('scale: {lowest: 1, highest: 3}', '', 'mine.yaml:1: .*scale or labels'),
        ('highest: 3', 'highest: 1', 'mine.yaml:2: scale'),
        ('highest: 3', 'highest: 2.5', 'mine.yaml:2: scale.highest'),
        ('scale: {lowest: 1, highest: 3}', 'labels: {Y: 1}', 'mine.yaml:2: labels'),
        (
            'scale: {lowest: 1, highest: 3}',
            "labels: {'Yes': 1, 'No': none}",
            'mine.yaml:2: labels.No',
        ),
        ('{Overall: good}', '{}', 'mine.yaml:3: dimensions'),
        ('{response}', '{reply}', 'mine.yaml:4: prompt: .*reply'),
        ('{response}', '', 'mine.yaml:4: prompt: .*response'),
        ('{Overall: good}', '{A: good, B: bad}', 'mine.yaml:4: prompt: .*question'),
        ('prompt', 'promt', 'mine.yaml:4: promt'),
    ],
)
def test_a_mistake_is_named_with_line_and_key(old, new, place):
    with user_error(place):
        prompt(GOOD.replace(old, new))


def test_a_pair_has_labels_from_0_to_1():
    pair = GOOD.replace('turn', 'pair').replace('{response}', '{first} {second}')
    with user_error(r'mine.yaml:1: labels'):
        prompt(pair)


def test_a_prompt_of_another_level_is_refused():
    with user_error(r'dialogue.yaml:\d+: level'):
        LlmJudge.from_section({'prompt': 'dialogue'})


@pytest.mark.parametrize('path', sorted((zoo_configs.HOME / 'prompts').glob('*.yaml')))
def test_shipped_prompts_can_be_read(path):
    assert prompt(path.read_text()).dimensions


ASK = WORDS[9]


def test_the_share_of_the_first_answer(chat_folder, monkeypatch):
    # the tiny tokenizer knows no Yes and No
    monkeypatch.setattr('parlai_ext.scoring.llm_judges.ANSWERS', WORDS[:2])
    options = {'judge_model_file': chat_folder, 'question': ASK}
    [score] = scores_of('prompted', [ScoringItem((HOW, SO), HOW)], **options)
    prompt = f'Dialogue:\nB: {HOW}\nA: {SO}\n\nResponse:\nB: {HOW}\n\n{ASK}'
    yes, no = (math.exp(-2 * chat_loss(chat_folder, prompt, x)) for x in WORDS[:2])
    assert yes != pytest.approx(no, rel=1e-3)
    assert score.values['Overall'] == pytest.approx(yes / (yes + no), abs=1e-5)


@pytest.mark.parametrize(
    'scorer, has_format',
    [(Prompted, False), (LlmJudge, False), (Fed, True)],
)
def test_a_judge_without_a_template_is_refused_by_an_option_of_the_scorer(
    tmp_path, scorer, has_format
):
    section = {'judge_model_file': make_model(tmp_path, 'gpt2')}
    if has_format:
        section['judge_format'] = 'chat'
    models = models_on_cpu()
    with user_error('chat template') as error:
        scorer.from_section(section, models).load_models()
    assert ('judge_format' in str(error.value)) == has_format
    assert ('judge_model_file' in str(error.value)) != has_format


def test_an_empty_question_is_refused(chat_folder):
    with user_error('question'):
        Prompted.from_section({'question': ' '})


def test_its_check_tries_instructions_to_the_judge(chat_folder):
    section = {'judge_model_file': chat_folder}
    scorer = Prompted.from_section(section, models_on_cpu())
    assert 'injected' in perturbations_for(scorer)


# === PairEval and DirectEval ==========================================================

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
