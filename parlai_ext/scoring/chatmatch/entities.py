"""
Named entities, for knowledge: dates and numbers are none.

`gazetteer` and `capitals` need nothing; `spacy` and `stanza` an installed pipeline.
"""

import hashlib
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import Any

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.scoring.chatmatch.gazetteer import NAMES, names_in
from parlai_ext.scoring.chatmatch.words import words

UNCOUNTED = ('DATE', 'TIME', 'ORDINAL', 'CARDINAL')
DEFAULT = 'gazetteer'
KNOWN = ('gazetteer', 'capitals', 'spacy', 'stanza', 'none')
PIPELINES = {'spacy': 'en_core_web_sm', 'stanza': 'en'}
# a run of capitalised words; a sentence's first word is capitalised anyway
CAPITALS = re.compile(
    r"(?<![.?!]\s)(?<!^)(?<!\w)(?!I\b)[A-Z][\w'-]*(?:\s[A-Z][\w'-]*)*"
)

Finder = Callable[[Sequence[str]], list[list[str]]]


@dataclass(frozen=True)
class Recogniser:
    """
    Finds the entities of texts; `signature` says which pipeline and version.
    """

    signature: str
    find: Finder


def load_recogniser(name: str) -> Recogniser | None:
    """
    Return the recogniser called ``name``: ``gazetteer``, ``capitals``, ``spacy`` or
    ``stanza`` (``spacy:MODEL``, ``stanza:LANGUAGE`` for another pipeline), or ``none``.

    :raises UserError: when it is unknown, or what it needs is not installed.
    """
    kind, _, model = str(name).partition(':')
    if kind not in KNOWN or (model and kind not in PIPELINES):
        raise UserError(f'scorer: entities {name!r}; {nearest(kind, KNOWN)}')
    if kind == 'none':
        return None
    if kind == 'gazetteer':
        text = '\n'.join(sorted(map(' '.join, NAMES)))
        version = hashlib.sha256(text.encode()).hexdigest()[:8]
        return Recogniser(f'gazetteer-{version}', names_on_list)
    if kind == 'capitals':
        return Recogniser('capitals', capitalised_runs)
    load = {'spacy': load_spacy, 'stanza': load_stanza}[kind]
    return load(model or PIPELINES[kind])


def names_on_list(texts: Sequence[str]) -> list[list[str]]:
    """
    Return the names on the list that each text holds.
    """
    return [names_in(words(text)) for text in texts]


def capitalised_runs(texts: Sequence[str]) -> list[list[str]]:
    """
    Return the runs of capitalised words inside the sentences of each text.
    """
    return [CAPITALS.findall(text) for text in texts]


def load_spacy(model: str) -> Recogniser:
    """
    Return a spaCy pipeline's entities.

    :raises UserError: saying how to install it.
    """
    spacy = _library('spacy', f'python -m spacy download {model}')
    try:
        pipeline = spacy.load(model)
    except OSError as error:
        raise UserError(
            f'scorer: entities: spaCy has no pipeline {model!r}; '
            f'`python -m spacy download {model}` installs it'
        ) from error
    if 'ner' not in pipeline.pipe_names:
        raise UserError(f'scorer: entities: the pipeline {model!r} finds no entities')

    def find(texts: Sequence[str]) -> list[list[str]]:
        return [
            [e.text for e in document.ents if e.label_ not in UNCOUNTED]
            for document in pipeline.pipe(texts)
        ]

    version = f'{spacy.__version__}-{model}-{pipeline.meta.get("version")}'
    return Recogniser(f'spacy-{version}', find)


def load_stanza(language: str) -> Recogniser:
    """
    Return a stanza pipeline's entities; the authors used its English one.

    :raises UserError: saying how to install it.
    """
    download = f'python -c "import stanza; stanza.download(\'{language}\')"'
    stanza = _library('stanza', download)
    try:
        pipeline = stanza.Pipeline(
            language,
            processors='tokenize,ner',
            download_method=None,
            verbose=False,
        )
    except Exception as error:  # its own classes differ between versions
        raise UserError(
            f'scorer: entities: stanza has no pipeline {language!r}; '
            f'`{download}` installs it'
        ) from error

    def find(texts: Sequence[str]) -> list[list[str]]:
        return [
            [e.text for e in pipeline(text).entities if e.type not in UNCOUNTED]
            if text.strip()
            else []
            for text in texts
        ]

    return Recogniser(f'stanza-{stanza.__version__}-{language}', find)


def _library(name: str, download: str) -> Any:
    try:
        return import_module(name)
    except ImportError as error:
        raise UserError(
            f'scorer: entities: {name} is not installed; `pip install {name}`, then '
            f'`{download}`; `entities: {DEFAULT}` needs nothing'
        ) from error
