"""
Trains a language model to be a judge, which answers a prompt with the right label.

LoRA (Hu et al. 2022) through `peft`; the defaults are those of PairEval (Park et al.
2024, section 4.1.3). The loss is the cross entropy of the label, nothing else of the
prompt. The order of batches follows from the seed, and each step draws from a seed of
its own, so that a training which was killed goes on from its last saved step and ends
with the same weights.
"""

from __future__ import annotations

import io
import json
import math
import random
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import content_id
from parlai_ext.core.options import signature_values
from parlai_ext.core.progress import bar_of
from parlai_ext.core.records import WrongType, record_from_json
from parlai_ext.models.likelihood.causal import TreeMasks
from parlai_ext.models.likelihood.prefix_tree import (
    PrefixTree,
    TreePass,
    common_length,
)
from parlai_ext.scoring.label_prompts import (
    CARD,
    LabelPrompt,
    LabelTokens,
    direct_prompt,
    pair_prompt,
)
from parlai_ext.store.atomic import locked, make_folder, write_file
from parlai_ext.systems import hub
from parlai_ext.systems.pretrained import ModelOptions, chosen_device, read
from parlai_ext.systems.safe.cost import bounded_cost
from parlai_ext.systems.safe.read import read_tensors
from parlai_ext.systems.safe.safetensors_file import disk_errors
from parlai_ext.systems.safe.unpickle import BadModelFile
from parlai_ext.training.options import JudgeTrainingOptions
from parlai_ext.training.pairs import ResponsePair

STATE = 'training_state.pt'


@dataclass(frozen=True)
class Example:
    """
    A prompt as tokens, and the token of the right label.
    """

    ids: tuple[int, ...]
    label: int


Group = tuple[Example, ...]  # of pairs with one good response


@dataclass(frozen=True)
class TrainedJudge:
    """
    A finished training.

    :param losses: the mean loss of each step.
    :param num_left_out: how many prompts were too long.
    """

    folder: Path
    losses: tuple[float, ...]
    num_examples: int
    num_left_out: int
    seconds: float

    @property
    def last_loss(self) -> float:
        """
        The mean loss of the last tenth of the steps.
        """
        return tenth_means(self.losses)[-1]


def train_judge(
    base: str,
    pairs: Sequence[ResponsePair],
    out: Path,
    options: JudgeTrainingOptions,
    *,
    no_cuda: bool = False,
    datapath: str | None = None,
    progress: bool = True,
    on_step: Callable[[int, float], object] | None = None,
) -> TrainedJudge:
    """
    Train a judge and write its folder; a training that was interrupted goes on.

    :param base: the model to begin with: a folder, a hub repository, or a name of the
        catalogue.
    :param out: the new folder: weights as safetensors, tokenizer and card.
    :param on_step: called with the number of steps so far and the loss of the last one.
    :raises UserError: when the folder is there already, or holds another training.
    """
    make_folder(out)
    with locked(out / '.lock'):
        refuse_finished(out)
        folder = hub.fetch_weights(hub.checked_repository(base), None, datapath).parent
        device = chosen_device(ModelOptions(no_cuda=no_cuda))
        arguments = {'dtype': getattr(torch, options.dtype)}
        _, tokenizer, network = read(folder, device, arguments)
        tokens = LabelTokens(tokenizer, options.judge_format)
        groups, num_left_out = make_groups(pairs, tokens, options)
        identity = content_id(
            signature_values(options),
            hub.files_hash(folder),
            [asdict(pair) for pair in pairs],
        )
        training = Training(network, groups, options, out / STATE, identity)
        training.resume()
        training.run(progress, on_step)
        result = TrainedJudge(
            out,
            tuple(training.losses),
            sum(len(batch) for batch in training.batches[: training.last_step]),
            num_left_out,
            training.seconds,
        )
        save_judge(training.model, folder, tokenizer, result, options)
    return result


def refuse_finished(out: Path) -> None:
    """
    Refuse a folder that holds a finished judge or another model.
    """
    if (out / CARD).is_file():
        raise UserError(f'--out: {out} holds a judge already; name another folder')
    if (out / 'config.json').is_file() and not (out / STATE).is_file():
        raise UserError(f'--out: a model is in {out}; name another folder')


def make_groups(
    pairs: Sequence[ResponsePair], tokens: LabelTokens, options: JudgeTrainingOptions
) -> tuple[list[Group], int]:
    """
    Return the examples of pairs, those of one good response together, and how many were
    left out since they are too long.
    """
    groups: list[list[Example]] = []
    left_out, before = 0, None
    for place, pair in enumerate(pairs):
        if before is None or pair.good.response != before:
            groups.append([])
        before = pair.good.response
        for prompt, right in label_prompts(pair, place, options):
            ids = tokens.prompt_ids(prompt)
            if len(ids) < options.max_tokens:
                label = tokens.label_ids(prompt.labels)[right]
                groups[-1].append(Example(ids, label))
            else:
                left_out += 1
    if not any(groups):
        raise UserError(f'--max-tokens: no prompt is shorter than {options.max_tokens}')
    return [tuple(group) for group in groups if group], left_out


def label_prompts(
    pair: ResponsePair, place: int, options: JudgeTrainingOptions
) -> list[tuple[LabelPrompt, int]]:
    """
    Return the prompts of a pair, each with the place of the right label.

    A comparison is asked once, in an order that the seed and the pair's place draw. Of
    a pair, DirectEval gets two prompts, one for each response.
    """
    good, bad = (
        type(one)(one.context[-options.context_turns :], one.response)
        for one in (pair.good, pair.bad)
    )
    if options.method == 'directeval':
        return [(direct_prompt(good), 0), (direct_prompt(bad), 1)]
    if random.Random(f'{options.seed} {place}').random() < 0.5:
        return [(pair_prompt(good, bad), 0)]
    return [(pair_prompt(bad, good), 1)]


def with_adapters(network: Any, options: JudgeTrainingOptions) -> Any:
    """
    Return a network with LoRA matrices, the only weights that learn.

    :raises UserError: when `peft` is missing, or knows no modules of this network.
    """
    try:
        from peft import LoraConfig, get_peft_model
    except ModuleNotFoundError:
        raise UserError(
            "training a judge needs peft: pip install 'parlai_ext[train]'"
        ) from None
    named = options.lora_modules
    modules: Any = None if named == 'auto' else named
    if named not in ('auto', 'all-linear'):
        modules = [part.strip() for part in named.split(',')]
    layers = None
    if options.lora_layers:
        number = int(network.config.get_text_config().num_hidden_layers)
        layers = list(range(max(0, number - options.lora_layers), number))
    if layers is not None and not isinstance(modules, list):
        modules = linear_names(network) if modules else ['q_proj', 'v_proj']
    config = LoraConfig(
        task_type='CAUSAL_LM',
        r=options.lora_r,
        lora_alpha=options.lora_alpha,
        lora_dropout=options.lora_dropout,
        target_modules=modules,
        layers_to_transform=layers,
    )
    try:
        return get_peft_model(network, config)
    except ValueError as error:
        raise UserError(f'--lora-modules: {error}') from None


def linear_names(network: Any) -> list[str]:
    """
    Return the last part of the names of all linear layers but the output layer.
    """
    head = network.get_output_embeddings()
    return sorted(
        {
            name.rpartition('.')[2]
            for name, module in network.named_modules()
            if isinstance(module, torch.nn.Linear) and module is not head
        }
    )


class Training:
    """
    A training under way: its steps, and the state that is saved.

    :param network: the model to begin with, which gets LoRA matrices.
    """

    def __init__(
        self,
        network: Any,
        groups: Sequence[Group],
        options: JudgeTrainingOptions,
        state_file: Path,
        identity: str,
    ):
        self.masks = TreeMasks.from_model(network)
        torch.manual_seed(options.seed)
        self.model = with_adapters(network, options)
        self.options = options
        self.state_file = state_file
        self.identity = identity
        self.losses: list[float] = []
        self.seconds = 0.0
        self.weights = {
            name: weight
            for name, weight in self.model.named_parameters()
            if weight.requires_grad
        }
        self.optimizer = torch.optim.AdamW(
            self.weights.values(), lr=options.learning_rate
        )
        self.batches = [
            batch
            for epoch in range(options.epochs)
            for batch in epoch_batches(
                groups, options.train_batchsize, f'{options.seed} {epoch}'
            )
        ]

    @property
    def last_step(self) -> int:
        """
        The number of steps that are taken.
        """
        return min(self.options.max_steps or len(self.batches), len(self.batches))

    def run(
        self,
        progress: bool = True,
        on_step: Callable[[int, float], object] | None = None,
    ) -> None:
        """
        Take the remaining steps; the state is saved every so many of them.
        """
        self.model.train()
        bar = bar_of('train', self.last_step, progress, unit='step')
        with bar:
            bar.initial = bar.n = len(self.losses)
            for step in range(len(self.losses), self.last_step):
                began = time.monotonic()
                self.losses.append(self._step(step))
                self.seconds += time.monotonic() - began
                recent = self.losses[-20:]
                mean = math.fsum(recent) / len(recent)
                bar.set_postfix_str(f'loss {mean:.3f}', refresh=False)
                bar.update()
                if on_step is not None:
                    on_step(len(self.losses), self.losses[-1])
                if len(self.losses) % self.options.save_steps == 0:
                    self.save()
        self.save()

    def _step(self, step: int) -> float:
        """
        Take one step and return its mean loss.
        """
        torch.manual_seed(1_000_003 * self.options.seed + step)
        for group in self.optimizer.param_groups:
            group['lr'] = learning_rate(step, len(self.batches), self.options)
        batch = self.batches[step]
        total = 0.0
        for part in step_passes(batch, self.options.tokens_per_pass):
            loss = self._loss(part) / len(batch)
            loss.backward()
            total += loss.item()
        if not math.isfinite(total):
            raise UserError(
                f'the loss is {total} at step {step + 1}; a lower --learning-rate, or '
                '--dtype float32, would do'
            )
        self.optimizer.step()
        self.optimizer.zero_grad()
        return total

    def _loss(self, examples: Sequence[Example]) -> torch.Tensor:
        """
        Return the sum of the losses of the labels.

        The prompts go through the model as one tree, in which a beginning that several
        share is there once: the numbers are those of separate prompts.
        """
        device = next(iter(self.weights.values())).device
        tree = PrefixTree()
        nodes = [tree.add(example.ids)[-1] for example in examples]
        order = tree.preorder()
        ids, depths, ends = (
            torch.tensor([row], device=device)
            for row in (order.tokens, order.depths, order.ends)
        )
        logits = self.model(
            input_ids=ids,
            attention_mask=self.masks.for_pass(
                ends, depths, TreePass(0, len(tree), [])
            ),
            position_ids=depths,
            use_cache=False,
            logits_to_keep=torch.tensor(
                [order.places[n] for n in nodes], device=device
            ),
        ).logits[0]
        labels = torch.tensor([example.label for example in examples], device=device)
        return cross_entropy(logits.float(), labels, reduction='sum')

    def save(self) -> None:
        """
        Save what is needed to go on from here, in one file that is whole or absent.
        """
        buffer = io.BytesIO()
        state = {
            'identity': self.identity,
            'losses': self.losses,
            'seconds': self.seconds,
            'weights': {name: w.detach().cpu() for name, w in self.weights.items()},
            'optimizer': self.optimizer.state_dict(),
        }
        torch.save(state, buffer)
        write_file(self.state_file, buffer.getvalue())

    def resume(self) -> None:
        """
        Go on from the saved state, where there is one.

        :raises UserError: when it belongs to a training with other options or pairs.
        """
        if not self.state_file.is_file():
            return
        state = read_training_state(self.state_file)
        if state.identity != self.identity:
            raise UserError(
                f'--out: {self.state_file.parent} holds an unfinished training with '
                'other options, pairs or base model; another folder would do'
            )
        moments = state.optimizer['state']
        sizes = [tuple(weight.shape) for weight in self.weights.values()]
        fits = list(state.weights) == list(self.weights)
        fits &= [tuple(w.shape) for w in state.weights.values()] == sizes
        fits &= len(state.losses) <= self.last_step
        fits &= not moments or list(moments) == list(range(len(sizes)))
        fits &= all(_are_moments(moments[i], sizes[i]) for i in moments if fits)
        if not fits:
            raise _damaged_state(self.state_file, 'it is of another model')
        with torch.no_grad():
            for name, weight in self.weights.items():
                weight.copy_(state.weights[name])
        groups = self.optimizer.state_dict()['param_groups']
        self.optimizer.load_state_dict({'state': moments, 'param_groups': groups})
        self.losses = list(state.losses)
        self.seconds = state.seconds


@dataclass(frozen=True)
class TrainingState:
    """
    What is saved of a training under way.

    :param optimizer: its `state_dict`.
    """

    identity: str
    losses: tuple[float, ...]
    seconds: float
    weights: Mapping[str, Any]
    optimizer: Mapping[str, Any]


def read_training_state(file: Path) -> TrainingState:
    """
    Return a saved state, read as data.

    :raises UserError: when the file is damaged, or more than data.
    """
    try:
        with bounded_cost(file):
            state: TrainingState = record_from_json(
                TrainingState, read_tensors(file, 'cpu')
            )
    except BadModelFile as error:
        raise _damaged_state(file, error.why) from None
    except WrongType as error:
        raise _damaged_state(file, str(error)) from None
    moments = state.optimizer.get('state')
    tensors = all(type(w) is torch.Tensor for w in state.weights.values())
    if not tensors or not isinstance(moments, dict):
        raise _damaged_state(file, 'it holds no weights')
    return state


def _are_moments(moments: Any, size: tuple[int, ...]) -> bool:
    """
    True if these are the moments of one weight, as AdamW keeps them.
    """
    sizes = {'step': (), 'exp_avg': size, 'exp_avg_sq': size}
    return (
        isinstance(moments, dict)
        and set(moments) == set(sizes)
        and all(type(value) is torch.Tensor for value in moments.values())
        and all(tuple(moments[key].shape) == sizes[key] for key in sizes)
    )


def _damaged_state(file: Path, problem: str) -> UserError:
    return UserError(
        f'--out: {file} is damaged: {problem}; delete it to begin the training again'
    )


def epoch_batches(groups: Sequence[Group], size: int, seed: str) -> list[list[Example]]:
    """
    Return the examples of one epoch in batches, the groups in random order.
    """
    order = random.Random(seed).sample(range(len(groups)), len(groups))
    examples = [example for place in order for example in groups[place]]
    return [examples[i : i + size] for i in range(0, len(examples), size)]


def step_passes(batch: Sequence[Example], tokens: int) -> Iterator[list[Example]]:
    """
    Yield the examples of a step in passes of at most so many tokens; what they share is
    counted once. A longer example has a pass of its own.
    """
    part: list[Example] = []
    size = 0
    for example in sorted(batch, key=lambda one: one.ids):
        # of those before it in this order, the last one shares the most with it
        shared = common_length(part[-1].ids, example.ids) if part else 0
        if part and size + len(example.ids) - shared > tokens:
            yield part
            part, size, shared = [], 0, 0
        size += len(example.ids) - shared
        part.append(example)
    yield part


def learning_rate(step: int, steps: int, options: JudgeTrainingOptions) -> float:
    """
    Return the learning rate of a step, counted from 0.
    """
    if step < options.warmup_steps:
        return options.learning_rate * (step + 1) / options.warmup_steps
    if options.schedule == 'constant':
        return options.learning_rate
    rest = max(1, steps - options.warmup_steps)
    return options.learning_rate * (steps - step) / rest


def save_judge(
    model: Any,
    base: Path,
    tokenizer: Any,
    result: TrainedJudge,
    options: JudgeTrainingOptions,
) -> None:
    """
    Write the merged model, its tokenizer, its adapters and its card; the card is last,
    so that a folder with a card is whole.
    """
    out = result.folder
    with disk_errors(out):
        model.save_pretrained(out / 'adapter')
        merged_network(model, base, options).save_pretrained(out)
        tokenizer.save_pretrained(out)
    text = json.dumps(judge_card(base, result, options), indent=2, ensure_ascii=False)
    write_file(out / CARD, f'{text}\n'.encode())
    (out / STATE).unlink(missing_ok=True)


def merged_network(model: Any, base: Path, options: JudgeTrainingOptions) -> Any:
    """
    Return the base model with what the adapters of a trained one have learnt.

    They are merged into the weights as the base model has them, since the frozen ones
    may have been rounded for the training.
    """
    _, _, network = read(base, torch.device('cpu'), {'dtype': 'auto'})
    whole = with_adapters(network, options)
    learnt = {n: w for n, w in model.named_parameters() if w.requires_grad}
    with torch.no_grad():
        for name, weight in whole.named_parameters():
            if weight.requires_grad:
                weight.copy_(learnt[name])
    return whole.merge_and_unload()


def judge_card(
    base: Path, result: TrainedJudge, options: JudgeTrainingOptions
) -> dict[str, Any]:
    """
    Return the card of a trained judge; the same training has the same one.
    """
    return {
        'method': options.method,
        'prompt_format': options.judge_format,
        'base': {'name': base.name, 'content': hub.files_hash(base)},
        'options': asdict(options),
        'examples': result.num_examples,
        'left_out': result.num_left_out,
        'steps': len(result.losses),
        'losses': tenth_means(result.losses),
        'torch': torch.__version__,
    }


def tenth_means(losses: Sequence[float]) -> list[float]:
    """
    Return the mean loss of each tenth of the steps.
    """
    edges = [round(i * len(losses) / 10) for i in range(11)]
    parts = [losses[a:b] for a, b in zip(edges, edges[1:], strict=False) if b > a]
    return [round(math.fsum(part) / len(part), 4) for part in parts]
