"""
Loads one model of Hugging Face's, writes its prompts, and generates its replies to many
conversations.
"""

import copy
from bisect import bisect_left
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import field, replace
from datetime import date
from itertools import takewhile
from typing import Any
from weakref import WeakValueDictionary

import torch
from torch.nn.utils.rnn import pad_sequence
from transformers import (
    GenerationConfig,
    LogitsProcessorList,
    NoRepeatNGramLogitsProcessor,
    RepetitionPenaltyLogitsProcessor,
    StoppingCriteriaList,
)

from parlai_ext.core import (
    JsonObject,
    UserError,
    frozen,
    json_object,
    known_values,
    logger,
    option,
    optional,
    options_from_opt,
)
from parlai_ext.systems import hub
from parlai_ext.systems.chat.conversation import Conversation
from parlai_ext.systems.chat.messages import (
    REPLY_MAX_TOKENS,
    THOUGHTS,
    TODAY,
    ChatReply,
    ChatStyle,
    ChatTurn,
    Messages,
    TemplateProblem,
    ends_at,
    fix_date,
    messages,
    render_chat,
    reply_from,
    without_control_tokens,
)
from parlai_ext.systems.hub import ModelOptions
from parlai_ext.systems.pretrained import (
    chosen_device,
    fetch_named_weights,
    loading_arguments,
    max_positions,
    quiet,
    read,
    smallest_limit,
    surrounding_tokens,
)

# From a conversation to the tokens that a model reads.
#
# A model with a chat template gets messages with roles; any other gets the turns,
# joined. What does not fit is cut from the front, the system prompt never.

PROBE = 'Zebra quartz.'
PROMPT_END = 8  # tokens, in which a template may begin the model's thoughts


@frozen
class PromptTokens:
    """
    The tokens for one conversation, and how many of its messages were cut.
    """

    ids: list[int]
    cut: int = 0


@frozen
class ChatForm:
    """
    Conversations as the model's chat template writes them.

    With `fold`, the system prompt goes before the first user's message: for templates
    without a system role. `today` is what a template that asks for the date is told.
    """

    tokenizer: Any
    style: ChatStyle
    fold: bool = False
    today: date = TODAY
    more: Mapping[str, Any] = field(default_factory=dict)

    def parts(self, turns: Sequence[ChatTurn]) -> Messages:
        """
        Return the messages, oldest first; the system prompt, if there is one, comes
        first.
        """
        return messages(turns, self.style)

    def text(self, parts: Messages) -> str:
        """
        Return the text that the chat template makes of messages.

        :raises TemplateProblem: when the template refuses them.
        """
        if self.fold and parts[0]['role'] == 'system':
            prompt, *parts = parts
            asked = prompt['content']
            if parts[0]['role'] == 'user':
                asked += '\n\n' + parts.pop(0)['content']
            parts = [{'role': 'user', 'content': asked}, *parts]
        return render_chat(
            self.tokenizer,
            parts,
            fix_date(self.tokenizer.get_chat_template(), self.today),
            add_generation_prompt=True,
            more=self.more,
        )

    def problem_with_system_prompt(self) -> str:
        """
        Return what the template does instead of taking a system prompt; '' where it
        takes one.
        """
        probe = {'role': 'system', 'content': PROBE}
        try:
            text = self.text([probe, {'role': 'user', 'content': 'Hi'}])
        except TemplateProblem as error:
            return f'refuses a system prompt: {error}'
        return '' if PROBE in text else 'leaves the system prompt out'

    def ids(self, parts: Messages) -> list[int]:
        """
        Return the tokens of messages.
        """
        try:
            text = self.text(parts)
        except TemplateProblem as error:
            problem = str(error)
            if error.kind != 'TemplateError':  # which is what raise_exception raises
                raise UserError(
                    f'hf_model: the chat template is broken: {error.kind}: {problem}; '
                    'mend it in tokenizer_config.json or chat_template.jinja'
                ) from None
            roles = ', '.join(part['role'] for part in parts[:3])
            raise UserError(
                f'first_turn: the chat template refuses a conversation of {roles} '
                f'({problem!r}); with first_turn ask, system or drop the user begins it'
            ) from None
        return self.tokenizer(text, add_special_tokens=False)['input_ids']


@frozen
class PlainForm:
    """
    Turns joined by a separator, without roles: the model sees a text and goes on.

    For a causal model the separator also follows the last turn.

    :param start: stands before the first turn.
    """

    tokenizer: Any
    style: ChatStyle
    separator: str
    seq2seq: bool
    start: str = ''

    def parts(self, turns: Sequence[ChatTurn]) -> Messages:
        """
        Return every turn as a user's message; the system prompt, if there is one, comes
        first.
        """
        prompt = self.style.system_prompt
        head = [{'role': 'system', 'content': prompt}] if prompt else []
        return head + [{'role': 'user', 'content': turn.text} for turn in turns]

    def ids(self, parts: Messages) -> list[int]:
        """
        Return the tokens of turns.
        """
        texts = [part['content'] for part in parts]
        if self.seq2seq:
            text = self.start + self.separator.join(texts)
            return self.tokenizer(text)['input_ids']
        text = self.start + ''.join(text + self.separator for text in texts)
        ids = self.tokenizer(text, add_special_tokens=False)['input_ids']
        return [*surrounding_tokens(self.tokenizer)[0], *ids]


def fit_prompt(
    form: ChatForm | PlainForm, conversation: Conversation, limit: int | None
) -> PromptTokens:
    """
    Return the prompt of at most ``limit`` tokens with the most of the conversation.
    After a cut it begins with a user's message.

    :raises UserError: when not even the last words fit beside the system prompt.
    """
    parts = form.parts(without_control_tokens(conversation, form.tokenizer))
    ids = form.ids(parts)
    if limit is None or len(ids) <= limit:
        return PromptTokens(ids)
    head = parts[:1] if parts[0]['role'] == 'system' else []
    turns = parts[len(head) :]
    starts = [i for i, turn in enumerate(turns) if i and turn['role'] == 'user']
    starts = starts or [len(turns) - 1]
    # the later a beginning, the fewer tokens
    which = bisect_left(
        starts, True, key=lambda start: len(form.ids(head + turns[start:])) <= limit
    )
    start = starts[min(which, len(starts) - 1)]
    kept = turns[start:]
    ids = form.ids(head + kept)
    # when even these do not fit, only the end of the first is kept
    words = form.tokenizer(kept[0]['content'], add_special_tokens=False)['input_ids']
    while len(ids) > limit:
        words = words[len(ids) - limit :]
        if not words:
            raise UserError(
                f'system_prompt: it leaves no room for a conversation in the '
                f'{limit} tokens before the reply'
            )
        end = form.tokenizer.decode(words, skip_special_tokens=True)
        end = end.lstrip('\ufffd')  # the rest of a character that was cut
        kept[0] = {**kept[0], 'content': end}
        ids = form.ids(head + kept)
    return PromptTokens(ids, max(start, 1))


# --- how a reply is drawn: ParlAI's names for it, as transformers takes them ----------

TOPK, TOPP = 10, 0.9  # ParlAI's
# the inferences of options that mean nothing to the others
OF_INFERENCE = {
    'beam_size': ('beam',),
    'beam_length_penalty': ('beam',),
    'topk': ('topk', 'sample'),
    'topp': ('nucleus', 'sample'),
    'temperature': ('topk', 'nucleus', 'sample'),
}


@frozen
class DecodingOptions:
    """
    How a reply is drawn. `None` stands for the model's own `generation_config.json`.
    """

    title = 'Decoding'
    inference: str = option(
        'greedy',
        choices=('greedy', 'beam', 'topk', 'nucleus', 'sample'),
        help='sample = as the model itself was made to be sampled',
    )
    beam_size: int | None = optional(help='hypotheses of a beam search')
    beam_min_length: int | None = optional(low=0, help='tokens of a reply, at least')
    beam_block_ngram: int | None = optional(
        help='no n-gram of this size twice in a reply; 0 or less: no blocking'
    )
    beam_length_penalty: float | None = optional(
        help="the exponent of the length, as in transformers' length_penalty"
    )
    topk: int | None = optional(low=1, help=f'topk: {TOPK}')
    topp: float | None = optional(above=0, high=1, help=f'nucleus: {TOPP}')
    temperature: float | None = optional(above=0, help='1 leaves the chances alone')
    repetition_penalty: float | None = optional(
        above=0, help='over 1: words that were said, also by the other, get less likely'
    )
    reply_max_tokens: int = option(
        REPLY_MAX_TOKENS, low=1, help='a reply ends after so many tokens'
    )


def generation_config(
    models_config: GenerationConfig, options: DecodingOptions
) -> GenerationConfig:
    """
    Return the model's generation config with the options over it.

    :raises UserError: ``option: what is wrong``.
    """
    for name, ways in OF_INFERENCE.items():
        if getattr(options, name) is not None and options.inference not in ways:
            raise UserError(
                f'{name}: has no effect with inference {options.inference}; it is for '
                f'{", ".join(ways)}'
            )
    config = copy.deepcopy(models_config)
    config.num_beams = 1
    if options.inference == 'beam':
        asked = options.beam_size
        config.num_beams = models_config.num_beams or 1 if asked is None else asked
        if config.num_beams < 2:
            raise UserError(
                f'beam_size: {config.num_beams}; inference beam needs 2 or more'
            )
    config.do_sample = options.inference not in ('greedy', 'beam')
    if config.do_sample:
        config.update(**_sampling_settings(options))
    config.max_length, config.max_time = None, None
    config.num_return_sequences, config.return_dict_in_generate = 1, False
    if options.beam_min_length is not None:
        config.min_length = 0
    asked_for = {
        'max_new_tokens': options.reply_max_tokens,
        'min_new_tokens': options.beam_min_length,
        'no_repeat_ngram_size': options.beam_block_ngram
        and max(0, options.beam_block_ngram),
        'length_penalty': options.beam_length_penalty,
        'repetition_penalty': options.repetition_penalty,
    }
    vars(config).update(known_values(asked_for))
    return config


def _sampling_settings(options: DecodingOptions) -> JsonObject:
    """
    Return the config values that shape the distribution from which tokens are drawn.

    Inference ``sample`` leaves the model's own values alone where no option is given;
    ``topk`` and ``nucleus`` turn every other restriction of the model off.
    """
    inference = options.inference
    values: dict[str, Any] = {}
    if inference != 'sample':
        names = ('min_p', 'typical_p', 'epsilon_cutoff', 'eta_cutoff', 'top_h')
        values = {**dict.fromkeys(names), 'top_k': 0, 'top_p': 1.0, 'temperature': 1.0}
    if inference == 'topk' or options.topk is not None:
        values['top_k'] = options.topk or TOPK
    if inference == 'nucleus' or options.topp is not None:
        values['top_p'] = options.topp or TOPP
    if options.temperature is not None:
        values['temperature'] = options.temperature
    return values


def penalty_processors(
    config: GenerationConfig, mask: torch.Tensor
) -> LogitsProcessorList:
    """
    Return processors for the n-grams of a causal model's reply and the repetitions of
    all but padding; transformers' own look at prompt and padding alike.

    :param mask: one row a prompt, 0 where it is padding.
    """
    width = mask.shape[1]

    def unpadded(ids: torch.Tensor) -> torch.Tensor:
        real = mask.repeat_interleave(len(ids) // len(mask), 0).to(ids.device).bool()
        last = ids[:, width - 1 : width]  # padding is on the left
        prompt = torch.where(real, ids[:, :width], last)
        return torch.cat([prompt, ids[:, width:]], dim=1)

    processors = LogitsProcessorList()
    if (config.repetition_penalty or 1.0) != 1.0:
        penalty = RepetitionPenaltyLogitsProcessor(config.repetition_penalty)
        processors.append(lambda ids, scores: penalty(unpadded(ids), scores))
    if (config.no_repeat_ngram_size or 0) > 0:
        block = NoRepeatNGramLogitsProcessor(config.no_repeat_ngram_size)
        processors.append(lambda ids, scores: block(ids[:, width:], scores))
    return processors


@frozen
class FormOptions:
    """
    How a conversation is written for the model.
    """

    title = 'Form'
    prefix = 'hf'
    format: str = option(
        'auto',
        choices=('auto', 'chat', 'plain'),
        help='chat = by the chat template, plain = turns joined; auto = chat if there '
        'is a template',
    )
    turn_separator: str | None = optional(
        help='plain: between turns; the end token for causal models (as DialoGPT has '
        'it), else a new line'
    )
    prompt_start: str = option(
        '',
        help='plain: before the first turn; ext:causal_lm learns it and the separator '
        'as tokens, where they are new',
    )
    system_role: str = option(
        'auto',
        choices=('auto', 'system', 'user'),
        help="user = the system prompt goes before the user's first message; auto = "
        'so where the chat template takes no system prompt',
    )
    template_args: Mapping[str, Any] | None = optional(
        read=json_object, help='JSON for the chat template: {"enable_thinking": false}'
    )
    date: str = option(f'{TODAY}', help='for chat templates that ask')
    context_tokens: int | None = optional(
        low=1, help='at most so many tokens of a prompt, if fewer than the model takes'
    )


@frozen
class LoadedModel:
    """
    A model, its tokenizer, and its own generation config.

    Agents of one model share it (`load_model`).
    """

    model: Any
    tokenizer: Any
    seq2seq: bool
    own_config: GenerationConfig


# as long as an agent uses them; by the weights' files and the options of loading
_loaded_models: WeakValueDictionary[tuple[Any, ...], LoadedModel] = (
    WeakValueDictionary()
)


def load_model(options: ModelOptions) -> LoadedModel:
    """
    Return the model that options name, ready to generate; downloaded when it is not
    here. A model that an agent of this process has loaded is shared.

    :raises UserError: ``option: what is wrong; what would be right``.
    """
    device = chosen_device(options)
    arguments = loading_arguments(options, device)
    weights = fetch_named_weights(options)
    # a folder may be written anew
    states = [(path, path.stat()) for path in hub.model_files(weights)]
    names = [(str(path), state.st_size, state.st_mtime_ns) for path, state in states]
    key = (replace(options, model=None, revision=None), *names)
    loaded = _loaded_models.get(key)
    if loaded is None:
        trust = options.trust_code
        config, tokenizer, model = read(weights.parent, device, arguments, trust=trust)
        seq2seq = bool(config.is_encoder_decoder)
        loaded = LoadedModel(model, tokenizer, seq2seq, model.generation_config)
        _loaded_models[key] = loaded
    return loaded


class ReplyGenerator:
    """
    A model, the form in which it reads conversations, and how it draws replies, as the
    options ask.

    :ivar counts: of what was asked.
    :ivar limit: the most tokens of a prompt.
    :raises UserError: for options that contradict each other or do not fit the model;
        the message begins with the option.
    """

    def __init__(self, loaded: LoadedModel, opt: JsonObject):
        self.loaded, self.model = loaded, loaded.model
        self.counts = Counter[str]()
        tokenizer, style = loaded.tokenizer, ChatStyle.from_options(opt)
        options = options_from_opt(FormOptions, opt)
        decoding = options_from_opt(DecodingOptions, opt)
        self.form = prompt_form(tokenizer, loaded.seq2seq, options, style)
        stop = style.stop
        if isinstance(self.form, PlainForm) and not loaded.seq2seq:
            # where its turn ends, such a model goes on with the next
            stop = (*stop, self.form.separator)
        self.config = config = generation_config(loaded.own_config, decoding)
        own_stop = config.stop_strings or ()
        own_stop = (own_stop,) if isinstance(own_stop, str) else own_stop
        self.style, config.stop_strings = replace(style, stop=(*stop, *own_stop)), None
        ends = config.eos_token_id
        ends = ends if isinstance(ends, list) else [ends]
        config.eos_token_id = sorted({*ends, tokenizer.eos_token_id} - {None})
        pads = [tokenizer.pad_token_id, config.pad_token_id, *config.eos_token_id, 0]
        known = range(len(loaded.model.get_input_embeddings().weight))
        config.pad_token_id = next(token for token in pads if token in known)
        self.limit = prompt_limit(
            max_positions(loaded.model.config, tokenizer),
            options.context_tokens,
            decoding.reply_max_tokens,
            seq2seq=loaded.seq2seq,
        )

    @property
    def usage(self) -> dict[str, float]:
        """
        How much was asked so far.
        """
        return {**self.counts, 'cost': 0.0}

    def replies(self, conversations: Sequence[Conversation]) -> list[ChatReply]:
        """
        Return one reply to each conversation.

        :raises UserError: ``option: what is wrong`` when no conversation can go on.
        """
        prompts = [self.prompt(conversation) for conversation in conversations]
        tokenizer = self.loaded.tokenizer
        opening = tokenizer.decode(prompts[0].ids[-PROMPT_END:])
        # where the chat template has begun the model's thoughts in the prompt, the
        # text begins so, too
        begun = THOUGHTS[0] if opening.rstrip().endswith(THOUGHTS[0]) else ''

        def decode(ids: Sequence[int], **more: Any) -> str:
            return begun + str(tokenizer.decode(ids, **more))

        rows = self._generate([prompt.ids for prompt in prompts], decode)
        replies = []
        cut = sum(prompt.cut for prompt in prompts)
        if cut and not self.counts['cut_messages']:
            logger.warning('conversations are cut to the last %s tokens', self.limit)
        self.counts.update(requests=len(prompts), cut_messages=cut)
        for prompt, row in zip(prompts, rows, strict=True):
            ids = self._reply_tokens(row, decode)
            text = decode(ids, skip_special_tokens=True)
            replies.append(reply_from(text, self.style))
            self.counts.update(
                prompt_tokens=len(prompt.ids),
                completion_tokens=len(ids),
                cut_replies=len(ids) == self.config.max_new_tokens,
            )
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
        return PromptTokens([next(token for token in begin if token is not None)])

    def _reply_tokens(self, row: list[int], decode: Callable[..., str]) -> list[int]:
        """
        Return the tokens of a reply: up to an end token, or to the token that completed
        a stop string; what follows is padding.
        """
        ends = self.config.eos_token_id
        reply = list(takewhile(lambda token: token not in ends, row))

        def has_stop(k: int) -> bool:
            return ends_at(decode(reply[:k]), self.style.stop) is not None

        if not self.style.stop or not has_stop(len(reply)):
            return reply
        return reply[: next(k for k in range(1, len(reply) + 1) if has_stop(k))]

    @torch.inference_mode()
    def _generate(
        self, prompts: Sequence[Sequence[int]], decode: Callable[..., str]
    ) -> list[list[int]]:
        """
        Return the tokens after each prompt, padded at their end.
        """
        model, seq2seq = self.model, self.loaded.seq2seq
        ids, mask = padded_rows(prompts, self.config.pad_token_id, seq2seq)
        start = 1 if seq2seq else ids.shape[1]
        config, processors = self.config, LogitsProcessorList()
        if not seq2seq:
            processors = penalty_processors(config, mask)
            config = copy.deepcopy(config)
            config.update(repetition_penalty=1.0, no_repeat_ngram_size=0, min_length=0)
        # given as an argument, transformers would mix it with the model's own
        model.generation_config = config
        stop = self.style.stop

        def have_ended(ids: torch.Tensor, scores: Any, **_: Any) -> torch.Tensor:
            # a row ends when its reply holds a stop string; the others go on
            texts = map(decode, ids[:, start:].tolist())
            over = [ends_at(text, stop) is not None for text in texts]
            return torch.tensor(over, device=ids.device)

        with quiet():
            output = model.generate(
                input_ids=ids.to(model.device),
                attention_mask=mask.to(model.device),
                logits_processor=processors,
                stopping_criteria=StoppingCriteriaList([have_ended] if stop else []),
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


def prompt_limit(
    positions: int | None,
    asked: int | None,
    longest: int,
    *,
    seq2seq: bool = False,
    option: str = 'reply_max_tokens',
) -> int | None:
    """
    Return the most tokens of a prompt: with the reply they fit the model's positions.

    :param positions: the most tokens that the model takes; `None`: it does not tell.
    :param asked: the most that the options allow.
    :param longest: the most tokens of a reply.
    :param seq2seq: an encoder reads the prompt, a decoder writes the reply.
    :param option: what says how long a reply may be, for the message.
    :raises UserError: when there is no room for a prompt.
    """
    room = positions
    if positions is not None:
        room = positions if seq2seq else positions - longest
        if longest > positions or room < 1:
            raise UserError(
                f'{option}: {longest} leaves no room in the {positions} tokens '
                f'that the model takes; {max(1, positions // 4)} would'
            )
    return smallest_limit(asked, room)


def prompt_form(
    tokenizer: Any, seq2seq: bool, options: FormOptions, style: ChatStyle
) -> ChatForm | PlainForm:
    """
    Return the form of the model's prompts: by its chat template, or turns joined. A
    system prompt goes into the user's first message if the template takes none, or if
    the options say so.

    :raises UserError: for options that contradict each other or do not fit the model;
        the message begins with the option.
    """
    chat = bool(tokenizer.chat_template)
    if options.format == 'chat' and not chat:
        raise UserError(
            'hf_format: chat: the model has no chat template; plain would do'
        )
    if not chat or options.format == 'plain':
        end = None if seq2seq else tokenizer.eos_token
        separator = options.turn_separator or end or '\n'
        return PlainForm(tokenizer, style, separator, seq2seq, options.prompt_start)
    try:
        today = date.fromisoformat(options.date)
    except ValueError:
        raise UserError(f'hf_date: {options.date!r} is no date like {TODAY}') from None
    role, more = options.system_role, options.template_args or {}
    form = ChatForm(tokenizer, style, role == 'user', today, more)
    if not (style.system_prompt or style.first_turn == 'system') or form.fold:
        return form
    problem = form.problem_with_system_prompt()
    if problem and role == 'system':
        raise UserError(
            f'hf_system_role: system: the chat template {problem}; user would put it '
            "before the user's first message"
        )
    return replace(form, fold=bool(problem))
