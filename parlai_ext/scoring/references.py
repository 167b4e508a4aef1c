"""
Scorers that compare a response with references, which people wrote: n-grams, words,
their vectors, and those of models.

A subclass scores pairs (response, reference). Where there are several references the
best score counts (Gupta et al. 2019, "multi-reference"); the evidence says which one
gave it. An empty response and an item without a reference have no score.
"""

import hashlib
import io
import os
import warnings
from collections.abc import Sequence
from dataclasses import replace
from functools import cache, cached_property, partial
from importlib import import_module
from importlib.metadata import version
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import numpy as np

from parlai_ext.core import UserError, chunks, computed_once, frozen, option
from parlai_ext.scoring.base import (
    FROM,
    EncoderScorer,
    Items,
    ItemScore,
    ScoringItem,
    encoder_option,
    file_option,
    in_groups,
    model_option,
    row_cosines,
    tied,
    unit_rows,
)

OVERALL = 'Overall'
NO_REFERENCE = 'there is no reference'
Pair = tuple[str, str]  # response and reference
Scores = list[float | None]  # of pairs; `None` where they cannot be compared


class ReferenceScorer(EncoderScorer):
    """
    One score for a response: the best one over its references.

    :cvar module: the library behind the score, as it is imported; '' without one.
    :cvar package: its name on PyPI; its version is part of the signature.
    :cvar no_score: why a response with references may have no score.
    """

    dimensions = (OVERALL,)
    needs = ('references',)
    module = ''
    package = ''
    no_score = 'no reference can be compared with the response'

    def prepare(self) -> None:
        """
        Refuse to begin without the library.
        """
        if self.module:
            self.library = metric_library(self.name, self.module, self.package)
        if self.package:
            self.signed = {self.package: version(self.package)}

    def pair_scores(self, pairs: Sequence[Pair]) -> Scores:
        """
        Return the score of each response against a reference of it, higher is better.

        Neither is empty; equal pairs come once.
        """
        raise NotImplementedError

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the best score of each response over its references.
        """
        pairs = list(map(response_pairs, items))
        scores = in_groups(partial(computed_once, self.pair_scores), pairs)
        best_scores = []
        for item, of_item, values in zip(items, pairs, scores, strict=True):
            reason = self.no_score if of_item else NO_REFERENCE
            if not item.text.strip():
                reason = 'the response is empty'
            best = max((value for value in values if value is not None), default=None)
            evidence = None
            if best is not None:
                _, reference = of_item[values.index(best)]
                evidence = {'reference': item.references.index(reference)}
            best_scores.append(ItemScore({OVERALL: best}, {OVERALL: reason}, evidence))
        return best_scores


def response_pairs(item: ScoringItem) -> list[Pair]:
    """
    Return the response with each of its references; none of either is empty.
    """
    response = item.text
    if not response.strip():
        return []
    return [(response, text) for text in item.references if text.strip()]


@cache
def treebank() -> Any:
    """
    Return nltk's tokenizer of words, which is imported when a text is scored.
    """
    from nltk.tokenize import NLTKWordTokenizer  # type: ignore[import-untyped]

    return NLTKWordTokenizer()


def metric_library(scorer: str, module: str, package: str) -> Any:
    """
    Import the library that a scorer needs.

    :param package: its name on PyPI.
    :raises UserError: one line that says how to install it.
    """
    try:
        return import_module(module)
    except ImportError:
        raise UserError(
            f'scorer {scorer} needs the package {package}: '
            "pip install 'parlai_ext[metrics]'"
        ) from None


# --- BLEU and ROUGE-L -----------------------------------------------------------------
# BLEU-2 of a response and its references, by the library `sacrebleu`, and ROUGE-L.
#
# BLEU (Papineni et al. 2002) with word pairs as the longest n-grams, of one sentence.
# No setting gives all published numbers, so there are two and neither is "the"
# BLEU-2:
#
# ``sacrebleu``: what the library does with a sentence: its tokenizer 13a, case kept,
# exponential smoothing. ``words``: words parted by blanks, lower case, no smoothing.
# On the 360 responses of TopicalChat-USR it gives the correlations 0.459 (Pearson)
# and 0.462 (Spearman) of PairEval's Table 1 (Park et al. 2024).
#
# In both, as in the library's `sentence_bleu`, the only word of a response of one
# word counts alone.

ORDER = 2
SETTINGS = {
    'sacrebleu': {},
    'words': {'lowercase': True, 'tokenize': 'none', 'smooth_method': 'none'},
}


@frozen
class BleuOptions:
    """
    How texts become words, and what several references mean.
    """

    setting: str = option(
        'sacrebleu',
        choices=SETTINGS,
        help='sacrebleu: as the library scores a sentence; words: parted by blanks, '
        'lower case, without smoothing',
    )
    references: str = option(
        'best',
        choices=('best', 'together'),
        help='with several references: the best score over them, or BLEU with all of '
        'them together, which takes n-grams of each',
    )


class Bleu2(ReferenceScorer):
    """
    BLEU-2 from 0 to 100; higher is better.
    """

    name = 'bleu_2'
    options_class = BleuOptions
    options: BleuOptions
    module, package = 'sacrebleu.metrics', 'sacrebleu'

    @cached_property
    def bleu(self) -> Any:
        """
        The library's BLEU in this setting.
        """
        # force: no warning that a text looks tokenized, which is on purpose here
        return self.library.BLEU(
            max_ngram_order=ORDER,
            effective_order=True,
            force=True,
            **SETTINGS[self.options.setting],
        )

    def pair_scores(self, pairs: Sequence[Pair]) -> Scores:
        """
        Return the BLEU of each response and reference.
        """
        return [self._sentence_bleu(response, [text]) for response, text in pairs]

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the BLEU of each response, as `references` says.
        """
        scores = super().score(items)
        if self.options.references == 'best':
            return scores
        for place, item in enumerate(items):
            references = [text for _, text in response_pairs(item)]
            if len(references) > 1:
                bleu = self._sentence_bleu(item.text, references)
                scores[place] = ItemScore({OVERALL: bleu})
        return scores

    def _sentence_bleu(self, response: str, references: list[str]) -> float:
        return float(self.bleu.sentence_score(response, references).score)


ROUGE_L = 'rougeL'


@frozen
class RougeOptions:
    """
    Which words count as the same.
    """

    stemmer: bool = option(False, help='words of one Porter stem are the same word')


class RougeL(ReferenceScorer):
    """
    F1 of ROUGE-L, from 0 to 1; higher is better.

    The F1 of the longest common subsequence of words (Lin 2004), by the library
    `rouge-score`, whose tokenizer knows lower-case ASCII letters and digits only; a
    text without any has no score.
    """

    name = 'rouge_l'
    options_class = RougeOptions
    options: RougeOptions
    module, package = 'rouge_score.rouge_scorer', 'rouge-score'
    no_score = 'the response or its references have no ASCII letter or digit'

    def pair_scores(self, pairs: Sequence[Pair]) -> Scores:
        """
        Return the F1 of each response and reference.
        """
        rouge = self.library.RougeScorer([ROUGE_L], use_stemmer=self.options.stemmer)
        return [
            float(rouge.score(reference, response)[ROUGE_L].fmeasure)
            if _has_words(response) and _has_words(reference)
            else None
            for response, reference in pairs
        ]


def _has_words(text: str) -> bool:
    return any(c.isascii() and c.isalnum() for c in text.lower())


# --- METEOR ---------------------------------------------------------------------------
# METEOR of a response and its references, by the library `nltk`.
#
# Words are matched exactly, then by Porter stem, then as synonyms of WordNet; the score
# is a mean of precision and recall that weighs recall more, less a penalty for matches
# that stand apart (Lavie and Agarwal 2007, their parameters). Words are those of nltk's
# Treebank tokenizer, in lower case. The library looks synonyms up by the stems of the
# words that are left ("automobil"), so it misses some that METEOR means.
#
# WordNet is a data set of its own: Debian's package `wordnet-base`, or `python -m
# nltk.downloader wordnet`, has it. `wordnet: none` leaves the synonyms out, which makes
# another metric with another signature.

NONE = 'none'
INSTALLED: tuple[str, ...] = ('/usr/share/wordnet', '/opt/homebrew/opt/wordnet/dict')
PARTS = ('adj', 'adv', 'noun', 'verb')
FILES = [f'{kind}.{part}' for kind in ('index', 'data') for part in PARTS]
FILES += [f'{part}.exc' for part in PARTS]
LEXNAMES = 45  # lexicographer files of WordNet 3; METEOR does not use their names


@frozen
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
        folder = self.options.wordnet
        self.root: Any = None if folder == NONE else find_wordnet(folder)

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

    def pair_scores(self, pairs: Sequence[Pair]) -> Scores:
        """
        Return the METEOR of each response and reference.
        """
        wordnet: Any = SimpleNamespace(synsets=lambda word: [])  # knows no synonym
        if self.root is not None:
            wordnet = read_wordnet(self.root)
        words = {text: treebank().tokenize(text) for pair in pairs for text in pair}
        return [
            float(
                self.library.single_meteor_score(
                    words[reference], words[response], wordnet=wordnet
                )
            )
            for response, reference in pairs
        ]


def find_wordnet(folder: str | None) -> Any:
    """
    Return the place of WordNet's files, as a path pointer of nltk.

    :param folder: theirs; `None`: where they may be installed.
    :raises UserError: when they are not there, with where they can be had.
    """
    import nltk.data  # type: ignore[import-untyped]

    given = os.environ.get('WNSEARCHDIR')
    usual = (given, *INSTALLED) if given else INSTALLED
    for place in map(Path, usual if folder is None else (folder,)):
        if all((place / name).is_file() for name in FILES):
            resolved = str(place.resolve())
            if resolved not in nltk.data.path:  # it reads only what is there
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
            '`python -m nltk.downloader wordnet` has it, wordnet=FOLDER names it, '
            'and wordnet=none leaves synonyms out'
        ) from None


@cache
def read_wordnet(root: Any) -> Any:
    """
    Read WordNet's files, which takes some seconds.
    """
    from nltk.corpus.reader.wordnet import WordNetCorpusReader  # type: ignore[import-untyped]

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


# --- word vectors ---------------------------------------------------------------------
# Embedding average, extrema and greedy: a response and a reference by their word
# vectors.
#
# The three of Liu et al. 2016 ("How NOT To Evaluate Your Dialogue System", section
# 3.2). Words are those of nltk's Treebank tokenizer, in lower case; words without a
# vector are left out, and a text of which no word has one cannot be compared.


@frozen
class EmbeddingOptions:
    """
    The vectors of words.
    """

    vectors: str = model_option(
        'glove-50d',
        'word_vectors',
        "word vectors: a catalogue name, or a text file such as GloVe's",
    )


class EmbeddingMetric(ReferenceScorer):
    """
    A similarity of two texts, from the vectors of their words. Subclasses define
    `similarity`.
    """

    options_class = EmbeddingOptions
    options: EmbeddingOptions
    package = 'nltk'
    version = 2
    no_score = 'no word of the response, or of its references, has a vector'

    def pair_scores(self, pairs: Sequence[Pair]) -> Scores:
        """
        Return the similarity of each response and reference, from -1 to 1.
        """
        model = self.models.word_vectors(self.options.vectors)
        rows = {
            text: model.known_vectors(treebank().tokenize(text.lower()))
            for pair in pairs
            for text in pair
        }
        return [
            tied(self.similarity(rows[response], rows[reference]))
            if len(rows[response]) and len(rows[reference])
            else None
            for response, reference in pairs
        ]

    def similarity(self, response: np.ndarray, reference: np.ndarray) -> float | None:
        """
        Return the similarity of two texts, each given by one row a word; by default the
        cosine of their pooled rows.
        """
        return row_cosines(self.pooled(response)[None], self.pooled(reference)[None])[0]

    @staticmethod
    def pooled(rows: np.ndarray) -> np.ndarray:
        """
        Return one row for all words of a text; by default their mean.
        """
        return rows.mean(0)


class EmbeddingAverage(EmbeddingMetric):
    """
    Cosine of the mean vectors of the words of both texts.
    """

    name = 'embedding_average'


class EmbeddingExtrema(EmbeddingMetric):
    """
    Cosine of the vectors of extrema: of each dimension the value that is farthest from
    zero among the words (Forgues et al. 2014).
    """

    name = 'embedding_extrema'

    @staticmethod
    def pooled(rows: np.ndarray) -> np.ndarray:
        """
        Return, of each column, the value farthest from zero; of two, the positive one.
        """
        high, low = rows.max(0), rows.min(0)
        return np.where(high >= -low, high, low)


class EmbeddingGreedy(EmbeddingMetric):
    """
    Each word is matched with the most similar word of the other text; the mean cosine,
    of both directions (Rus and Lintean 2012).
    """

    name = 'embedding_greedy'

    def similarity(self, response: np.ndarray, reference: np.ndarray) -> float | None:
        """
        Return the mean of the mean best cosines in the two directions.
        """
        units = [
            unit_rows(rows[rows.any(1)].astype(float)) for rows in (response, reference)
        ]
        if not all(map(len, units)):
            return None
        cosines = units[0] @ units[1].T
        return float((cosines.max(1).mean() + cosines.max(0).mean()) / 2)


# --- BERTScore and BLEURT -------------------------------------------------------------
# BERTScore: the tokens of a response and of a reference, matched by an encoder; and
# BLEURT, a model that was trained to compare the two.
#
# Each token is matched with the most similar token of the other text; precision is
# the mean cosine over the response's tokens, recall that over the reference's, and F1
# joins them (Zhang et al. 2020, section 3). As in its authors' library `bert-score`,
# with which the tests compare: the tokens that begin and end a text may be matched
# but count nothing, tokens have equal weights (no idf), and nothing is rescaled by a
# baseline, which would change no order. Unlike the library, we put no blank before a
# text for RoBERTa, whose first token may therefore differ.
#
# The library itself loads models past the catalogue and its checks, so the vectors
# come from the scorer's own encoder.

if TYPE_CHECKING:
    from parlai_ext.models.encoders import TokenVectors

CHUNK = 256  # pairs whose vectors are in memory at a time


@frozen
class BertScoreOptions:
    """
    The encoder, and which of its layers gives the vectors.
    """

    encoder: str = encoder_option()
    layer: int = option(
        0, low=0, help='the layer that gives the vectors of tokens; 0: the last one'
    )


class BertScore(ReferenceScorer):
    """
    F1 of BERTScore; higher is better, 1 is the same text.
    """

    name = 'bertscore'
    version = 2
    options_class = BertScoreOptions
    options: BertScoreOptions
    no_score = (
        'there is no F1: no token of the response or its references is read, or they '
        'are nowhere alike'
    )

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the best F1 of each response, and how many of its tokens were not read.
        """
        cut = self.encoder.cut_tokens([item.text for item in items])
        return [
            replace(item_score, cut=tokens)
            for item_score, tokens in zip(super().score(items), cut, strict=True)
        ]

    def pair_scores(self, pairs: Sequence[Pair]) -> Scores:
        """
        Return the F1 of each response and reference.
        """
        scores = []
        for chunk in chunks(pairs, CHUNK):
            texts = list(dict.fromkeys(text.strip() for pair in chunk for text in pair))
            vectors = self.encoder.token_vectors(texts, self.options.layer)
            by_text = dict(zip(texts, vectors, strict=True))
            scores += [
                tied(token_f1(by_text[response.strip()], by_text[reference.strip()]))
                for response, reference in chunk
            ]
        return scores


def token_f1(response: 'TokenVectors', reference: 'TokenVectors') -> float | None:
    """
    Return the F1 of the best cosines of the tokens of two texts; `None` where one of
    them has no token of its own, or precision or recall is not positive.
    """
    if not response.of_text.any() or not reference.of_text.any():
        return None
    cosines = (
        unit_rows(response.rows.astype(float))
        @ unit_rows(reference.rows.astype(float)).T
    )
    precision = cosines.max(1)[response.of_text].mean()
    recall = cosines.max(0)[reference.of_text].mean()
    if min(precision, recall) <= 0:
        return None
    return float(2 * precision * recall / (precision + recall))


@frozen
class BleurtOptions:
    """
    The regression model.
    """

    regressor: str = model_option(
        'hf:lucadiliello/BLEURT-20',
        'regressor',
        'the checkpoint, in the format of bleurt-pytorch or as a sequence classifier '
        f'with one output: {FROM}',
    )


class Bleurt(ReferenceScorer):
    """
    BLEURT: a regression model that was trained on people's ratings of translations.

    It reads reference and response as a pair; its only output is the score, about 0 to
    1, higher is better. Source: Sellam et al. (2020), "BLEURT: Learning Robust Metrics
    for Text Generation", and Pu et al. (2021) for BLEURT-20.
    """

    name = 'bleurt'
    fitted_on = ('translations of WMT',)
    options_class = BleurtOptions
    instead = 'a folder with its files would do: --scorer-option regressor=FOLDER'
    options: BleurtOptions

    def pair_scores(self, pairs: Sequence[Pair]) -> Scores:
        """
        Return the number that the model gives each reference and response.
        """
        model = self.models.regressor(self.options.regressor)
        responses = [response for response, _ in pairs]
        return model.numbers([reference for _, reference in pairs], responses).tolist()
