"""
The kinds of encoders that a scorer may ask for, and two kinds of classifiers that are
none of Hugging Face's: a network of words, and ParlAI's.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from parlai.core.agents import create_agent
from parlai.core.params import ParlaiParser
from safetensors import SafetensorError
from safetensors.torch import load_file

from parlai_ext.compat import prepare_parlai
from parlai_ext.core import (
    System,
    UserError,
    chunks,
    errors_about,
    first_line,
    frozen,
    options_from_opt,
    parse_json,
    signature_line,
)
from parlai_ext.core.records import record_from_json
from parlai_ext.engines import Machine
from parlai_ext.models import encoders
from parlai_ext.models.handle import Models
from parlai_ext.models.watch import NO_WATCH, Watch
from parlai_ext.systems import hub
from parlai_ext.systems.catalogue.conversions import CONFIG, MODEL_TYPE, WEIGHTS, WORDS
from parlai_ext.systems.hub import ModelOptions
from parlai_ext.systems.identity import identity
from parlai_ext.systems.parlai_agents import cost_of_model
from parlai_ext.systems.pretrained import chosen_device, fetch_named_weights
from parlai_ext.systems.safe.load import bounded_cost, guarded
from parlai_ext.systems.zoo import fetch_path

BATCH = 256  # texts in one forward pass: all are padded to one length
KERAS_PARTS = {'weight_ih': 'kernel', 'weight_hh': 'recurrent', 'bias_ih': 'bias'}


@frozen
class _Config:
    """
    The settings of a network, as its folder has them.
    """

    labels: tuple[str, ...]
    length: int
    lower: bool
    filters: str


class WordBiLSTM:
    """
    Gives each text the probability of each label; labels do not exclude each other.

    Words that the network does not know are left out. Of a longer text, its last words
    are read.
    """

    watch: Watch = NO_WATCH

    def __init__(self, folder: Path, device: torch.device):
        try:
            config = record_from_json(
                _Config, parse_json((folder / CONFIG).read_bytes())
            )
            words = (folder / WORDS).read_text('utf-8').removesuffix('\n').split('\n')
            weights = load_file(folder / WEIGHTS)
            with bounded_cost(folder):
                self.lstm = lstm_of_keras(weights).to(device).eval()
        except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
            raise UserError(
                f'hf_model: {folder} holds no network of words: {first_line(error)}'
            ) from None
        self.config, self.labels = config, config.labels
        self.blanks = str.maketrans(dict.fromkeys(config.filters, ' '))
        self.ids = {word: i for i, word in enumerate(words, 1)}
        self.num_parameters = sum(array.numel() for array in weights.values())
        self.device = device
        self.weights = {name: array.to(device) for name, array in weights.items()}
        self.signature = signature_line(
            {
                'model': type(self).__name__,
                'content': hub.files_hash(folder),
                'text_truncate': config.length,
                'dtype': 'float32',
            }
        )

    @torch.inference_mode()
    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """
        Return one row for each text, one column for each label.
        """
        rows = [np.zeros((0, len(self.labels)), np.float32)]
        length, w = self.config.length, self.weights
        for batch in chunks(texts, BATCH):
            word_ids = []
            for text in batch:
                lowered = text.lower() if self.config.lower else text
                words = lowered.translate(self.blanks).split(' ')
                known = [self.ids[word] for word in words if word in self.ids]
                word_ids.append(([0] * length + known)[-length:])  # padded in front
            ids = torch.tensor(word_ids)
            states, _ = self.lstm(w['embedding'][ids.to(self.device)])
            hidden = torch.relu(states.amax(1) @ w['hidden.kernel'] + w['hidden.bias'])
            logits = hidden @ w['output.kernel'] + w['output.bias']
            values: np.ndarray = logits.sigmoid().float().cpu().numpy()
            rows.append(values)
            self.watch.tell(len(batch), len(texts))
        return np.concatenate(rows)


def lstm_of_keras(weights: Mapping[str, torch.Tensor]) -> torch.nn.LSTM:
    """
    Return the two-way LSTM of weights that Keras named.
    """
    inputs, gates = weights['forward.kernel'].shape
    lstm = torch.nn.LSTM(inputs, gates // 4, batch_first=True, bidirectional=True)
    state = {}
    for way, end in (('forward', ''), ('backward', '_reverse')):
        # both order the gates alike (input, forget, cell, output)
        for name, part in KERAS_PARTS.items():
            state[f'{name}_l0{end}'] = weights[f'{way}.{part}'].transpose(0, -1)
        # Keras has one bias where torch adds two
        state[f'bias_hh_l0{end}'] = torch.zeros(gates)
    lstm.load_state_dict(state)
    return lstm


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


def load_encoder(kind: str, name: str, system: System, machine: Machine) -> Any:
    """
    Return an encoder, or a classifier of another kind.
    """
    with errors_about(f'{kind} {name}'):
        if 'model_file' in system.opt:
            return ParlaiClassifier(system, machine)
        opt = {**system.opt, 'no_cuda': machine.no_cuda}
        options = options_from_opt(ModelOptions, opt)
        folder = fetch_named_weights(options).parent
        device = chosen_device(options)
        found = hub.read_config(folder).get('model_type')
        if (kind, found) == ('classifier', MODEL_TYPE):
            return WordBiLSTM(folder, device)
        model = vars(encoders)[vars(Models)[kind].model]
        return model(folder, device, machine.tokens)
