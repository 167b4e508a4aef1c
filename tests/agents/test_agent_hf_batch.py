"""
ext:hf in batches: in float64 a conversation gets the reply that it gets alone; prompts
for chat templates of several manners, and what is cut of a long conversation.
"""

import pytest
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import AutoTokenizer, GenerationConfig, PreTrainedTokenizerFast

from parlai_ext.core import options_from_opt
from parlai_ext.systems.chat.messages import ChatStyle, ChatTurn
from parlai_ext.systems.hf import (
    ChatForm,
    FormOptions,
    PlainForm,
    fit_prompt,
    penalty_processors,
    prompt_form,
    prompt_limit,
)
from tests.support.family_hf import CONFIGS, OPT, TEMPLATE, make_model, make_tokenizer
from tests.support.talk import loaded, replies_alone, replies_to
from tests.support.tiny_models import WORDS, sentences
from tests.support.user_error import user_error
from tests.support.written import changed_json

# of different lengths, so that a batch needs padding
TURNS = [sentences(1 + 3 * n, seed=n) for n in range(4)]


WAYS = {
    'penalty': {'inference': 'greedy', 'repetition_penalty': 4.0},
    'stop': {'inference': 'greedy', 'stop': ['song', 'old']},
    'beam_stop': {'inference': 'beam', 'beam_size': 3, 'stop': ['song', 'old']},
}


def load(folder, **opt):
    return loaded(**OPT, hf_model=folder, hf_dtype='float64', **opt)


# how replies are searched is the same for all kinds; what attends to what is not
SEARCHED = [(kind, 'beam_stop') for kind in CONFIGS if kind not in ('gpt2', 'bart')]


SEARCHED += [(kind, way) for kind in ('gpt2', 'bart') for way in WAYS]


@pytest.mark.parametrize('kind, way', SEARCHED)
def test_a_batch_changes_no_reply(kind, way, hf_folder):
    model = load(hf_folder(kind), **WAYS[way])
    alone = replies_alone(model, TURNS)
    assert replies_to(model, TURNS) == alone
    assert len(set(alone)) > 1


def test_padding_with_the_end_token_is_no_word(tmp_path):
    # GPT-2 has no padding token and is padded with the end token: a batch must not make
    # the end of a reply less likely
    gpt2 = make_model(tmp_path, 'gpt2', pad_token_id=None)
    changed_json(f'{gpt2}/tokenizer_config.json', pad_token=None)
    model = load(gpt2, repetition_penalty=1.5, hf_turn_separator='tea')
    assert model.agent.engine.config.pad_token_id == 2
    alone = replies_alone(model, TURNS)
    assert any(len(text.split()) < 8 for text in alone)
    assert replies_to(model, TURNS) == alone


def test_a_padding_token_that_the_model_does_not_know_is_not_used(tmp_path):
    path = make_model(tmp_path, 'llama')
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.add_special_tokens({'pad_token': '<new>'})
    tokenizer.save_pretrained(path)
    # that of its own config
    assert load(path).agent.engine.config.pad_token_id == 0


def test_only_words_of_the_reply_are_blocked():
    # the prompt says 1 2, the reply so far 2 0
    config = GenerationConfig(no_repeat_ngram_size=1)
    [block] = penalty_processors(config, torch.tensor([[1, 1]]))
    scores = block(torch.tensor([[1, 2, 2, 0]]), torch.zeros(1, 4))
    assert scores[0].isinf().tolist() == [True, False, True, False]


EACH = (
    "{% for m in messages %}{{ m['role'][0] + ':' + m['content'] + ' ' }}{% endfor %}"
)


# as Gemma's, and as one that forgets
REFUSING = (
    "{% if messages[0]['role'] == 'system' %}"
    "{{ raise_exception('System role not supported') }}{% endif %}" + EACH
)


FORGETTING = (
    "{% for m in messages if m['role'] != 'system' %}"
    "{{ m['role'][0] + ':' + m['content'] + ' ' }}{% endfor %}"
)


DATED = "{{ strftime_now('%d %b %Y') }} " + EACH


THINKING = '{% if enable_thinking %}think {% endif %}' + EACH


TEA = (ChatTurn(False, 'tea'),)


def form(template, **opt):
    tokenizer = make_tokenizer(WORDS)
    tokenizer.chat_template = template
    style = ChatStyle(opt.pop('system_prompt', ''), opt.pop('first_turn', 'ask'))
    options = options_from_opt(FormOptions, opt)
    return prompt_form(tokenizer, False, options, style)


def written(made, conversation=TEA):
    return made.text(made.parts(conversation)).strip()


@pytest.mark.parametrize('template', [REFUSING, FORGETTING])
def test_without_a_system_role_the_prompt_begins_the_first_message(template):
    assert written(form(template, system_prompt='warm')) == 'u:warm\n\ntea'
    # a first turn that was moved into the prompt does, too
    turns = (ChatTurn(True, 'rain'), ChatTurn(False, 'tea'))
    told = written(form(template, first_turn='system'), turns)
    assert told == 'u:You began this conversation by saying: rain\n\ntea'


@pytest.mark.parametrize(
    'template, why',
    [
        (REFUSING, 'refuses a system prompt: System role not supported'),
        (FORGETTING, 'leaves the system prompt out'),
    ],
)
def test_a_system_role_that_is_insisted_on_is_refused(template, why):
    with user_error(f'^hf_system_role: system: .* {why}; user'):
        form(template, system_prompt='warm', hf_system_role='system')


@pytest.mark.parametrize(
    'template, opt, text',
    [
        # a system role can be declined
        (EACH, {'system_prompt': 'warm', 'hf_system_role': 'user'}, 'u:warm\n\ntea'),
        # nothing is refused without a system prompt, or with a role for it
        (REFUSING, {'hf_system_role': 'system'}, 'u:tea'),
        (EACH, {'system_prompt': 'warm'}, 's:warm u:tea'),
        # the same day whenever it runs
        (DATED, {}, '26 Jul 2024 u:tea'),
        (DATED, {'hf_date': '2025-01-02'}, '02 Jan 2025 u:tea'),
        (THINKING, {'hf_template_args': {'enable_thinking': True}}, 'think u:tea'),
    ],
)
def test_what_a_template_is_told(template, opt, text):
    assert written(form(template, **opt)) == text


def numbered(n):
    """
    Return ``n`` turns of one word each, the other's first and last.
    """
    return tuple(ChatTurn(i % 2 == 1, WORDS[i]) for i in range(n))


def plain(separator=' </s> ', prompt='', seq2seq=False):
    style = ChatStyle(prompt)
    tokenizer = make_tokenizer(WORDS, ending=seq2seq)
    return PlainForm(tokenizer, style, separator, seq2seq)


def chat(prompt=''):
    tokenizer = make_tokenizer(WORDS)
    tokenizer.chat_template = TEMPLATE
    return ChatForm(tokenizer, ChatStyle(prompt))


@pytest.mark.parametrize(
    'make, limit, cut',
    [
        # five turns of a word and an end token are 10
        (plain, 10, 0),
        (plain, 9, 1),
        # <s>, three tokens a message, <|assistant|>: 17 for five
        (chat, 17, 0),
        (chat, 16, 2),
    ],
)
def test_the_oldest_turns_are_cut_and_a_chat_begins_with_the_user(make, limit, cut):
    made = make()
    found = fit_prompt(made, numbered(5), limit)
    left = ' '.join(WORDS[cut:5])
    assert made.tokenizer.decode(found.ids, skip_special_tokens=True) == left
    assert found.cut == cut


@pytest.mark.parametrize(
    'made, turns, limit, text',
    [
        # a plain prompt stays
        (plain(prompt='warm'), numbered(5), 6, 'warm </s> they </s> tea </s>'),
        # they there tea </s> is four tokens, and with one turn more six
        (plain(' there ', seq2seq=True), numbered(5), 5, 'they there tea </s>'),
        # a prompt stays
        (
            chat('warm'),
            numbered(5),
            8,
            '<s> <|system|> warm </s> <|user|> tea </s> <|assistant|>',
        ),
        # the end of a turn
        (
            chat(),
            (ChatTurn(False, 'old book warm tea'),),
            6,
            '<s> <|user|> warm tea </s> <|assistant|>',
        ),
    ],
)
def test_what_is_left_where_not_all_fits(made, turns, limit, text):
    assert made.tokenizer.decode(fit_prompt(made, turns, limit).ids) == text


def test_no_character_is_cut_in_two():
    inner = Tokenizer(models.BPE())
    inner.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    inner.decoder = decoders.ByteLevel()
    every_byte = pre_tokenizers.ByteLevel.alphabet()
    inner.train_from_iterator([], trainers.BpeTrainer(initial_alphabet=every_byte))
    tokenizer = PreTrainedTokenizerFast(tokenizer_object=inner)
    form = PlainForm(tokenizer, ChatStyle(), '\n', seq2seq=False)
    # two bytes a letter and one for the end of the line: 5; there is room for 4
    found = fit_prompt(form, (ChatTurn(False, 'éß'),), 4)
    assert tokenizer.decode(found.ids) == 'ß\n'


@pytest.mark.parametrize(
    'seq2seq, asked, limit',
    [
        (False, None, 100 - 30),
        (True, None, 100),
        (False, 20, 20),
    ],
)
def test_prompt_and_reply_fit_the_models_positions(seq2seq, asked, limit):
    assert prompt_limit(100, asked, 30, seq2seq=seq2seq) == limit
    assert prompt_limit(None, asked, 30, seq2seq=seq2seq) == asked
