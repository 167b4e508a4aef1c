"""
The scores that one scorer gave a run's dialogues.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import ScoredDialogue, content_id
from parlai_ext.store.atomic import write_file
from parlai_ext.store.lines import decode_shard, encode_shard
from parlai_ext.store.shards import scored_of, scored_record

if TYPE_CHECKING:
    from parlai_ext.store.folder import RunFolder

ABOUT = 'scorer.json'


class ScoreStore:
    """
    ``RUN/scores/<hash of the scorer's signature>``.
    """

    def __init__(self, run: RunFolder, signature: str):
        self.run = run
        self.signature = signature
        self.root = run.root / 'scores' / content_id(signature)

    def has(self, pairing_id: str, index: int) -> bool:
        """
        Tell whether this shard is scored.
        """
        return self._path(pairing_id, index).exists()

    def write(
        self, pairing_id: str, index: int, scored: Sequence[ScoredDialogue]
    ) -> None:
        """
        Keep the scores of one shard: one entry for each of its dialogues, in order.
        """
        dialogues = self.run.read_dialogues(pairing_id, index)
        if [one.dialogue_id for one in scored] != [one.id for one in dialogues]:
            raise ValueError(f'scores of other dialogues than {pairing_id} {index}')
        source = self.run.dialogues_checksum(pairing_id, index)
        records = [scored_record(one, source) for one in scored]
        data = encode_shard(records, index)
        self._sign()
        write_file(self._path(pairing_id, index), data)

    def read(self, pairing_id: str, index: int) -> list[ScoredDialogue]:
        """
        Return the scores of one shard.

        :raises UserError: when they are damaged, or of dialogues that have changed.
        """
        path = self._path(pairing_id, index)
        records = decode_shard(_bytes(path), index, path)
        source = self.run.dialogues_checksum(pairing_id, index)
        if any(record['dialogues'] != source for record in records):
            self.run.read_dialogues(pairing_id, index)  # which may be damaged
            raise UserError(
                f'{path}: these are scores of other dialogues than the run has now; '
                'delete this file and run again to have it redone'
            )
        return [scored_of(record) for record in records]

    def by_dialogue(self, pairing_id: str, index: int) -> dict[str, ScoredDialogue]:
        """
        Return the scores of one shard by dialogue; none when it is not scored.
        """
        if not self.has(pairing_id, index):
            return {}
        return {one.dialogue_id: one for one in self.read(pairing_id, index)}

    def about(self) -> dict[str, Any]:
        """
        Return what was written down of the scorer; nothing when nothing was.
        """
        there = (self.root / ABOUT).exists()
        return dict(self.run.read_json(self._name)) if there else {}

    def write_about(self, data: Mapping[str, Any]) -> None:
        """
        Write down what a reader of the scores needs to know of their scorer.
        """
        self.run.write_json(self._name, dict(data))

    @property
    def _name(self) -> str:
        return f'scores/{self.root.name}/{ABOUT}'

    def _path(self, pairing_id: str, index: int) -> Path:
        return self.root / self.run.pairing(pairing_id).id / f'{index:05d}.jsonl'

    def _sign(self) -> None:
        """
        Write the signature down before the first score.
        """
        path = self.root / 'signature.txt'
        text = (self.signature + '\n').encode('utf-8', 'backslashreplace')
        if not path.exists():
            write_file(path, text)
        elif path.read_bytes() != text:
            raise UserError(f'{path} is not the signature {self.signature!r}')


def _bytes(path: Path) -> bytes:
    """
    Return a shard's bytes.
    """
    try:
        return path.read_bytes()
    except FileNotFoundError:
        raise UserError(f'{path} is missing; run again to have it scored') from None
