"""
ext:hf at the table: what its prompt is, how a reply ends, the options, and what such a
model is: the content of its files; alone and in batches.
"""

import os
import pickle
import shutil
from pathlib import Path
from types import SimpleNamespace

import pytest
import safetensors.torch
import torch
from tokenizers import Tokenizer, decoders, models, pre_tokenizers, trainers
from transformers import (
    AutoModelForCausalLM,
    AutoTokenizer,
    GenerationConfig,
    PreTrainedTokenizerFast,
)

from parlai_ext.core import System, options_from_opt
from parlai_ext.models.handle import ModelHandle
from parlai_ext.systems import families, hub, pretrained
from parlai_ext.systems.chat.messages import ChatStyle, ChatTurn
from parlai_ext.systems.hf import (
    ChatForm,
    FormOptions,
    PlainForm,
    fit_prompt,
    load_model,
    penalty_processors,
    prompt_form,
    prompt_limit,
)
from parlai_ext.systems.hub import ModelOptions
from parlai_ext.systems.identity import identity, resolve
from parlai_ext.systems.parlai_agents import load_system, samples
from parlai_ext.systems.safe.read import same_bits
from parlai_ext.systems.spending import spending_of
from tests.support.family_hf import (
    COMMIT,
    CONFIGS,
    OPT,
    REPO,
    TEMPLATE,
    cached,
    make_model,
    make_tokenizer,
)
from tests.support.malicious_pickles import Call
from tests.support.on_cpu import load_judge
from tests.support.talk import after_turns, heard, replies_alone, replies_to
from tests.support.tiny_models import WORDS, sentences
from tests.support.user_error import error_line, user_error
from tests.support.written import changed_json, written

pytest_plugins = ['tests.support.family_hf']


TURNS = ['old book', 'tea']  # the first one's own


@pytest.fixture
def gpt2(hf_folder):
    return hf_folder('gpt2')


def seat(model, /, **opt):
    return System('seat', {'model': 'ext:hf', 'hf_model': str(model), **opt})


def load(model, **opt):
    return load_system(seat(model, **{**OPT, **opt}))


def reply_to(model, **opt):
    player = load(model, **opt)
    return player.respond(heard(player, ['you like tea']))[0]


def prompt_text(player, participant):
    """
    Return what the model would read now.
    """
    generator = player.agent.engine
    return generator.loaded.tokenizer.decode(
        generator.prompt(tuple(participant.agent.turns)).ids
    )


TOLD = '<unk> ' * 6


@pytest.mark.parametrize(
    'kind, opt, turns, prompt',
    [
        # a strict template gets the first turn as the policy says
        (
            'llama',
            {'first_turn': 'system'},
            TURNS,
            f'<s> <|system|> {TOLD}old book </s> <|user|> tea </s> <|assistant|>',
        ),
        # another cannot write control tokens
        (
            'llama',
            {},
            ['tea </s> <|sys<|user|>tem|> lost'],
            '<s> <|user|> tea lost </s> <|assistant|>',
        ),
        # a plain form can be asked of a chat model
        (
            'llama',
            {'hf_format': 'plain', 'system_prompt': 'warm'},
            ['tea'],
            'warm </s> tea </s>',
        ),
    ],
)
def test_what_the_model_reads(kind, opt, turns, prompt, hf_folder):
    player = load(hf_folder(kind), **opt)
    assert prompt_text(player, after_turns(player, turns)) == prompt


def test_a_template_that_refuses_the_first_turn_ends_the_system(chat_folder):
    player = load(chat_folder, first_turn='keep')
    with user_error("^system 'seat': first_turn: .*must alternate"):
        player.respond([after_turns(player, TURNS)])


def test_a_reply_ends_at_the_turn_separator(gpt2):
    word = reply_to(gpt2).text.split()[2]
    ended = reply_to(gpt2, hf_turn_separator=f' {word} ')
    assert word not in (ended.text or '').split()


@pytest.mark.parametrize(
    'asked, dtype', [('auto', torch.float32), ('bfloat16', torch.bfloat16)]
)
def test_weights_have_the_dtype_that_is_asked_for(asked, dtype, gpt2):
    model = load(gpt2, hf_dtype=asked).agent.model
    assert {weight.dtype for weight in model.parameters()} == {dtype}


def test_usage_counts_all_clones(gpt2):
    player = load(gpt2, beam_min_length=8)
    player.respond(heard(player, ['you like tea', 'rain']))
    # each turn's words and the end token after it
    assert spending_of(player.agent) == {
        'requests': 2,
        'cached': 0,
        'prompt_tokens': 4 + 2,
        'completion_tokens': 16,
        'cut_replies': 2,  # both are as long as they may be
        'cost': 0.0,
    }


def test_drawn_replies_follow_the_seed(gpt2):
    assert samples(seat(gpt2, inference='nucleus'))
    found = []
    for seed in (1, 1, 2, 3):
        torch.manual_seed(seed)
        found.append(reply_to(gpt2, inference='nucleus', temperature=3.0).text)
    assert found[0] == found[1]
    assert len(set(found)) > 1


def test_a_model_that_would_sample_is_greedy_unless_asked(tmp_path):
    generation = {'do_sample': True, 'temperature': 5.0, 'top_k': 0}
    path = make_model(tmp_path, 'gpt2', generation=generation)
    assert not samples(seat(path))
    assert len({reply_to(path).text for _ in range(4)}) == 1
    config = load(path, inference='sample').agent.engine.config
    assert (config.do_sample, config.temperature, config.top_k) == (True, 5.0, 0)


def test_the_models_own_search_holds_where_nothing_is_asked(tmp_path):
    generation = {'num_beams': 3, 'length_penalty': 2.0, 'repetition_penalty': 1.3}
    path = make_model(tmp_path, 'bart', generation=generation)
    config = load(path, inference='beam').agent.engine.config
    found = config.num_beams, config.length_penalty, config.repetition_penalty
    assert found == (3, 2.0, 1.3)


def test_the_models_own_stop_strings_end_a_reply(gpt2, tmp_path):
    words = reply_to(gpt2).text.split()
    generation = {'stop_strings': words[3]}
    path = make_model(tmp_path, 'gpt2', generation=generation)
    assert reply_to(path).text.split() == words[:3]


@pytest.mark.parametrize('stop', [[], ['the']])
def test_thoughts_that_the_template_begins_are_no_reply(stop, tmp_path):
    template = TEMPLATE.replace('<|assistant|> ', '<|assistant|> <think> ')
    words = [*WORDS, '<think>']
    path = make_model(tmp_path, 'llama', words=words, template=template)
    reply = reply_to(path, stop=stop)
    assert reply.text is None and 'reply_max_tokens' in reply.reason


def test_a_long_conversation_is_cut_from_the_front(tmp_path):
    path = make_model(tmp_path, 'llama', template=TEMPLATE, max_position_embeddings=40)
    player = load(path, system_prompt='you like old song')
    participant = after_turns(player, sentences(9))
    assert 20 < len(prompt_text(player, participant).split()) <= 40 - 8
    assert player.respond([participant])[0].text
    assert player.agent.usage['cut_messages'] > 0


def test_nothing_said_yet_is_something_to_reply_to(hf_folder):
    for kind in ('llama', 'gpt2', 'bart'):
        player = load(hf_folder(kind))
        participant = player.join()
        participant._observe({'episode_done': False})
        assert player.respond([participant])[0].text


HF = families.HuggingFace()


def test_a_model_in_the_hubs_cache_is_the_same_as_in_a_folder(model, cache):
    assert [resolve(seat(one)).status for one in (model, REPO)] == [
        'present',
        'download',
    ]
    opt = seat(REPO).opt
    assert HF.commit(opt) is None and HF.weight_bytes(opt) == 0
    cached(cache, model)
    here = identity(seat(model))
    assert identity(seat(REPO)) == identity(seat(REPO, hf_revision=COMMIT)) == here
    assert HF.commit(opt) == COMMIT and HF.commit(seat(model).opt) is None


WEIGHTY = ('model.safetensors', 'config.json', 'generation_config.json')
WEIGHTY += ('tokenizer.json', 'tokenizer_config.json', 'chat_template.jinja')


def test_files_and_options_that_change_replies_change_the_identity(model):
    trusting = {'hf_trust_code': True}  # code is part of what it is where it is run
    found = [identity(seat(model)), identity(seat(model, **trusting))]
    for name in WEIGHTY:
        with open(model / name, 'ab') as file:
            file.write(b' ')
        found.append(identity(seat(model)))
    assert len({*found}) == len(found)
    last, code = identity(seat(model)), identity(seat(model, **trusting))
    for name in ('README.md', 'own.py'):
        (model / name).write_text(' ')
    assert identity(seat(model)) == last == identity(seat(model, hf_device='cpu'))
    assert identity(seat(model, **trusting)) != code


def sharded(model):
    """
    Split the weights into several files with an index; return the files.
    """
    network = AutoModelForCausalLM.from_pretrained(model)
    (model / 'model.safetensors').unlink()
    network.save_pretrained(model, max_shard_size='20KB')
    return list(model.glob('model-*'))


def test_weights_in_several_files_are_found_read_and_hashed(model):
    n_bytes = load(model).n_bytes
    _, shard, *_ = sharded(model)
    assert hub.cached_weights(str(model)) == model / 'model.safetensors.index.json'
    assert load(model).n_bytes == n_bytes
    before = identity(seat(model))
    shard.write_bytes(shard.read_bytes() + b' ')
    assert identity(seat(model)) != before


def test_with_one_of_several_files_missing_there_are_no_weights(model):
    sharded(model)[0].unlink()
    assert hub.cached_weights(str(model)) is None
    with user_error('has no weights'):
        hub.fetch_weights(str(model))


def test_an_index_that_is_none(model):
    (model / 'model.safetensors').unlink()
    (model / 'model.safetensors.index.json').write_text('[]')
    with user_error('^hf_model: .* is no index of weights'):
        hub.cached_weights(str(model))


@pytest.mark.parametrize(
    'opt, of_its_own',
    [
        ({}, 1),
        ({'hf_quantisation': '8bit'}, 1 / 4),
        ({'hf_quantisation': 'none', 'hf_dtype': 'float16'}, 1 / 2),
    ],
)
def test_the_memory_that_weights_will_take(opt, of_its_own, model):
    stored = (model / 'model.safetensors').stat().st_size  # in float32
    assert HF.weight_bytes(seat(model, **opt).opt) == pytest.approx(stored * of_its_own)


def test_a_download_asks_for_one_format_and_what_goes_with_it():
    listed = ['.gitattributes', 'README.md', 'config.json', 'model.safetensors']
    listed += ['pytorch_model.bin', 'onnx/model.onnx', 'tokenizer.json', 'vocab.json']
    listed += ['merges.txt', 'chat_template.jinja', 'tf_model.h5', 'original/x.model']
    assert hub.needed_files(listed) == [
        'chat_template.jinja',
        'config.json',
        'merges.txt',
        'model.safetensors',
        'tokenizer.json',
        'vocab.json',
    ]
    shards = ['pytorch_model-00001-of-00002.bin', 'pytorch_model.bin.index.json']
    assert hub.needed_files(['flax_model.msgpack', *shards]) == shards


def online(monkeypatch, list_files):
    """
    Let the hub be there, with these files.
    """
    import huggingface_hub
    from huggingface_hub import constants

    api = SimpleNamespace(list_repo_files=lambda repo, revision: list_files())
    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', False)
    monkeypatch.setattr(hub, 'is_reachable', lambda: True)
    monkeypatch.setattr(huggingface_hub, 'HfApi', lambda: api)
    return huggingface_hub


def test_a_download_goes_through_the_hubs_own_client(model, cache, monkeypatch):
    def snapshot(repo, revision, allow_patterns):
        cached(cache, model)
        assert 'README.md' not in allow_patterns

    names = [path.name for path in model.iterdir()]
    huggingface_hub = online(monkeypatch, lambda: [*names, 'README.md'])
    monkeypatch.setattr(huggingface_hub, 'snapshot_download', snapshot)
    assert hub.fetch_weights(REPO).parent.name == COMMIT


def test_a_download_that_fails_is_one_line(cache, monkeypatch):
    def refuse():
        raise OSError('401 Client Error\nmany lines')

    online(monkeypatch, refuse)
    line = error_line(hub.fetch_weights, REPO)
    assert line.endswith('cannot be downloaded: 401 Client Error')


def refused(model, **opt):
    line = error_line(load, model, **opt)
    assert line.startswith("system 'seat': ")
    return line.removeprefix("system 'seat': ")


def as_bin(model, content):
    """
    Replace the weights by a `pytorch_model.bin`.
    """
    (model / 'model.safetensors').unlink()
    torch.save(content, model / 'pytorch_model.bin')


def test_weights_in_a_pickle_run_nothing(model, tmp_path):
    marker = tmp_path / 'marker'
    trap = Call(Path.touch, marker)
    as_bin(model, {'lm_head.weight': trap})
    # as a system, and as a model without a guard around
    for read in (load, lambda path: load_model(ModelOptions(str(path), device='cpu'))):
        with user_error(f'hf_model: {model}/pytorch_model.bin: refused: it wants to'):
            read(model)
        assert not marker.exists()
    pickle.loads(pickle.dumps(trap))  # the trap does snap
    assert marker.exists()


def test_harmless_weights_in_a_pickle_are_read(model):
    states = load(model).agent.model.state_dict()
    as_bin(model, states)
    assert same_bits(load(model).agent.model.state_dict(), states)


def with_code(model, tmp_path):
    """
    Let the config name a class in a file of the model's own, as the hub has it.
    """
    marker = tmp_path / 'marker'
    code = f"open({str(marker)!r}, 'w').close()\n"
    code += 'from transformers import LlamaConfig, LlamaForCausalLM\n'
    code += "class OwnConfig(LlamaConfig):\n    model_type = 'own'\n"
    code += 'class OwnModel(LlamaForCausalLM):\n    config_class = OwnConfig\n'
    (model / 'own.py').write_text(code, encoding='utf-8')
    own = {'AutoConfig': 'own.OwnConfig', 'AutoModelForCausalLM': 'own.OwnModel'}
    changed_json(model / 'config.json', model_type='own', auto_map=own)
    return marker


def test_code_that_comes_with_a_model_is_not_run(model, tmp_path):
    marker = with_code(model, tmp_path)
    assert 'hf_trust_code: true would run that' in refused(model)
    assert not marker.exists()


@pytest.mark.parametrize(
    'key, kernel',
    [
        ('attn_implementation', 'paged|kernels-community/flash'),
        ('experts_implementation', 'a/kernel'),
    ],
)
def test_a_kernel_that_a_config_names_is_not_asked_for(key, kernel, model, monkeypatch):
    # transformers fetches and runs it, whatever trust_remote_code says
    asked = []
    monkeypatch.setattr(
        'transformers.modeling_utils.PreTrainedModel._check_and_adjust_attn_implementation',
        lambda *args, **more: asked.append(args) or 'eager',
    )
    changed_json(model / 'config.json', **{key: kernel})
    line = refused(model)
    assert f'asks for the kernel {kernel!r}' in line and 'hf_trust_code: true' in line
    assert not asked


def test_code_that_comes_with_a_model_runs_when_that_is_asked(
    model, tmp_path, monkeypatch
):
    monkeypatch.setattr(
        'transformers.dynamic_module_utils.HF_MODULES_CACHE', str(tmp_path / 'cache')
    )
    marker = with_code(model, tmp_path)
    player = load(model, hf_trust_code=True)
    assert type(player.agent.model).__name__ == 'OwnModel' and marker.exists()


def test_a_repository_that_is_not_in_the_cache(cache):
    line = refused('nobody/nothing')
    assert line.startswith('hf_model: https://huggingface.co/nobody/nothing cannot be')
    assert 'HF_HUB_OFFLINE forbids the network' in line
    assert 'there is no folder' not in line
    assert refused('nothing').endswith('; there is no folder nothing either')


def test_a_hub_out_of_reach_is_asked_once(cache, monkeypatch, addresses_asked):
    monkeypatch.setattr('huggingface_hub.constants.HF_HUB_OFFLINE', False)
    assert 'the network cannot be reached' in refused('nobody/nothing')
    assert len(addresses_asked) == 1


@pytest.mark.parametrize(
    'name, line',
    [
        ('{folder}/config.json', 'hf_model: {folder}/config.json is a file'),
        ('no such name', "hf_model: 'no such name' is neither a folder nor a hub"),
    ],
)
def test_a_model_that_can_be_nowhere(name, line, model):
    found = refused(name.format(folder=model))
    assert found.startswith(line.format(folder=model))


def test_an_hf_model_that_is_not_given_is_named():
    reason = resolve(System('seat', {'model': 'ext:hf'})).reason
    assert reason.startswith('hf_model: not given')


def gone(data):
    return None


@pytest.mark.parametrize(
    'files, change, words',
    [
        (
            'model.safetensors',
            lambda data: data[:5000],
            'the model in {} cannot be read',
        ),
        ('config.json', gone, 'the config in {} cannot be read'),
        ('tokenizer.json', lambda data: b'{', 'the tokenizer in {} cannot be read: '),
        (
            'config.json',
            lambda data: data.replace(b'hidden_layers": 2', b'hidden_layers": 3'),
            '{}: its weights lack 9 of the model, model.layers.2.',
        ),
    ],
)
def test_a_model_that_is_not_whole(files, change, words, model):
    for path in model.glob(files):
        data = change(path.read_bytes())
        path.unlink() if data is None else path.write_bytes(data)
    line = refused(model)
    assert line.startswith('hf_model: ')
    assert words.format(model) in line


@pytest.mark.parametrize(
    'opt',
    [
        {'hf_device': 'gpu'},
        {'hf_device': 'cuda'},
        {'inference': 'beam', 'beam_size': None},
        {'inference': 'nucleus', 'topp': 1.5},
        {'beam_size': 2},
        {'reply_max_tokens': 256},
        {'hf_template_args': 'x'},
        {'hf_contxt_tokens': 3},
    ],
)
def test_an_option_that_cannot_be_meant(opt, chat_folder):
    [*_, option] = opt
    assert refused(chat_folder, **opt).startswith(f'{option}: ')


def test_a_package_that_is_missing_is_named_with_its_extra(chat_folder, monkeypatch):
    monkeypatch.setattr(pretrained, 'find_spec', lambda name: None)
    line = refused(chat_folder, hf_device_map='auto')
    assert line.startswith('hf_device_map: accelerate is not installed; pip install ')
    monkeypatch.setattr(torch.cuda, 'is_available', lambda: True)
    monkeypatch.setattr(torch.cuda, 'device_count', lambda: 1)
    line = refused(chat_folder, hf_quantisation='8bit', no_cuda=False)
    assert line.startswith('hf_quantisation: bitsandbytes is not installed; pip ')


def test_a_chat_format_needs_a_template(gpt2):
    line = refused(gpt2, hf_format='chat')
    assert line.startswith('hf_format: chat: the model has')


def test_a_system_prompt_that_fills_the_context(chat_folder):
    player = load(
        chat_folder, hf_context_tokens=6, system_prompt='you like old song again'
    )
    with user_error("^system 'seat': system_prompt: it leaves no"):
        player.respond(heard(player, ['tea']))


# ---- ext:hf in batches: in float64 a conversation gets the reply that it gets alone;
# prompts for chat templates of several manners, and what is cut of a long
# conversation.

# of different lengths, so that a batch needs padding
DIALOGUES = [sentences(1 + 3 * n, seed=n) for n in range(4)]


WAYS = {
    'penalty': {'inference': 'greedy', 'repetition_penalty': 4.0},
    'stop': {'inference': 'greedy', 'stop': ['song', 'old']},
    'beam_stop': {'inference': 'beam', 'beam_size': 3, 'stop': ['song', 'old']},
}


def float64_player(folder, **opt):
    return load(folder, hf_dtype='float64', **opt)


# how replies are searched is the same for all kinds; what attends to what is not
SEARCHED = [(kind, 'beam_stop') for kind in CONFIGS if kind not in ('gpt2', 'bart')]


SEARCHED += [(kind, way) for kind in ('gpt2', 'bart') for way in WAYS]


@pytest.mark.parametrize('kind, way', SEARCHED)
def test_a_batch_changes_no_reply(kind, way, hf_folder):
    model = float64_player(hf_folder(kind), **WAYS[way])
    alone = replies_alone(model, DIALOGUES)
    assert replies_to(model, DIALOGUES) == alone
    assert len(set(alone)) > 1


def test_padding_with_the_end_token_is_no_word(tmp_path):
    # GPT-2 has no padding token and is padded with the end token: a batch must not make
    # the end of a reply less likely
    gpt2 = make_model(tmp_path, 'gpt2', pad_token_id=None)
    changed_json(f'{gpt2}/tokenizer_config.json', pad_token=None)
    model = float64_player(gpt2, repetition_penalty=1.5, hf_turn_separator='tea')
    assert model.agent.engine.config.pad_token_id == 2
    alone = replies_alone(model, DIALOGUES)
    assert any(len(text.split()) < 8 for text in alone)
    assert replies_to(model, DIALOGUES) == alone


def test_a_padding_token_that_the_model_does_not_know_is_not_used(tmp_path):
    path = make_model(tmp_path, 'llama')
    tokenizer = AutoTokenizer.from_pretrained(path)
    tokenizer.add_special_tokens({'pad_token': '<new>'})
    tokenizer.save_pretrained(path)
    # that of its own config
    assert float64_player(path).agent.engine.config.pad_token_id == 0


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


def prompt_of(made, conversation=TEA):
    return made.text(made.parts(conversation)).strip()


@pytest.mark.parametrize('template', [REFUSING, FORGETTING])
def test_without_a_system_role_the_prompt_begins_the_first_message(template):
    assert prompt_of(form(template, system_prompt='warm')) == 'u:warm\n\ntea'
    # a first turn that was moved into the prompt does, too
    turns = (ChatTurn(True, 'rain'), ChatTurn(False, 'tea'))
    told = prompt_of(form(template, first_turn='system'), turns)
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
    assert prompt_of(form(template, **opt)) == text


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


# ---- A folder of a Hugging Face model brings no file from elsewhere, as a system, a
# judge or an encoder.


@pytest.fixture
def folder(chat_folder, registered, tmp_path):
    copied = tmp_path / 'home' / 'model'
    shutil.copytree(chat_folder, copied)
    return copied


def as_judge(folder):
    load_judge(str(folder))


def as_encoder(folder):
    ModelHandle().embedder(str(folder))


def linked(folder, name):
    """
    Make a file of the folder a link to its copy elsewhere.
    """
    moved = folder.parents[1] / name
    (folder / name).rename(moved)
    (folder / name).symlink_to(moved)
    return f'{name} leads out of the folder'


def in_index(folder, name, named=None):
    """
    Put the weights elsewhere, and an index that names them there, or another file.
    """
    weights = folder / 'model.safetensors'
    names = list(safetensors.torch.load_file(weights))
    weights.rename(folder / name)
    index = {'metadata': {}, 'weight_map': dict.fromkeys(names, named or name)}
    written(folder, 'model.safetensors.index.json', index)
    return f'{Path(named or name).name} leads out of the folder'


def adapter(folder):
    written(folder, 'adapter_config.json', '{"peft_type": "LORA"}')
    return f'{folder} is an adapter'


def pipe(folder):
    os.mkfifo(folder / 'vocab.txt')
    return 'vocab.txt is a pipe or a device'


def named_file(folder):
    secret = written(folder.parents[1], 'words.txt', 'the lock opens with nine')
    path = folder / 'tokenizer_config.json'
    changed_json(path, vocab_file=str(secret))
    return f'vocab_file in {path} is {secret}, a file elsewhere'


@pytest.mark.parametrize('reader', [load, as_judge, as_encoder])
@pytest.mark.parametrize(
    'harm',
    [
        lambda folder: linked(folder, 'chat_template.jinja'),
        lambda folder: linked(folder, 'tokenizer.json'),
        lambda folder: in_index(folder, '../../outside.safetensors'),
        lambda folder: in_index(folder, 'inside.safetensors', '/etc/passwd'),
        adapter,
        pipe,
        named_file,
    ],
)
def test_a_file_elsewhere_is_one_line_whoever_reads_it(harm, reader, folder):
    words = harm(folder)
    line = error_line(reader, folder)
    assert 'hf_model: ' in line and words in line


def test_a_folder_that_is_itself_a_link_is_read(folder, tmp_path):
    (tmp_path / 'link').symlink_to(folder)
    assert hub.cached_weights(str(tmp_path / 'link'))


def test_links_within_the_hubs_cache_are_read(folder, tmp_path):
    blobs = tmp_path / 'models--a--b' / 'blobs'
    snapshot = tmp_path / 'models--a--b' / 'snapshots' / '1'
    shutil.move(folder, blobs)
    snapshot.mkdir(parents=True)
    for file in blobs.iterdir():
        (snapshot / file.name).symlink_to(f'../../blobs/{file.name}')
    assert hub.cached_weights(str(snapshot)) == snapshot / 'model.safetensors'
    (snapshot / 'vocab.txt').symlink_to('/etc/passwd')
    with user_error(r'vocab\.txt leads out of the folder'):
        hub.cached_weights(str(snapshot))
