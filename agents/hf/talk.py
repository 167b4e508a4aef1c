"""
Replies of one model to many conversations at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import date
from typing import Any

import torch
from transformers import GenerationConfig

from parlai_ext.agents.hf.decode import (
    decoding,
    processors,
    said,
    stopping,
    without_prompt,
)
from parlai_ext.agents.hf.load import Loaded
from parlai_ext.agents.hf.prompts import (
    TODAY,
    ChatForm,
    PlainForm,
    Prompt,
    control_tokens,
    fitted,
    without_system_role,
)
from parlai_ext.core.errors import UserError
from parlai_ext.systems.chat.conversation import Conversation
from parlai_ext.systems.chat.messages import REPLY_MAX_TOKENS, ChatStyle, reply_of
from parlai_ext.systems.chat.options import chat_style
from parlai_ext.systems.pretrained import quiet

FORMATS = ('auto', 'chat', 'plain')
SYSTEM_ROLES = ('auto', 'system', 'user')


@dataclass(frozen=True)
class Said:
    """
    A reply, its tokens and its prompt's, and how many messages were cut for it.
    """

    text: str
    prompt_tokens: int
    tokens: int
    cut: int


@dataclass(frozen=True)
class Talker:
    """
    A model, the form in which it reads conversations, and how it draws replies.

    `limit` is the most tokens of a prompt, `penalties` what `without_prompt` took out
    of `config`.
    """

    loaded: Loaded
    form: ChatForm | PlainForm
    style: ChatStyle
    config: GenerationConfig
    penalties: Mapping[str, Any]
    limit: int | None

    def replies(self, conversations: Sequence[Conversation]) -> list[Said]:
        """
        Return one reply to each conversation.
        """
        prompts = [self._prompt(one) for one in conversations]
        rows = self._generated(prompts)
        tokenizer, found = self.loaded.tokenizer, []
        for prompt, row in zip(prompts, rows, strict=True):
            ids = said(tokenizer, row, end_tokens(self.config), self.style.stop)
            text = reply_of(tokenizer.decode(ids, skip_special_tokens=True), self.style)
            found.append(Said(text, len(prompt.ids), len(ids), prompt.cut))
        return found

    def _prompt(self, conversation: Conversation) -> Prompt:
        prompt = fitted(self.form, conversation, self.limit)
        if prompt.ids:
            return prompt
        tokenizer = self.loaded.tokenizer  # nothing said yet, and no system prompt
        begin = [tokenizer.bos_token_id, tokenizer.eos_token_id, 0]
        return Prompt((next(one for one in begin if one is not None),))

    @torch.inference_mode()
    def _generated(self, prompts: Sequence[Prompt]) -> list[list[int]]:
        """
        Return the tokens after each prompt, padded at their end.
        """
        model, seq2seq = self.loaded.model, self.loaded.seq2seq
        ids, mask = padded(
            [prompt.ids for prompt in prompts], self.config.pad_token_id, seq2seq
        )
        start = 1 if seq2seq else ids.shape[1]
        more = None if seq2seq else processors(self.penalties, mask)
        with quiet():
            found = model.generate(
                input_ids=ids.to(model.device),
                attention_mask=mask.to(model.device),
                logits_processor=more,
                stopping_criteria=stopping(
                    self.loaded.tokenizer, self.style.stop, start
                ),
            )
        return found[:, start:].tolist()


def padded(
    rows: Sequence[Sequence[int]], pad: int, right: bool
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Return rows of one width and the mask of what is no padding.

    >>> padded([[7], [8, 9]], 0, right=False)[0].tolist()
    [[0, 7], [8, 9]]
    """
    width = max(map(len, rows))
    ids, mask = [], []
    for row in rows:
        gap = width - len(row)
        fill, none, some = [pad] * gap, [0] * gap, [1] * len(row)
        ids.append([*row, *fill] if right else [*fill, *row])
        mask.append([*some, *none] if right else [*none, *some])
    return torch.tensor(ids), torch.tensor(mask)


def make_talker(loaded: Loaded, opt: Mapping[str, Any]) -> Talker:
    """
    Return the talker that options ask for; the model's generation config is replaced.

    :raises UserError: ``option: what is wrong``.
    """
    style = chat_style(opt)
    form = _form(loaded, opt, style)
    if isinstance(form, PlainForm) and not loaded.seq2seq:
        # where its turn ends, such a model goes on with the next
        style = replace(style, stop=(*style.stop, form.separator))
    longest = opt.get('reply_max_tokens') or REPLY_MAX_TOKENS
    config = decoding(loaded.model.generation_config, opt, longest)
    config.eos_token_id = sorted(end_tokens(config) | _own_end(loaded.tokenizer))
    pads = [loaded.tokenizer.pad_token_id, config.pad_token_id, *config.eos_token_id, 0]
    config.pad_token_id = next(one for one in pads if one is not None)
    penalties: Mapping[str, Any] = {}
    if not loaded.seq2seq:
        config, penalties = without_prompt(config)
    loaded.model.generation_config = config
    limit = prompt_limit(loaded, opt, longest)
    return Talker(loaded, form, style, config, penalties, limit)


def end_tokens(config: GenerationConfig) -> set[int]:
    """
    Return the tokens at which a reply ends.
    """
    ends = config.eos_token_id
    return set() if ends is None else {ends} if isinstance(ends, int) else set(ends)


def _own_end(tokenizer: Any) -> set[int]:
    end = tokenizer.eos_token_id
    return set() if end is None else {end}


def prompt_limit(loaded: Loaded, opt: Mapping[str, Any], longest: int) -> int | None:
    """
    Return the most tokens of a prompt: with the reply they fit the model's positions.
    """
    asked, fit = opt.get('hf_context_tokens'), loaded.positions
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


def _form(loaded: Loaded, opt: Mapping[str, Any], style: ChatStyle) -> Any:
    """
    Return how conversations are put to the model.
    """
    tokenizer, named = loaded.tokenizer, opt.get('hf_format') or 'auto'
    if named not in FORMATS:
        raise UserError(f'hf_format: {named!r} is none of {", ".join(FORMATS)}')
    chat = bool(tokenizer.chat_template)
    if named == 'chat' and not chat:
        raise UserError(
            'hf_format: chat: the model has no chat template; plain would do'
        )
    control = control_tokens(tokenizer)
    if chat and named != 'plain':
        return _chat_form(tokenizer, opt, style, control)
    separator = opt.get('hf_turn_separator')
    if not separator:
        end = None if loaded.seq2seq else tokenizer.eos_token
        separator = end or '\n'
    return PlainForm(tokenizer, style, separator, loaded.seq2seq, control)


def _chat_form(
    tokenizer: Any, opt: Mapping[str, Any], style: ChatStyle, control: Any
) -> ChatForm:
    role = opt.get('hf_system_role') or 'auto'
    if role not in SYSTEM_ROLES:
        known = ', '.join(SYSTEM_ROLES)
        raise UserError(f'hf_system_role: {role!r} is none of {known}')
    try:
        today = date.fromisoformat(opt['hf_date']) if opt.get('hf_date') else TODAY
    except ValueError:
        raise UserError(
            f'hf_date: {opt["hf_date"]!r} is no date like {TODAY}'
        ) from None
    more = opt.get('hf_template_args') or {}
    form = ChatForm(tokenizer, style, control, role == 'user', today, more)
    if not (style.system_prompt or style.first_turn == 'system') or form.fold:
        return form
    why = without_system_role(form)
    if why and role == 'system':
        raise UserError(
            f'hf_system_role: system: the chat template {why}; user would put it '
            "before the user's first message"
        )
    return replace(form, fold=bool(why))
