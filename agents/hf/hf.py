"""
``-m ext:hf --hf-model FOLDER_OR_REPOSITORY``: any causal or sequence-to-sequence model
of Hugging Face's library as a dialogue system.
"""

import logging
from collections.abc import Sequence
from typing import Any

from parlai.core.opt import Opt

from parlai_ext.core.options import DeclaresOptions, Flags, options_from_opt
from parlai_ext.engines.machine import data_in
from parlai_ext.systems.chat.conversation import (
    DEGRADE,
    ChatReply,
    Conversation,
    ConversationAgent,
    Degradation,
)
from parlai_ext.systems.chat.messages import ChatStyle
from parlai_ext.systems.hf.generate import (
    DecodingOptions,
    FormOptions,
    ReplyGenerator,
    load_model,
    make_generator,
)
from parlai_ext.systems.hub import PREFIX, ModelOptions

logger = logging.getLogger(__name__)


class HfAgent(DeclaresOptions, ConversationAgent):
    """
    One model; its clones share weights and counts, each has a conversation of its own.
    """

    declares = (
        Flags(ModelOptions, 'Hugging Face', prefix=PREFIX),
        Flags(FormOptions, 'Form', prefix=PREFIX),
        Flags(DecodingOptions, 'Decoding'),
        Flags(ChatStyle, 'Chat'),
        Flags(Degradation, 'Made worse on purpose', prefix=DEGRADE),
    )

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        super().__init__(opt, shared)
        if shared:
            self.generator: ReplyGenerator = shared['generator']
            self.counts: dict[str, float] = shared['counts']
        else:
            options = options_from_opt(ModelOptions, opt, PREFIX)
            with data_in(opt.get('datapath')):
                loaded = load_model(options)
            self.generator = make_generator(loaded, opt)
            names = ('requests', 'prompt_tokens', 'completion_tokens', 'cut_messages')
            self.counts = dict.fromkeys(names, 0)
        self.model = self.generator.loaded.model  # where a player looks for weights

    def share(self) -> dict[str, Any]:
        """
        Return what clones share: the weights and the counts.
        """
        return {**super().share(), 'generator': self.generator, 'counts': self.counts}

    def replies(self, conversations: Sequence[Conversation]) -> list[ChatReply]:
        """
        Return one reply to each conversation.

        :raises UserError: ``option: what is wrong`` when no conversation can go on.
        """
        replies = self.generator.replies(conversations)
        cut = sum(reply.cut for reply in replies)
        if cut and not self.counts['cut_messages']:
            limit = self.generator.limit
            logger.warning('conversations are cut to the last %s tokens', limit)
        self.counts['requests'] += len(replies)
        self.counts['prompt_tokens'] += sum(reply.prompt_tokens for reply in replies)
        self.counts['completion_tokens'] += sum(reply.tokens for reply in replies)
        self.counts['cut_messages'] += cut
        return [ChatReply(reply.text) for reply in replies]

    @property
    def usage(self) -> dict[str, float]:
        """
        Return how much was asked of the model so far, by all clones together.
        """
        return {**self.counts, 'cost': 0.0}
