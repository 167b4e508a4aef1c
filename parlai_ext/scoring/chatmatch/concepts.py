"""
Algorithm 3: a concept that comes back after a while is a bonus. And where the concepts
of a dialogue come from: a list of function words, a tagger, files.

A dictionary maps a word to its concept (its stem), in the order of the dialogue, since
among equally rare concepts the first counts as rarer.
"""

import hashlib
import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import version
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_json
from parlai_ext.core.nouns import Dialogue
from parlai_ext.scoring.chatmatch.rules import ChatMatchOptions
from parlai_ext.scoring.chatmatch.words import stem, stems, words

DEFAULT = 'content_words'
ENDING = '.jsonl'
# nouns, adjectives, verbs, foreign words, predeterminers and possessive endings; no
# proper nouns: the tags whose words are concepts in the released script
TAGS = (
    'FW',
    'JJ',
    'NN',
    'NNS',
    'NNPS',
    'PDT',
    'POS',
    'VB',
    'VBD',
    'VBG',
    'VBN',
    'VBP',
    'VBZ',
)
# what is left of contractions once the apostrophe is gone
SPLINTERS = frozenset(['d', 'ive', 'll', 'm', 'ont', 're', 's', 't', 've'])
CLOSED_CLASSES = """
    a about above across after again against ago ah all almost alone along already also
    although always among an and another any anybody anyone anyway anywhere around as at
    away back because before behind below beside besides between beyond both but by
    certainly definitely despite down during each either else enough especially even
    ever every everybody everyone everywhere exactly except few finally for from
    further haha he hello her here hers herself hey hi him himself his hmm how however
    i if in indeed inside instead into it its itself just least less lol many maybe me
    mine more most much my myself near nearly neither never no nobody none nope nor not
    now nowhere of off often oh ok okay on once one only onto or other others ought our
    ours ourselves out outside over particularly per perhaps please pretty probably
    quite rather really recently same several shall she should since so some somebody
    someone something sometimes somewhere somehow soon still such sure than that the
    their theirs them themselves then there therefore these they this those though
    three through throughout till to together too toward towards two under unless until
    up upon us usually very via we well what whatever when whenever where wherever
    whether which while who whoever whom whose why with within without wow yeah yep yes
    yet you your yours yourself yourselves can could may might must will would am is
    are was were be been being do does did have has had having don dont doesn doesnt
    didn didnt isn isnt wasn wasnt aren arent couldn couldnt wouldn wouldnt shouldn
    shouldnt hasn hasnt haven havent hadn hadnt cant wont im youre theyre weve youve id
"""
FUNCTION_WORDS = frozenset(CLOSED_CLASSES.split()) | SPLINTERS

Tagger = Callable[[Sequence[str]], Sequence[tuple[str, str]]]


@dataclass(frozen=True)
class Dictionaries:
    """
    Gives each dialogue its concepts, `None` where there are none.
    """

    signature: str
    find: Callable[[Dialogue], dict[str, str] | None]


def load_dictionaries(name: str) -> Dictionaries:
    """
    Return the dictionaries called ``name``: ``content_words``, ``nltk``, or a file or
    folder of JSON dictionaries (``FIRST_SECOND.jsonl`` after the speakers).

    :raises UserError: when there is no such thing.
    """
    if name == DEFAULT:
        return Dictionaries('content_words-1', all_but_function_words)
    if name == 'nltk':
        tagger = load_tagger()
        return Dictionaries(
            f'nltk-{version("nltk")}', partial(content_words_by_tags, tagger=tagger)
        )
    path = Path(name)
    if not path.exists():
        raise UserError(
            f'scorer: concepts {name!r} is no file or folder; {DEFAULT}, nltk or a '
            'path is expected'
        )
    return dictionaries_from_files(path)


def all_but_function_words(dialogue: Dialogue) -> dict[str, str]:
    """
    Return every word but function words and splinters.
    """
    all_words = (word for text in dialogue.texts for word in words(text))
    return {w: stem(w) for w in all_words if w not in FUNCTION_WORDS}


def content_words_by_tags(dialogue: Dialogue, tagger: Tagger) -> dict[str, str]:
    """
    Return the words that the tagger tags as nouns, verbs or adjectives, with their
    concepts.
    """
    stems: dict[str, str] = {}
    for text in dict.fromkeys(dialogue.texts):
        # of a word that a turn has twice, the last tag holds
        tags = dict(tagger(words(text)))
        stems |= {word: stem(word) for word, tag in tags.items() if tag in TAGS}
    return {word: root for word, root in stems.items() if word not in SPLINTERS}


def load_tagger() -> Tagger:
    """
    Return nltk's English tagger.

    :raises UserError: saying how to get its weights.
    """
    from nltk.tag.perceptron import (  # type: ignore[import-untyped]
        PerceptronTagger,
    )

    try:
        tag: Tagger = PerceptronTagger().tag
    except LookupError as error:
        raise UserError(
            "scorer: concepts: nltk's tagger has no weights; `python -m "
            f'nltk.downloader averaged_perceptron_tagger_eng` gets them; `concepts: '
            f'{DEFAULT}` needs nothing'
        ) from error
    return tag


def dictionaries_from_files(path: Path) -> Dictionaries:
    """
    Return the dictionaries in one file, for all dialogues, or in a folder.

    :raises UserError: for a folder without any.
    """
    paths = [path] if path.is_file() else sorted(path.glob('*' + ENDING))
    if not paths:
        raise UserError(f'scorer: concepts {path}: no *{ENDING} in this folder')
    dictionaries = {path.stem: read_dictionary(path) for path in paths}
    digest = hashlib.sha256(
        json.dumps(list(dictionaries.items())).encode()
    ).hexdigest()[:10]

    def find(dialogue: Dialogue) -> dict[str, str] | None:
        if path.is_file():
            return dictionaries[path.stem]
        names = dialogue.speakers[:2]
        first, second = names[0], names[-1]
        keys = [f'{first}_{second}', f'{second}_{first}']
        if first == second:
            keys.append(f'{first}_1_{first}_2')
        return next((dictionaries[key] for key in keys if key in dictionaries), None)

    return Dictionaries(f'files-{digest}', find)


def read_dictionary(path: Path) -> dict[str, str]:
    """
    Read a JSON object of words and their concepts.

    :raises UserError: naming the file.
    """
    try:
        concepts: Any = parse_json(path.read_bytes())
    except (OSError, ValueError) as error:
        raise UserError(f'scorer: concepts {path}: {error}') from error
    if not isinstance(concepts, dict) or not all(
        isinstance(concept, str) for concept in concepts.values()
    ):
        raise UserError(f'scorer: concepts {path}: an object of strings is expected')
    return concepts


def find_recalls(
    texts: Sequence[str], concepts: Mapping[str, str], rules: ChatMatchOptions
) -> tuple[int | None, ...]:
    """
    Return, for each turn, the earlier turn whose concept it recalls, or `None`.

    :param concepts: word to concept, in the order in which they were found.
    """
    important = important_concepts(texts, concepts, rules.concept_share)
    last: dict[str, int] = {}
    recalls: list[int | None] = []
    for i, text in enumerate(texts):
        recalled = None
        # the script does not look at the first turn
        for word in words(text) if not rules.released else text.split() if i else ():
            concept = concepts.get(word)
            if concept is None or concept not in important:
                continue
            before = last.get(concept, i)
            if i - before > rules.recall_distance and recalled is None:
                recalled = before
            last[concept] = i
        recalls.append(recalled)
    return tuple(recalls)


def important_concepts(
    texts: Sequence[str], concepts: Mapping[str, str], share: float
) -> set[str]:
    """
    Return the rarest concepts: a share of all, those that the fewest turns mention.

    Rare first is high inverse document frequency first. Among equals, the concept
    that was found first goes first.
    """
    num_turns = dict.fromkeys(concepts.values(), 0)
    for text in texts:
        for concept in set(stems(text)):
            if concept in num_turns:
                num_turns[concept] += 1
    ordered = sorted(num_turns, key=lambda concept: num_turns[concept])
    return {c for rank, c in enumerate(ordered) if rank < len(ordered) * share}
