"""
From options to a model that talks, and its tokenizer.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.models.likelihood.causal_checks import POSITIONS
from parlai_ext.systems import hub
from parlai_ext.systems.pretrained import (
    BOUNDLESS,
    chosen_device,
    loading_arguments,
    read,
)


@dataclass(frozen=True)
class Loaded:
    """
    A model, its tokenizer, and what is to be known of them.
    """

    model: Any
    tokenizer: Any
    seq2seq: bool
    positions: int | None


def load(opt: Mapping[str, Any]) -> Loaded:
    """
    Return the model that options name, ready to generate.

    :raises UserError: ``option: what is wrong; what would be right``.
    """
    device = chosen_device(opt)
    extra = loading_arguments(opt, device)
    trust = bool(opt.get('hf_trust_code'))
    config, tokenizer, model = read(found_folder(opt), device, extra, trust=trust)
    most = positions(config, tokenizer)
    return Loaded(model, tokenizer, bool(config.is_encoder_decoder), most)


def found_folder(opt: Mapping[str, Any]) -> Path:
    """
    Return the folder of the model's files, downloaded when they are not here.
    """
    repo = hub.checked_repository(opt.get('hf_model'))
    if (Path(repo) / 'adapter_config.json').is_file():
        raise UserError(
            f'hf_model: {repo} is an adapter; its base model, merged with it, would do'
        )
    try:
        return hub.fetch_weights(repo, opt.get('hf_revision') or None).parent
    except UserError as error:
        what = str(error).removeprefix('hf_model: ')
        raise UserError(f'hf_model: {what}') from None


def positions(config: Any, tokenizer: Any) -> int | None:
    """
    Return how many tokens a model was made for; `None` where nothing says so.
    """
    text = config.get_text_config()
    named = [getattr(text, name, None) for name in POSITIONS]
    named.append(tokenizer.model_max_length)
    return min(
        (n for n in named if isinstance(n, int) and 0 < n < BOUNDLESS), default=None
    )
