"""
Loads one model of Hugging Face's and generates its replies to many conversations.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import date
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import GenerationConfig, StoppingCriteriaList

from parlai_ext.core.errors import UserError
from parlai_ext.core.options import json_object, option, options_from_opt
from parlai_ext.systems import hub
from parlai_ext.systems.chat.conversation import Conversation
from parlai_ext.systems.chat.messages import ChatStyle, reply_from
from parlai_ext.systems.chat.template import TODAY, control_tokens
from parlai_ext.systems.hf.decode import (
    AtStopString,
    DecodingOptions,
    Penalties,
    generation_config,
    penalty_processors,
    reply_tokens,
    without_penalties,
)
from parlai_ext.systems.hf.prompts import (
    ChatForm,
    PlainForm,
    PromptTokens,
    fit_prompt,
    without_system_role,
)
from parlai_ext.systems.pretrained import (
    BOUNDLESS,
    PREFIX,
    ModelOptions,
    chosen_device,
    fetch_named_weights,
    loading_arguments,
    quiet,
    read,
)

FORMATS = ('auto', 'chat', 'plain')
SYSTEM_ROLES = ('auto', 'system', 'user')


@dataclass(frozen=True)
class FormOptions:
    """
    How a conversation is written for the model.
    """

    format: str = option(
        'auto',
        choices=FORMATS,
        help='chat = by the chat template, plain = turns joined; auto = chat if there '
        'is a template',
    )
    turn_separator: str | None = option(
        None,
        help='plain: between turns; the end token for causal models (as DialoGPT has '
        'it), else a new line',
    )
    prompt_start: str = option(
        '',
        help='plain: before the first turn; ext:causal_lm learns it and the separator '
        'as tokens, where they are new',
    )
    system_role: str = option(
        'auto',
        choices=SYSTEM_ROLES,
        help="user = the system prompt goes before the user's first message; auto = "
        'so where the chat template takes no system prompt',
    )
    template_args: Mapping[str, Any] | None = option(
        None,
        read=json_object,
        help='JSON for the chat template: {"enable_thinking": false}',
    )
    date: str = option(f'{TODAY}', help='for chat templates that ask')
    context_tokens: int | None = option(
        None,
        low=1,
        help='at most so many tokens of a prompt, if fewer than the model takes',
    )


@dataclass(frozen=True)
class LoadedModel:
    """
    A model, its tokenizer, the most tokens it takes (`None`: it does not tell), and its
    own generation config.

    Agents of one model share it (`load_model`).
    """

    model: Any
    tokenizer: Any
    seq2seq: bool
    positions: int | None
    own_config: GenerationConfig = field(default_factory=GenerationConfig)


# as long as an agent uses them; by the weights' files and the options of loading
_loaded_models: WeakValueDictionary[tuple[Any, ...], LoadedModel] = (
    WeakValueDictionary()
)


def load_model(options: ModelOptions, datapath: str | None = None) -> LoadedModel:
    """
    Return the model that options name, ready to generate; downloaded when it is not
    here. A model that an agent of this process has loaded is shared.

    :param datapath: ParlAI's data folder, for a model of the catalogue.

    :raises UserError: ``option: what is wrong; what would be right``.
    """
    device = chosen_device(options)
    arguments = loading_arguments(options, device)
    weights = fetch_named_weights(options, datapath)
    # a folder may be written anew
    files = [*hub.weight_files(weights), *hub.companions(weights.parent)]
    states = [(path, path.stat()) for path in files]
    names = [(str(path), state.st_size, state.st_mtime_ns) for path, state in states]
    key = (replace(options, model=None, revision=None), *names)
    loaded = _loaded_models.get(key)
    if loaded is None:
        trust = options.trust_code
        config, tokenizer, model = read(weights.parent, device, arguments, trust=trust)
        seq2seq, most = bool(config.is_encoder_decoder), positions(config, tokenizer)
        loaded = LoadedModel(model, tokenizer, seq2seq, most, model.generation_config)
        _loaded_models[key] = loaded
    return loaded


def positions(config: Any, tokenizer: Any) -> int | None:
    """
    Return the most tokens that a model takes; `None` when it does not tell.
    """
    named = [getattr(config.get_text_config(), name, None) for name in hub.POSITIONS]
    named.append(tokenizer.model_max_length)
    return min(
        (n for n in named if isinstance(n, int) and 0 < n < BOUNDLESS), default=None
    )


@dataclass(frozen=True)
class GeneratedReply:
    """
    A reply, its tokens and its prompt's, and how many messages were cut for it.
    """

    text: str
    prompt_tokens: int
    tokens: int
    cut: int


@dataclass(frozen=True)
class ReplyGenerator:
    """
    A model, the form in which it reads conversations, and how it draws replies.

    `limit` is the most tokens of a prompt; `penalties` are applied beside `config`.
    """

    loaded: LoadedModel
    form: ChatForm | PlainForm
    style: ChatStyle
    config: GenerationConfig
    penalties: Penalties
    limit: int | None

    def replies(self, conversations: Sequence[Conversation]) -> list[GeneratedReply]:
        """
        Return one reply to each conversation.
        """
        prompts = [self.prompt(conversation) for conversation in conversations]
        rows = self._generate(prompts)
        tokenizer, replies = self.loaded.tokenizer, []
        for prompt, row in zip(prompts, rows, strict=True):
            ends = end_tokens(self.config)
            ids = reply_tokens(tokenizer, row, ends, self.style.stop)
            text = tokenizer.decode(ids, skip_special_tokens=True)
            text = reply_from(text, self.style)
            replies.append(GeneratedReply(text, len(prompt.ids), len(ids), prompt.cut))
        return replies

    def prompt(self, conversation: Conversation) -> PromptTokens:
        """
        Return what the model reads of a conversation: at least one token.
        """
        prompt = fit_prompt(self.form, conversation, self.limit)
        if prompt.ids:
            return prompt
        tokenizer = self.loaded.tokenizer  # nothing said yet, and no system prompt
        begin = [tokenizer.bos_token_id, tokenizer.eos_token_id, 0]
        return PromptTokens((next(token for token in begin if token is not None),))

    @torch.inference_mode()
    def _generate(self, prompts: Sequence[PromptTokens]) -> list[list[int]]:
        """
        Return the tokens after each prompt, padded_rows at their end.
        """
        model, seq2seq = self.loaded.model, self.loaded.seq2seq
        ids, mask = padded_rows(
            [prompt.ids for prompt in prompts], self.config.pad_token_id, seq2seq
        )
        start = 1 if seq2seq else ids.shape[1]
        # given as an argument, transformers would mix it with the model's own
        model.generation_config = self.config
        processors = None if seq2seq else penalty_processors(self.penalties, mask)
        stop = self.style.stop
        criteria = [AtStopString(self.loaded.tokenizer, stop, start)] if stop else []
        with quiet():
            output = model.generate(
                input_ids=ids.to(model.device),
                attention_mask=mask.to(model.device),
                logits_processor=processors,
                stopping_criteria=StoppingCriteriaList(criteria),
            )
        return output[:, start:].tolist()


def padded_rows(
    rows: Sequence[Sequence[int]], pad: int, right: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Return rows of one width and the mask of what is no padding.

    >>> padded_rows([[7], [8, 9]], 0, right=False)[0].tolist()
    [[0, 7], [8, 9]]
    """
    side = 'right' if right else 'left'
    ids = [torch.tensor(row) for row in rows]
    ones = [torch.ones_like(row) for row in ids]
    return (
        pad_sequence(ids, True, pad, padding_side=side),
        pad_sequence(ones, True, 0, padding_side=side),
    )


def make_generator(loaded: LoadedModel, opt: Mapping[str, Any]) -> ReplyGenerator:
    """
    Return a generator that writes prompts and draws replies as the options ask.

    :raises UserError: for options that contradict each other or do not fit the model;
        the message begins with the option.
    """
    style = ChatStyle.from_options(opt)
    options = options_from_opt(FormOptions, opt, PREFIX)
    decoding = options_from_opt(DecodingOptions, opt)
    form = prompt_form(loaded.tokenizer, loaded.seq2seq, options, style)
    if isinstance(form, PlainForm) and not loaded.seq2seq:
        # where its turn ends, such a model goes on with the next
        style = replace(style, stop=(*style.stop, form.separator))
    config = generation_config(loaded.own_config, decoding)
    tokenizer = loaded.tokenizer
    own_end = set() if tokenizer.eos_token_id is None else {tokenizer.eos_token_id}
    config.eos_token_id = sorted(end_tokens(config) | own_end)
    pads = [tokenizer.pad_token_id, config.pad_token_id, *config.eos_token_id, 0]
    config.pad_token_id = next(token for token in pads if token is not None)
    penalties = Penalties()
    if not loaded.seq2seq:
        config, penalties = without_penalties(config)
    limit = prompt_limit(loaded, options.context_tokens, decoding.reply_max_tokens)
    return ReplyGenerator(loaded, form, style, config, penalties, limit)


def end_tokens(config: GenerationConfig) -> set[int]:
    """
    Return the tokens at which a reply ends.
    """
    ends = config.eos_token_id
    return set() if ends is None else {ends} if isinstance(ends, int) else set(ends)


def prompt_limit(loaded: LoadedModel, asked: int | None, longest: int) -> int | None:
    """
    Return the most tokens of a prompt: with the reply they fit the model's positions.

    :param asked: the most that the options allow.
    :param longest: the most tokens of a reply.
    """
    fit = loaded.positions
    if fit is not None:
        # an encoder reads the prompt, a decoder writes the reply
        room = fit if loaded.seq2seq else fit - longest
        if longest > fit or room < 1:
            raise UserError(
                f'reply_max_tokens: {longest} leaves no room in the {fit} tokens '
                f'that the model takes; {max(1, fit // 4)} would'
            )
        fit = room
    return min((n for n in (asked, fit) if n), default=None)


def prompt_form(
    tokenizer: Any, seq2seq: bool, options: FormOptions, style: ChatStyle
) -> ChatForm | PlainForm:
    """
    Return the form of the model's prompts: by its chat template, or turns joined.

    :raises UserError: for options that contradict each other or do not fit the model;
        the message begins with the option.
    """
    chat = bool(tokenizer.chat_template)
    if options.format == 'chat' and not chat:
        raise UserError(
            'hf_format: chat: the model has no chat template; plain would do'
        )
    control = control_tokens(tokenizer)
    if chat and options.format != 'plain':
        return _chat_form(tokenizer, options, style, control)
    end = None if seq2seq else tokenizer.eos_token
    separator = options.turn_separator or end or '\n'
    start = options.prompt_start
    return PlainForm(tokenizer, style, separator, seq2seq, control, start)


def _chat_form(
    tokenizer: Any, options: FormOptions, style: ChatStyle, control: Any
) -> ChatForm:
    """
    Return the form of prompts by the model's chat template. A system prompt goes into
    the user's first message if the template takes none, or if the options say so.
    """
    try:
        today = date.fromisoformat(options.date)
    except ValueError:
        raise UserError(f'hf_date: {options.date!r} is no date like {TODAY}') from None
    role, more = options.system_role, options.template_args or {}
    form = ChatForm(tokenizer, style, control, role == 'user', today, more)
    if not (style.system_prompt or style.first_turn == 'system') or form.fold:
        return form
    complaint = without_system_role(form)
    if complaint and role == 'system':
        raise UserError(
            f'hf_system_role: system: the chat template {complaint}; user would put it '
            "before the user's first message"
        )
    return replace(form, fold=bool(complaint))
