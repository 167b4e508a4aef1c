"""
A chat endpoint, or any system behind a plain POST, as a ParlAI agent.

    parlai interactive -m ext:remote --remote-url http://localhost:8000/v1 \\
        --remote-model qwen2.5-7b-instruct

Where replies are sampled, no seed of ours reaches the endpoint's random numbers: the
cache makes a run repeatable. Its unit is the conversation. The same conversation gets
the same reply, in whichever dialogue, batch or run it occurs; another `remote_seed`
asks anew. With `remote_cache: none` nothing is repeatable but what is greedy.
"""

from collections.abc import Sequence
from typing import Any

from parlai.core.opt import Opt

from parlai_ext.core import DeclaresOptions, UserError
from parlai_ext.engines import data_folder
from parlai_ext.systems.chat.conversation import (
    Conversation,
    ConversationAgent,
    Degradation,
)
from parlai_ext.systems.chat.messages import ChatReply, ChatStyle
from parlai_ext.systems.remote.endpoint import Endpoint, shared_endpoint
from parlai_ext.systems.remote.settings import Settings

TOP_LOGPROBS = 20  # alternatives of a token; OpenAI's endpoint tells no more


class RemoteAgent(DeclaresOptions, ConversationAgent):
    """
    Asks for the replies to all conversations of a batch at the same time.
    """

    declares = (Settings, ChatStyle, Degradation)

    engine: Endpoint
    id = 'Remote'

    def load_engine(self, opt: Opt) -> Endpoint:
        """
        Return the endpoint that the options name, one in a process.

        :raises UserError: ``option: what is wrong``.
        """
        style = ChatStyle.from_options(opt)
        # the cache must outlive the environment, in which ParlAI has its own folder
        place = {'datapath': data_folder(opt.get('datapath'))}
        return shared_endpoint(Settings.from_options({**opt, **place}), style)

    def rating_replies(
        self, conversations: Sequence[Conversation], logprobs: bool, anew: bool = False
    ) -> list[ChatReply]:
        """
        Return the replies of a model that is asked for ratings: greedy, unless the
        options name a temperature.

        :raises UserError: ``option: what is wrong`` when the system cannot go on.
        """
        body: dict[str, Any] = {'temperature': 0}
        if logprobs and self.engine.settings.format == 'openai':
            body |= {'logprobs': True, 'top_logprobs': TOP_LOGPROBS}
        try:
            return self.engine.replies(conversations, body, anew)
        except UserError as error:
            if 'logprobs' in body and 'logprobs' in str(error):
                raise UserError(f'{error}; rating: parsed asks without them') from None
            raise
