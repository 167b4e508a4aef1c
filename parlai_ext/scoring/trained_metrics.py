"""
Metrics whose models their authors trained: USR, UniEval, CTC and DEnsity.

USR: a masked language model, two retrieval classifiers, and a regression over them.

Source: Mehri and Eskenazi (2020), "USR: An Unsupervised and Reference Free Evaluation
Metric for Dialog Generation", and their code, from which the format of the inputs, the
normalisation and the coefficients come. With the three numbers that the authors
published for 300 responses of TopicalChat-USR, the regression gives their published
correlation with people's overall judgement, 0.419 (Pearson) and 0.422 (Spearman).
"""

import io
import math
import re
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any
from zipfile import BadZipFile

import numpy as np
from nltk.tokenize.punkt import PunktParameters, PunktSentenceTokenizer  # type: ignore[import-untyped]

from parlai_ext.core import (
    UserError,
    chunks,
    content_id,
    errors_about,
    frozen,
    mean,
    option,
)
from parlai_ext.data.imported_dialogues import read_dialogue_texts
from parlai_ext.models.questions import SectionQuestions
from parlai_ext.scoring.base import (
    FROM,
    NO_KNOWLEDGE,
    Items,
    ItemScore,
    Scorer,
    ScoringItem,
    file_option,
    in_groups,
    model_option,
)
from parlai_ext.scoring.likelihood import (
    NO_PROBABILITY,
    JudgeScorer,
    context_turns_option,
    first_continuation_share,
    judge_option,
)
from parlai_ext.scoring.references import treebank
from parlai_ext.scoring.relevance import NO_CONTEXT
from parlai_ext.scoring.trivial import LEFT_OUT
from parlai_ext.store import write_file
from parlai_ext.view import single_spaced
from parlai_ext.view.progress import bar_of

if TYPE_CHECKING:  # which imports torch
    from parlai_ext.models.encoders import WordLabels

MASKED, DR_C, DR_X = 'MLM', 'DR-c', 'DR-x'
TERMS = (MASKED, DR_C, DR_X)
OVERALL, ENGAGING, KNOWLEDGE = 'Overall', 'Engaging', 'Uses Knowledge'
# which term predicts a quality, and its coefficient in the regression of the overall
QUALITIES = {
    'Understandable': (MASKED, 0.6601100065238369),
    'Natural': (MASKED, 0.4035348605308456),
    'Maintains Context': (DR_C, 0.5132785702080678),
    ENGAGING: (DR_C, 0.9605336086924106),
    KNOWLEDGE: (DR_X, 0.35642553823787765),
}
INTERCEPT = 3.597475447630256
# mean and standard deviation of each term over the authors' responses
NORMS = {
    MASKED: (-1.012293440649907, 0.39053753419230813),
    DR_C: (0.8604811806918587, 0.30259338627812254),
    DR_X: (0.8472124995904354, 0.27987823011851076),
}
MASKED_TOKENS = 100  # the end of context and response that the language model reads
PAIR_TOKENS = 128
RIGHT = 1  # the label of a pair whose response follows its context
PLAIN_PUNKT = PunktSentenceTokenizer()


@frozen
class UsrOptions:
    """
    The three models, and how texts are given to them.
    """

    masked_lm: str = model_option(
        'hf:adamlin/usr-topicalchat-roberta_ft',
        'masked_lm',
        f'RoBERTa tuned as a language model of dialogues: {FROM}',
    )
    context_classifier: str = model_option(
        'hf:adamlin/usr-topicalchat-ctx',
        'classifier',
        f'DR-c: does the response follow last turn and knowledge?: {FROM}',
    )
    knowledge_classifier: str = model_option(
        'hf:adamlin/usr-topicalchat-uk',
        'classifier',
        f'DR-x: does the response follow the knowledge?: {FROM}',
    )
    hidden: str = option(
        'all',
        choices=('all', 'response'),
        help='whose tokens are hidden one by one: those of last turn and response, as '
        "in the authors' code, or of the response only, as in their paper; the "
        'regression was fitted to the former',
    )
    words: str = option(
        'as_given',
        choices=('as_given', 'split'),
        help='split: punctuation is parted from words as in the training data; the '
        'judged set of TopicalChat has it so already',
    )


class Usr(Scorer):
    """
    The five qualities of USR's annotators, by the term that predicts each, and their
    regression; higher is better.

    ``Understandable`` and ``Natural`` are the mean log-probability of hidden tokens
    (MLM), ``Maintains Context`` and ``Engaging`` DR-c, ``Uses Knowledge`` DR-x, both
    probabilities. Without facts or a persona there is no ``Uses Knowledge``; the models
    then read the word for no fact, as the authors' did.
    """

    name = 'usr'
    fitted_on = ('usr_topical',)  # the regression
    dimensions = (*QUALITIES, OVERALL)
    evidence_labels = TERMS
    no_score = 'there is no token to be hidden'
    instead = (
        'a folder with its files would do: --scorer-option masked_lm=FOLDER, likewise '
        'context_classifier and knowledge_classifier'
    )
    options_class = UsrOptions
    options: UsrOptions

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        read = treebank_words if self.options.words == 'split' else single_spaced
        turns = [read((item.context or ('',))[-1].lower()) for item in items]
        facts = [f'{read(item.knowledge.lower())} _eos' for item in items]
        responses = [f'_go {read(item.text.lower())} _eos' for item in items]
        answers = self.models.masked_lm(self.options.masked_lm).masked_logprobs(
            [f'{turn} _eos' if turn else '' for turn in turns],
            [f' {response}' for response in responses],
            MASKED_TOKENS,
            self.options.hidden == 'all',
        )
        known = [f'{turn} _eos {fact}' for turn, fact in zip(turns, facts, strict=True)]
        context = self._follows(self.options.context_classifier, known, responses)
        knowledge = self._follows(self.options.knowledge_classifier, facts, responses)
        scores = []
        rows: Any = zip(items, answers, context, knowledge, strict=True)
        for item, answer, *shares in rows:
            numbers = [mean(answer.logprobs), *shares]
            terms = dict(zip(TERMS, numbers, strict=True))
            values = {name: terms[term] for name, (term, _) in QUALITIES.items()}
            values[OVERALL] = None if None in numbers else overall(terms)
            reasons = {}
            if not item.has_knowledge:
                values[KNOWLEDGE], reasons[KNOWLEDGE] = None, NO_KNOWLEDGE
            scores.append(ItemScore(values, reasons, numbers, answer.cut))
        return scores

    def _follows(
        self, name: str, contexts: Sequence[str], responses: Sequence[str]
    ) -> list[float]:
        """
        Return the probability that each response follows its context.

        :raises UserError: when the classifier has other than two labels.
        """
        model = self.models.classifier(name)
        n_labels = len(model.labels)
        if n_labels != 2:
            raise UserError(
                f'scorer {self.name}: classifier {name}: two labels are expected, it '
                f'has {n_labels}'
            )
        rows = model.probabilities(contexts, responses, PAIR_TOKENS)
        return [float(row[RIGHT]) for row in rows]


def overall(terms: Mapping[str, float]) -> float:
    """
    Return the regression's prediction of the overall judgement, about 1 to 5.
    """
    parts = []
    for term, coefficient in QUALITIES.values():
        mean, deviation = NORMS[term]
        parts.append(coefficient * (terms[term] - mean) / deviation)
    return INTERCEPT + math.fsum(parts)


def treebank_words(text: str) -> str:
    """
    Return a text with blanks between words and punctuation (NLTK's rules of the Penn
    Treebank, sentence by sentence).
    """
    return ' '.join(
        text[start:stop][first:last]
        for start, stop in PLAIN_PUNKT.span_tokenize(text)
        for first, last in treebank().span_tokenize(text[start:stop])
    )


# --- UniEval --------------------------------------------------------------------------
# UniEval: a T5 that was trained to answer yes-or-no questions about responses.
#
#   question: Is this a natural response in the dialogue? </s> response: …
#
# Source: Zhong et al. (2022), "Towards a Unified Multi-Dimensional Evaluator for Text
# Generation", and their code, whose questions (MIT licence) the model was trained
# with. A score is P(Yes) / (P(Yes) + P(No)) of the first token of the answer.

LONGEST = 1024  # tokens of a question, as in the authors' evaluation
# the qualities of USR's annotators, which the authors compare with; what they call
# naturalness, coherence, engagingness, groundedness and understandability
QUESTIONS = {
    'Natural': ('Is this a natural response in the dialogue?', ()),
    'Maintains Context': (
        'Is this a coherent response given the dialogue history?',
        ('dialogue history',),
    ),
    ENGAGING: (
        'Is this an engaging and informative response according to the dialogue '
        'history and fact?',
        ('dialogue history', 'fact'),
    ),
    KNOWLEDGE: ('Is this response consistent with knowledge in the fact?', ('fact',)),
    'Understandable': ('Is this an understandable response in the dialogue?', ()),
}
ABBREVIATIONS = """
mr mrs ms dr prof st jr sr vs etc inc ltd co corp e.g i.e u.s u.k a.m p.m d.c no mt
"""
PARAMETERS = PunktParameters()
PARAMETERS.abbrev_types = set(ABBREVIATIONS.split())
# parts sentences by a short list of abbreviations instead of Punkt's trained one, which
# would have to be downloaded
PUNKT = PunktSentenceTokenizer(PARAMETERS)


@frozen
class UniEvalOptions:
    """
    The model and how much of the dialogue it reads.
    """

    judge_model_file: str = judge_option(
        'hf:MingZhong/unieval-dialog',
        "UniEval's T5 (MingZhong/unieval-dialog), or another encoder-decoder",
    )
    context_turns: int = context_turns_option()
    most_tokens: int = option(
        LONGEST, low=16, help='tokens of a question; more lose the end of the last part'
    )


class UniEval(JudgeScorer):
    """
    Five qualities of a response and their mean; higher is better.

    Four are probabilities. ``Engaging`` is the sum over the sentences of the response,
    so that it may exceed 1, and with it ``Overall``. Without facts or a persona there
    is no ``Uses Knowledge``, and ``Overall`` is the mean of the others.
    """

    name = 'unieval'
    dimensions = (*QUESTIONS, OVERALL)
    no_score = NO_PROBABILITY
    prompted = True
    instead = (
        'a folder with its files would do: --scorer-option judge_model_file=FOLDER'
    )
    options_class = UniEvalOptions
    options: UniEvalOptions

    def load_models(self) -> None:
        """
        Load the model, which has to be an encoder-decoder.
        """
        super().load_models()
        with errors_about(f'scorer {self.name}: judge {self.options.judge_model_file}'):
            self.questions = SectionQuestions(self.judge)

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response, in one call of the model.
        """
        asked = list(map(self.sections, items))
        most = self.options.most_tokens
        made = [
            self.questions.question(sections, ('Yes', 'No'), most)
            for questions in asked
            for _, sections in questions
        ]
        answers = self.judge.answer([question for question, _ in made])
        each = zip(map(first_continuation_share, answers), made, strict=True)
        scores = []
        for item, questions in zip(items, asked, strict=True):
            shares: dict[str, list[float | None]] = {name: [] for name in QUESTIONS}
            cuts, reasons = [], {}
            for dimension, _ in questions:
                share, (_, cut) = next(each)
                shares[dimension].append(share)
                cuts.append(cut)
            if not item.has_knowledge:
                del shares[KNOWLEDGE]
                reasons[KNOWLEDGE] = NO_KNOWLEDGE
            values = {
                name: None if None in some else float(sum(filter(None, some)))
                for name, some in shares.items()
            }
            values[OVERALL] = mean(list(values.values()))
            evidence = {'sentences': shares[ENGAGING]}
            scores.append(ItemScore(values, reasons, evidence, max(cuts)))
        return scores

    def sections(self, item: ScoringItem) -> list[tuple[str, list[str]]]:
        """
        Return dimension and sections of text of each question about a response.
        """
        texts = {
            'dialogue history': '\n'.join(item.context[-self.options.context_turns :]),
            'fact': item.knowledge,
        }
        asked = []
        for dimension, (question, read) in QUESTIONS.items():
            if dimension == KNOWLEDGE and not item.has_knowledge:
                continue
            parts = [item.text]
            if dimension == ENGAGING:
                parts = PUNKT.tokenize(item.text)
            more = [f'{name}: {texts[name]}' for name in read]
            for part in parts:
                sections = [f'question: {question}', f'response: {part}', *more]
                asked.append((dimension, sections))
        return asked


# --- CTC ------------------------------------------------------------------------------
# CTC: how many words of a response are aligned with what it should be built on.
#
# A token classifier reads the response and then its context and says of each word
# whether the context supports it. A score is the sum of these probabilities over the
# words that are no stop words, so that a longer response may have more.
#
# Source: Deng et al. (2021), "Compression, Transduction, and Creation: A Unified
# Framework for Evaluating Natural Language Generation": the discriminative aligner,
# and the package ctc_score of the authors (MIT licence), from which the preparation
# of texts comes. Engagingness is aligned with knowledge and dialogue, groundedness
# with knowledge.

MOST_TOKENS = 256  # of a response, its begin token counted
SUPPORTED = 0  # the label of a word that the context supports
QUOTES = str.maketrans('“”‘’', '""\'\'')


def _aligner_option(checkpoint: str) -> Any:
    what = f"the authors' {checkpoint}, or another token classifier of two labels"
    return model_option(None, 'token_classifier', f'{what}: {FROM}')


@frozen
class CtcOptions:
    """
    The aligners. Without one, its dimension has no scores.
    """

    engaging_model: str | None = _aligner_option('fact_history_to_response')
    knowledge_model: str | None = _aligner_option('fact_to_response')
    stop_words: str = option(
        'left_out',
        choices=('left_out', 'counted'),
        help='whether stop words count in the sum',
    )


class Ctc(Scorer):
    """
    ``Engaging``: the words that knowledge and dialogue support; ``Uses Knowledge``: the
    words that the knowledge supports. Both are sums of probabilities; higher is better.

    Without facts or a persona the former reads the word for no fact, and there is none
    of the latter. The evidence is the probability of each word.
    """

    name = 'ctc'
    dimensions = (ENGAGING, KNOWLEDGE)
    no_score = 'the response has no word'
    options_class = CtcOptions
    options: CtcOptions

    def prepare(self) -> None:
        """
        Refuse to begin without any model.
        """
        if self.options.engaging_model is None and self.options.knowledge_model is None:
            raise UserError(
                'scorer ctc: engaging_model, knowledge_model: the checkpoints of CTC '
                'are on no model hub; a folder with its weights, config.json and '
                'tokenizer would do (docs/trained_metrics.md says where they are)'
            )

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response.
        """
        responses = [single_spaced(clean_text(item.text)) for item in items]
        knowledge = [clean_text(item.knowledge) for item in items]
        both = [
            f'{text}\n\n\n{clean_text(chr(10).join(item.context))}'
            for text, item in zip(knowledge, items, strict=True)
        ]
        columns = [
            [None] * len(items)
            if name is None
            else self.models.token_classifier(name).word_labels(
                responses, contexts, MOST_TOKENS
            )
            for name, contexts in (
                (self.options.engaging_model, both),
                (self.options.knowledge_model, knowledge),
            )
        ]
        return list(map(self._score, items, *columns))

    def _score(self, item: ScoringItem, *columns: 'WordLabels | None') -> ItemScore:
        """
        Return the scores of a response from the labels of its words in each dimension.
        """
        values, reasons, evidence, cut = {}, {}, {}, 0
        for dimension, labels in zip(self.dimensions, columns, strict=True):
            if dimension == KNOWLEDGE and not item.has_knowledge:
                reasons[dimension] = NO_KNOWLEDGE
            elif labels is None:
                reasons[dimension] = 'no model is named for it'
            else:
                cut = max(cut, labels.cut)
                shares = [float(row[SUPPORTED]) for row in labels.probabilities]
                counted = [
                    share
                    for word, share in zip(labels.words, shares, strict=True)
                    if self.options.stop_words == 'counted' or word not in LEFT_OUT
                ]
                if shares:
                    values[dimension] = math.fsum(counted)
                    evidence[dimension] = shares
        return ItemScore(values, reasons, evidence, cut)


def clean_text(text: str) -> str:
    """
    Return a text in lower case with plain quotes and single blanks; lines stay lines.
    """
    return re.sub(r'[^\S\n]+', ' ', text.translate(QUOTES)).strip().lower()


# --- DEnsity --------------------------------------------------------------------------
# DEnsity: how usual is a response among those of people, to a response selector?
#
# Context and response become the last hidden state of the first token of a BERT that
# was trained to tell right responses from others. The score is minus the Mahalanobis
# distance between these features and those of people's responses.
#
# Source: Park et al. (2023), "DEnsity: Open-domain Dialogue Evaluation Metric using
# Density Estimation".

# of the largest variance; features are in float32, whose rounding varies by less
SMALLEST = 1e-10
AT_ONCE = 512  # responses of people whose features are computed together
STATISTICS = (
    "mean and inverse covariance of the features of people's responses: a .npz file "
    'with the arrays mean and precision'
)
Pair = tuple[tuple[str, ...], str]  # context and response


@frozen
class DensityOptions:
    """
    The response selector, and the statistics of people's responses.
    """

    encoder: str | None = model_option(
        None, 'pair_encoder', f'the response selector: {FROM}'
    )
    statistics: str | None = file_option(
        f'{STATISTICS}; where there is none yet, it is made from human_dialogues'
    )
    human_dialogues: str | None = file_option(
        'dialogues between people, in a format of import_dialogues'
    )
    most_tokens: int = option(
        256, low=16, help='tokens of context and response that are read'
    )


class Density(Scorer):
    """
    Minus the Mahalanobis distance of a response; higher, nearer to 0, is better.

    Of a whole dialogue, minus the square root of the mean squared distance of all
    utterances but the first. A persona stands before the context, a sentence a turn.
    """

    name = 'density'
    dimensions = ('Overall',)
    no_score = NO_CONTEXT
    options_class = DensityOptions
    options: DensityOptions

    def prepare(self) -> None:
        """
        Refuse to begin without a model or without a way to the statistics.
        """
        if self.options.encoder is None:
            raise UserError(
                "scorer density: encoder: the authors' bestmodel.pth is on no model "
                'hub; a folder with it as pytorch_model.bin, its config.json and its '
                'tokenizer would do (docs/trained_metrics.md)'
            )
        file = self.options.statistics
        if file is None or not (
            Path(file).exists() or self.options.human_dialogues is not None
        ):
            missing = f'there is no file {file}; ' if file else ''
            raise UserError(
                f'scorer density: statistics: {missing}{STATISTICS} is needed; with '
                'human_dialogues: FILE it is made'
            )

    def load_models(self) -> None:
        """
        Load the response selector, and read or make the statistics.
        """
        super().load_models()
        self.selector = self.models.pair_encoder(str(self.options.encoder))
        file = Path(str(self.options.statistics))
        if not file.exists():
            people = str(self.options.human_dialogues)
            with errors_about('scorer density: human_dialogues'):
                dialogues = read_dialogue_texts([people])
                pairs = [pair for texts in dialogues for pair in _turn_pairs(texts)]
                if len(pairs) < 2:
                    raise UserError(f'{people}: too few turns')
            rows = []
            with bar_of('people', len(pairs), True) as bar:
                for some in chunks(pairs, AT_ONCE):
                    rows.append(self._features(some)[0])
                    bar.update(len(some))
            write_statistics(file, np.concatenate(rows))
        self.mean, self.precision = read_statistics(file)
        numbers = content_id(self.mean.tolist(), self.precision.tolist())
        self.signed = {'statistics': numbers}

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each response, or of each whole dialogue.
        """
        pairs = []
        for item in items:
            context = (*item.persona, *item.context)
            if item.response is None:
                pairs.append(_turn_pairs(item.context, item.persona))
            else:
                pairs.append([(context, item.response)] if item.context else [])
        scores = []
        for distances in in_groups(self._distances, pairs):
            squared = [distance for distance, _ in distances]
            value = -((sum(squared) / len(squared)) ** 0.5) if squared else None
            cut = max((cut for _, cut in distances), default=0)
            scores.append(ItemScore({'Overall': value}, cut=cut))
        return scores

    def _distances(self, pairs: Sequence[Pair]) -> Iterable[tuple[float, int]]:
        """
        Return the squared distance of each pair, and how many of its tokens are cut.
        """
        rows, cut = self._features(pairs)
        return zip(squared_distances(rows, self.mean, self.precision), cut, strict=True)

    def _features(self, pairs: Sequence[Pair]) -> tuple[np.ndarray, list[int]]:
        with errors_about(f'scorer density: encoder {self.options.encoder}'):
            return self.selector.features(pairs, self.options.most_tokens)


def _turn_pairs(texts: Sequence[str], before: Sequence[str] = ()) -> list[Pair]:
    return [((*before, *texts[:place]), texts[place]) for place in range(1, len(texts))]


def squared_distances(
    features: np.ndarray, mean: np.ndarray, precision: np.ndarray
) -> list[float]:
    """
    Return the squared Mahalanobis distance of each row from the mean.

    :param precision: the inverse covariance matrix.
    """
    centred = np.asarray(features, np.float64) - mean
    squared = np.einsum('ij,jk,ik->i', centred, precision, centred, optimize=True)
    return np.maximum(squared, 0.0).tolist()


def write_statistics(file: Path, features: np.ndarray) -> None:
    """
    Write the mean of features and the inverse of their covariance.

    The covariance is that of the sample (divided by n). Directions in which people do
    not differ, but for rounding, are ignored (a pseudo-inverse): the last layer of a
    BERT normalises, so that there is always one.
    """
    from scipy.linalg import pinvh

    rows = np.asarray(features, np.float64)
    precision = pinvh(np.cov(rows.T, bias=True), rtol=SMALLEST)
    data = io.BytesIO()
    np.savez(data, mean=rows.mean(0), precision=precision)
    write_file(file, data.getvalue())


def read_statistics(file: Path) -> tuple[np.ndarray, np.ndarray]:
    """
    Return mean and inverse covariance.

    :raises UserError: when the file holds something else.
    """
    try:
        with np.load(file, allow_pickle=False) as arrays:
            mean = np.asarray(arrays['mean'], np.float64).reshape(-1)
            precision = np.asarray(arrays['precision'], np.float64)
    except (OSError, ValueError, KeyError, TypeError, BadZipFile) as error:
        raise UserError(
            f'scorer density: statistics: {file}: {STATISTICS} is expected ({error})'
        ) from None
    if precision.shape != (len(mean), len(mean)):
        raise UserError(
            f'scorer density: statistics: {file}: mean has {len(mean)} numbers, '
            f'precision is {" by ".join(map(str, precision.shape))}'
        )
    return mean, precision
