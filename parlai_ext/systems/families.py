"""
The registry of agent families, and the families that need a few lines only.

To add a family, subclass `Family` in a file of its own (or here, if it is small) and
name it in `FAMILIES`. Nothing else of the program has to know of it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.systems.family import Family
from parlai_ext.systems.family_hugging_face import DialoGpt, Gpt2, HuggingFace
from parlai_ext.systems.family_passages import Passages
from parlai_ext.systems.family_rankers import Ranker
from parlai_ext.systems.family_remote import Remote


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

    def refuse_reader(self, opt: Mapping[str, Any]) -> None:
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
}
GENERATOR = Family()  # every other
PLACE_OPTIONS = frozenset(
    key for family in FAMILIES.values() for key in family.place_options
)


def family_of(opt: Mapping[str, Any]) -> Family:
    """
    Return the family of a system with these options.
    """
    return next((f for f in FAMILIES.values() if f.covers(opt)), GENERATOR)


def check_reader(opt: Mapping[str, Any]) -> None:
    """
    Refuse an agent that would misread a model of another family.

    :param opt: the model's own options with the roster's over them.
    :raises UserError: naming the agent that reads it.
    """
    for family in FAMILIES.values():
        family.refuse_reader(opt)
