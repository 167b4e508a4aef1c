"""
The inputs of the learned judge for many responses, read once and kept on disk, so that
a reading that was killed goes on where it was.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import content_id
from parlai_ext.core.progress import bar_of
from parlai_ext.models.handle import ModelHandle
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.learned import BLOCKS
from parlai_ext.scoring.learned_inputs import NUMBERS, input_blocks, read_responses

KEPT = {'numbers': np.float32, 'states': np.float16, 'products': np.float16}
BLOCK = 96  # responses that are read and kept together


class InputCache:
    """
    Inputs by the responses and the models that they are of.
    """

    def __init__(
        self, folder: Path, judge: str, encoder: str, machine: Machine | None = None
    ):
        self.folder = folder
        self.names = judge, encoder
        self.handle = ModelHandle(machine)
        self.folder.mkdir(parents=True, exist_ok=True)

    def inputs(
        self, name: str, items: Sequence[ScoringItem]
    ) -> Mapping[str, np.ndarray]:
        """
        Return the inputs of these responses; blocks that are not there are read.
        """
        parts = []
        with bar_of(name, len(items)) as bar:
            for first in range(0, len(items), BLOCK):
                block = items[first : first + BLOCK]
                parts.append(self._block(block))
                bar.update(len(block))
        return {key: np.concatenate([part[key] for part in parts]) for key in BLOCKS}

    def _block(self, block: Sequence[ScoringItem]) -> dict[str, np.ndarray]:
        told = [[list(item.context), item.response] for item in block]
        file = self.folder / f'{content_id(*self.names, list(NUMBERS), told)}.npz'
        if not file.exists():
            judge, encoder = self.names
            readings, _ = read_responses(
                self.handle.likelihood(judge), self.handle.embedder(encoder), block
            )
            rows = [
                input_blocks(item, reading)
                for item, reading in zip(block, readings, strict=True)
            ]
            temporary = file.with_suffix('.tmp.npz')
            inputs: dict[str, Any] = {
                key: np.stack([r[key] for r in rows]).astype(KEPT[key]) for key in KEPT
            }
            np.savez(temporary, **inputs)
            temporary.rename(file)
        with np.load(file) as stored:
            return {key: stored[key].astype(np.float32) for key in BLOCKS}
