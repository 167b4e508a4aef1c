"""
Learn the adapter of the shipped judge, with which its sentence encoder reads a response
after its context, in bfloat16: a minute for each fold on a GPU, an hour on two cores
that compute in it.

    python -m benchmarks.learned_judge --data FOLDER --cache FOLDER \
        --folds fed_turn esl+topical_dstc10 … all [--contexts 16]

A fold is one set, or several joined by `+`, that are left out with all that shares a
corpus or a study with them, or `all`, which is what is shipped. First the encoder
learns to find the true reply among five in dialogues between people, which folds that
have the same dialogues do once; then people's judgements and spoilt replies. What a
fold says of a set and of the copies of its corpus goes to CACHE/adapter/SET.json, the
adapter of `all` beside it; benchmarks.learned_judge reads both.
"""

import argparse
import json
import math
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load, save
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
from benchmarks.learned_judge.items import SETS, ResponseSet, read_set
from parlai_ext.core import chunks
from parlai_ext.models.encoders import MeanPooling, changed_layers, features, pair_ids
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.learned import ADAPTER
from parlai_ext.store import write_file
from parlai_ext.view.progress import bar_of

DIALOGUES = READERS['dd'], READERS['ed']
AT_ONCE = 32  # responses of like length, which are read together
PADDED_TO = 16  # their lengths, to a multiple of so many tokens
RANK = 16
FIRST_STEPS, STEPS = 700, 400
FIRST_RATE, RATE = 5e-4, 3e-4
REPLIES = 5  # to each context of a step in dialogues; the first is the true one
SETS_AT_ONCE, RESPONSES, PAIRS = 3, 20, 24  # of a step in judgements
CLEAR = 0.25  # difference of two labels from which they are a pair
GENERIC = (
    *('i see.', 'ok.', "i don't know.", 'that is great!', 'yes.', 'really?'),
    *('thank you.', 'sounds good.', 'i am not sure.', 'haha.', 'what do you mean?'),
    *('me too.', 'i love it!'),
)


class Reader(nn.Module):
    """
    The encoder with changes in all its linear layers, and two layers on top.
    """

    def __init__(self, encoder: MeanPooling):
        super().__init__()
        self.encoder = encoder
        encoder.model.requires_grad_(False)
        self.changes = nn.ModuleDict()
        for name, layer in encoder.model.named_modules():
            if isinstance(layer, nn.Linear) and 'pooler' not in name:
                down = torch.randn(RANK, layer.in_features) / layer.in_features**0.5
                change = {'A': down, 'B': torch.zeros(layer.out_features, RANK)}
                # no module may have a point in its name
                self.changes[name.replace('.', '/')] = nn.ParameterDict(change)
        self.drop = nn.Dropout(0.1)
        self.hid = nn.Linear(2 * encoder.model.config.hidden_size, 128)
        self.top = nn.Linear(128, 1)
        self.to(encoder.device)

    def forward(self, items: Sequence[ScoringItem]) -> torch.Tensor:
        """
        Return one number for each response.
        """
        encoder = self.encoder
        encoder.model.train(self.training)
        encoded = [pair_ids(encoder, (tuple(i.context), i.text)) for i in items]
        order = sorted(range(len(items)), key=lambda k: len(encoded[k]['input_ids']))
        changes = {
            name.replace('/', '.'): (one['A'], one['B'])
            for name, one in self.changes.items()
        }
        rows = []
        with (
            changed_layers(encoder.model, changes, encoder.device),
            # read as the shipped judge reads, in float32
            torch.autocast(
                encoder.device.type, torch.bfloat16, enabled=torch.is_grad_enabled()
            ),
        ):
            for some in chunks(order, AT_ONCE):
                inputs = encoder.tokenizer.pad(
                    [encoded[k] for k in some],
                    return_tensors='pt',
                    pad_to_multiple_of=PADDED_TO,
                ).to(encoder.device)
                states = encoder.model(**inputs).last_hidden_state
                rows.append(features(states, inputs, encoder.tokenizer.sep_token_id))
            both = torch.cat(rows)[np.argsort(order)]
            numbers = self.top(torch.tanh(self.hid(self.drop(both))))
        return numbers.squeeze(-1).float()


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
        self.weights = list(reader.parameters())
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


def learn_dialogues(reader: Reader, dialogues: Sequence[Any], contexts: int) -> None:
    """
    Learn to find the true reply of people among worse ones.
    """
    rng, course = random.Random(1), Course(reader, FIRST_RATE, FIRST_STEPS)
    with bar_of('dialogues', FIRST_STEPS, unit='step') as bar:
        for _ in range(FIRST_STEPS):
            items = [i for _ in range(contexts) for i in worse_replies(rng, dialogues)]
            numbers = reader(items).view(contexts, REPLIES)
            true = torch.zeros(contexts, dtype=torch.long, device=numbers.device)
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
    Learn without sets, or from all, and write what the adapter says.
    """
    folder, out = Path(opt.data), Path(opt.cache) / 'adapter'
    left = [] if fold == ALL else fold.split('+')
    tags = {tag for name in left for tag in SETS[name].tags}
    torch.manual_seed(0)
    reader = Reader(ModelHandle().embedder(opt.encoder))
    reader.train()
    corpora = {tag: read for tag, read in DIALOGUES if tag not in tags}
    first = out / f'dialogues_{"_".join(corpora)}.safetensors'
    if not first.exists():
        dialogues = [read(folder, 'train') for read in corpora.values()]
        learn_dialogues(reader, dialogues, opt.contexts)
        out.mkdir(parents=True, exist_ok=True)
        write_file(first, save(reader.state_dict()))
    reader.load_state_dict(load(first.read_bytes()))
    sets = {name: read_set(folder, name) for name in SETS}
    copies = {name: source.read(folder) for name, source in COPIES.items()}
    about = {n: {*SETS[n].tags} for n in sets} | {n: {COPIES[n].tag} for n in copies}
    learning = [
        some
        for name, some in copies.items()
        if COPIES[name].for_training and not about[name] & tags
    ]
    others = [n for n, plan in SETS.items() if not (left and plan.final)]
    learn_judgements(reader, [sets[n] for n in others if not about[n] & tags], learning)
    texts = {name: one.items for name, one in sets.items()}
    texts |= {name: [one.item for one in some] for name, some in copies.items()}
    for one in left or [ALL]:
        own = [n for n in (one, *copies) if about[n] & about[one]] if left else texts
        with torch.inference_mode():
            said = {name: reader.eval()(texts[name]).tolist() for name in own}
        write_file(out / f'{one}.json', json.dumps(said).encode())
    if not left:
        halves = {
            name.removeprefix('changes.').replace('/', '.'): one.half().cpu()
            for name, one in reader.state_dict().items()
        }
        write_file(out / ADAPTER, save(halves))


def learn_folds(opt: argparse.Namespace) -> None:
    """
    Learn each fold that is not there yet.
    """
    for fold in [*opt.folds, ALL] if opt.write else opt.folds:
        said = [Path(opt.cache) / 'adapter' / f'{one}.json' for one in fold.split('+')]
        if not all(file.exists() for file in said):
            learn_fold(opt, fold)
