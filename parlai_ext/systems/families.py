"""
The registry of agent families, and the families that need a few lines only.

To add a family, subclass `Family` in a file of its own (or here, if it is small) and
name it in `FAMILIES`. Nothing else of the program has to know of it.
"""

from __future__ import annotations

from collections.abc import Hashable
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import System, content_id
from parlai_ext.core.options import options_of
from parlai_ext.files.option_files import sha256
from parlai_ext.systems.family import Family, Options
from parlai_ext.systems.family_hugging_face import (
    CausalLm,
    DialoGpt,
    Gpt2,
    HuggingFace,
)
from parlai_ext.systems.family_passages import Passages
from parlai_ext.systems.family_rankers import Ranker
from parlai_ext.systems.family_remote import Remote
from parlai_ext.systems.safety_options import (
    SAFETY_SYSTEM,
    SafetyOptions,
    read_deflections,
    system_inside,
)


class Bart(Family):
    """
    BART and R2C2: their parser asks for GPT-2's tokenizer (agents/bart/bart.py:65).
    """

    agents = ('bart',)
    dict_tokenizer = 'gpt2'


class LongContext(Family):
    """
    The MSC models, which ParlAI's plain generator would load and misread.
    """

    agents = ('ext:long_context',)
    misreaders = (
        'transformer/generator',
        'parlai.agents.transformer.transformer:TransformerGeneratorAgent',
    )

    def refuse_reader(self, opt: Options) -> None:
        """
        Refuse MSC's own class, which ParlAI's wheel lacks, and the plain generator.
        """
        agent, pretrained = str(opt.get('model')), opt.get('n_positions_init')
        reads = f'{self.agents[0]} reads it'
        if agent.startswith('projects.msc.'):
            raise UserError(f'model: {agent} is not in ParlAI; {reads}')
        if agent not in self.misreaders or not isinstance(pretrained, int):
            return
        from parlai.agents.transformer.modules import get_n_positions_from_options

        size = get_n_positions_from_options(opt)
        if pretrained < size:
            raise UserError(
                f'model: {agent} would misread contexts of more than {pretrained} '
                f'tokens: n_positions_init is {pretrained}, n_positions {size}; '
                f'{reads}'
            )


class SafetyLayer(Family):
    """
    A safety layer around another system, which decides all but the sentences by which
    it is replaced.
    """

    agents = ('ext:safety_layer',)
    # whose contents are taken instead
    place_options = (SAFETY_SYSTEM, 'safety_detector', 'safety_deflections')

    def inner_system(self, opt: Options) -> System:
        return system_inside(opt)

    def locate_weights(self, system: System, datapath: str | None) -> tuple[str, str]:
        inner, family = _inner(system.opt)
        return family.locate_weights(inner, datapath)

    def weight_bytes(self, system: System, datapath: str | None) -> int:
        inner, family = _inner(system.opt)
        return family.weight_bytes(inner, datapath)

    def weights_key(self, opt: Options) -> Hashable:
        inner, family = _inner(opt)
        return family.weights_key(inner.opt)

    def contents(
        self, system: System, opt: Options, datapath: str | None
    ) -> dict[str, str]:
        """
        Return the hashes of the sentences, and of the files that the detector reads.
        """
        default = options_of(SafetyOptions)['detector'].default
        name, *settings = str(opt.get('safety_detector') or default).split(',')
        kind, _, file = name.rpartition('=')
        path = Path(file).expanduser()
        detector = [kind, sha256(path) if path.is_file() else file, *settings]
        return {
            'deflections': content_id(*read_deflections(opt)),
            'detector': content_id(*detector),
        }

    def samples(self, opt: Options) -> bool:
        inner, family = _inner(opt)
        return family.samples(inner.opt)

    def pin(self, opt: Options) -> dict[str, Any]:
        inner, family = _inner(opt)
        return {**opt, SAFETY_SYSTEM: family.pin(inner.opt)}


def _inner(opt: Options) -> tuple[System, Family]:
    """
    Return the system inside a safety layer, and its family.
    """
    inner = system_inside(opt)
    return inner, family_of(inner.opt)


# the first that covers a system's options is its family
FAMILIES: dict[str, Family] = {
    'remote': Remote(),
    'hugging_face': HuggingFace(),
    'dialogpt': DialoGpt(),
    'gpt2': Gpt2(),
    'passages': Passages(),
    'ranker': Ranker(),
    'bart': Bart(),
    'long_context': LongContext(),
    'safety_layer': SafetyLayer(),
    'causal_lm': CausalLm(),
}
GENERATOR = Family()  # every other
PLACE_OPTIONS = frozenset(
    key for family in FAMILIES.values() for key in family.place_options
)


def family_of(opt: Options) -> Family:
    """
    Return the family of a system with these options.
    """
    return next((f for f in FAMILIES.values() if f.covers(opt)), GENERATOR)


def check_reader(opt: Options) -> None:
    """
    Refuse an agent that would misread a model of another family.

    :param opt: the model's own options with the roster's over them.
    :raises UserError: naming the agent that reads it.
    """
    for family in FAMILIES.values():
        family.refuse_reader(opt)
