"""
Words and stems of a turn, as tf-idf and the concepts see them, and where the concepts
of a dialogue come from: a list of function words, a tagger, files.

Words are in lower case, without ASCII punctuation, Treebank tokens, Porter stems. A
tournament says the same words over and over, so every word is looked at once. A
dictionary maps a word to its concept (its stem), in the order of the dialogue, since
among equally rare concepts the first counts as rarer.
"""

import json
import string
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache, partial
from importlib.metadata import version
from itertools import pairwise
from pathlib import Path
from typing import Any

from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]
from nltk.tokenize import NLTKWordTokenizer  # type: ignore[import-untyped]

from parlai_ext.core import Dialogue, UserError, bytes_hash, frozen, parse_json
from parlai_ext.core.records import record_from_json

CACHED = 1 << 16
UNPUNCTUATED = {ord(mark): None for mark in string.punctuation}
TREEBANK = NLTKWordTokenizer()
PORTER = PorterStemmer()
# of three letters and the rest
CONTRACTED = {
    word: (word[:3], word[3:])
    for word in ['cannot', 'gimme', 'gonna', 'gotta', 'lemme', 'wanna']
}
# the script adds them against division by 0, and its numbers show it
ABOVE, BELOW = 1e-12, 1e-5


@lru_cache(CACHED)
def words(text: str) -> tuple[str, ...]:
    """
    Return the words of a text.

    The Treebank rules have nothing to do on ASCII text without punctuation but to part
    a few contractions; other text (curly quotes, dashes, emoji) goes through all.
    """
    plain = text.lower().translate(UNPUNCTUATED)
    if not plain.isascii():
        return tuple(TREEBANK.tokenize(plain))
    return tuple(p for word in plain.split() for p in CONTRACTED.get(word, (word,)))


@lru_cache(CACHED)
def stem(word: str) -> str:
    """
    Return the Porter stem of a word.
    """
    return PORTER.stem(word)


@lru_cache(CACHED)
def stems(text: str) -> tuple[str, ...]:
    """
    Return the stems of a text's words.
    """
    return tuple(map(stem, words(text)))


@lru_cache(CACHED)
def distinct(text: str, unit: str) -> tuple[float, float]:
    """
    Return distinct-1 and distinct-2 (Li et al. 2016) of a turn: the share of different
    unigrams and of different bigrams.

    Of characters, as the script computes it; or of words, exactly, where a turn without
    bigrams has a distinct-2 of 0.
    """
    seen, above, below = words(text), 0.0, 0.0
    if unit == 'character':
        seen, above, below = tuple(text), ABOVE, BELOW
    shares = []
    for n, different in (1, set(seen)), (2, set(pairwise(seen))):
        total = max(0, len(seen) - n + 1) + below
        shares.append((len(different) + above) / total if total else 0.0)
    return shares[0], shares[1]


DEFAULT = 'content_words'
ENDING = '.jsonl'
# nouns, adjectives, verbs, foreign words, predeterminers and possessive endings; no
# proper nouns: the tags whose words are concepts in the released script
OPEN_CLASSES = 'FW JJ NN NNS NNPS PDT POS VB VBD VBG VBN VBP VBZ'
TAGS = OPEN_CLASSES.split()
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


@frozen
class Finder:
    """
    Finds the concepts of a dialogue, `None` where there are none, or the named entities
    of texts; `signature` says by which program and version.
    """

    signature: str
    find: Callable[[Any], Any]


def load_dictionaries(name: str) -> Finder:
    """
    Return the dictionaries called ``name``: ``content_words``, ``nltk``, or a file or
    folder of JSON dictionaries (``FIRST_SECOND.jsonl`` after the speakers).

    :raises UserError: when there is no such thing.
    """
    if name == DEFAULT:
        return Finder('content_words-1', all_but_function_words)
    if name == 'nltk':
        from nltk.tag.perceptron import PerceptronTagger  # type: ignore[import-untyped]

        try:
            tag = PerceptronTagger().tag
        except LookupError as error:
            raise UserError(
                "scorer: concepts: nltk's tagger has no weights; `python -m "
                'nltk.downloader averaged_perceptron_tagger_eng` gets them; `concepts: '
                f'{DEFAULT}` needs nothing'
            ) from error
        find = partial(content_words_by_tags, tagger=tag)
        return Finder(f'nltk-{version("nltk")}', find)
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


def dictionaries_from_files(path: Path) -> Finder:
    """
    Return the dictionaries in one file, for all dialogues, or in a folder.

    :raises UserError: for a folder without any, or a file that is none; it is named.
    """
    paths = [path] if path.is_file() else sorted(path.glob('*' + ENDING))
    if not paths:
        raise UserError(f'scorer: concepts {path}: no *{ENDING} in this folder')
    dictionaries = {}
    for one in paths:
        try:
            data = parse_json(one.read_bytes())
            dictionaries[one.stem] = record_from_json(dict[str, str], data)
        except (OSError, ValueError) as error:
            raise UserError(f'scorer: concepts {one}: {error}') from error
    content = json.dumps(list(dictionaries.items())).encode()
    digest = bytes_hash(content)[:10]
    find = partial(dictionary_of_speakers, dictionaries)
    if path.is_file():
        find = partial(dictionaries.get, path.stem)
    return Finder(f'files-{digest}', find)


def dictionary_of_speakers(
    dictionaries: Mapping[str, dict[str, str]], dialogue: Dialogue
) -> dict[str, str] | None:
    """
    Return the dictionary that is named after the speakers of a dialogue.
    """
    names = dialogue.speakers[:2] or ('',)
    first, second = names[0], names[-1]
    keys = [f'{first}_{second}', f'{second}_{first}']
    if first == second:
        keys.append(f'{first}_1_{first}_2')
    return next((dictionaries[key] for key in keys if key in dictionaries), None)
