"""
Prompts of LLM judges, read from YAML files: what is asked, and what answers mean.

    level: turn                       # or dialogue, pair
    scale: {lowest: 1, highest: 5}    # or labels: {'Yes': 1, 'No': 0}
    dimensions:
      Overall: is it a good response, all in all?
    prompt: |
      …{context}…{response}…{question}…

A ``{name}`` in the prompt is replaced by what the item has; other braces stay. With
``answer: json`` one prompt asks for all dimensions as a JSON object; otherwise each
dimension is asked for by itself, and the answer is one of the labels.
"""

import re
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from parlai_ext.core.errors import nearest
from parlai_ext.core.nouns import content_id
from parlai_ext.core.options import option
from parlai_ext.files.yaml_file import Document
from parlai_ext.scoring.base import LEVELS
from parlai_ext.scoring.shipped_file import read_shipped_file

PLACEHOLDER = re.compile(r'\{([a-z_]+)\}')
# what each level's prompt shows, and must show
SHOWN: Mapping[str, tuple[str, ...]] = {
    'turn': ('context', 'response'),
    'dialogue': ('dialogue',),
    'pair': ('context', 'first', 'second'),
}
MAY_BE_SHOWN = ('facts', 'persona', 'references')
MOST_LABELS = 101  # of a scale, each of which is a question to a local model


@dataclass(frozen=True)
class Prompt:
    """
    A prompt: its text, its dimensions with the question about each, and its labels.

    Of a scale, the labels are its whole numbers, and an answer in between, such as 3.5,
    is one as well; of an answer in JSON they are the ends of the scale.
    """

    level: str = option(choices=LEVELS, help='what is judged')
    prompt: str = option(help='what is asked, with {names} of what is shown')
    dimensions: dict[str, str] = option(help='each dimension and the question about it')
    description: str = option('', help='what the prompt is for')
    source: str = option('', help='the paper behind it')
    answer: str = option(
        'label',
        choices=('label', 'json'),
        help='label: one of the labels, asked for each dimension; json: an object with '
        'a number for each dimension',
    )
    scale: dict[str, float] | None = option(None, help='lowest and highest number')
    labels: dict[str, float] = option(None, help='each answer and its score')

    @property
    def lowest(self) -> float:
        """
        The lowest score.
        """
        return min(self.labels.values())

    @property
    def highest(self) -> float:
        """
        The highest score.
        """
        return max(self.labels.values())

    @property
    def numeric(self) -> bool:
        """
        True if the labels are the numbers of a scale.
        """
        return self.scale is not None

    @property
    def hash(self) -> str:
        """
        A hash of all that scores depend on.
        """
        return content_id(
            'prompt',
            self.level,
            self.prompt,
            list(self.dimensions.items()),
            self.answer,
            list(self.labels.items()),
            self.lowest,
            self.highest,
            self.numeric,
        )

    @property
    def needs(self) -> tuple[str, ...]:
        """
        The fields of an item, besides what is judged, that the prompt shows.
        """
        shown = PLACEHOLDER.findall(self.prompt)
        return tuple(name for name in MAY_BE_SHOWN if name in shown)

    def filled(self, texts: Mapping[str, str]) -> str:
        """
        Return the prompt with each ``{name}`` replaced; a text in which a name stands
        in braces stays as it is.
        """
        return PLACEHOLDER.sub(lambda match: texts[match[1]], self.prompt).strip()


def prompt_option(default: str) -> Any:
    """
    Return the option that names a prompt.
    """
    return option(
        default,
        help='what is asked, and what answers mean: a shipped prompt, or a file',
        metavar='NAME|FILE',
        path=True,
    )


def load_prompt(name: str, level: str) -> Prompt:
    """
    Return a shipped prompt, or that of a file of the user's.

    :param level: of the scorer that asks it.
    :raises UserError: with file, line and key.
    """
    doc = read_shipped_file('prompts', name, 'prompt')
    prompt = read_prompt(doc)
    if prompt.level != level:
        raise doc.error(('level',), f'{prompt.level}; this scorer judges a {level}')
    return prompt


def read_prompt(doc: Document) -> Prompt:
    """
    Return the prompt in a document.

    :raises UserError: with file, line and key.
    """
    keys = doc.options(Prompt, doc.data or {}, ())
    for name, question in keys.dimensions.items():
        doc.typed(question, ('dimensions', name), str)
    if not keys.dimensions:
        raise doc.error(('dimensions',), 'one dimension at least is expected')
    prompt = replace(keys, labels=_labels(doc, keys))
    if prompt.level == 'pair' and (prompt.lowest, prompt.highest) != (0, 1):
        problem = 'of a pair the first is better at 1, the second at 0'
        raise doc.error(('labels',), problem)
    asked = ('question',) if prompt.answer == 'label' else ()
    needed = (*SHOWN[prompt.level], *asked)
    known = (*needed, *MAY_BE_SHOWN, 'lowest', 'highest', 'questions', 'judged')
    names = set(PLACEHOLDER.findall(prompt.prompt))
    for name in sorted(names - set(known)):
        problem = f'{{{name}}}: a {prompt.level} has none; {nearest(name, known)}'
        raise doc.error(('prompt',), problem)
    several = len(prompt.dimensions) > 1
    for name in needed:
        if name not in names and (name != 'question' or several):
            raise doc.error(('prompt',), f'{{{name}}} is missing')
    return prompt


def _labels(doc: Document, keys: Prompt) -> dict[str, float]:
    """
    Return each label with its score.
    """
    if (keys.scale is None) == (keys.labels is None):
        raise doc.error((), 'either scale or labels is expected')
    if keys.labels is not None:
        if keys.answer == 'json':
            raise doc.error(('labels',), 'an answer in JSON has a scale, no labels')
        values: dict[str, float] = {}
        for name, value in keys.labels.items():
            where = ('labels', name)
            values[name] = doc.typed(value, where, float)
            if not name.strip():
                raise doc.error(where, 'a word and its score are expected')
        if len(set(values.values())) < 2:
            problem = 'two labels with different scores are expected'
            raise doc.error(('labels',), problem)
        return values
    scale = doc.mapping(keys.scale, ('scale',), ('lowest', 'highest'), 'scale')
    lowest, highest = (
        doc.typed(scale.get(key), ('scale', key), int) for key in ('lowest', 'highest')
    )
    if not 0 < highest - lowest < MOST_LABELS:
        raise doc.error(('scale',), f'2 to {MOST_LABELS} numbers are expected')
    if keys.answer == 'json':
        return {str(end): float(end) for end in (lowest, highest)}
    return {str(n): float(n) for n in range(lowest, highest + 1)}
