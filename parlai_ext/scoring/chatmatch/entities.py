"""
Named entities, for knowledge: dates and numbers are none.

`gazetteer` and `capitals` need nothing; `spacy` and `stanza` an installed pipeline.
"""

import hashlib
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import NamedTuple

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.scoring.chatmatch.gazetteer import NAMES, names_in
from parlai_ext.scoring.chatmatch.words import words

UNCOUNTED = ('DATE', 'TIME', 'ORDINAL', 'CARDINAL')
DEFAULT = 'gazetteer'
KNOWN = ('gazetteer', 'capitals', 'spacy', 'stanza', 'none')
INSTEAD = f'; `entities: {DEFAULT}` needs nothing'
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


class ReadText(NamedTuple):
    """
    How a pipeline reads a text: begin and end of its tokens, and of its entities with
    their labels.
    """

    text: str
    tokens: Sequence[tuple[int, int]]
    entities: Sequence[tuple[int, int, str]]


@dataclass(frozen=True)
class Pipeline:
    """
    A library's pipeline: its name with versions, what reads texts, and its parts.
    """

    signature: str
    read: Callable[[Sequence[str]], Iterator[ReadText]]
    parts: Sequence[str]


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
    pipeline = load_pipeline(name, 'scorer: entities', INSTEAD)
    if 'ner' not in pipeline.parts:
        raise UserError(f'scorer: entities: the pipeline {model!r} finds no entities')
    return Recogniser(pipeline.signature, partial(entities_of, pipeline))


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


def entities_of(pipeline: Pipeline, texts: Sequence[str]) -> list[list[str]]:
    """
    Return the entities that a pipeline finds in each text, but for dates and numbers.
    """
    return [
        [text[begin:end] for begin, end, label in found if label not in UNCOUNTED]
        for text, _, found in pipeline.read(texts)
    ]


def load_pipeline(name: str, where: str, instead: str = '') -> Pipeline:
    """
    Return an installed pipeline: ``spacy`` or ``stanza``, or, with a colon, another
    than their English one.

    :param where: stands before the problem in an error, `instead` behind it.
    :raises UserError: saying how to install it.
    """
    kind, _, model = name.partition(':')
    if kind not in PIPELINES:
        raise UserError(f'{where}: {name!r}; {nearest(kind, PIPELINES)}')
    load, usual, download = PIPELINES[kind]
    model = model or usual
    download = f'`{download.format(model)}`'
    try:
        return load(model)
    except ImportError:
        problem = f'{kind} is not installed; `pip install {kind}`, then {download}'
    except Exception:  # their own classes differ between versions
        problem = f'{kind} cannot load its pipeline {model!r}; {download} installs it'
    raise UserError(f'{where}: {problem}{instead}')


def _spacy(model: str) -> Pipeline:
    import spacy

    nlp = spacy.load(model)

    def read(texts: Sequence[str]) -> Iterator[ReadText]:
        for document in nlp.pipe(texts):
            tokens = [(t.idx, t.idx + len(t)) for t in document]
            found = [(e.start_char, e.end_char, e.label_) for e in document.ents]
            yield ReadText(document.text, tokens, found)

    signature = f'spacy-{spacy.__version__}-{model}-{nlp.meta.get("version")}'
    return Pipeline(signature, read, nlp.pipe_names)


def _stanza(language: str) -> Pipeline:
    import stanza

    parts = 'tokenize,ner'
    nlp = stanza.Pipeline(
        language, processors=parts, download_method=None, verbose=False
    )

    def read(texts: Sequence[str]) -> Iterator[ReadText]:
        for text in texts:
            document = nlp(text) if text.strip() else None
            sentences = document.sentences if document else []
            tokens = [(t.start_char, t.end_char) for s in sentences for t in s.tokens]
            entities = document.ents if document else []
            found = [(e.start_char, e.end_char, e.type) for e in entities]
            yield ReadText(text, tokens, found)

    return Pipeline(f'stanza-{stanza.__version__}-{language}', read, parts.split(','))


PIPELINES = {  # what loads it, the usual one, and how it is installed
    'spacy': (_spacy, 'en_core_web_sm', 'python -m spacy download {}'),
    'stanza': (_stanza, 'en', 'python -c "import stanza; stanza.download(\'{}\')"'),
}
