"""
The model catalogue: one card for each model that may be named by a short name.

``zoo_configs/models/NAME.yaml`` is a card; docs/models.md explains its keys. A card
pins every byte: the files of a model by SHA-256, and the places that have them.
"""

import os
from functools import cache
from typing import Annotated, Self

from pydantic import Field, model_validator

from parlai_ext import zoo_configs
from parlai_ext.core import UserError, require_known
from parlai_ext.core.records import Record, WholeNumber
from parlai_ext.files.yaml_file import read_file

Positive = Annotated[WholeNumber, Field(ge=1)]
Sha256 = Annotated[str, Field(pattern='^[0-9a-f]{64}$')]
TOGETHER = (
    ('repository', 'revision'),
    ('vectors', 'words'),
    ('weights_h5', 'tokenizer_pickle', 'labels'),
)


class ModelFile(Record):
    """
    One file of a model as its sources have it: its name in the folder of the model, its
    size in bytes.
    """

    name: str
    size: Positive
    sha256: Sha256


class Wheel(Record):
    """
    A wheel of PyPI that carries a model or a part of one: project and version there,
    its size in bytes.
    """

    project: str
    version: str
    size: Positive
    sha256: Sha256


class ModelCard(Record):
    """
    What is known of a model, and where its files are.

    :param licence: its SPDX name.
    :param files: as every source has them.
    :param gguf: the file that is converted to safetensors.
    :param vectors, words: word vectors (.npy), which are converted, and their words
        (.parquet).
    :param weights_h5, tokenizer_pickle, labels: weights of Keras, to be converted, and
        what belongs to them.
    :param joined: parts in the wheels: together a zip file.
    :param folder: where the files lie in wheel or zip file.
    :param repository, revision: of the Hugging Face hub, and its commit.
    """

    title: str
    page: str
    licence: str
    kinds: tuple[str, ...]
    good_for: str
    parameters: Positive
    files: tuple[ModelFile, ...]
    gguf: str | None = None
    vectors: str | None = None
    words: str | None = None
    weights_h5: str | None = None
    tokenizer_pickle: str | None = None
    labels: tuple[str, ...] = ()
    wheels: tuple[Wheel, ...] = ()
    joined: str | None = None
    folder: str | None = None
    repository: str | None = None
    revision: str | None = None

    @model_validator(mode='after')
    def _check(self) -> Self:
        if not self.wheels and not self.repository:
            raise ValueError('wheels or a repository is needed')
        for group in TOGETHER:
            if len({bool(getattr(self, key)) for key in group}) > 1:
                raise ValueError(f'{", ".join(group)} go together')
        names = {None, *(file.name for file in self.files)}
        for key in ('gguf', 'vectors', 'words', 'weights_h5', 'tokenizer_pickle'):
            if getattr(self, key) not in names:
                raise ValueError(f'{key}: it is none of the files')
        return self

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
    names = zoo_configs.names('models')
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
    require_known(name, model_names(), f'no model {name!r:.80}')
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
    doc = read_file(path)
    return doc.record(ModelCard)
