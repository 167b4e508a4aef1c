"""
``-m ext:causal_lm --hf-model FOLDER_OR_REPOSITORY``: any causal language model of
Hugging Face's library as a generator of ParlAI, which `parlai train_model` trains.

    parlai train_model -m ext:causal_lm --hf-model smollm2-135m-q4 -mf FILE \\
        -t ext:toxic_prompts --toxic-data FOLDER

It reads what `ext:hf` reads: the turns as the model's chat template writes them, or
joined by its end token where it has none. The loss is that of the label alone. A saved
model is whole: weights in the model file, tokenizer and configuration in its `.dict`,
so that neither ``--hf-model`` nor the base model is needed any more. The dictionary's
file, `MODEL_FILE.dict`, holds what transformers writes beside weights, as JSON: the
name and the text of each file. Nothing in it runs.
"""

import inspect
import json
import re
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import torch
from parlai.agents.hugging_face.dict import HuggingFaceDictionaryAgent
from parlai.core.message import Message
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser
from parlai.core.torch_agent import History
from parlai.core.torch_generator_agent import TorchGeneratorAgent, TorchGeneratorModel
from parlai.utils.torch import IdentityLayer, padded_tensor
from torch.nn import ModuleList
from transformers import AutoModelForCausalLM

from parlai_ext.core import (
    DeclaresOptions,
    Flags,
    UserError,
    errors_about,
    frozen,
    option,
    optional,
    options_from_opt,
)
from parlai_ext.engines import data_in
from parlai_ext.files import read_json
from parlai_ext.store import write_text, write_texts
from parlai_ext.systems.chat.messages import ChatStyle, ChatTurn, control_tokens
from parlai_ext.systems.hf import (
    PROBE,
    ChatForm,
    FormOptions,
    PlainForm,
    fit_prompt,
    prompt_form,
    prompt_limit,
)
from parlai_ext.systems.hub import ModelOptions
from parlai_ext.systems.pretrained import (
    fetch_named_weights,
    max_positions,
    quiet,
    read,
    read_description,
)

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
NULL, START = -1, -2  # padding and a first token; no model's tokens have such numbers
NULL_TOKEN, START_TOKEN = '__null__', '__start__'
FILE_NAME = re.compile(r'\w+\.(json|jinja|txt)')  # of no other folder


def base_model_folder(opt: Opt) -> Path:
    """
    Return the folder of the base model, which is downloaded when it is not here.

    :raises UserError: when it cannot be had.
    """
    options = options_from_opt(ModelOptions, opt)
    with data_in(opt.get('datapath')):
        return fetch_named_weights(options).parent


def end_of_reply(form: ChatForm | PlainForm) -> int | None:
    """
    Return the token at which a reply ends: what the chat template writes after one,
    where that is a control token, else the tokenizer's end token, if it has one.
    """
    tokenizer = form.tokenizer
    if isinstance(form, ChatForm):
        turns = [
            {'role': 'user', 'content': 'Hi'},
            {'role': 'assistant', 'content': PROBE},
        ]
        text = tokenizer.apply_chat_template(turns, tokenize=False, **form.more)
        text = text.rpartition(PROBE)[2].lstrip()
        after = tokenizer(text, add_special_tokens=False)['input_ids']
        if after and after[0] in tokenizer.added_tokens_decoder:
            return after[0]
    return tokenizer.eos_token_id


class TokenDictionary(HuggingFaceDictionaryAgent):
    """
    The tokens of a model and the form of its prompts.

    :ivar is_saved: read from a model's `.dict`, not from the base model.
    """

    add_special_tokens = False
    skip_decode_special_tokens = True

    def __init__(self, opt: Any, shared: Any = None):
        if shared:
            self.config, self.is_saved = shared['tokens']
        super().__init__(opt, shared)

    def share(self) -> dict[str, object]:
        """
        Return what a clone takes over.
        """
        return {**super().share(), 'tokens': (self.config, self.is_saved)}

    def get_tokenizer(self, opt: Opt) -> Any:
        """
        Read tokenizer and configuration of the saved model, else of the base model.

        :raises UserError: when they cannot be had.
        """
        file = Path(opt.get('dict_file') or '')
        self.is_saved = bool(opt.get('dict_file')) and file.is_file()
        if self.is_saved:
            with errors_about('dict_file'):
                texts = read_json(file, dict)
            if 'config.json' not in texts or not all(
                FILE_NAME.fullmatch(name) and isinstance(text, str)
                for name, text in texts.items()
            ):
                raise UserError(f'dict_file: {file}: no dictionary of ext:causal_lm')
            with TemporaryDirectory() as folder:
                write_texts(Path(folder), texts)
                self.config, tokenizer = read_description(Path(folder))
        elif opt.get('model_file') and Path(opt['model_file']).is_file():
            raise UserError(f'model_file: there is no {opt["model_file"]}.dict')
        else:
            self.config, tokenizer = read_description(base_model_folder(opt))
            form = options_from_opt(FormOptions, opt)
            if form.prompt_start:
                marks = [form.prompt_start, form.turn_separator]
                tokenizer.add_tokens([*filter(None, marks)], special_tokens=True)
        if self.config.is_encoder_decoder:
            raise UserError('hf_model: a causal language model is expected')
        return tokenizer

    def override_special_tokens(self, opt: Opt) -> None:
        """
        Set the form of prompts and the token at which a reply ends.

        :raises UserError: when the model has no token that could end a reply.
        """
        options = options_from_opt(FormOptions, opt)
        style, tokenizer = ChatStyle.from_options(opt), self.hf_tokenizer
        self.form = prompt_form(tokenizer, False, options, style)
        end = end_of_reply(self.form)
        if end is None:
            raise UserError('hf_model: its tokenizer has no end token')
        self.end_idx = int(end)
        self.end_token = tokenizer.convert_ids_to_tokens(self.end_idx)
        self.null_token, self.null_idx = NULL_TOKEN, NULL
        self.start_token, self.start_idx = START_TOKEN, START
        self.unk_token = tokenizer.unk_token or self.end_token
        self._unk_token_idx = self.tok2ind.get(self.unk_token, self.end_idx)
        self.tok2ind.update({NULL_TOKEN: NULL, START_TOKEN: START})
        self.ind2tok.update({NULL: NULL_TOKEN, START: START_TOKEN})

    def txt2vec(self, text: str, vec_type: Any = list) -> Any:
        """
        Return the tokens of a text, without control tokens.
        """
        if hasattr(self, 'form'):
            text = control_tokens(self.hf_tokenizer).sub('', text)
        return vec_type(self.hf_tokenizer(text, add_special_tokens=False)['input_ids'])

    def save(
        self, filename: str | None = None, append: bool = False, sort: bool = True
    ) -> None:
        """
        Write tokenizer and configuration as one file.
        """
        with TemporaryDirectory() as folder, quiet():
            self.hf_tokenizer.save_pretrained(folder)
            self.config.save_pretrained(folder)
            files = [p for p in Path(folder).iterdir() if FILE_NAME.fullmatch(p.name)]
            texts = {file.name: file.read_text('utf-8') for file in sorted(files)}
        place = Path(filename or self.opt['dict_file'])
        write_text(place, json.dumps(texts, ensure_ascii=False, indent=0))


class CausalNetwork(TorchGeneratorModel):
    """
    A network of Hugging Face's between an encoder, which does nothing, and logits: that
    of a saved model without weights, which ParlAI loads next; else the base model's.

    :param opt: with `bf16`, it computes in bfloat16; the weights stay float32.
    :raises UserError: when the base model cannot be had or read, or has not as many
        layers as shall learn.
    """

    def __init__(self, tokens: TokenDictionary, opt: Opt):
        super().__init__(NULL, tokens.start_idx, tokens.end_idx)
        if tokens.is_saved:
            with quiet():
                network = AutoModelForCausalLM.from_config(tokens.config)
        else:
            arguments = {'dtype': torch.float32}
            network = read(base_model_folder(opt), torch.device('cpu'), arguments)[2]
            size = len(tokens.hf_tokenizer)
            if size > network.get_input_embeddings().num_embeddings:
                network.resize_token_embeddings(size, mean_resizing=False)
                tokens.config = network.config
        number = opt.get('trained_layers')
        network.requires_grad_(number is None)
        if number is not None:  # the last so many layers learn, and nothing else
            kinds = (one for one in network.modules() if isinstance(one, ModuleList))
            layers = max(kinds, key=len, default=ModuleList())
            if not 0 < number <= len(layers):
                raise UserError(
                    f'trained_layers: {number}; the model has {len(layers)}'
                )
            for layer in layers[len(layers) - number :]:
                layer.requires_grad_(True)
        self.encoder = IdentityLayer()
        self.decoder = Continuation(network, bool(opt.get('bf16')))

    def decode_forced(
        self, encoder_states: torch.Tensor, ys: torch.Tensor
    ) -> tuple[torch.Tensor, torch.Tensor]:
        """
        Return the logits of every token of the labels, and the likeliest tokens.

        The last token of the prompt foretells the first of the label.

        :param encoder_states: prompts, padded on the left.
        :param ys: labels, padded on the right.
        """
        together = torch.cat([encoder_states, ys[:, :-1]], dim=1)
        logits, _ = self.decoder.logits(together, last=ys.shape[1])
        return logits, logits.argmax(dim=2)

    def output(self, tensor: torch.Tensor) -> torch.Tensor:
        """
        Return logits, which the decoder returns already.
        """
        return tensor

    def reorder_encoder_states(self, encoder_states: torch.Tensor, indices: Any) -> Any:
        """
        Return the prompts of these rows.
        """
        rows = torch.as_tensor(indices, device=encoder_states.device)
        return encoder_states.index_select(0, rows)

    def reorder_decoder_incremental_state(
        self, incremental_state: Any, inds: torch.Tensor
    ) -> Any:
        """
        Return the cache with these rows.
        """
        incremental_state.reorder_cache(inds)
        return incremental_state


class Continuation(torch.nn.Module):
    """
    The logits of the tokens that follow a prompt.
    """

    def __init__(self, network: Any, bf16: bool):
        super().__init__()
        self.network, self.bf16 = network, bf16
        known = inspect.signature(network.forward).parameters
        self.knows_positions = 'position_ids' in known
        self.keeps_logits = 'logits_to_keep' in known

    def forward(
        self, input: torch.Tensor, encoder_state: torch.Tensor, incr_state: Any = None
    ) -> tuple[torch.Tensor, Any]:
        """
        Return the logits of the next token of each row, and the cache.

        :param input: what was generated so far, after a first token that stands for
            the prompt.
        :param encoder_state: prompts, padded on the left.
        :param incr_state: the cache; `None` at the first token.
        """
        together = torch.cat([encoder_state, input[:, 1:]], dim=1)
        return self.logits(together, last=1, cache=incr_state, use_cache=True)

    def logits(
        self,
        tokens: torch.Tensor,
        last: int,
        cache: Any = None,
        use_cache: bool = False,
    ) -> tuple[torch.Tensor, Any]:
        """
        Return the logits after each of the last tokens, and the cache.

        :param tokens: rows of one length, with `NULL` as padding.
        :param last: how many tokens.
        :param cache: holds all tokens but the last one.
        """
        mask = tokens != NULL
        arguments: dict[str, Any] = {'attention_mask': mask, 'use_cache': use_cache}
        positions = (mask.cumsum(dim=1) - 1).clamp(min=0)
        if cache is not None:
            tokens, positions = tokens[:, -1:], positions[:, -1:]
            arguments['cache'] = cache
        if self.knows_positions:
            arguments['position_ids'] = positions
        if self.keeps_logits:
            arguments['logits_to_keep'] = last
        with torch.autocast(tokens.device.type, torch.bfloat16, enabled=self.bf16):
            output = self.network(input_ids=tokens.clamp(min=0), **arguments)
        return output.logits[:, -last:].float(), output.cache if use_cache else None


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
