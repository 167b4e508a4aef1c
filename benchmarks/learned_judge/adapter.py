"""
A try for docs/learned.md: adapters (LoRA) of the language model, trained end to end on
people's judgements, against the ridge judge learned from the same sets.

    python -m benchmarks.learned_judge.adapter --data DATA --cache CACHE --model FOLDER

The sets are split into two halves that share no corpus and no study; each is judged
by what was learned on the other. Prints Spearman by set for the adapters after each
quarter of an epoch, the ridge judge, and the mean of both.
"""

from __future__ import annotations

import argparse
import random
from collections.abc import Iterator, Sequence

import numpy as np
import torch
from peft import LoraConfig, get_peft_model
from torch import nn
from transformers import AutoModelForCausalLM, AutoTokenizer

from benchmarks.learned_judge.__main__ import AS_READ, ENCODER, read_material
from benchmarks.learned_judge.fit import Material, spearman
from benchmarks.support.measures import benchmark_parser
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.training.fit_judge import rank_labels

HALVES = (
    ('fed_turn', 'fed_dialogue', 'dstc9_interactive', 'jsalt', 'dstc7_human_eval'),
    (
        *('grade_convai2', 'usr_topical', 'usr_persona', 'zhao_dailydialog'),
        *('topical_dstc10', 'spot_the_bot'),
    ),
)
READ_ON = ('fed_turn', 'jsalt', 'dstc7_human_eval', *HALVES[1][:-1])
LAYERS = 20  # of 30, as the judge that is shipped
MOST_CONTEXT, MOST_RESPONSE = 160, 60  # tokens
BATCH = 16
EVALUATIONS = 4  # in an epoch


class Regressor(nn.Module):
    """
    The lower layers of a language model with adapters, and one number for a response:
    a linear map of the mean of its states.
    """

    def __init__(self, folder: str):
        super().__init__()
        self.tokenizer = AutoTokenizer.from_pretrained(folder)
        model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.bfloat16)
        body = model.model
        body.layers = body.layers[:LAYERS]
        adapters = LoraConfig(
            r=8, lora_alpha=16, target_modules=['q_proj', 'k_proj', 'v_proj', 'o_proj']
        )
        self.body = get_peft_model(body, adapters)
        self.head = nn.Linear(model.config.hidden_size, 1)
        nn.init.zeros_(self.head.weight)

    def forward(self, items: Sequence[ScoringItem]) -> torch.Tensor:
        """
        Return a number for each response.
        """
        rows = [self._tokens(item) for item in items]
        width = max(len(context) + len(response) for context, response in rows)
        ids = torch.zeros(len(rows), width, dtype=torch.long)
        inside, spoken = torch.zeros_like(ids), torch.zeros_like(ids)
        for k, (context, response) in enumerate(rows):
            size = len(context) + len(response)
            ids[k, :size] = torch.tensor(context + response)
            inside[k, :size] = 1
            spoken[k, len(context) : size] = 1
        states = self.body(input_ids=ids, attention_mask=inside).last_hidden_state
        states = nn.functional.layer_norm(states.float(), states.shape[-1:])
        weights = spoken.float() / spoken.sum(1, keepdim=True)
        return self.head((states * weights[..., None]).sum(1)).squeeze(1)

    def _tokens(self, item: ScoringItem) -> tuple[list[int], list[int]]:
        context = '\n'.join(item.context[-4:]) + '\n'
        ids = self.tokenizer(context)['input_ids'][-MOST_CONTEXT:]
        response = self.tokenizer((item.response or '') + '\n')['input_ids']
        return ids, response[:MOST_RESPONSE]


def batches(
    material: Material, names: Sequence[str], seed: int, most: int
) -> Iterator[tuple]:
    """
    Yield for one epoch batches of one set each: responses, and ranks in the set.

    :param most: so many responses of a set, the same in each epoch.
    """
    rng = random.Random(seed)
    drawn = []
    for name in names:
        labels = rank_labels(material.sets[name].labels())
        places = [k for k in range(len(labels)) if not np.isnan(labels[k])]
        places = random.Random(name).sample(places, min(most, len(places)))
        rng.shuffle(places)
        items = material.sets[name].items
        for first in range(0, len(places) - BATCH + 1, BATCH):
            some = places[first : first + BATCH]
            drawn.append(([items[k] for k in some], labels[some]))
    rng.shuffle(drawn)
    yield from drawn


def loss_of(scores: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """
    Return half the squared error, half the logistic loss of the pairs in a batch.
    """
    difference = labels[:, None] - labels[None]
    pairs = difference > 0.5
    margin = (scores[:, None] - scores[None])[pairs]
    squared = ((scores - labels) ** 2).mean()
    return (squared + nn.functional.softplus(-margin).mean()) / 2


def scores_of(model: Regressor, items: Sequence[ScoringItem]) -> np.ndarray:
    """
    Return the scores of responses.
    """
    order = sorted(range(len(items)), key=lambda k: len(' '.join(items[k].context)))
    scores = np.zeros(len(items))
    with torch.inference_mode():
        for first in range(0, len(order), 32):
            some = order[first : first + 32]
            scores[some] = model([items[k] for k in some]).numpy()
    return scores


def main() -> None:
    parser = benchmark_parser(__doc__)
    parser.add_argument('--data', required=True, help='the folder of data sets')
    parser.add_argument('--cache', required=True, help='where inputs are kept')
    parser.add_argument('--model', required=True, help='the folder of smollm2-135m-q4')
    parser.add_argument('--judge', default=AS_READ)
    parser.add_argument('--encoder', default=ENCODER)
    parser.add_argument('--most', type=int, default=300, help='responses a set, read')
    parser.add_argument(
        '--responses', type=int, default=200, help='responses a set, learned from'
    )
    parser.add_argument('--epochs', type=int, default=2)
    parser.add_argument('--halves', type=int, nargs='+', default=[0, 1])
    opt = parser.parse_args()
    material = read_material(opt)
    for half in opt.halves:
        compare(
            material, HALVES[half], [n for n in READ_ON if n not in HALVES[half]], opt
        )


def compare(
    material: Material,
    learned_from: Sequence[str],
    names: Sequence[str],
    opt: argparse.Namespace,
) -> None:
    """
    Print the agreement of both judges on the sets of the other half.
    """
    torch.manual_seed(0)
    model = Regressor(opt.model)
    ridge = material.learn(learned_from)
    steps = [
        one
        for epoch in range(opt.epochs)
        for one in batches(material, learned_from, epoch, opt.responses)
    ]
    rates = [
        {'params': model.head.parameters(), 'lr': 1e-3},
        {'params': [p for p in model.body.parameters() if p.requires_grad], 'lr': 2e-4},
    ]
    optimizer = torch.optim.AdamW(rates, weight_decay=0.01)
    schedule = torch.optim.lr_scheduler.LinearLR(optimizer, 1.0, 0.05, len(steps))
    every = max(1, len(steps) // (EVALUATIONS * opt.epochs))
    for step, (items, labels) in enumerate(steps, 1):
        loss = loss_of(model(items), torch.tensor(labels, dtype=torch.float32))
        loss.backward()
        optimizer.step()
        schedule.step()
        optimizer.zero_grad()
        if step % every == 0 or step == len(steps):
            print(f'step {step} of {len(steps)}, loss {loss.item():.3f}', flush=True)
            rows = [_row(material, model, ridge, name, opt.most) for name in names]
            for name, row in zip(
                [*names, 'mean'], [*rows, np.mean(rows, 0)], strict=True
            ):
                cells = ', '.join(
                    f'{label} {value:.3f}'
                    for label, value in zip(
                        ('adapters', 'ridge', 'both'), row, strict=True
                    )
                )
                print(f'  {name}: {cells}', flush=True)


def _row(material, model, ridge, name, most) -> list[float]:
    responses = material.sets[name]
    places = random.Random(name).sample(
        range(len(responses.items)), min(most, len(responses.items))
    )
    own = scores_of(model, [responses.items[k] for k in places])
    other = material.scores(ridge, name)[places]
    human = responses.target()[places]
    known = ~np.isnan(human)
    ranks = [rank_labels(np.where(known, one, np.nan)) for one in (own, other)]
    return [spearman(one, human) for one in (own, other, ranks[0] + ranks[1])]


if __name__ == '__main__':
    main()
