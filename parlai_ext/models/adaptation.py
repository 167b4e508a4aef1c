"""
Continues the training of a small model on dialogues: masked words for an encoder, the
next word for a language model. Deep AM-FM adapts both of its models so.

The state of a training is one file, replaced whole every so many steps. Batches, masks
and dropout of a step follow from the seed and the step alone, so that a training that
was interrupted and goes on ends, on one machine, with the weights of one that was not.
"""

from __future__ import annotations

import json
import math
import os
import random
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file

from parlai_ext.core.errors import UserError, first_line
from parlai_ext.core.json_text import parse_json, parse_own_json
from parlai_ext.core.nouns import content_id
from parlai_ext.core.progress import bar_of
from parlai_ext.core.records import record_from_json
from parlai_ext.models.training_options import TrainingOptions
from parlai_ext.store.atomic import locked, make_folder, write_file
from parlai_ext.systems import hub
from parlai_ext.systems.pretrained import BOUNDLESS, quiet, read
from parlai_ext.systems.safe.cost import bounded_cost
from parlai_ext.systems.safe.safetensors_file import disk_errors

IGNORED = -100  # the label of a token whose prediction does not count
STATE, RECORD = 'training.safetensors', 'adaptation.json'
EVALUATION = 10**9  # a step that no training has: masks of held-out dialogues
Batch = dict[str, torch.Tensor]
Texts = tuple[str, ...]


@dataclass(frozen=True)
class Adapted:
    """
    An adapted model's folder, and the loss of held-out tokens (nats; of masked ones for
    an encoder) before and after. `head` is that loss when the new head alone has been
    trained, `None` where there was nothing to train before the encoder.
    """

    folder: Path
    before: float
    after: float
    head: float | None
    steps: int


@dataclass(frozen=True)
class _Facts:
    """
    What a saved state says beside its tensors.
    """

    training: Mapping[str, Any]
    step: int
    losses: Mapping[str, float]


@dataclass(frozen=True)
class Examples:
    """
    Token ids of dialogues, to train on and held out.
    """

    training: list[list[int]]
    held_out: list[list[int]]


def adapt(
    kind: str,
    base: Path,
    dialogues: Sequence[Texts],
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
    make_folder(folder)
    with locked(folder / '.lock'):
        if (folder / RECORD).is_file():
            return finished_training(folder, identity)
        if (folder / 'config.json').is_file() and not (folder / STATE).is_file():
            raise UserError(f'--out {folder}: a model is in it; name another folder')
        trainer = Trainer(kind, base, dialogues, options, device)
        trainer.resume(folder / STATE, identity)
        trainer.run(folder / STATE, identity, save_every)
        return trainer.write(folder, identity)


def finished_training(folder: Path, identity: Mapping[str, Any]) -> Adapted:
    """
    Return what a finished training left in its folder.

    :raises UserError: when it was another one.
    """
    try:
        record = parse_own_json((folder / RECORD).read_bytes())
        training, steps = dict(record['training']), int(record['steps'])
        losses = {key: record[key] for key in ('before', 'after', 'head')}
    except (ValueError, KeyError, TypeError):
        raise UserError(
            f'--out {folder}: {RECORD} is damaged; name another folder'
        ) from None
    check_same(training, identity, folder)
    return Adapted(folder, **losses, steps=steps)


def check_same(
    stored: Mapping[str, Any], given: Mapping[str, Any], place: Path
) -> None:
    """
    Refuse to go on with a training that differs from the one asked for.
    """
    keys = [key for key in given if stored.get(key) != given[key]]
    if keys:
        raise UserError(
            f'--out {place}: another training is in it; it differs in '
            f'{", ".join(keys)}. Name another folder, or train as before'
        )


def split_held_out(
    dialogues: Sequence[Texts], options: TrainingOptions
) -> tuple[list[Texts], list[Texts]]:
    """
    Return the dialogues that are held out, and those to train on.

    :raises UserError: when none are left to train on.
    """
    if len(dialogues) <= options.held_out:
        raise UserError(
            f'--held-out: {options.held_out} dialogues are held out and there are '
            f'{len(dialogues)} in all; fewer would do'
        )
    drawn = list(dialogues)
    random.Random(f'held out {options.seed}').shuffle(drawn)
    return drawn[: options.held_out], drawn[options.held_out :]


class Trainer:
    """
    One training: model, examples, optimizer, and how far it is.
    """

    def __init__(
        self,
        kind: str,
        folder: Path,
        dialogues: Sequence[Texts],
        options: TrainingOptions,
        device: torch.device,
    ):
        self.kind, self.options, self.device = kind, options, device
        self.tokenizer, self.model, self.new_head = load(kind, folder, device, options)
        self.examples = self._examples(dialogues)
        batches = len(self.examples.training) / options.batchsize
        self.main_steps = options.steps or math.ceil(options.epochs * batches)
        self.head_steps = options.head_steps if self.new_head else 0
        self.optimizer = torch.optim.AdamW(
            self.model.parameters(), lr=options.learning_rate, weight_decay=0.0
        )
        self.step = 0
        self.in_update = False
        self.losses: dict[str, float] = {}

    @property
    def total_steps(self) -> int:
        """
        How many updates there are in all.
        """
        return self.head_steps + self.main_steps

    def _examples(self, dialogues: Sequence[Texts]) -> Examples:
        """
        Return the dialogues in tokens, divided where they are too long.
        """
        held_out, training = split_held_out(dialogues, self.options)
        return Examples(
            [piece for dialogue in training for piece in self._pieces(dialogue)],
            [piece for dialogue in held_out for piece in self._pieces(dialogue)],
        )

    def _pieces(self, dialogue: Texts) -> list[list[int]]:
        """
        Return a dialogue's tokens in pieces of at most `tokens`.
        """
        limit = min(self.options.tokens, self._positions())
        if self.kind == 'mlm':
            pieces: list[list[int]] = self.tokenizer(
                [' '.join(dialogue)],
                truncation=True,
                max_length=limit,
                return_overflowing_tokens=True,
                split_special_tokens=True,
            )['input_ids']
            return pieces
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
        pieces = [ids[i : i + limit] for i in range(0, len(ids), limit)]
        return [piece for piece in pieces if len(piece) > 1]

    def _positions(self) -> int:
        limits = (
            getattr(self.model.config, 'max_position_embeddings', None),
            self.tokenizer.model_max_length,
        )
        return min((n for n in limits if n and n < BOUNDLESS), default=BOUNDLESS)

    def resume(self, file: Path, identity: Mapping[str, Any]) -> None:
        """
        Go on from a saved state, if there is one.
        """
        if not file.is_file():
            return
        try:
            with bounded_cost(file), safe_open(file, 'pt') as state:
                text = (state.metadata() or {})['facts']
                facts: _Facts = record_from_json(_Facts, parse_json(text))
                check_same(facts.training, identity, file.parent)
                tensors = {key: state.get_tensor(key) for key in state.keys()}  # noqa: SIM118
            for name, weight in self.model.named_parameters():
                self._set_weight(name, weight, tensors)
        except (SafetensorError, KeyError, ValueError) as error:
            raise UserError(
                f'--out: {file} is damaged: {first_line(error)}; delete it to begin '
                'the training again'
            ) from None
        self.step, self.losses = facts.step, dict(facts.losses)

    def _set_weight(
        self, name: str, weight: torch.Tensor, tensors: Mapping[str, torch.Tensor]
    ) -> None:
        """
        Give a weight its saved value and moments.

        :raises KeyError, ValueError: for one that is missing, or of another shape.
        """
        sizes = {'weight': weight.shape, 'step': ()}
        sizes |= {'exp_avg': weight.shape, 'exp_avg_sq': weight.shape}
        saved = {
            key: tensors[f'{key}.{name}'] for key in sizes if f'{key}.{name}' in tensors
        }
        if len(saved) not in (1, len(sizes)) or 'weight' not in saved:
            raise ValueError(f'{name} is not all there')
        if any(value.shape != sizes[key] for key, value in saved.items()):
            raise ValueError(f'{name} is of another shape')
        with torch.no_grad():
            weight.copy_(saved.pop('weight'))
        if saved:
            self.optimizer.state[weight] = {
                key: value.cpu() if key == 'step' else value.to(self.device)
                for key, value in saved.items()
            }

    def save(self, file: Path, identity: Mapping[str, Any]) -> None:
        """
        Write the state, whole or not at all.
        """
        tensors = {}
        for name, weight in self.model.named_parameters():
            tensors[f'weight.{name}'] = weight.detach()
            for key, value in self.optimizer.state.get(weight, {}).items():
                tensors[f'{key}.{name}'] = value
        facts = {'training': dict(identity), 'step': self.step, 'losses': self.losses}
        unfinished = file.with_name(f'.{file.name}.unfinished')
        with disk_errors(file):
            save_file(
                {key: value.contiguous().cpu() for key, value in tensors.items()},
                unfinished,
                metadata={'facts': json.dumps(facts)},
            )
        with open(unfinished, 'rb') as written:
            os.fsync(written.fileno())
        os.replace(unfinished, file)

    def run(self, file: Path, identity: Mapping[str, Any], save_every: int) -> None:
        """
        Train to the end. The state is saved every so many updates, and when the
        training is interrupted.
        """
        if 'before' not in self.losses:
            self.losses['before'] = self.held_out_loss()
            print(f'held-out loss before: {self.losses["before"]:.3f}', flush=True)
        bar = bar_of('adapting', self.total_steps, unit='update')
        bar.initial = bar.n = self.step  # so that the rate is that of this run
        try:
            with bar:
                while self.step < self.total_steps:
                    loss = self.update()
                    bar.set_postfix_str(f'loss {loss:.2f}', refresh=False)
                    bar.update(1)
                    if self.step == self.head_steps and self.new_head:
                        self.losses['head'] = self.held_out_loss()
                    if self.step % save_every == 0:
                        self.save(file, identity)
        except KeyboardInterrupt:
            if not self.in_update:
                self.save(file, identity)
            raise
        if 'after' not in self.losses:
            self.losses['after'] = self.held_out_loss()

    def update(self) -> float:
        """
        Make one update, and return the loss of its batch.
        """
        head_only = self.step < self.head_steps
        for name, weight in self.model.named_parameters():
            weight.requires_grad_(not head_only or name in self.new_head)
        total = self.head_steps if head_only else self.main_steps
        done = self.step if head_only else self.step - self.head_steps
        for group in self.optimizer.param_groups:
            # a head that was just drawn learns at ten times the rate
            rate = self.options.learning_rate * (10 if head_only else 1)
            group['lr'] = rate * (1 - done / total)
        self.model.train()
        torch.manual_seed(step_seed(self.options.seed, self.step))
        batch = self._batch(self._chosen(self.step), self.step)
        loss = self.model(**batch).loss
        self.optimizer.zero_grad(set_to_none=True)
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        self.in_update = True  # what is there in between is no state to go on from
        self.optimizer.step()
        self.step += 1
        self.in_update = False
        return float(loss.detach())

    def _chosen(self, step: int) -> list[list[int]]:
        """
        Return the examples of an update: every epoch has an order of its own.
        """
        examples, size = self.examples.training, self.options.batchsize
        chosen = []
        for place in range(step * size, (step + 1) * size):
            epoch, i = divmod(place, len(examples))
            chosen.append(examples[self._order(epoch)[i]])
        return chosen

    def _order(self, epoch: int) -> list[int]:
        known: tuple[int, list[int]] | None = getattr(self, '_known_order', None)
        if known is None or known[0] != epoch:
            order = list(range(len(self.examples.training)))
            random.Random(f'epoch {epoch} {self.options.seed}').shuffle(order)
            known = self._known_order = (epoch, order)
        return known[1]

    def _batch(self, examples: Sequence[Sequence[int]], step: int) -> Batch:
        """
        Return examples, padded, with labels: every token but padding, or masked ones.
        """
        width = max(map(len, examples))
        pad = self.tokenizer.pad_token_id
        pad = self.tokenizer.eos_token_id if pad is None else pad
        ids = torch.tensor([[*e, *[pad] * (width - len(e))] for e in examples])
        is_token = torch.tensor([[i < len(e) for i in range(width)] for e in examples])
        labels = torch.where(is_token, ids, IGNORED)
        if self.kind == 'mlm':
            seed = step_seed(self.options.seed, step)
            ids, labels = masked_words(
                ids, is_token, self.tokenizer, self.options.masked, seed
            )
        batch = {'input_ids': ids, 'attention_mask': is_token.long(), 'labels': labels}
        return {key: value.to(self.device) for key, value in batch.items()}

    @torch.inference_mode()
    def held_out_loss(self) -> float:
        """
        Return the mean loss of a predicted token of the held-out dialogues, whose masks
        are the same every time.
        """
        self.model.eval()
        total, n_tokens = 0.0, 0
        for batch in self._held_out_batches():
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

    def _held_out_batches(self) -> Iterator[Batch]:
        examples, size = self.examples.held_out, self.options.batchsize
        for start in range(0, len(examples), size):
            yield self._batch(examples[start : start + size], EVALUATION + start)

    def write(self, folder: Path, identity: Mapping[str, Any]) -> Adapted:
        """
        Write the model, then the record that says that it is finished; the state is
        removed. Of an encoder the head is left out.
        """
        model = self.model.base_model if self.kind == 'mlm' else self.model
        with quiet(), disk_errors(folder):
            model.eval().save_pretrained(folder)
            self.tokenizer.save_pretrained(folder)
        losses = {key: self.losses.get(key) for key in ('before', 'after', 'head')}
        record = {**losses, 'steps': self.step, 'training': dict(identity)}
        write_file(folder / RECORD, json.dumps(record, indent=1).encode())
        (folder / STATE).unlink(missing_ok=True)
        return finished_training(folder, identity)


def load(
    kind: str, folder: Path, device: torch.device, options: TrainingOptions
) -> tuple[Any, Any, frozenset[str]]:
    """
    Return tokenizer, model in float32, and the names of the weights of a head that the
    folder lacks and that is drawn by the seed.

    :raises UserError: when weights other than those of the head are missing.
    """
    extra = {'dtype': torch.float32}
    code = ', which is not run'
    if kind == 'lm':
        config, tokenizer, model = read(folder, device, extra, allowed=code)
        if config.is_encoder_decoder:
            raise UserError('--kind lm: a decoder-only model is needed')
        return tokenizer, model, frozenset()
    _, tokenizer, _ = read(
        folder, device, extra, allowed=code, kind=transformers.AutoModel
    )
    if tokenizer.mask_token_id is None:
        raise UserError('--kind mlm: the tokenizer has no token for masked words')
    torch.manual_seed(options.seed)
    with quiet():
        model, info = transformers.AutoModelForMaskedLM.from_pretrained(
            folder, **extra, local_files_only=True, output_loading_info=True
        )
    inside = f'{model.base_model_prefix}.'
    missing = [name for name in info['missing_keys'] if name.startswith(inside)]
    if missing:
        raise UserError(f'--base: {folder}: its weights lack {missing[0]}')
    known = {name for name, _ in model.named_parameters()}
    return tokenizer, model.to(device), frozenset(info['missing_keys']) & known


def masked_words(
    ids: torch.Tensor,
    is_token: torch.Tensor,
    tokenizer: Any,
    share: float,
    seed: int,
) -> tuple[torch.Tensor, torch.Tensor]:
    """
    Return token ids of which a share is hidden, and the labels of those.

    Of the tokens to be guessed, 80 % become the mask, 10 % another token, and 10 % stay
    (Devlin et al. 2019, section 3.1). At least one token is hidden.
    """
    generator = torch.Generator().manual_seed(seed)
    special = torch.tensor(tokenizer.all_special_ids)
    candidates = is_token & ~torch.isin(ids, special)
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


def step_seed(seed: int, step: int) -> int:
    """
    Return the seed of one step of a training.
    """
    return int(content_id('step', seed, step)[:15], 16)
