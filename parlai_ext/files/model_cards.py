"""
The model catalogue: one card for each model that may be named by a short name.

``zoo_configs/models/NAME.yaml`` is a card; docs/models.md explains its keys. A card
pins every byte: the files of a model by SHA-256, and the places that have them.
"""

import os
import re
from dataclasses import replace
from functools import cache
from typing import Any

from parlai_ext import zoo_configs
from parlai_ext.core import UserError, frozen, nearest, option, optional, options_of
from parlai_ext.files.yaml_file import Document, read_file

KINDS = (
    'likelihood',
    'chat',
    'embedder',
    'classifier',
    'word_vectors',
    'masked_lm',
    'token_classifier',
    'regressor',
    'pair_encoder',
)
SHA256 = re.compile('[0-9a-f]{64}')
TOGETHER = (
    ('repository', 'revision'),
    ('vectors', 'words'),
    ('weights_h5', 'tokenizer_pickle', 'labels'),
)


@frozen(kw_only=True)
class ModelFile:
    """
    One file of a model as its sources have it.
    """

    name: str = option(help='its name in the folder of the model')
    size: int = option(help='bytes', low=1)
    sha256: str = option(help='64 hexadecimal digits')


@frozen(kw_only=True)
class Wheel:
    """
    A wheel of PyPI that carries a model or a part of one.
    """

    project: str = option(help='its name on PyPI')
    version: str = option(help='its version')
    size: int = option(help='bytes', low=1)
    sha256: str = option(help='64 hexadecimal digits')


@frozen(kw_only=True)
class ModelCard:
    """
    What is known of a model, and where its files are.
    """

    title: str = option(help='what it is')
    page: str = option(help='the page of its authors')
    licence: str = option(help='SPDX name')
    kinds: tuple[str, ...] = option(help=f'what it can be: {", ".join(KINDS)}')
    good_for: str = option(help='what it is good for')
    parameters: int = option(help='number of parameters', low=1)
    files: tuple[ModelFile, ...] = option(help='the files, as every source has them')
    gguf: str | None = optional(help='the file that is converted to safetensors')
    vectors: str | None = optional(help='word vectors (.npy), which are converted')
    words: str | None = optional(help='the words of the vectors (.parquet)')
    weights_h5: str | None = optional(help='weights of Keras, to be converted')
    tokenizer_pickle: str | None = optional(help='the tokenizer of these weights')
    labels: tuple[str, ...] = option((), help='the labels of these weights')
    wheels: tuple[Wheel, ...] = option((), help='wheels of PyPI that carry the files')
    joined: str | None = optional(help='parts in the wheels: together a zip file')
    folder: str | None = optional(help='where the files lie in wheel or zip file')
    repository: str | None = optional(help='repository of the Hugging Face hub')
    revision: str | None = optional(help='its commit')

    @property
    def download_bytes(self) -> int:
        """
        The bytes to be downloaded from the first source.
        """
        sources = self.wheels or self.files
        return sum(source.size for source in sources)

    @property
    def disk_bytes(self) -> int:
        """
        The bytes that the model takes on the disk: converted weights are in float32.
        """
        if self.is_converted:
            return 4 * self.parameters
        return sum(file.size for file in self.files)

    @property
    def is_converted(self) -> bool:
        """
        True if the model is not used as its sources have it.
        """
        return bool(self.gguf or self.vectors or self.weights_h5)

    def addresses(self) -> list[str]:
        """
        Return the pages of the sources, in the order in which they are tried.
        """
        pages = [
            f'https://pypi.org/project/{w.project}/{w.version}/' for w in self.wheels
        ]
        if self.repository:
            pages.append(
                f'https://huggingface.co/{self.repository}/tree/{self.revision}'
            )
        return pages


def model_names(kind: str | None = None) -> list[str]:
    """
    Return the names in the catalogue, of models of one kind or of all.
    """
    names = sorted(path.stem for path in (zoo_configs.HOME / 'models').glob('*.yaml'))
    return [name for name in names if kind is None or kind in model_card(name).kinds]


def is_model_name(name: str) -> bool:
    """
    True if a name stands for a model of the catalogue.
    """
    path = zoo_configs.HOME / 'models' / f'{name}.yaml'
    return '/' not in name and os.path.isfile(path)  # which a long name cannot be


def checked_model_name(name: str) -> str:
    """
    Return a name of the catalogue as it is.

    :raises UserError: with the nearest name, when there is no such model.
    """
    if not is_model_name(name):
        raise UserError(f'no model {name!r:.80}; {nearest(name, model_names())}')
    return name


def check_kind(name: str, kind: str) -> None:
    """
    Refuse a model of the catalogue that is none of this kind.
    """
    kinds = model_card(name).kinds
    if kind not in kinds:
        others = ', '.join(model_names(kind)) or 'no model of the catalogue'
        raise UserError(
            f'{name} is a model of the kind {" and ".join(kinds)}; {kind}: {others}'
        )


@cache
def model_card(name: str) -> ModelCard:
    """
    Return the card of a model.

    :raises UserError: for an unknown name, or names file, line and key of a mistake.
    """
    path = zoo_configs.HOME / 'models' / f'{checked_model_name(name)}.yaml'
    return read_model_card(read_file(path))


def read_model_card(doc: Document) -> ModelCard:
    """
    Return the card in a document.

    :raises UserError: names file, line and key of the first mistake.
    """
    card: ModelCard = doc.options(ModelCard, doc.data, ())
    parts: dict[str, Any] = {}
    for key, cls in (('files', ModelFile), ('wheels', Wheel)):
        entries = enumerate(getattr(card, key))
        parts[key] = tuple(doc.options(cls, entry, (key, i)) for i, entry in entries)
        for i, part in enumerate(parts[key]):
            if not SHA256.fullmatch(part.sha256):
                problem = f'{options_of(cls)["sha256"].help} are expected'
                raise doc.error((key, i, 'sha256'), problem)
    card = replace(card, **parts)
    for kind in card.kinds:
        if kind not in KINDS:
            raise doc.error('kinds', f'{kind!r}; {nearest(kind, KINDS)}')
    if not card.wheels and not card.repository:
        raise doc.error((), 'wheels or a repository is needed')
    for group in TOGETHER:
        if len({bool(getattr(card, key)) for key in group}) > 1:
            raise doc.error((), f'{", ".join(group)} go together')
    for key in ('gguf', 'vectors', 'words', 'weights_h5', 'tokenizer_pickle'):
        name = getattr(card, key)
        if name and name not in [file.name for file in card.files]:
            raise doc.error((key,), f'{name!r} is none of the files')
    return card
