"""
``-m ext:hf --hf-model FOLDER_OR_REPOSITORY``: any causal or sequence-to-sequence model
of Hugging Face's library as a dialogue system.
"""

from parlai.core.opt import Opt

from parlai_ext.core import DeclaresOptions, options_from_opt
from parlai_ext.engines import data_in
from parlai_ext.systems.chat.conversation import ConversationAgent, Degradation
from parlai_ext.systems.chat.messages import ChatStyle
from parlai_ext.systems.hf import (
    DecodingOptions,
    FormOptions,
    ReplyGenerator,
    load_model,
)
from parlai_ext.systems.hub import ModelOptions


class HfAgent(DeclaresOptions, ConversationAgent):
    """
    One model; its clones share weights and counts, each has a conversation of its own.
    """

    declares = (ModelOptions, FormOptions, DecodingOptions, ChatStyle, Degradation)

    def load_engine(self, opt: Opt) -> ReplyGenerator:
        """
        Return the model that the options name, with its form and its decoding.

        :raises UserError: ``option: what is wrong``.
        """
        options = options_from_opt(ModelOptions, opt)
        with data_in(opt.get('datapath')):
            return ReplyGenerator(load_model(options), opt)
