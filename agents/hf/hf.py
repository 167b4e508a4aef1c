"""
``-m ext:hf --hf-model FOLDER_OR_REPOSITORY``: any causal or sequence-to-sequence model
of Hugging Face's library takes a seat.
"""

from __future__ import annotations

import argparse
import ast
import json
import logging
from collections.abc import Sequence
from typing import Any

from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser

from parlai_ext.agents.hf.decode import add_decoding_options
from parlai_ext.agents.hf.load import load
from parlai_ext.agents.hf.prompts import TODAY
from parlai_ext.agents.hf.talk import (
    FORMATS,
    SYSTEM_ROLES,
    Talker,
    make_talker,
)
from parlai_ext.core.options import positive
from parlai_ext.systems.chat.conversation import (
    Conversation,
    ConversationAgent,
    NoReply,
)
from parlai_ext.systems.chat.options import add_chat_options
from parlai_ext.systems.pretrained import DTYPES, QUANTISATIONS

logger = logging.getLogger(__name__)


class HfAgent(ConversationAgent):
    """
    One model; its clones share weights and counts, each has a conversation of its own.
    """

    @classmethod
    def add_cmdline_args(
        cls, parser: ParlaiParser, partial_opt: Opt | None = None
    ) -> ParlaiParser:
        """
        Add the options of model, form, decoding and chat.
        """
        add_model_options(parser)
        add_form_options(parser)
        add_decoding_options(parser)
        add_chat_options(parser)
        return parser

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        super().__init__(opt, shared)
        if shared:
            self.talker: Talker = shared['talker']
            self.counts: dict[str, float] = shared['counts']
        else:
            self.talker = make_talker(load(opt), opt)
            names = ('requests', 'prompt_tokens', 'completion_tokens', 'cut_messages')
            self.counts = dict.fromkeys(names, 0)
        self.model = self.talker.loaded.model  # where a player looks for weights

    def share(self) -> dict[str, Any]:
        """
        Hand over the weights and the counts.
        """
        return {**super().share(), 'talker': self.talker, 'counts': self.counts}

    def replies(self, conversations: Sequence[Conversation]) -> list[str | NoReply]:
        """
        Return one reply to each conversation.

        :raises UserError: ``option: what is wrong`` when no conversation can go on.
        """
        found = self.talker.replies(conversations)
        cut = sum(one.cut for one in found)
        if cut and not self.counts['cut_messages']:
            limit = self.talker.limit
            logger.warning('conversations are cut to the last %s tokens', limit)
        self.counts['requests'] += len(found)
        self.counts['prompt_tokens'] += sum(one.prompt_tokens for one in found)
        self.counts['completion_tokens'] += sum(one.tokens for one in found)
        self.counts['cut_messages'] += cut
        return [one.text for one in found]

    def usage(self) -> dict[str, float]:
        """
        Return how much was asked of the model so far, by all clones together.
        """
        names = ('requests', 'prompt_tokens', 'completion_tokens')
        return {**{name: self.counts[name] for name in names}, 'cost': 0.0}


def add_model_options(parser: Any) -> None:
    """
    Add what says which model it is and where it computes.
    """
    group = parser.add_argument_group('Hugging Face')
    group.add_argument(
        '--hf-model', type=str, default=None, help='a folder, or a hub repository'
    )
    group.add_argument(
        '--hf-revision', type=str, default=None, help='branch, tag or commit'
    )
    group.add_argument(
        '--hf-dtype', choices=DTYPES, default='auto', help="auto = the model's own"
    )
    group.add_argument(
        '--hf-device', type=str, default=None, help='cpu, cuda, cuda:1, …'
    )
    group.add_argument('--no-cuda', type='bool', default=False)
    group.add_argument(
        '--hf-device-map',
        type=str,
        default=None,
        help='auto = over all GPUs, for a model larger than one (needs accelerate)',
    )
    group.add_argument(
        '--hf-quantisation',
        choices=QUANTISATIONS,
        default='none',
        help='weights in 8 or 4 bits (needs a GPU, bitsandbytes and accelerate)',
    )
    group.add_argument(
        '--hf-trust-code',
        type='bool',
        default=False,
        help='run the code that comes with the model',
    )


def add_form_options(parser: Any) -> None:
    """
    Add what says how a conversation is written for the model.
    """
    group = parser.add_argument_group('Form')
    group.add_argument(
        '--hf-format',
        choices=FORMATS,
        default='auto',
        help='chat = by the chat template, plain = turns joined; auto = chat if there '
        'is a template',
    )
    group.add_argument(
        '--hf-turn-separator',
        type=str,
        default=None,
        help='plain: between turns; the end token for causal models (as DialoGPT has '
        'it), else a new line',
    )
    group.add_argument(
        '--hf-system-role',
        choices=SYSTEM_ROLES,
        default='auto',
        help="user = the system prompt goes before the user's first message; auto = "
        'so where the chat template takes no system prompt',
    )
    group.add_argument(
        '--hf-template-args',
        type=mapping,
        default=None,
        help='JSON for the chat template: {"enable_thinking": false}',
    )
    group.add_argument(
        '--hf-date', type=str, default=f'{TODAY}', help='for chat templates that ask'
    )
    group.add_argument(
        '--hf-context-tokens',
        type=positive,
        default=None,
        help='at most so many tokens of a prompt, if fewer than the model takes',
    )


def mapping(text: str) -> dict[str, Any]:
    """
    Return a mapping from JSON; a file's comes as Python writes it.

    >>> mapping("{'a': False}") == mapping('{"a": false}')
    True
    """
    for read in (json.loads, ast.literal_eval):
        try:
            found = read(text)
        except (ValueError, SyntaxError):
            continue
        if isinstance(found, dict):
            return found
    raise argparse.ArgumentTypeError(f'{text!r} is no JSON object')
