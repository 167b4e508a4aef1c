"""
Continues the training of a small model on dialogues: masked words for an encoder, the
next word for a language model. Deep AM-FM adapts both of its models so.
"""

import json
import math
import random
from collections.abc import Mapping, Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

import torch
import transformers

from parlai_ext.core import JsonObject, UserError, chunks, content_id, frozen
from parlai_ext.core.records import read_own_record
from parlai_ext.data.corpora import Turns, without_overlap
from parlai_ext.store import locked, write_file
from parlai_ext.systems import hub
from parlai_ext.systems.hf import padded_rows
from parlai_ext.systems.pretrained import (
    max_positions,
    quiet,
    read,
    smallest_limit,
)
from parlai_ext.systems.safe.read import disk_errors
from parlai_ext.training.loop import Training, check_same, refuse_model
from parlai_ext.training.options import TrainingOptions

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
        torch.manual_seed(step_seed(self.options.seed, step))
        size = self.options.batchsize
        places = self.order[step * size : (step + 1) * size]
        chosen = [self.examples[place] for place in places]
        loss = self.model(**self._batch(chosen, step)).loss
        loss.backward()
        torch.nn.utils.clip_grad_norm_(self.model.parameters(), 1.0)
        return float(loss.detach())

    def _batch(self, examples: Sequence[Sequence[int]], step: int) -> Batch:
        """
        Return examples, padded, with labels: every token but padding, or masked ones.
        """
        pad = self.tokenizer.pad_token_id
        pad = self.tokenizer.eos_token_id if pad is None else pad
        ids, mask = padded_rows(examples, pad, right=True)
        labels = torch.where(mask.bool(), ids, IGNORED)
        if self.kind == 'mlm':
            seed = step_seed(self.options.seed, step)
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


def step_seed(seed: int, step: int) -> int:
    """
    Return the seed of one step of a training.
    """
    return int(content_id('step', seed, step)[:15], 16)
