"""
``-m ext:causal_lm --hf-model FOLDER_OR_REPOSITORY``: any causal language model of
Hugging Face's library as a generator of ParlAI, which `parlai train_model` trains.

    parlai train_model -m ext:causal_lm --hf-model smollm2-135m-q4 -mf FILE \\
        -t ext:toxic_prompts --toxic-data FOLDER

It reads what `ext:hf` reads: the turns as the model's chat template writes them, or
joined by its end token where it has none. The loss is that of the label alone. A saved
model is whole: weights in the model file, tokenizer and configuration in its `.dict`,
so that neither ``--hf-model`` nor the base model is needed any more.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import torch
from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.torch_agent import History
from parlai.core.torch_generator_agent import TorchGeneratorAgent
from parlai.utils.torch import padded_tensor

from parlai_ext.core import DeclaresOptions, Flags, frozen, option, optional
from parlai_ext.systems.chat.messages import ChatStyle, ChatTurn
from parlai_ext.systems.hf.causal import CausalNetwork, TokenDictionary
from parlai_ext.systems.hf.generate import FormOptions, fit_prompt, prompt_limit
from parlai_ext.systems.hub import ModelOptions
from parlai_ext.systems.pretrained import max_positions

MODEL_FLAGS = ('--hf-model', '--hf-revision')
FORM_FLAGS = (
    '--hf-format',
    '--hf-turn-separator',
    '--hf-prompt-start',
    '--hf-system-role',
    '--hf-template-args',
    '--hf-date',
)
LONGEST_REPLY = 256  # tokens, as ParlAI generates where --label-truncate is not given
STYLE_FLAGS = ('--system-prompt', '--first-turn', '--first-turn-ask')


class PromptHistory(History):
    """
    The turns of a dialogue, which become the tokens of a prompt.

    Only as many turns as fit into ``maxlen`` tokens are read, the last ones.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self.turns: list[ChatTurn] = []
        super().__init__(*args, **kwargs)

    def reset(self) -> None:
        """
        Forget the dialogue.
        """
        super().reset()
        self.turns = []

    def add_reply(self, text: str) -> None:
        """
        Add the agent's own utterance.
        """
        self._add(True, [text])

    def update_history(self, obs: Message, temp_history: str | None = None) -> None:
        """
        Add what the other said; ``--split-lines`` makes a turn of each line.
        """
        text = obs.get(self.field)
        if text is not None:
            self._add(False, text.split('\n') if self.split_on_newln else [text])
        self.temp_history = temp_history

    def get_history_str(self) -> str | None:
        """
        Return the turns as one text.
        """
        texts = [turn.text for turn in self.turns]
        return self.delimiter.join(texts) + (self.temp_history or '') if texts else None

    def get_history_vec(self) -> list[int] | None:
        """
        Return the tokens of the prompt.
        """
        if not self.turns:
            return None
        *before, last = self.turns
        last = replace(last, text=last.text + (self.temp_history or ''))
        return fit_prompt(self.dict.form, (*before, last), self.max_len).ids

    def _add(self, mine: bool, texts: Sequence[str]) -> None:
        self.turns += [ChatTurn(mine, text) for text in texts]
        if self.size > 0:
            del self.turns[: -self.size]


@frozen
class TrainOptions:
    """
    How the model is trained.
    """

    bf16: bool = option(
        False,
        help='compute in bfloat16; the weights stay float32. Faster where the '
        'processor knows it',
    )
    trained_layers: int | None = optional(
        help='only so many layers learn, the last ones: less time and memory '
        '(all, and the embeddings)',
    )
    learn_prompts: bool = option(
        False, help='the loss is that of the prompt, too, from its second token on'
    )


class CausalLmAgent(DeclaresOptions, TorchGeneratorAgent):
    """
    A generator whose encoder hands on the prompt and whose decoder continues it.
    """

    # those of model and prompt have the names of `ext:hf`'s
    declares = (
        Flags(ModelOptions, only=MODEL_FLAGS),
        Flags(FormOptions, only=FORM_FLAGS),
        Flags(ChatStyle, only=STYLE_FLAGS),
        TrainOptions,
    )

    @classmethod
    def add_cmdline_args(
        cls, parser: ParlaiParser, partial_opt: Opt | None = None
    ) -> ParlaiParser:
        """
        Add all options; prompts and replies may be longer than ParlAI's usual ones.
        """
        super().add_cmdline_args(parser, partial_opt)
        parser.set_defaults(text_truncate=768, label_truncate=256, dict_maxexs=0)
        return parser

    @staticmethod
    def dictionary_class() -> type[TokenDictionary]:
        """
        Return the class that holds tokenizer, configuration and form of the prompt.
        """
        return TokenDictionary

    @classmethod
    def history_class(cls) -> type[PromptHistory]:
        """
        Return the class of the dialogue's turns.
        """
        return PromptHistory

    def build_history(self) -> PromptHistory:
        """
        Return an empty history, whose prompts leave room for a reply.
        """
        self.text_truncate: int | None = prompt_limit(
            max_positions(self.dict.config, self.dict.hf_tokenizer),
            self.text_truncate,
            self.label_truncate or LONGEST_REPLY,
            option='label_truncate',
        )
        return super().build_history()

    def build_model(self) -> CausalNetwork:
        """
        Return the network; with the base model's weights, unless a model file will be
        loaded.
        """
        return CausalNetwork(self.dict, self.opt)

    def vectorize(self, obs: Message, *args: Any, **kwargs: Any) -> Message:
        """
        Return the message with tokens; what is learned of the prompt goes to the label.
        """
        obs = super().vectorize(obs, *args, **kwargs)
        if self.opt.get('learn_prompts') and obs.get('labels_vec') is not None:
            prompt = obs['text_vec']
            obs.force_set('labels_vec', torch.cat([prompt[1:], obs['labels_vec']]))
            obs.force_set('text_vec', prompt[:1])
        return obs

    def _pad_tensor(self, items: Any, is_label: bool = False) -> Any:
        """
        Pad prompts on the left, so that the reply follows them, and labels on the
        right.
        """
        return padded_tensor(
            items, pad_idx=self.NULL_IDX, left_padded=not is_label, fp16friendly=False
        )

    def _v2t(self, vec: torch.Tensor) -> str:
        """
        Return the text of a reply's tokens, without space around it.
        """
        return super()._v2t(vec).strip()
