"""
LLM judges: the expected value as transformers computes it, endpoints with and without
log-probabilities, both orders of a pair.
"""

import json
import math
from types import SimpleNamespace

import pytest

from parlai_ext.scoring.base import ScoringItem, swapped_item
from parlai_ext.scoring.llm.judges import (
    LlmDialogue,
    LlmEval,
    LlmJudge,
    LlmPair,
)
from parlai_ext.scoring.score_run import spending_lines
from parlai_ext.systems.chat.conversation import ChatReply
from tests.scoring.test_scoring_prompted import answer_logprob
from tests.support.family_remote import control, received
from tests.support.on_cpu import models_on_cpu
from tests.support.remote_samples import NAME
from tests.support.tiny_models import WORDS
from tests.support.user_error import user_error

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
    place = {'token': text, 'logprob': 0.0, 'top_logprobs': told}
    for other in told:
        if other['token'] == text:
            place['logprob'] = other['logprob']
    choice = {'message': {'role': 'assistant', 'content': text}}
    if told:
        choice['logprobs'] = {'content': [place]}
    return {'status': 200, 'body': {'model': NAME, 'choices': [choice]}}


def scored(cls, judge, items=(ITEM,), **options):
    scorer = cls.from_section({'judge_model_file': judge, **options}, HANDLE)
    return scorer.checked_scores(list(items))


def sent(url):
    return [json.loads(one['body']) for one in received(url)]


def test_a_local_rating_is_the_expected_value(chat_folder, tmp_path):
    labels = dict(zip(WORDS[:3], (1, 2, 5), strict=True))
    shown = write_prompt(tmp_path, 'turn', '{context} {response}', labels)
    [score] = scored(LlmJudge, chat_folder, [ScoringItem((HOW, SO), WHY)], prompt=shown)
    text = f'B: {HOW}\nA: {SO} B: {WHY} tea'
    chances = {
        label: math.exp(answer_logprob(chat_folder, text, label)) for label in labels
    }
    expected = sum(labels[k] * p for k, p in chances.items()) / sum(chances.values())
    assert score.values['Overall'] == pytest.approx(expected, abs=1e-4)
    told = score.evidence['Overall']['probabilities']
    assert told == pytest.approx(chances, rel=1e-3)


def test_swapping_a_pair_turns_the_preference_round(chat_folder, tmp_path):
    labels = {WORDS[0]: 1, WORDS[1]: 0, WORDS[2]: 0.5}
    shown = write_prompt(tmp_path, 'pair', '{context} {first} {second}', labels)
    item = ScoringItem((HOW,), SO, extras={'other': WHY})
    pair = [item, swapped_item(item)]
    one, other = scored(LlmPair, chat_folder, pair, prompt=shown)
    assert one.values['Overall'] == pytest.approx(1 - other.values['Overall'], abs=1e-5)
    orders = one.evidence['Overall']
    [first] = scored(LlmPair, chat_folder, [item], prompt=shown, orders='given')
    assert first.values['Overall'] == pytest.approx(orders['first'], abs=1e-5)
    assert one.values['Overall'] == pytest.approx(
        (orders['first'] + orders['second']) / 2
    )


def test_a_pair_without_another_response_has_a_reason(chat_folder):
    [score] = scored(LlmPair, chat_folder)
    assert score.values['Overall'] is None
    assert 'other' in score.reasons['Overall']


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
    scorer = LlmDialogue.from_section({'rating': 'parsed'}, models)
    extras = {'speakers': speakers} if speakers else {}
    item = ScoringItem(('One.', 'Two.', 'Three.'), None, 'bot', extras=extras)
    [score] = scorer.checked_scores([item])
    assert score.values == {'Overall': 3.0}
    [prompt] = models.prompts
    assert 'A: One.\nB: Two.\nA: Three.' in prompt
    assert f'You rate {judged}:' in prompt


def test_the_judged_speaker_of_a_context_is_b():
    models = Recorder()
    LlmJudge.from_section({'rating': 'parsed'}, models).checked_scores([ITEM])
    [prompt] = models.prompts
    assert 'B: Hi!\nA: How are you?\n' in prompt
    assert 'B: Fine.\n' in prompt


def test_an_item_without_what_the_prompt_shows_has_a_reason(tmp_path):
    shown = write_prompt(
        tmp_path, 'turn', '{context} {response} {facts}', '{a: 1, b: 2}'
    )
    models = Recorder()
    options = {'rating': 'parsed', 'prompt': shown}
    [score] = LlmJudge.from_section(options, models).checked_scores([ITEM])
    assert score.values['Overall'] is None
    assert 'facts' in score.reasons['Overall']
    assert models.prompts == []


def test_an_endpoints_log_probabilities_give_the_expected_value(url, judge_name):
    control(url, script=[answered('4', _4=0.5, _5=0.25, _3=0.125, Good=0.125)])
    [score] = scored(LlmJudge, judge_name)
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
    ids=['read', 'expected', 'no rating', 'refused', 'parsed'],
)
def test_a_reply_without_log_probabilities(
    url, judge_name, reply, options, value, reason
):
    control(url, script=[reply])
    [score] = scored(LlmJudge, judge_name, **options)
    assert score.values['Overall'] == value
    if value is None:
        assert reason in score.reasons['Overall']
    else:
        assert score.evidence['Overall']['manner'] == 'parsed'
    assert ('logprobs' in sent(url)[0]) == (options != {'rating': 'parsed'})


def test_an_endpoint_that_refuses_log_probabilities(url, judge_name):
    words = {'error': {'message': 'logprobs are not supported with this model'}}
    control(url, script=[{'status': 400, 'body': words}])
    with user_error('rating: parsed'):
        scored(LlmJudge, judge_name)


def test_a_second_scoring_is_paid_for_only_when_asked_anew(url, judge_name):
    control(url, script=[answered('4'), answered('2')])
    scorer = LlmJudge.from_section({'judge_model_file': judge_name}, HANDLE)
    first, again = (scorer.checked_scores([ITEM])[0] for _ in range(2))
    assert len(sent(url)) == 1
    with scorer.asking_anew() as keeps:
        anew = scorer.checked_scores([ITEM])[0]
    assert keeps and len(sent(url)) == 2
    values = [one.values['Overall'] for one in (first, again, anew)]
    assert values == [4.0, 4.0, 2.0]
    # the cache stays as it was
    assert scorer.checked_scores([ITEM])[0].values['Overall'] == 4.0


def test_a_judge_stops_before_it_costs_too_much(url, judge_name):
    price = 'remote_price_prompt=1e6,remote_price_completion=1e6,max_cost=1'
    with user_error('max_cost'):
        scored(LlmJudge, f'{judge_name},{price}')
    assert sent(url) == []


def test_what_a_judge_cost_is_told(url, judge_name):
    reply = answered('4')
    reply['body']['usage'] = {'prompt_tokens': 200, 'completion_tokens': 1}
    control(url, script=[reply])
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
    control(url, script=[answered(f'Here: {words}')])
    [score] = scored(LlmEval, judge_name)
    assert dict(score.values) == {
        'Appropriateness': 4.0,
        'Content': 3.5,
        'Grammar': None,
        'Relevance': 0.0,
    }
    [body] = sent(url)
    assert 'number from\n0 (worst) to 5 (best)' in body['messages'][0]['content']


def test_the_signature_follows_the_prompts_text(tmp_path):
    models = SimpleNamespace(chat=lambda name: SimpleNamespace(signature='s'))
    signatures = set()
    for words in ('{a: 1, b: 2}', '{a: 1, b: 3}'):
        shown = write_prompt(tmp_path, 'turn', '{context} {response}', words)
        options = {'rating': 'parsed', 'prompt': shown}
        signatures.add(LlmJudge.from_section(options, models).signature)
    assert len(signatures) == 2
    assert all('chat:(s)' in s and 'judge:(none)' not in s for s in signatures)
