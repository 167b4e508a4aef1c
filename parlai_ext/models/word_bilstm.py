"""
A text classifier that reads words with an LSTM in both directions, as Keras has it.

It is the network of the package toxic-comment-classifier: embedding, LSTM both ways,
the maximum over all places, one hidden layer (ReLU), a sigmoid for each label.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import torch
from safetensors import SafetensorError
from safetensors.torch import load_file

from parlai_ext.core.errors import UserError, first_line
from parlai_ext.core.json_text import parse_json
from parlai_ext.core.records import record_from_json
from parlai_ext.core.signature import signature_line
from parlai_ext.models.watch import NO_WATCH, Watch
from parlai_ext.systems import hub
from parlai_ext.systems.catalogue.conversions import (
    CONFIG,
    MODEL_TYPE,
    WEIGHTS,
    WORDS,
)
from parlai_ext.systems.safe.cost import bounded_cost

BATCH = 256  # texts in one forward pass: all are padded to one length


@dataclass(frozen=True)
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
                self.lstm = _lstm(weights).to(device).eval()
        except (OSError, KeyError, ValueError, RuntimeError, SafetensorError) as error:
            raise UserError(
                f'hf_model: {folder} holds no network of words: {first_line(error)}'
            ) from None
        self.labels = config.labels
        self.length, self.lower = config.length, config.lower
        self.blanks = str.maketrans(dict.fromkeys(config.filters, ' '))
        self.ids = {word: i for i, word in enumerate(words, 1)}
        self.num_parameters = sum(array.numel() for array in weights.values())
        self.device = device
        self.weights = {name: array.to(device) for name, array in weights.items()}
        self.signature = signature_line(
            {
                'model': type(self).__name__,
                'content': hub.files_hash(folder),
                'text_truncate': self.length,
                'dtype': 'float32',
            }
        )

    @torch.inference_mode()
    def probabilities(self, texts: Sequence[str]) -> np.ndarray:
        """
        Return one row for each text, one column for each label.
        """
        rows = [np.zeros((0, len(self.labels)), np.float32)]
        for start in range(0, len(texts), BATCH):
            batch = [self.word_ids(text) for text in texts[start : start + BATCH]]
            ids = torch.zeros((len(batch), self.length), dtype=torch.long)
            for row, known in enumerate(batch):
                last = list(known[-self.length :])
                ids[row, self.length - len(last) :] = torch.tensor(
                    last, dtype=torch.long
                )
            w = self.weights
            states, _ = self.lstm(w['embedding'][ids.to(self.device)])
            hidden = torch.relu(states.amax(1) @ w['hidden.kernel'] + w['hidden.bias'])
            logits = hidden @ w['output.kernel'] + w['output.bias']
            values: np.ndarray = logits.sigmoid().float().cpu().numpy()
            rows.append(values)
            self.watch.tell(len(batch), len(texts))
        return np.concatenate(rows)

    def cut_tokens(self, texts: Sequence[str]) -> list[int]:
        """
        Return how many known words of each text are too many for the network.
        """
        return [max(0, len(self.word_ids(text)) - self.length) for text in texts]

    def word_ids(self, text: str) -> list[int]:
        """
        Return the ids of the words of a text that the network knows.
        """
        lowered = text.lower() if self.lower else text
        words = lowered.translate(self.blanks).split(' ')
        return [self.ids[word] for word in words if word in self.ids]


def is_word_bilstm(folder: Path) -> bool:
    """
    True if a folder holds such a network.
    """
    return hub.read_config(folder).get('model_type') == MODEL_TYPE


def _lstm(weights: Mapping[str, torch.Tensor]) -> torch.nn.LSTM:
    """
    Return the LSTM. Keras and torch order its gates alike (input, forget, cell,
    output); Keras has one bias where torch adds two.
    """
    inputs, gates = weights['forward.kernel'].shape
    lstm = torch.nn.LSTM(inputs, gates // 4, batch_first=True, bidirectional=True)
    parts = {'weight_ih': 'kernel', 'weight_hh': 'recurrent', 'bias_ih': 'bias'}
    state = {
        f'{name}_l0{end}': weights[f'{way}.{part}'].transpose(0, -1)
        for way, end in (('forward', ''), ('backward', '_reverse'))
        for name, part in parts.items()
    }
    for end in ('', '_reverse'):
        state[f'bias_hh_l0{end}'] = torch.zeros(gates)
    lstm.load_state_dict(state)
    return lstm
