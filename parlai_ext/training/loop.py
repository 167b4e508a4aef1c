"""
A training that goes on where it was stopped.

Its state is one file, replaced whole every so many steps. What a step draws follows
from the seed and the step alone, so that a training that was interrupted and goes on
ends, on one machine, with the weights of one that was not.
"""

import json
import os
import time
from collections.abc import Mapping
from dataclasses import asdict
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from parlai_ext.core import JsonObject, UserError, first_line, frozen, parse_json
from parlai_ext.core.records import record_from_json
from parlai_ext.systems.safe.read import disk_errors
from parlai_ext.view.progress import bar_of

STATE = 'training.safetensors'
SAVED = ('weight', 'exp_avg', 'exp_avg_sq', 'step')  # of each weight that learns
RECENT = 20  # steps whose mean loss is shown


@frozen
class _Facts:
    """
    What a saved state says beside its tensors.
    """

    training: Mapping[str, Any]
    losses: tuple[float, ...]
    seconds: float
    held_out: Mapping[str, float]


class Training:
    """
    A training under way; subclasses define `update`.

    :param model: whose weights learn, but for those that are frozen.
    :param folder: where the state is saved.
    :param identity: all that the trained weights depend on, as JSON data.
    :param adamw: the options of AdamW.
    :ivar losses: of the steps that were taken.
    :ivar held_out: losses of what is not trained on, by name.
    """

    def __init__(
        self, model: torch.nn.Module, folder: Path, identity: JsonObject, **adamw: Any
    ):
        self.weights = {
            name: weight
            for name, weight in model.named_parameters()
            if weight.requires_grad
        }
        self.optimizer = torch.optim.AdamW(self.weights.values(), **adamw)
        self.file, self.identity = folder / STATE, dict(identity)
        self.losses: list[float] = []
        self.seconds = 0.0
        self.held_out: dict[str, float] = {}

    def update(self, step: int) -> float:
        """
        Set the learning rate and the gradients of a step, and return its loss.
        """
        raise NotImplementedError

    def run(self, last_step: int, save_every: int) -> None:
        """
        Take the remaining steps. The state is saved every so many of them, when the
        training is interrupted, and at the end.
        """
        if len(self.losses) > last_step:
            raise UserError(
                f'--out: {self.file} has {len(self.losses)} steps, and {last_step} are '
                'asked for; another folder would do'
            )
        bar = bar_of('train', last_step, unit='step')
        bar.initial = bar.n = len(self.losses)  # so that the rate is that of this run
        in_update = False
        try:
            with bar:
                while len(self.losses) < last_step:
                    began = time.monotonic()
                    loss = self.update(len(self.losses))
                    # what is there in between is no state to go on from
                    in_update = True
                    self.optimizer.step()
                    self.optimizer.zero_grad()
                    self.seconds += time.monotonic() - began
                    self.losses.append(loss)
                    in_update = False
                    recent = fmean(self.losses[-RECENT:])
                    bar.set_postfix_str(f'loss {recent:.3f}', refresh=False)
                    bar.update()
                    if len(self.losses) % save_every == 0:
                        self.save()
        except KeyboardInterrupt:
            if not in_update:
                self.save()
            raise
        self.save()

    def save(self) -> None:
        """
        Write the state, whole or not at all.
        """
        tensors = {}
        for name, weight in self.weights.items():
            tensors[f'weight.{name}'] = weight.detach()
            for key, value in self.optimizer.state.get(weight, {}).items():
                tensors[f'{key}.{name}'] = value
        facts = _Facts(self.identity, tuple(self.losses), self.seconds, self.held_out)
        unfinished = self.file.with_name(f'.{self.file.name}.unfinished')
        with disk_errors(self.file):
            save_file(
                {key: value.contiguous().cpu() for key, value in tensors.items()},
                unfinished,
                metadata={'facts': json.dumps(asdict(facts))},
            )
        with open(unfinished, 'rb') as written:
            os.fsync(written.fileno())
        os.replace(unfinished, self.file)

    def resume(self) -> None:
        """
        Go on from a saved state, if there is one.

        :raises UserError: when it is damaged, or that of another training.
        """
        if not self.file.is_file():
            return
        try:
            with safe_open(self.file, 'pt') as state:
                text = (state.metadata() or {})['facts']
                facts = record_from_json(_Facts, parse_json(text))
                check_same(facts.training, self.identity, self.file.parent)
                tensors = {key: state.get_tensor(key) for key in state.keys()}  # noqa: SIM118
            for name, weight in self.weights.items():
                self._restore(name, weight, tensors)
        except (SafetensorError, KeyError, ValueError) as error:
            raise UserError(
                f'--out: {self.file} is damaged: {first_line(error)}; delete it to '
                'begin the training again'
            ) from None
        self.losses, self.seconds = list(facts.losses), facts.seconds
        self.held_out = dict(facts.held_out)

    def _restore(
        self, name: str, weight: torch.Tensor, tensors: Mapping[str, torch.Tensor]
    ) -> None:
        """
        Give a weight and its moments their saved values.

        :raises ValueError: when some are missing, or of another shape.
        """
        saved = {
            key: tensors[f'{key}.{name}'] for key in SAVED if f'{key}.{name}' in tensors
        }
        # a weight that was frozen when this was saved has no moments
        if len(saved) not in (1, len(SAVED)) or 'weight' not in saved:
            raise ValueError(f'{name} is not all there')
        for key, value in saved.items():
            if value.shape != (() if key == 'step' else weight.shape):
                raise ValueError(f'{name} is of another shape')
        with torch.no_grad():
            weight.copy_(saved.pop('weight'))
        if saved:
            self.optimizer.state[weight] = {
                key: value if key == 'step' else value.to(weight.device)
                for key, value in saved.items()
            }


def check_same(stored: JsonObject, given: JsonObject, folder: Path) -> None:
    """
    Refuse to go on with a training that differs from the one asked for.
    """
    keys = [key for key in given if stored.get(key) != given[key]]
    if keys:
        raise UserError(
            f'--out {folder}: another training is in it; it differs in '
            f'{", ".join(keys)}. Name another folder, or train as before'
        )


def refuse_model(folder: Path) -> None:
    """
    Refuse a folder that holds a model, and no training that is under way.
    """
    if (folder / 'config.json').is_file() and not (folder / STATE).is_file():
        raise UserError(f'--out {folder}: a model is in it; name another folder')
