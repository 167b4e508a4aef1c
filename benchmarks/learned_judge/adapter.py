"""
Learn the adapter of the shipped judge, with which its sentence encoder reads a response
after its context, on a GPU (minutes for each fold; hours on a CPU).

    python -m benchmarks.learned_judge.adapter --data FOLDER --cache FOLDER \
        [--folds fed_turn jsalt … all]

A fold is a set that is left out with all that shares a corpus or a study with it, or
`all`, which is what is shipped. First the encoder learns to find the true reply among
five in dialogues between people; then people's judgements and spoilt replies. What each
fold says of its set and of the copies of its corpus goes to CACHE/adapter/FOLD.json,
the adapter of `all` beside it; benchmarks.learned_judge reads both.
"""

import argparse
import copy
import json
import math
import random
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import save
from torch import nn
from torch.nn import functional

from benchmarks.learned_judge.copies import (
    COPIES,
    READERS,
    WEIGHTS,
    Copy,
    pair_places,
)
from benchmarks.learned_judge.fit import ALL
from benchmarks.learned_judge.items import SETS, ResponseSet, read_set, training_sets
from benchmarks.support.measures import start
from parlai_ext.models.encoders import MeanPooling
from parlai_ext.models.handle import ModelHandle
from parlai_ext.models.response_reader import SCALE, features, pair_ids
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.store import write_file
from parlai_ext.view.progress import bar_of

DIALOGUES = READERS['dd'], READERS['ed']
AT_ONCE = 128  # responses that are scored together
RANK = 16
FIRST_STEPS, STEPS = 700, 400
FIRST_RATE, RATE = 5e-4, 3e-4
CONTEXTS, REPLIES = 32, 5  # of a step in dialogues; the first reply is the true one
SETS_AT_ONCE, RESPONSES, PAIRS = 3, 20, 24  # of a step in judgements
CLEAR = 0.25  # difference of two labels from which they are a pair
GENERIC = (
    *('i see.', 'ok.', "i don't know.", 'that is great!', 'yes.', 'really?'),
    *('thank you.', 'sounds good.', 'i am not sure.', 'haha.', 'what do you mean?'),
    *('me too.', 'i love it!'),
)


class Change(nn.Module):
    """
    A linear layer with a low-rank change.
    """

    def __init__(self, layer: nn.Linear):
        super().__init__()
        self.layer = layer
        spread = math.sqrt(layer.in_features)
        self.A = nn.Parameter(torch.randn(RANK, layer.in_features) / spread)
        self.B = nn.Parameter(torch.zeros(layer.out_features, RANK))

    def forward(self, inputs: torch.Tensor) -> torch.Tensor:
        """
        Return what the layer gives, changed.
        """
        low = functional.linear(inputs, self.A)
        return self.layer(inputs) + SCALE * functional.linear(low, self.B)


class Reader(nn.Module):
    """
    The encoder with changes in all its linear layers, and two layers on top.
    """

    def __init__(self, encoder: MeanPooling):
        super().__init__()
        self.encoder = encoder
        self.body = copy.deepcopy(encoder.model)  # the next fold begins with it, too
        self.body.requires_grad_(False)
        for name, layer in list(self.body.named_modules()):
            if isinstance(layer, nn.Linear) and 'pooler' not in name:
                parent, _, own = name.rpartition('.')
                setattr(self.body.get_submodule(parent), own, Change(layer))
        self.drop = nn.Dropout(0.1)
        self.hid = nn.Linear(2 * self.body.config.hidden_size, 128)
        self.top = nn.Linear(128, 1)
        self.to(encoder.device)

    def forward(self, items: Sequence[ScoringItem]) -> torch.Tensor:
        """
        Return one number for each response.
        """
        encoded = [pair_ids(self.encoder, (tuple(i.context), i.text)) for i in items]
        padded = self.encoder.tokenizer.pad(encoded, return_tensors='pt')
        inputs = {key: value.to(self.encoder.device) for key, value in padded.items()}
        device = self.encoder.device.type
        with torch.autocast(device, torch.bfloat16, enabled=device == 'cuda'):
            states = self.body(**inputs).last_hidden_state
            both = features(states, inputs, self.encoder.tokenizer.sep_token_id)
            numbers = self.top(torch.tanh(self.hid(self.drop(both))))
        return numbers.squeeze(-1).float()

    def learned(self) -> dict[str, nn.Parameter]:
        """
        Return what is learned, by name.
        """
        return {n: one for n, one in self.named_parameters() if one.requires_grad}

    @torch.inference_mode()
    def scores(self, items: Sequence[ScoringItem]) -> list[float]:
        """
        Return the numbers of many responses.
        """
        self.eval()
        parts = [self(items[k : k + AT_ONCE]) for k in range(0, len(items), AT_ONCE)]
        return torch.cat(parts).tolist()


def worse_replies(
    rng: random.Random, dialogues: Sequence[Sequence[Sequence[str]]]
) -> list[ScoringItem]:
    """
    Return a drawn context with its true reply and, after it, four worse ones: two of
    other dialogues, one of this dialogue, and one that is spoilt.
    """

    def other() -> Sequence[str]:
        return rng.choice(rng.choice(dialogues))

    dialogue = other()
    while len(dialogue) < 2:
        dialogue = other()
    place = rng.randrange(1, len(dialogue))
    true, words = dialogue[place], dialogue[place].split() or ['ok']
    strange = rng.choice(other())
    same = [t for i, t in enumerate(dialogue) if i not in (place, place + 1)]
    shuffled = rng.sample(words, len(words))
    half = len(words) // 2
    spoilt = rng.choice(
        [
            ' '.join(shuffled),
            rng.choice(GENERIC),
            ' '.join([rng.choice(words), *words[half:]]),
            ' '.join(words[: max(1, half)]),
            f'{true} {strange}',
            f'{rng.choice(same or [strange])} {rng.choice(GENERIC)}',
            ' '.join(words[:half] * 2) or rng.choice(GENERIC),
        ]
    )
    replies = [
        true,
        rng.choice(other()),
        strange,
        rng.choice(same or [strange]),
        spoilt,
    ]
    context = tuple(dialogue[:place])
    return [ScoringItem(context, reply) for reply in replies]


class Course:
    """
    The steps of a stage: a rate that rises and falls, and gradients that are cut.
    """

    def __init__(self, reader: Reader, rate: float, steps: int):
        self.weights = list(reader.learned().values())
        self.optimizer = torch.optim.AdamW(self.weights, rate, weight_decay=0.01)
        self.schedule = torch.optim.lr_scheduler.LambdaLR(
            self.optimizer,
            lambda k: min(1, (k + 1) / (0.06 * steps)) * max(0.02, 1 - k / steps),
        )

    def step(self, loss: torch.Tensor) -> None:
        """
        Learn from a loss.
        """
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()  # type: ignore[no-untyped-call]
        nn.utils.clip_grad_norm_(self.weights, 1.0)
        self.optimizer.step()
        self.schedule.step()


def learn_dialogues(reader: Reader, dialogues: Sequence[Any]) -> None:
    """
    Learn to find the true reply of people among worse ones.
    """
    rng, course = random.Random(1), Course(reader, FIRST_RATE, FIRST_STEPS)
    with bar_of('dialogues', FIRST_STEPS, unit='step') as bar:
        for _ in range(FIRST_STEPS):
            items = [i for _ in range(CONTEXTS) for i in worse_replies(rng, dialogues)]
            numbers = reader(items).view(CONTEXTS, REPLIES)
            true = torch.zeros(CONTEXTS, dtype=torch.long, device=numbers.device)
            course.step(functional.cross_entropy(numbers, true))
            bar.update()


def learn_judgements(
    reader: Reader,
    sets: Sequence[ResponseSet],
    copies: Sequence[Sequence[Copy]],
) -> None:
    """
    Learn people's order of responses within a set, and replies above their copies.
    """
    rng, course = random.Random(2), Course(reader, RATE, STEPS)
    labels = {one.name: one.labels() for one in sets}
    known = {n: np.flatnonzero(~np.isnan(own)).tolist() for n, own in labels.items()}
    shares = [
        math.sqrt(len(known[one.name])) * (0.5 if SETS[one.name].turns > 1 else 1)
        for one in sets
    ]
    kinds = [
        (WEIGHTS.get(kind.split('/')[0], 1.0), some, places)
        for some in copies
        for kind, places in pair_places(some).items()
    ]
    with bar_of('judgements', STEPS, unit='step') as bar:
        for _ in range(STEPS):
            items, wanted, groups = [], [], []
            for group, one in enumerate(rng.choices(sets, shares, k=SETS_AT_ONCE)):
                places = known[one.name]
                for i in rng.sample(places, min(RESPONSES, len(places))):
                    items.append(one.responses[i].item)
                    wanted.append(float(labels[one.name][i]))
                    groups.append(group)
            judged = len(items)
            for _, some, pairs in rng.choices(kinds, [k[0] for k in kinds], k=PAIRS):
                better, worse = rng.choice(pairs.tolist())
                items += [some[better].item, some[worse].item]
            numbers = reader(items)
            loss = order_loss(numbers[:judged], wanted, groups)
            above = numbers[judged::2] - numbers[judged + 1 :: 2]
            course.step(loss + functional.softplus(-above).mean())
            bar.update()


def order_loss(
    numbers: torch.Tensor, wanted: Sequence[float], groups: Sequence[int]
) -> torch.Tensor:
    """
    Return how far numbers are from people's order and from their labels, group by
    group: a logistic loss of the pairs whose labels clearly differ, weighted by the
    difference, and 0.3 times the squared error about the means of the groups.
    """
    labels = torch.tensor(wanted, device=numbers.device)
    group = torch.tensor(groups, device=numbers.device)
    gap = labels[:, None] - labels[None]
    weight = ((group[:, None] == group[None]) & (gap > CLEAR)) * gap.clamp(max=2)
    pairs = functional.softplus(numbers[None] - numbers[:, None])
    order = (pairs * weight).sum() / weight.sum().clamp(min=1)
    of_group = functional.one_hot(group).float()
    counts = of_group.sum(0).clamp(min=1)

    def centred(values: torch.Tensor) -> torch.Tensor:
        return values - of_group @ ((of_group.T @ values) / counts)

    return order + 0.3 * (centred(numbers) - centred(labels)).square().mean()


def learn_fold(opt: argparse.Namespace, fold: str) -> None:
    """
    Learn without a set, or from all, and write what the adapter says.
    """
    folder, out = Path(opt.data), Path(opt.cache) / 'adapter'
    visible = [name for name, plan in SETS.items() if not plan.final]
    tags = () if fold == ALL else SETS[fold].tags
    names = list(SETS) if fold == ALL else training_sets(fold, visible)
    torch.manual_seed(0)
    reader = Reader(ModelHandle().embedder(opt.encoder))
    reader.train()
    learn_dialogues(
        reader,
        [read(folder, 'train') for tag, read in DIALOGUES if tag not in tags],
    )
    copies = {name: source.read(folder) for name, source in COPIES.items()}
    learning = [
        some
        for name, some in copies.items()
        if COPIES[name].for_training and COPIES[name].tag not in tags
    ]
    learn_judgements(reader, [read_set(folder, name) for name in names], learning)
    said: dict[str, Mapping[str, list[float]]] = {
        'sets': {
            name: reader.scores(read_set(folder, name).items)
            for name in (SETS if fold == ALL else [fold])
        },
        'copies': {
            name: reader.scores([one.item for one in some])
            for name, some in copies.items()
            if fold == ALL or COPIES[name].tag in tags
        },
    }
    out.mkdir(parents=True, exist_ok=True)
    write_file(out / f'{fold}.json', json.dumps(said).encode())
    if fold == ALL:
        halves = {
            name.removeprefix('body.'): one.detach().half().cpu().contiguous()
            for name, one in reader.learned().items()
        }
        write_file(out / 'adapter.safetensors', save(halves))


def main(opt: argparse.Namespace) -> None:
    """
    Learn each fold that is not there yet.
    """
    for fold in opt.folds or [*SETS, ALL]:
        if not (Path(opt.cache) / 'adapter' / f'{fold}.json').exists():
            learn_fold(opt, fold)


if __name__ == '__main__':
    start(
        main,
        __doc__,
        required=['data', 'cache'],
        data=str,
        cache=str,
        encoder='mpnet',
        folds=[],
    )
