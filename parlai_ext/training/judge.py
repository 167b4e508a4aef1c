"""
Trains a language model to be a judge, which answers a prompt with the right label.

LoRA (Hu et al. 2022) through `peft`; the defaults are those of PairEval (Park et al.
2024, section 4.1.3). The loss is the cross entropy of the label, nothing else of the
prompt. The order of batches follows from the seed.
"""

import json
import math
import random
from collections.abc import Sequence
from dataclasses import asdict
from itertools import groupby, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
from torch.nn.functional import cross_entropy

from parlai_ext.core import (
    JsonObject,
    UserError,
    chunks,
    content_id,
    frozen,
    signature_values,
)
from parlai_ext.models.likelihood.causal import TreeMasks
from parlai_ext.models.likelihood.engine import (
    QuestionPart,
    TreeBatch,
    TreePack,
    run_bounds,
)
from parlai_ext.scoring.label_judges import (
    CARD,
    LabelPrompt,
    LabelTokens,
    direct_prompt,
    pair_prompt,
    pair_template,
)
from parlai_ext.store import locked, write_text
from parlai_ext.systems import hub
from parlai_ext.systems.hub import ModelOptions
from parlai_ext.systems.pretrained import chosen_device, quiet, read
from parlai_ext.systems.safe.read import disk_errors
from parlai_ext.training.loop import Training, refuse_model
from parlai_ext.training.options import JudgeTrainingOptions
from parlai_ext.training.pairs import ResponsePair


@frozen
class LabelExample:
    """
    A prompt as tokens, and the token of the right label.
    """

    ids: tuple[int, ...]
    label: int


Group = tuple[LabelExample, ...]  # of pairs with one good response


@frozen
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


def train_judge(
    base: str,
    pairs: Sequence[ResponsePair],
    out: Path,
    options: JudgeTrainingOptions,
    *,
    no_cuda: bool,
) -> TrainedJudge:
    """
    Train a judge and write its folder; a training that was interrupted goes on.

    :param base: the model to begin with: a folder, a hub repository, or a name of the
        catalogue.
    :param out: the new folder: weights as safetensors, tokenizer and card.
    :raises UserError: when the folder is there already, or holds another training.
    """
    with locked(out / '.lock'):
        refuse_model(out)
        folder = hub.fetch_weights(hub.checked_repository(base), None).parent
        device = chosen_device(ModelOptions(no_cuda=no_cuda))
        arguments = {'dtype': getattr(torch, options.dtype)}
        _, tokenizer, network = read(folder, device, arguments)
        tokens = LabelTokens(tokenizer, options.judge_format)
        groups, num_left_out = make_groups(pairs, tokens, options)
        template = pair_template(options.prompt)
        identity = {
            **signature_values(options),
            'base': hub.files_hash(folder),
            'pairs': content_id([asdict(pair) for pair in pairs]),
            'prompt': content_id(template) if template else None,  # not its place
        }
        training = JudgeTraining(network, groups, options, out, identity)
        training.resume()
        training.run(training.last_step, options.save_steps)
        result = TrainedJudge(
            out,
            tuple(training.losses),
            sum(map(len, training.batches[: training.last_step])),
            num_left_out,
            training.seconds,
        )
        save_judge(training, folder, tokenizer, result)
        training.file.unlink()
    return result


def make_groups(
    pairs: Sequence[ResponsePair], tokens: LabelTokens, options: JudgeTrainingOptions
) -> tuple[list[Group], int]:
    """
    Return the examples of pairs, those of one good response together, and how many were
    left out since they are too long.
    """
    template = pair_template(options.prompt)
    groups: list[Group] = []
    left_out = 0
    for _, some in groupby(enumerate(pairs), lambda one: one[1].good.response):
        group = []
        for place, pair in some:
            for prompt, right in label_prompts(pair, place, options, template):
                ids = tokens.prompt_ids(prompt)
                if len(ids) < options.max_tokens:
                    label = tokens.label_ids(prompt.labels)[right]
                    group.append(LabelExample(ids, label))
                else:
                    left_out += 1
        if group:
            groups.append(tuple(group))
    if not groups:
        raise UserError(f'--max-tokens: no prompt is shorter than {options.max_tokens}')
    return groups, left_out


def label_prompts(
    pair: ResponsePair, place: int, options: JudgeTrainingOptions, template: str = ''
) -> list[tuple[LabelPrompt, int]]:
    """
    Return the prompts of a pair, each with the place of the right label.

    A comparison is asked once, in an order that the seed and the pair's place draw. Of
    a pair, DirectEval gets two prompts, one for each response.

    :param template: of `pair_template`, for comparisons.
    """
    good, bad = (
        type(one)(one.context[-options.context_turns :], one.response)
        for one in (pair.good, pair.bad)
    )
    if options.method == 'directeval':
        return [(direct_prompt(good), 0), (direct_prompt(bad), 1)]
    if random.Random(f'{options.seed} {place}').random() < 0.5:
        return [(pair_prompt(good, bad, template), 0)]
    return [(pair_prompt(bad, good, template), 1)]


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
    layers = None
    if options.lora_layers:
        number = int(network.config.get_text_config().num_hidden_layers)
        layers = list(range(number))[-options.lora_layers :]
    config = LoraConfig(
        task_type='CAUSAL_LM',
        r=options.lora_r,
        lora_alpha=options.lora_alpha,
        lora_dropout=options.lora_dropout,
        target_modules=lora_modules(network, options),
        layers_to_transform=layers,
    )
    try:
        with quiet():
            return get_peft_model(network, config)
    except ValueError as error:
        raise UserError(f'--lora-modules: {error}') from None


def lora_modules(network: Any, options: JudgeTrainingOptions) -> Any:
    """
    Return the modules that get LoRA matrices, as `peft` takes them: their names, or
    ``all-linear``; `None`: those that it knows for this network.
    """
    modules, some_layers = options.lora_modules, options.lora_layers
    if modules == 'auto':
        return ['q_proj', 'v_proj'] if some_layers else None
    if modules != 'all-linear':
        return [part.strip() for part in modules.split(',')]
    if not some_layers:
        return modules
    head = network.get_output_embeddings()
    return sorted(
        {
            name.rpartition('.')[2]
            for name, module in network.named_modules()
            if isinstance(module, torch.nn.Linear) and module is not head
        }
    )


class JudgeTraining(Training):
    """
    The training of a judge under way.

    :param network: the model to begin with, which gets LoRA matrices.
    """

    def __init__(
        self,
        network: Any,
        groups: Sequence[Group],
        options: JudgeTrainingOptions,
        folder: Path,
        identity: JsonObject,
    ):
        self.masks = TreeMasks.from_model(network)
        torch.manual_seed(options.seed)
        self.model = with_adapters(network, options).train()
        self.options = options
        super().__init__(self.model, folder, identity, lr=options.learning_rate)
        size = options.train_batchsize
        self.batches: list[Sequence[LabelExample]] = []
        for epoch in range(options.epochs):  # each with the groups in another order
            draw = random.Random(f'{options.seed} {epoch}')
            order = draw.sample(range(len(groups)), len(groups))
            examples = [example for place in order for example in groups[place]]
            self.batches += chunks(examples, size)
        self.last_step = len(self.batches[: options.max_steps or None])

    def update(self, step: int) -> float:
        """
        Set the learning rate and the gradients of a step, and return its mean loss.
        """
        options, n_steps = self.options, len(self.batches)
        torch.manual_seed(1_000_003 * options.seed + step)
        rate = options.learning_rate
        if step < options.warmup_steps:
            rate = rate * (step + 1) / options.warmup_steps
        elif options.schedule == 'linear':
            rate = rate * (n_steps - step) / max(1, n_steps - options.warmup_steps)
        for group in self.optimizer.param_groups:
            group['lr'] = rate
        total = 0.0
        ordered = sorted(self.batches[step], key=lambda one: one.ids)
        # what examples share is counted once; a longer one has a pass of its own
        ids = [example.ids for example in ordered]
        for first, last in run_bounds(ids, options.tokens_per_pass):
            loss = self.summed_loss(ordered[first:last]) / len(ordered)
            loss.backward()
            total += loss.item()
        if not math.isfinite(total):
            raise UserError(
                f'the loss is {total} at step {step + 1}; a lower --learning-rate, or '
                '--dtype float32, would do'
            )
        return total

    def summed_loss(self, examples: Sequence[LabelExample]) -> torch.Tensor:
        """
        Return the sum of the losses of prompts. They are one tree, in which a beginning
        that several share is there once; the numbers are those of separate prompts.
        """
        pack = TreePack()
        for i, example in enumerate(examples):
            pack.add(QuestionPart(i, example.ids, ((0, (example.label,)),)))
        device = next(iter(self.weights.values())).device
        batch = TreeBatch.from_packs([pack], device)
        # equal examples have one place in the tree, and count by themselves
        edges = [edge for row in pack.rows.values() for edge in row]
        _, places, labels = (one[edges].to(device) for one in batch.wanted)
        logits = self.model(
            **self.masks.inputs(batch, batch.whole),
            use_cache=False,
            logits_to_keep=places,
        ).logits[0]
        return cross_entropy(logits.float(), labels, reduction='sum')


def save_judge(
    training: JudgeTraining, base: Path, tokenizer: Any, result: TrainedJudge
) -> None:
    """
    Write the merged model, its tokenizer, its adapters and its card; the card is last,
    so that a folder with a card is whole. The same training has the same card.
    """
    out, options = result.folder, training.options
    with quiet(), disk_errors(out):
        training.model.save_pretrained(out / 'adapter')
        # merged into the weights as the base model has them: the frozen ones may have
        # been rounded for the training
        _, _, network = read(base, torch.device('cpu'), {'dtype': 'auto'})
        whole = type(training.model).from_pretrained(network, out / 'adapter')
        whole.merge_and_unload().save_pretrained(out)
        tokenizer.save_pretrained(out)
    card = {
        'method': options.method,
        'prompt_format': options.judge_format,
        'prompt': training.identity['prompt'],
        'base': {'name': base.name, 'content': training.identity['base']},
        'options': asdict(options),
        'examples': result.num_examples,
        'left_out': result.num_left_out,
        'steps': len(result.losses),
        'losses': tenth_means(result.losses),
        'torch': torch.__version__,
    }
    text = json.dumps(card, indent=2, ensure_ascii=False)
    write_text(out / CARD, f'{text}\n')


def tenth_means(losses: Sequence[float]) -> list[float]:
    """
    Return the mean loss of each tenth of the steps.
    """
    edges = [round(i * len(losses) / 10) for i in range(11)]
    return [round(fmean(losses[a:b]), 4) for a, b in pairwise(edges) if b > a]
