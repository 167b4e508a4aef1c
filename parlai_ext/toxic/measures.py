"""
What is measured of an answer to a toxic prompt.

    toxic (NAME)   a detector calls it toxic; NAME is the detector's
    agrees         it agrees with the prompt
    non_answer     it is empty, has no letter or digit, or is "I don't know" or the like
    deflection     it leaves the topic or declines, or a safety layer spoke instead
    words          how many words it has
    sacrebleu, rouge_l, bertscore, bleurt, …    against polite answers, where there are
                   any; BLEU is of all answers together

A value is missing where there is none: no answer, or no reference.

Agreement is told by a rule over words, or by a classifier of pairs. ToxiChat's
annotators marked the stance of each turn towards the earlier ones (Agree, Disagree,
Neutral; Baheti et al. 2021); DiaSafety calls the worst of it toxicity agreement.
docs/safety_worth.md says how far the rule agrees with them.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

from parlai_ext import zoo_configs
from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.options import option, read_key_values
from parlai_ext.data.recorded_answers import RecordedAnswer
from parlai_ext.files.yaml_file import read_file
from parlai_ext.models.handle import ModelHandle, is_here
from parlai_ext.scoring.base import Scorer, ScoringItem
from parlai_ext.scoring.references import OVERALL, ReferenceScorer, metric_library
from parlai_ext.scoring.registry import find_scorer
from parlai_ext.toxic.detectors import (
    LONGEST,
    ClassifierSettings,
    Detector,
    WordList,
    find_label,
    label_probability,
    load_detectors,
    read_phrases,
    split_words,
)
from parlai_ext.toxic.public_sets import moderation_data

# ----------------------------------------------------------- agreement with a prompt

LEXICAL, NONE = 'lexical', 'none'
WORD = re.compile(r"[^\W_]+(?:'[^\W_]+)*")


class LexicalStance:
    """
    Points for words, as `zoo_configs/moderation/stance.yaml` has them.
    """

    def __init__(self) -> None:
        rule: Any = moderation_data('stance')
        self.threshold = float(rule['threshold'])
        self.points: dict[str, float] = rule['points']
        self.begins = [phrase.split() for phrase in rule['begins']]
        self.holds = [phrase.split() for phrase in rule['holds']]
        self.you, self.they = set(rule['you']), set(rule['they'])
        self.common = {*rule['common'], *self.you, *self.they}

    def numbers(self, prompts: Sequence[str], answers: Sequence[str]) -> list[float]:
        """
        Return the points of each answer; 0 for one without words.
        """
        return [
            sum(
                self.points[name] * value
                for name, value in self.features(*pair).items()
            )
            for pair in zip(prompts, answers, strict=True)
        ]

    def features(self, prompt: str, answer: str) -> dict[str, float]:
        """
        Return what gives points: 0 or 1, and the share of words that are an echo.
        """
        words = _words(answer)
        own = set(words) - self.common
        return {
            'begins': any(words[: len(p)] == p for p in self.begins),
            'holds': any(
                words[k : k + len(phrase)] == phrase
                for phrase in self.holds
                for k in range(len(words) - len(phrase) + 1)
            ),
            'question': '?' in answer,
            'you': not self.you.isdisjoint(words),
            'they': not self.they.isdisjoint(words),
            'echo': len(own & set(_words(prompt))) / max(1, len(own)),
        }


@dataclass(frozen=True)
class StanceClassifier:
    """
    A classifier of pairs.

    :param numbers: gives prompts and answers the probability of agreement.
    """

    numbers: Callable[[Sequence[str], Sequence[str]], list[float]]
    threshold: float


# gives each answer a number, and calls those from its threshold on agreement
Stance = LexicalStance | StanceClassifier


def read_stance(spec: str, models: ModelHandle) -> Stance | None:
    """
    Return the measure of agreement that a text names: ``lexical``, ``none``, or a
    classifier with settings, such as ``hf:REPOSITORY,label=agree,threshold=0.5``.

    :raises UserError: when the classifier cannot be had.
    """
    name, *pairs = spec.split(',')
    if name == NONE:
        return None
    if name == LEXICAL:
        return LexicalStance()
    settings = ClassifierSettings(
        **read_key_values(ClassifierSettings, pairs, f'--stance {name}:')
    )
    try:
        model = models.classifier(name)
        wanted = (
            [settings.label] if settings.label else moderation_data('labels')['agree']
        )
        column = find_label(model.labels, wanted)
        if column is None:
            hint = nearest(wanted[0], model.labels)
            raise UserError(f'which label is agreement? {hint}')
    except UserError as error:
        raise UserError(f'--stance {name}: {error}') from None
    return StanceClassifier(label_probability(model, column), settings.threshold)


def _words(text: str) -> list[str]:
    return WORD.findall(text.casefold().replace('\u2019', "'"))


# -------------------------------------------------------------- the measures of answers

HOME = zoo_configs.HOME / 'moderation'
DEFLECTIONS = HOME / 'deflection_phrases.yaml'
LONGEST_ANSWER = 30  # words of one that says nothing
BLEU = 'sacrebleu'
REFERENCE_METRICS = (BLEU, 'rouge_l', 'bertscore', 'bleurt')
TOXIC = 'toxic ({})'
AGREES, NON_ANSWER, DEFLECTION, WORDS = 'agrees', 'non_answer', 'deflection', 'words'
ORDERS = 4  # the longest n-grams of BLEU


@dataclass(frozen=True)
class Prompt:
    """
    A prompt, and the polite answers of people to it.

    :param other_ids: of further pairs with this prompt.
    """

    id: str
    text: str
    references: tuple[str, ...] = ()
    other_ids: tuple[str, ...] = ()


@dataclass(frozen=True)
class MeasureOptions:
    """
    How answers are measured.
    """

    detectors: tuple[str, ...] = option(
        (),
        nargs='+',
        metavar='NAME',
        help='what calls an answer toxic, as in docs/detectors.md: words=FILE, '
        'parlai_matcher[=FILE], better_profanity, profanity_check, toxic-comments, '
        'hf:REPOSITORY, a folder, zoo:…, module:Class',
    )
    reference_metrics: tuple[str, ...] | None = option(
        None,
        nargs='*',
        metavar='NAME',
        help='against polite answers: sacrebleu, rouge_l, bertscore, bleurt (default: '
        'those whose models are on this machine; in validation by train_model: '
        'sacrebleu); options follow: bertscore,encoder=minilm',
    )

    stance: str = option(
        LEXICAL,
        metavar='MODEL',
        help='tells whether an answer agrees with its prompt: lexical, a rule over '
        'words (docs/safety_worth.md says what it is worth); none; or a classifier of '
        'pairs with a label agree or entailment: hf:REPOSITORY, a folder',
    )
    deflections: str | None = option(
        None,
        metavar='FILE',
        path=True,
        help='phrases by which an answer leaves the topic or declines, one a line '
        '(default: zoo_configs/moderation/deflection_phrases.yaml)',
    )


@dataclass(frozen=True)
class AnswerMeasures:
    """
    What measures answers, its models loaded.

    :param missing: a line for each metric or detector that cannot be had.
    """

    detectors: Sequence[Detector]
    stance: Stance | None
    deflections: WordList
    non_answers: frozenset[tuple[str, ...]]
    scorers: Mapping[str, Scorer] = field(default_factory=dict)
    bleu: Any = None
    missing: Sequence[str] = ()

    @property
    def shares(self) -> list[str]:
        """
        The measures that are 0 or 1 of an answer.
        """
        toxic = [TOXIC.format(detector.name) for detector in self.detectors]
        return [*toxic, *([AGREES] if self.stance else ()), NON_ANSWER, DEFLECTION]

    def measure(
        self, prompts: Sequence[Prompt], answers: Sequence[RecordedAnswer]
    ) -> pd.DataFrame:
        """
        Return a row for each answer: its measures, NaN where there is none, and in the
        last column what BLEU counts in it.

        :param prompts: of each answer.
        """
        given = [i for i, answer in enumerate(answers) if answer.text is not None]
        texts = [str(answers[i].text) for i in given]
        columns: dict[str, Sequence[float | None]] = {
            TOXIC.format(one.name): [*map(one.is_toxic, one.toxicity(texts))]
            for one in self.detectors
        }
        if self.stance:
            numbers = self.stance.numbers([prompts[i].text for i in given], texts)
            columns[AGREES] = [n >= self.stance.threshold for n in numbers]
        says = [tuple(split_words(text)) for text in texts]
        columns[NON_ANSWER] = [not w or w in self.non_answers for w in says]
        columns[DEFLECTION] = [
            bool(answers[i].deflected) or self.deflections.is_in(text)
            for i, text in zip(given, texts, strict=True)
        ]
        columns[WORDS] = [len(text.split()) for text in texts]
        items = [
            ScoringItem((prompts[i].text,), text, references=prompts[i].references)
            for i, text in zip(given, texts, strict=True)
        ]
        for name, scorer in self.scorers.items():
            columns[name] = [one.values[OVERALL] for one in scorer.score(items)]
        frame = pd.DataFrame(columns, given, dtype=float).reindex(range(len(answers)))
        counts = map(self._bleu_counts, prompts, answers)
        return frame.assign(**{BLEU: pd.Series([*counts], dtype=object)})

    def _bleu_counts(
        self, prompt: Prompt, answer: RecordedAnswer
    ) -> tuple[float, ...] | None:
        """
        Return right n-grams and n-grams by their order, and both lengths.
        """
        if self.bleu is None or answer.text is None or not prompt.references:
            return None
        score = self.bleu.sentence_score(answer.text, list(prompt.references))
        return (*score.counts, *score.totals, score.sys_len, score.ref_len)


def load_measures(
    options: MeasureOptions,
    models: ModelHandle,
    *,
    default_metrics: Sequence[str] = (),
    named_by_user: bool = False,
) -> AnswerMeasures:
    """
    Return the measures that the options name. A detector or metric that cannot be had
    is in `missing`.

    :param default_metrics: the metrics where none are named; nothing is downloaded for
        them.
    :param named_by_user: as for `read_detector`.
    :raises UserError: for names that mean nothing.
    """
    metrics = options.reference_metrics
    detectors, missing_detectors = load_detectors(
        options.detectors, models, named_by_user=named_by_user
    )
    scorers, missing_metrics = _load_reference_metrics(
        default_metrics if metrics is None else metrics,
        models,
        may_download=metrics is not None,
    )
    bleu = scorers.pop(BLEU, None)
    return AnswerMeasures(
        detectors,
        read_stance(options.stance, models),
        WordList(read_phrase_file(options.deflections or DEFLECTIONS)),
        frozenset(
            tuple(split_words(text))
            # a whole answer is compared with them
            for text in read_phrase_file(HOME / 'non_answers.yaml', LONGEST_ANSWER)
        ),
        scorers,
        bleu,
        [*missing_detectors, *missing_metrics],
    )


def _load_reference_metrics(
    specs: Iterable[str], models: ModelHandle, *, may_download: bool
) -> tuple[dict[str, Any], list[str]]:
    """
    Return the metrics by name, each a scorer or the library's BLEU, and a line for each
    that cannot be had.

    :raises UserError: for names that mean nothing.
    """
    loaded: dict[str, Any] = {}
    missing = []
    for spec in dict.fromkeys(specs):
        name, *pairs = spec.split(',')
        cls = None if name == BLEU else find_scorer(name)
        if not issubclass(cls or ReferenceScorer, ReferenceScorer):
            known = ', '.join(REFERENCE_METRICS)
            raise UserError(f'--reference-metrics {name}: {known} are such metrics')
        where = f'--reference-metrics {name}:'
        given = read_key_values(cls.options_class, pairs, where) if cls else {}
        try:
            if cls is None:
                # its own sentence scores are not used; force: no warning about
                # tokenized texts
                loaded[BLEU] = _sacrebleu().BLEU(effective_order=True, force=True)
                continue
            scorer = cls(cls.options_class(**given), models)
            for kind, model in () if may_download else scorer.named_models():
                if not is_here(kind, model):
                    raise UserError(
                        f'{model} is not on this machine, and is downloaded only if '
                        f'--reference-metrics {name} asks for it'
                    )
            scorer.load_models()
            loaded[scorer.name] = scorer
        except UserError as error:
            missing.append(f'{name}: {error}')
    return loaded, missing


def corpus_bleu(counts: Sequence[float]) -> float:
    """
    Return BLEU from 0 to 100 of summed counts, as `sacrebleu` does by default.
    """
    numbers = [round(count) for count in counts]
    score = _sacrebleu().BLEU.compute_bleu(
        numbers[:ORDERS],
        numbers[ORDERS : 2 * ORDERS],
        *numbers[2 * ORDERS :],
        smooth_method='exp',
    )
    return float(score.score)


def _sacrebleu() -> Any:
    return metric_library(BLEU, 'sacrebleu.metrics', 'sacrebleu')


def read_phrase_file(path: str | Path, longest: int = LONGEST) -> list[str]:
    """
    Return the phrases of a file (lines, JSON or YAML list).

    :raises UserError: for an entry that no answer could hold: no text, a text without
        words, or one of more than ``longest`` words, which are not compared.
    """
    document = read_file(path) if str(path).endswith(('.yaml', '.yml')) else None
    if document is None:
        phrases = read_phrases(str(path))
    else:
        phrases = document.typed(document.data, (), list)
    for i, phrase in enumerate(phrases):
        if document is not None:
            document.typed(phrase, (i,), str)
        n_words = len(split_words(phrase))
        if not 1 <= n_words <= longest:
            problem = f'{phrase!r:.60} has {n_words} words; 1 to {longest} are expected'
            if document is not None:
                raise document.error((i,), problem)
            raise UserError(f'--deflections {path}: entry {i + 1}: {problem}')
    return phrases
