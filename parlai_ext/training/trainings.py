"""
Trainings that go on where they were stopped: of a judge, and of a model on dialogues.

The state is one file, replaced whole every so many steps. What a step draws follows
from the seed and the step alone, so that a training that was interrupted and goes on
ends, on one machine, with the weights of one that was not.
"""

import json
import math
import os
import random
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from itertools import groupby, pairwise
from pathlib import Path
from statistics import fmean
from typing import Any

import torch
import transformers
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch.nn.functional import cross_entropy

from parlai_ext.core import (
    JsonObject,
    UserError,
    chunks,
    content_id,
    first_line,
    frozen,
    parse_json,
    signature_values,
)
from parlai_ext.core.records import read_own_record, record_from_json
from parlai_ext.data.corpora import Turns, without_overlap
from parlai_ext.models.likelihood import (
    QuestionPart,
    TreeBatch,
    TreeMasks,
    TreePack,
    run_bounds,
)
from parlai_ext.scoring.llm_judges import (
    CARD,
    LabelPrompt,
    LabelTokens,
    direct_prompt,
    pair_prompt,
    pair_template,
)
from parlai_ext.store import locked, write_file, write_text
from parlai_ext.systems import hub
from parlai_ext.systems.hf import padded_rows
from parlai_ext.systems.hub import ModelOptions
from parlai_ext.systems.pretrained import (
    chosen_device,
    max_positions,
    quiet,
    read,
    smallest_limit,
)
from parlai_ext.systems.safe.read import disk_errors
from parlai_ext.training.options import JudgeTrainingOptions, TrainingOptions
from parlai_ext.training.pairs import ResponsePair
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


# --- a judge --------------------------------------------------------------------------
# Trains a language model to be a judge, which answers a prompt with the right label.
#
# LoRA (Hu et al. 2022) through `peft`; the defaults are those of PairEval (Park et al.
# 2024, section 4.1.3). The loss is the cross entropy of the label, nothing else of the
# prompt. The order of batches follows from the seed.


@frozen
class LabelExample:
    """
    A prompt as tokens, and the token of the right label.
    """

    ids: tuple[int, ...]
    label: int


Group = tuple[LabelExample, ...]  # of pairs with one good response


def train_judge(
    base: str,
    pairs: Sequence[ResponsePair],
    out: Path,
    options: JudgeTrainingOptions,
    *,
    no_cuda: bool,
) -> 'JudgeTraining':
    """
    Train a judge and write its folder; a training that was interrupted goes on. Return
    the finished one.

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
        template = pair_template(options.prompt)
        groups, num_left_out = make_groups(pairs, tokens, options, template)
        identity = {
            **signature_values(options),
            'base': hub.files_hash(folder),
            'pairs': content_id([asdict(pair) for pair in pairs]),
            'prompt': content_id(template) if template else None,  # not its place
        }
        training = JudgeTraining(network, groups, options, out, identity, num_left_out)
        training.resume()
        training.run(training.last_step, options.save_steps)
        save_judge(training, folder, tokenizer)
        training.file.unlink()
    return training


def make_groups(
    pairs: Sequence[ResponsePair],
    tokens: LabelTokens,
    options: JudgeTrainingOptions,
    template: str,
) -> tuple[list[Group], int]:
    """
    Return the examples of pairs, those of one good response together, and how many were
    left out since they are too long.

    :param template: as of `pair_prompt`.
    """
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
    :ivar num_left_out: how many prompts were too long.
    :ivar num_examples: how many are learned from.
    """

    def __init__(
        self,
        network: Any,
        groups: Sequence[Group],
        options: JudgeTrainingOptions,
        folder: Path,
        identity: JsonObject,
        num_left_out: int,
    ):
        self.num_left_out = num_left_out
        self.masks = TreeMasks(network)
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
        taken = self.batches[: options.max_steps or None]
        self.last_step, self.num_examples = len(taken), sum(map(len, taken))

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
        batch = TreeBatch([pack], device)
        # equal examples have one place in the tree, and count by themselves
        edges = [edge for row in pack.rows.values() for edge in row]
        _, places, labels = (one[edges].to(device) for one in batch.wanted)
        logits = self.model(
            **self.masks.inputs(batch, batch.whole),
            use_cache=False,
            logits_to_keep=places,
        ).logits[0]
        return cross_entropy(logits.float(), labels, reduction='sum')


def save_judge(training: JudgeTraining, base: Path, tokenizer: Any) -> None:
    """
    Write the merged model, its tokenizer, its adapters and its card; the card is last,
    so that a folder with a card is whole. The same training has the same card.
    """
    out, options = training.file.parent, training.options
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
        'examples': training.num_examples,
        'left_out': training.num_left_out,
        'steps': len(training.losses),
        'losses': tenth_means(training.losses),
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


# --- a model that is adapted to dialogues ---------------------------------------------
# Continues the training of a small model on dialogues: masked words for an encoder, the
# next word for a language model. Deep AM-FM adapts both of its models so.

IGNORED = -100  # the label of a token whose prediction does not count
RECORD = 'adaptation.json'
EVALUATION = 10**9  # a step that no training has: masks of held-out dialogues
Batch = dict[str, torch.Tensor]


@frozen
class Adapted:
    """
    What the record of an adapted model says: the loss of held-out tokens (nats; of
    masked ones for an encoder) before and after. `head` is that loss when the new head
    alone has been trained, `None` where there was nothing to train before the encoder.

    :param training: all that the weights depend on.
    """

    before: float
    after: float
    head: float | None
    steps: int
    training: Mapping[str, Any]


def adapt(
    kind: str,
    base: Path,
    dialogues: Sequence[Turns],
    folder: Path,
    options: TrainingOptions,
    *,
    device: torch.device,
    save_every: int,
) -> Adapted:
    """
    Train a model on dialogues and write it, with its tokenizer, as a Hugging Face
    folder in float32. The same call again goes on where a former one was stopped.

    :param kind: ``mlm`` (an encoder, masked words) or ``lm`` (a language model).
    :param base: the Hugging Face folder to begin with.
    :param save_every: updates between two savings of the state.
    :raises UserError: when the folder holds another training, or the model cannot be
        trained so.
    """
    identity = {
        'kind': kind,
        'base': hub.files_hash(base),
        'corpus': content_id('corpus', dialogues),
        **asdict(options),
    }
    with locked(folder / '.lock'):
        if (folder / RECORD).is_file():
            remedy = 'name another folder (--out)'
            adapted = read_own_record(Adapted, folder / RECORD, remedy)
            check_same(adapted.training, identity, folder)
            return adapted
        refuse_model(folder)
        trainer = Trainer(kind, base, dialogues, options, device, folder, identity)
        trainer.resume()
        trainer.train(save_every)
        return trainer.write()


def split_held_out(
    dialogues: Sequence[Turns], options: TrainingOptions
) -> tuple[list[Turns], list[Turns]]:
    """
    Return the dialogues that are held out, and those to train on, which share no
    successive turns with them.

    :raises UserError: when none are left to train on.
    """
    drawn = list(dialogues)
    random.Random(f'held out {options.seed}').shuffle(drawn)
    held_out = drawn[: options.held_out]
    training = without_overlap(drawn[options.held_out :], held_out)
    if not training:
        raise UserError(
            f'--held-out: {options.held_out} dialogues are held out, and none of the '
            f'{len(dialogues)} in all is left that shares no turns with them; fewer '
            'would do'
        )
    return held_out, training


class Trainer(Training):
    """
    The training of a model on dialogues, divided where they are too long.
    """

    def __init__(
        self,
        kind: str,
        base: Path,
        dialogues: Sequence[Turns],
        options: TrainingOptions,
        device: torch.device,
        folder: Path,
        identity: JsonObject,
    ):
        self.kind, self.options, self.device = kind, options, device
        self._load(base)
        held_out, training = split_held_out(dialogues, options)
        self.examples, self.held_out_examples = (
            [piece for dialogue in some for piece in self._pieces(dialogue)]
            for some in (training, held_out)
        )
        batches = len(self.examples) / options.batchsize
        self.main_steps = options.steps or math.ceil(options.epochs * batches)
        self.head_steps = options.head_steps if self.new_head else 0
        self.order: list[int] = []  # of the examples, over all steps
        for epoch in range(math.ceil((self.head_steps + self.main_steps) / batches)):
            places = list(range(len(self.examples)))
            random.Random(f'epoch {epoch} {options.seed}').shuffle(places)
            self.order += places
        rate = options.learning_rate
        super().__init__(self.model, folder, identity, lr=rate, weight_decay=0.0)

    def _load(self, base: Path) -> None:
        """
        Read the tokenizer and the model, in float32. The weights of a head that the
        folder lacks are drawn by the seed; `new_head` has their names.

        :raises UserError: when weights other than those of the head are missing.
        """
        extra = {'dtype': torch.float32}
        config, self.tokenizer, self.model = read(
            base,
            self.device,
            extra,
            kind=None if self.kind == 'lm' else transformers.AutoModel,
        )
        self.new_head: set[str] = set()
        if self.kind == 'lm':
            if config.is_encoder_decoder:
                raise UserError('--kind lm: a decoder-only model is needed')
            self.model.requires_grad_()
            return
        if self.tokenizer.mask_token_id is None:
            raise UserError('--kind mlm: the tokenizer has no token for masked words')
        torch.manual_seed(self.options.seed)
        with quiet():
            model, info = transformers.AutoModelForMaskedLM.from_pretrained(
                base, **extra, local_files_only=True, output_loading_info=True
            )
        inside = f'{model.base_model_prefix}.'
        missing = [name for name in info['missing_keys'] if name.startswith(inside)]
        if missing:
            raise UserError(f'--base: {base}: its weights lack {missing[0]}')
        known = {name for name, _ in model.named_parameters()}
        self.new_head = known.intersection(info['missing_keys'])
        self.model = model.to(self.device)

    def _pieces(self, dialogue: Turns) -> Sequence[Sequence[int]]:
        """
        Return a dialogue's tokens in pieces of at most `tokens`.
        """
        tokens = self.options.tokens
        most = max_positions(self.model.config, self.tokenizer)
        limit = smallest_limit(tokens, most) or tokens
        if self.kind == 'mlm':
            return self.tokenizer(
                [' '.join(dialogue)],
                truncation=True,
                max_length=limit,
                return_overflowing_tokens=True,
                split_special_tokens=True,
            )['input_ids']
        texts = [' '.join(dialogue)] if self.options.turns == 'joined' else dialogue
        ids = []
        for i, text in enumerate(texts):
            # the tokens that begin every text, if there are any, begin the dialogue
            ids += self.tokenizer.encode(
                text,
                add_special_tokens=i == 0,
                split_special_tokens=True,
                verbose=False,
            )
            ids.append(self.tokenizer.eos_token_id)
        return [piece for piece in chunks(ids, limit) if len(piece) > 1]

    def train(self, save_every: int) -> None:
        """
        Train to the end, with the losses of held-out dialogues before and after.

        :param save_every: updates between two savings of the state.
        """
        if 'before' not in self.held_out:
            self.held_out['before'] = self.held_out_loss()
            print(f'held-out loss before: {self.held_out["before"]:.3f}', flush=True)
        self.run(self.head_steps + self.main_steps, save_every)
        self.held_out['after'] = self.held_out_loss()

    def update(self, step: int) -> float:
        """
        Set the learning rate and the gradients of a step, and return its loss.
        """
        if self.new_head and step == self.head_steps:
            self.held_out['head'] = self.held_out_loss()
        head_only = step < self.head_steps
        for name, weight in self.weights.items():
            weight.requires_grad_(not head_only or name in self.new_head)
        total = self.head_steps if head_only else self.main_steps
        done = step if head_only else step - self.head_steps
        for group in self.optimizer.param_groups:
            # a head that was just drawn learns at ten times the rate
            rate = self.options.learning_rate * (10 if head_only else 1)
            group['lr'] = rate * (1 - done / total)
        self.model.train()
        torch.manual_seed(self.step_seed(step))
        size = self.options.batchsize
        places = self.order[step * size : (step + 1) * size]
        chosen = [self.examples[place] for place in places]
        loss = self.model(**self._batch(chosen, step)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        return float(loss.detach())

    def step_seed(self, step: int) -> int:
        """
        Return the seed of one step.
        """
        return int(content_id('step', self.options.seed, step)[:15], 16)

    def _batch(self, examples: Sequence[Sequence[int]], step: int) -> Batch:
        """
        Return examples, padded, with labels: every token but padding, or masked ones.
        """
        pad = self.tokenizer.pad_token_id
        pad = self.tokenizer.eos_token_id if pad is None else pad
        ids, mask = padded_rows(examples, pad, right=True)
        labels = torch.where(mask.bool(), ids, IGNORED)
        if self.kind == 'mlm':
            seed = self.step_seed(step)
            ids, labels = masked_words(
                ids, mask.bool(), self.tokenizer, self.options.masked, seed
            )
        batch = {'input_ids': ids, 'attention_mask': mask, 'labels': labels}
        return {key: value.to(self.device) for key, value in batch.items()}

    @torch.inference_mode()
    def held_out_loss(self) -> float:
        """
        Return the mean loss of a predicted token of the held-out dialogues, whose masks
        are the same every time.
        """
        self.model.eval()
        total, n_tokens = 0.0, 0
        examples, size = self.held_out_examples, self.options.batchsize
        for k, some in enumerate(chunks(examples, size)):
            batch = self._batch(some, EVALUATION + k * size)
            labels = batch.pop('labels')
            logits = self.model(**batch).logits.float()
            if self.kind == 'lm':
                logits, labels = logits[:, :-1], labels[:, 1:]
            total += float(
                torch.nn.functional.cross_entropy(
                    logits.flatten(0, 1), labels.flatten(), reduction='sum'
                )
            )
            n_tokens += int((labels != IGNORED).sum())
        return total / n_tokens

    def write(self) -> Adapted:
        """
        Write the model, then the record that says that it is finished; the state is
        removed. Of an encoder the head is left out.
        """
        folder = self.file.parent
        model = self.model.base_model if self.kind == 'mlm' else self.model
        with quiet(), disk_errors(folder):
            model.eval().save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
        known = self.held_out
        record = Adapted(
            known['before'],
            known['after'],
            known.get('head'),
            steps=len(self.losses),
            training=self.identity,
        )
        write_file(folder / RECORD, json.dumps(asdict(record), indent=1).encode())
        self.file.unlink(missing_ok=True)
        return record


def masked_words(
    ids: torch.Tensor, is_token: torch.Tensor, tokenizer: Any, share: float, seed: int
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Return token ids of which a share is hidden, and the labels of those.

    Of the tokens to be guessed, 80 % become the mask, 10 % another token, and 10 % stay
    (Devlin et al. 2019, section 3.1). At least one token is hidden.
    """
    generator = torch.Generator().manual_seed(seed)
    candidates = is_token & ~torch.isin(ids, torch.tensor(tokenizer.all_special_ids))
    drawn = torch.rand(ids.shape, generator=generator)
    chosen = candidates & (drawn < share)
    if not chosen.any():
        least = torch.where(candidates, drawn, 2.0).argmin()
        chosen.view(-1)[least] = True
    labels = torch.where(chosen, ids, IGNORED)
    fate = torch.rand(ids.shape, generator=generator)
    others = torch.randint(len(tokenizer), ids.shape, generator=generator)
    hidden = torch.where(chosen & (fate < 0.8), tokenizer.mask_token_id, ids)
    hidden = torch.where(chosen & (fate >= 0.8) & (fate < 0.9), others, hidden)
    return hidden, labels
