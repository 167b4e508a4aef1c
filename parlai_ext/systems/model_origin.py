"""
Which family of models a system belongs to, as far as names and configs tell.
"""

import re
from pathlib import Path
from typing import Any

from parlai_ext.core import System, UserError, frozen
from parlai_ext.systems import hub
from parlai_ext.systems.families import HubFamily, family_of, innermost

# words before the name of a family that name its makers, not the family
MAKERS = ('meta', 'google', 'microsoft', 'nvidia', 'the')
ZOO = 'zoo:'


@frozen
class ModelOrigin:
    """
    Where a model comes from.

    :param name: the common part of the family's names, such as ``smollm`` or ``gpt``;
        `None` where a model has no name, as in a folder.
    :param model_type: the architecture that its config names (``llama``).
    """

    name: str | None = None
    model_type: str | None = None

    def likeness(self, other: 'ModelOrigin') -> str | None:
        """
        Return what two models have in common, in words; `None` where they are not of
        one family. Where one has no name, one architecture has to do.
        """
        if self.name is not None and other.name is not None:
            return f'both are {self.name}' if self.name == other.name else None
        same = self.model_type is not None and self.model_type == other.model_type
        return f'both are of the type {self.model_type}' if same else None


def model_origin(system: System) -> ModelOrigin:
    """
    Return where a system's model comes from. Nothing is loaded or downloaded.
    """
    opt = innermost(system).opt
    if opt.get('model') == 'ext:remote':
        return ModelOrigin(
            family_name(opt.get('remote_dated_model') or opt.get('remote_model'))
        )
    family = family_of(opt)
    if isinstance(family, HubFamily):
        try:
            repository, _ = family.source(opt)
            weights = family.cached_weights(opt)
        except UserError:
            return ModelOrigin()
        config = hub.read_config(weights.parent) if weights is not None else {}
        named = config.get('_name_or_path') if Path(repository).is_dir() else repository
        kind = config.get('model_type')
        return ModelOrigin(
            family_name(named), kind if kind and isinstance(kind, str) else None
        )
    path = str(opt.get('model_file') or '')
    if path.startswith(ZOO):
        return ModelOrigin(family_name(path.removeprefix(ZOO).partition('/')[0]))
    return ModelOrigin()


def family_name(name: Any) -> str | None:
    """
    Return the letters with which a model's own name begins, in small letters, its
    makers' name left out; `None` for what is no name.

    >>> family_name('HuggingFaceTB/SmolLM2-135M'), family_name('Meta-Llama-3-8B')
    ('smollm', 'llama')
    """
    words = re.findall(r'[a-z]+', str(name or '').rpartition('/')[2].lower())
    while words and words[0] in MAKERS:
        words.pop(0)
    return words[0] if words else None
