"""
METEOR of a response and its references, by the library `nltk`.

Words are matched exactly, then by Porter stem, then as synonyms of WordNet; the score
is a mean of precision and recall that weighs recall more, less a penalty for matches
that stand apart (Lavie and Agarwal 2007, their parameters). Words are those of nltk's
Treebank tokenizer, in lower case. The library looks synonyms up by the stems of the
words that are left ("automobil"), so it misses some that METEOR means.

WordNet is a data set of its own: Debian's package `wordnet-base`, or `python -m
nltk.downloader wordnet`, has it. `wordnet: none` leaves the synonyms out, which makes
another metric with another signature.
"""

import hashlib
import io
import os
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import nltk.data  # type: ignore[import-untyped]
from nltk.tokenize import NLTKWordTokenizer  # type: ignore[import-untyped]

from parlai_ext.core.errors import UserError
from parlai_ext.scoring.base import file_option
from parlai_ext.scoring.references import Pair, ReferenceScorer

TREEBANK = NLTKWordTokenizer()
NONE = 'none'
INSTALLED: tuple[str, ...] = ('/usr/share/wordnet', '/opt/homebrew/opt/wordnet/dict')
PARTS = ('adj', 'adv', 'noun', 'verb')
FILES = [f'{kind}.{part}' for kind in ('index', 'data') for part in PARTS]
FILES += [f'{part}.exc' for part in PARTS]
LEXNAMES = 45  # lexicographer files of WordNet 3; METEOR does not use their names


@dataclass(frozen=True)
class MeteorOptions:
    """
    Where synonyms come from.
    """

    wordnet: str | None = file_option(
        'folder of the files of WordNet (default: that of nltk, of $WNSEARCHDIR, or of '
        'the system); none: without synonyms',
        'FOLDER',
    )


class Meteor(ReferenceScorer):
    """
    METEOR from 0 to 1; higher is better.
    """

    name = 'meteor'
    options_class = MeteorOptions
    options: MeteorOptions
    module, package = 'nltk.translate.meteor_score', 'nltk'

    def prepare(self) -> None:
        """
        Find WordNet, which is read with the first score.
        """
        super().prepare()
        self.root = None
        if self.options.wordnet != NONE:
            self.root = wordnet_root(self.options.wordnet)

    def load_models(self) -> None:
        """
        Have the content of WordNet signed.
        """
        content = NONE
        if self.root is not None:
            digest = hashlib.sha256()
            for name in FILES:
                with self.root.join(name).open() as file:
                    digest.update(hashlib.sha256(file.read()).digest())
            content = digest.hexdigest()[:16]
        self.signed = {**self.signed, 'wordnet': content}

    @cached_property
    def wordnet(self) -> Any:
        """
        WordNet, or an object that knows no synonym.
        """
        if self.root is None:
            return SimpleNamespace(synsets=lambda word: [])
        return read_wordnet(self.root)

    def pair_scores(self, pairs: Sequence[Pair]) -> list[float | None]:
        """
        Return the METEOR of each response and reference.
        """
        words = {text: TREEBANK.tokenize(text) for pair in pairs for text in pair}
        return [
            float(
                self.library.single_meteor_score(
                    words[reference], words[response], wordnet=self.wordnet
                )
            )
            for response, reference in pairs
        ]


def wordnet_root(folder: str | None) -> Any:
    """
    Return the place of WordNet's files, as a path pointer of nltk.

    :param folder: the user's folder; `None` looks for one.
    :raises UserError: when it is not there, with where it can be had.
    """
    places = INSTALLED
    if folder is not None:
        places = (folder,)
    elif given := os.environ.get('WNSEARCHDIR'):
        places = (given, *INSTALLED)
    for place in map(Path, places):
        if all((place / name).is_file() for name in FILES):
            resolved = str(place.resolve())
            if resolved not in nltk.data.path:  # it reads only folders that are there
                nltk.data.path.append(resolved)
            return nltk.data.FileSystemPathPointer(resolved)
    if folder is not None:
        raise UserError(
            f'scorer meteor: wordnet {folder}: no folder with the files of WordNet '
            f'({FILES[0]}, …)'
        )
    try:
        return nltk.data.find('corpora/wordnet.zip/wordnet/')
    except LookupError:
        raise UserError(
            "scorer meteor: WordNet is not here; Debian's package wordnet-base or "
            '`python -m nltk.downloader wordnet` has it, wordnet=FOLDER names it, and '
            'wordnet=none leaves synonyms out'
        ) from None


@cache
def read_wordnet(root: Any) -> Any:
    """
    Read WordNet's files, which takes some seconds.
    """
    from nltk.corpus.reader.wordnet import (  # type: ignore[import-untyped]
        WordNetCorpusReader,
    )

    class Synonyms(WordNetCorpusReader):
        """
        WordNet for looking up synonyms, which needs no other file than `FILES`.
        """

        def open(self, file: str) -> Any:
            """
            Open a file; Princeton's and Debian's WordNet have no `lexnames`.
            """
            if file == 'lexnames':
                return io.StringIO(''.join(f'{i} {i} 0\n' for i in range(LEXNAMES)))
            return super().open(file)

        def map_wn(self, version: str = 'wordnet') -> None:
            """
            Other languages, for which versions are compared, are not needed.
            """

    with warnings.catch_warnings():
        warnings.simplefilter('ignore')  # that there are no other languages
        return Synonyms(root, None)
