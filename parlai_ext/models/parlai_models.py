"""
ParlAI's own models: a generator as a `LanguageModel`, with its own History, dictionary
and truncation; and classifiers.
"""

from collections.abc import Sequence
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import parlai.agents.transformer.modules.attention as attention
import torch
from parlai.agents.image_seq2seq.image_seq2seq import ImageSeq2seqAgent
from parlai.agents.transformer.modules import (
    MultiHeadAttention,
    TransformerDecoder,
    TransformerDecoderLayer,
    TransformerGeneratorModel,
)
from parlai.core.agents import create_agent
from parlai.core.message import Message
from parlai.core.params import ParlaiParser
from parlai.core.torch_generator_agent import TorchGeneratorAgent

from parlai_ext.compat import prepare_parlai
from parlai_ext.core import System, UserError, chunks, content_id, signature_line
from parlai_ext.engines import Machine
from parlai_ext.files import sha256
from parlai_ext.models.likelihood import (
    EncodedContexts,
    EncoderDecoder,
    TreeBatch,
    Vectorizer,
)
from parlai_ext.models.watch import NO_WATCH, Watch
from parlai_ext.systems.identity import identity
from parlai_ext.systems.model_cache import fit_threads
from parlai_ext.systems.parlai_agents import cost_of_model, load_system
from parlai_ext.systems.safe.load import guarded
from parlai_ext.systems.zoo import fetch_path

# options, besides weights and dictionary, that change a judge's input or numbers
READS = (
    'delimiter',
    'history_size',
    'history_reversed',
    'history_add_global_end_token',
    'split_lines',
    'person_tokens',
    'add_p1_after_newln',
    'special_tok_lst',
    'dict_tokenizer',
    'dict_lower',
    'dict_unktoken',
    'bpe_add_prefix_space',
    'n_heads',
    'n_layers',
    'n_encoder_layers',
    'n_decoder_layers',
    'n_positions',
    'variant',
    'activation',
    'embeddings_scale',
    'learn_positional_embeddings',
    'n_segments',
    'output_scaling',
    'reduction_type',
)
ONLY_SOME_READ = ('n_positions_init',)  # of ext:long_context
# our option for ParlAI models, as `hf_dtype` is for models of Hugging Face
STATE = ('prev_key', 'prev_value', 'prev_mask')  # as ParlAI's attention keeps it
DTYPE = 'judge_dtype'
DTYPES = ('float32', 'bfloat16', 'float16', 'float64')
DICTIONARY = ('', '-vocab.json', '-merges.txt', '.codecs')


def load_parlai_judge(name: str, system: System, machine: Machine) -> EncoderDecoder:
    """
    Return a ParlAI encoder-decoder as a `LanguageModel`.

    :param system: what its name means; it is downloaded if it is missing.
    :param machine: half precision on a GPU; `None` leaves it to the model's options.
    :raises UserError: if there is no such model, or it cannot judge.
    """
    dtype = system.opt.get(DTYPE)
    if dtype is not None and dtype not in DTYPES:
        raise UserError(
            f'judge {system.opt.get("model_file")}: {DTYPE}: {dtype!r} is none of '
            f'{", ".join(DTYPES)}; fewer bits are for causal judges (hf_quantisation)'
        )
    system = System(system.name, {k: v for k, v in system.opt.items() if k != DTYPE})
    keep_double_attention()
    fit_threads([system])
    agent = check_agent(load_system(system, machine).agent, name)
    if dtype is not None:
        agent.model.to(getattr(torch, dtype))
    if isinstance(agent, ImageSeq2seqAgent):
        encoder = agent.model.encoder
        encoder.forward = partial(encoder.forward, image_features=None)
    agent.model.requires_grad_(False)
    return CrossAttention(
        agent.model, AgentVectorizer(agent), judge_signature(agent), machine.tokens
    )


def check_agent(agent: Any, model_file: str) -> TorchGeneratorAgent:
    """
    Return the agent if it is an encoder-decoder that reads only text.

    :raises UserError: if it is something else.
    """
    kind, problem = type(agent), None
    plain = (TorchGeneratorAgent, ImageSeq2seqAgent)  # the latter without an image
    if not isinstance(agent, TorchGeneratorAgent):
        problem = f'{kind.__name__} is no generator (TorchGenerator)'
    elif not isinstance(agent.model, TransformerGeneratorModel):
        problem = f'{type(agent.model).__name__} is no encoder-decoder transformer'
    elif foreign := foreign_parts(agent.model.decoder):
        problem = f'{foreign[0]} is no decoder of ParlAI itself'
    elif any(
        getattr(kind, method) not in [getattr(one, method) for one in plain]
        for method in ('_encoder_input', '_model_input')
    ):
        problem = f'{kind.__name__} reads more than text'
    if problem is not None:
        raise UserError(f'judge {model_file}: {problem}')
    return agent


def foreign_parts(decoder: Any) -> list[str]:
    """
    Return the classes of the parts of a decoder that are not ParlAI's own.
    """
    parts: list[tuple[Any, Any]] = [(decoder, TransformerDecoder)]
    for layer in decoder.layers:
        parts.append((layer, TransformerDecoderLayer))
        for name in ('self_attention', 'encoder_attention'):
            parts.append((getattr(layer, name, None), MultiHeadAttention))
    return [
        type(part).__name__
        for part, own in parts
        if getattr(type(part), 'forward', None) is not own.forward
    ]


class AgentVectorizer(Vectorizer):
    """
    Contexts and replies as the agent itself would read them: clones of it observe them.

    Every utterance of a context is observed; none counts as the judge's own. The last
    context is remembered, since the next one often continues it.
    """

    def __init__(self, agent: TorchGeneratorAgent):
        self.listener = agent.clone()
        self.speaker = agent.clone()
        self.last_context: tuple[str, ...] = ()
        self.last_ids: tuple[list[int], int] = ([], 0)
        super().__init__()

    def context(self, utterances: tuple[str, ...]) -> tuple[list[int], int]:
        """
        Return the token ids of the agent's history, and how many of them it cut.
        """
        if utterances[: len(self.last_context)] != self.last_context:
            self.listener.reset()
            self.last_context, self.last_ids = (), ([], 0)
        for text in utterances[len(self.last_context) :]:
            seen = self.listener.observe(Message(text=text, episode_done=False))
            vector = seen.get('text_vec')
            if vector is None:  # a history without a single character
                self.last_ids = [], 0
                continue
            # BART puts two tokens around what it kept
            kept = len(vector) - 2 * bool(seen.get('added_start_end_tokens'))
            self.last_ids = vector.tolist(), seen['context_original_length'] - kept
        self.last_context = tuple(utterances)
        return self.last_ids

    def reply_ids(self, text: str) -> tuple[int, ...]:
        """
        Return the token ids of a label.
        """
        self.speaker.reset()
        seen = self.speaker.observe(Message(eval_labels=[text], episode_done=False))
        return tuple(seen['eval_labels_vec'].tolist())


def judge_signature(agent: TorchGeneratorAgent) -> str:
    """
    Return the signature of a judge: one line that holds all that its numbers depend on,
    and no paths.
    """
    opt = agent.opt
    files = [Path(opt['model_file'])]
    files += [Path(opt['dict_file'] + ending) for ending in DICTIONARY]
    weight = next(agent.model.parameters())
    return signature_line(
        {
            'agent': type(agent).__name__,
            'content': content_id([sha256(path) for path in files if path.is_file()]),
            'reads': {key: opt.get(key) for key in READS}
            | {key: opt[key] for key in ONLY_SOME_READ if opt.get(key) is not None},
            'text_truncate': agent.text_truncate,
            'cut': 'right' if opt.get('history_reversed') else 'left',
            'label_truncate': agent.label_truncate,
            'dtype': str(weight.dtype).removeprefix('torch.'),
        }
    )


def keep_double_attention() -> None:
    """
    Have ParlAI compute the attention of float64 models in float64.

    transformer/modules/attention.py:251 takes the softmax in float32 whatever the
    weights are, and then padding changes a log-probability by about 1e-7. Other
    precisions are computed as before.
    """

    def softmax(x: torch.Tensor, dim: int, dtype: torch.dtype) -> torch.Tensor:
        return torch.softmax(x, dim, dtype=torch.promote_types(x.dtype, dtype))

    attention.F = SimpleNamespace(softmax=softmax)


# --- ParlAI's decoder reads a tree ----------------------------------------------------


class CrossAttention(EncoderDecoder):
    """
    One of ParlAI's encoder-decoder transformers.

    ParlAI's own layers compute. ParlAI gives its decoder one row for each continuation,
    and each row computes the keys and values of its context again. Here a context has
    one row, a tree of all its continuations, so these are computed once.
    """

    def __init__(self, model: TransformerGeneratorModel, *args: Any):
        super().__init__(model, *args)
        self.null = int(model.NULL_IDX)
        self.vocabulary = len(model.embeddings.weight)
        self.device = model.embeddings.weight.device
        nothing = torch.zeros(1, 0, dtype=torch.long, device=self.device)
        first = model._get_initial_forced_decoder_input(1, nothing)
        self.start = tuple(first[0].tolist())

    def encode(self, xs: torch.Tensor, keys_values: bool) -> EncodedContexts:
        """
        Return the encoded contexts.
        """
        states, mask = self.model.encoder(xs)
        layers = []  # keys and values as ParlAI's attention keeps them
        for layer in self.model.decoder.layers if keys_values else ():
            attention = layer.encoder_attention
            device = attention.k_lin.weight.device
            keys, values = (
                linear(states.to(device))
                .unflatten(-1, (attention.n_heads, -1))
                .transpose(1, 2)
                .contiguous()
                for linear in (attention.k_lin, attention.v_lin)
            )
            layers.append((keys, values, mask.to(device)))
        return EncodedContexts(states, mask, tuple(layers))

    def decode(self, encoded: EncodedContexts, trees: TreeBatch) -> torch.Tensor:
        """
        Return the decoder's output for the nodes of trees.

        Each layer is given the tree's mask. Layers of one model may lie on several
        devices.
        """
        decoder = self.model.decoder
        tokens, depths, _ = trees.nodes
        mask = trees.mask(trees.whole)[:, 0]
        tensor = decoder.forward_embedding(tokens, depths)
        for i, layer in enumerate(decoder.layers):
            device = layer.norm1.weight.device
            keys_values = encoded.keys_values
            given = None
            if keys_values:
                given = {'encoder_attn': dict(zip(STATE, keys_values[i], strict=True))}
            layer._create_selfattn_mask = lambda _, d=device: mask.to(d)
            try:
                tensor, _ = layer(
                    tensor.to(device),
                    encoded.states.to(device),
                    encoded.mask.to(device),
                    incr_state=given,
                )
            finally:
                del layer._create_selfattn_mask
        tensor = tensor.to(self.device)
        if decoder.variant == 'prelayernorm':
            tensor = decoder.norm_embeddings(tensor)
        return tensor

    def logits(self, hidden: torch.Tensor) -> torch.Tensor:
        """
        Return the logits of the model's output layer.
        """
        return self.model.output(hidden.unsqueeze(0)).squeeze(0)


# --- classifiers ----------------------------------------------------------------------


class ParlaiClassifier:
    """
    Gives each text the probability of each label; they sum to 1.

    :raises UserError: when the file holds another model.
    """

    watch: Watch = NO_WATCH

    def __init__(self, system: System, machine: Machine):
        prepare_parlai()
        opt = {
            **system.opt,
            'model_file': str(fetch_path(str(system.opt['model_file']))),
            'print_scores': True,
            'datatype': 'valid',
            'batchsize': 1,
            'no_cuda': machine.no_cuda,
        }
        # not `load_system`: it has the options of a ranker, and would need candidates
        with guarded(roster_opt=opt), cost_of_model(opt):  # the file is read as data
            parsed = ParlaiParser(True, True).parse_kwargs(**opt)
            self.agent: Any = create_agent(parsed, requireModelExists=True)
        if not hasattr(self.agent, 'class_list'):
            raise UserError(f'{type(self.agent).__name__} is no classifier')
        self.labels = tuple(map(str, self.agent.class_list))
        self.size = machine.batchsize
        self.signature = f'system={identity(system)}'

    def probabilities(
        self, texts: Sequence[str], seconds: Sequence[str] | None = None
    ) -> np.ndarray:
        """
        Return one row for each text, one column for each label.

        :raises UserError: for pairs of texts, which it cannot read.
        """
        if seconds is not None:
            raise UserError('a classifier of ParlAI reads single texts, not pairs')
        clones = [self.agent.clone() for _ in texts[: self.size]]
        rows: list[np.ndarray] = []
        for some in chunks(texts, self.size):
            seen = []
            for clone, text in zip(clones, some, strict=False):
                clone.reset()
                seen.append(clone.observe({'text': text, 'episode_done': True}))
            rows += [np.asarray(act['probs']) for act in self.agent.batch_act(seen)]
            self.watch.tell(len(some), len(texts))
        return np.array(rows, np.float32).reshape(-1, len(self.labels))
