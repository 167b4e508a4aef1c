"""
Detectors of toxic texts, by name.

    words=FILE                a list of words and phrases, found as whole words
    parlai_matcher[=FILE]     ParlAI's OffensiveStringMatcher, with its list or this one
    better_profanity          the package better-profanity: a list, other spellings too
    profanity_check           the package alt-profanity-check: a linear model over words
    toxic-comments            a classifier of the catalogue
    hf:REPOSITORY, a folder   any sequence classifier of Hugging Face
    zoo:…, FILE               a transformer/classifier of ParlAI
    module:Class              your own: a class whose `toxicity(texts)` gives numbers

Settings follow the name: ``hf:unitary/toxic-bert,label=toxic,threshold=0.8``.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from tempfile import NamedTemporaryFile
from typing import Any

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.options import option, read_key_values
from parlai_ext.files.json_file import read_json
from parlai_ext.files.model_cards import is_model_name, model_names
from parlai_ext.files.text_file import read_utf8
from parlai_ext.isolation.outside_code import outside_module
from parlai_ext.models.handle import ModelHandle
from parlai_ext.systems.fetch.data_folder import data_folder
from parlai_ext.toxic.public_sets import TRACK_WORDS, moderation_data, track_words

THRESHOLD = 0.5
WORD = re.compile(r'[^\W_]+', re.UNICODE)
LONGEST = 8  # words of a phrase


# gives each text a number from 0 (not toxic) to 1 (toxic)
Toxicity = Callable[[Sequence[str]], list[float]]


@dataclass(frozen=True)
class ClassifierSettings:
    """
    What may follow the name of a classifier.
    """

    label: str | None = option(None, help='the label whose probability counts')
    threshold: float = option(THRESHOLD, low=0, high=1, help='from here on (0.5)')


@dataclass(frozen=True)
class DetectorSettings(ClassifierSettings):
    """
    What may follow the name of a detector.
    """

    called: str | None = option(None, help='what tables call it')


@dataclass(frozen=True)
class Detector:
    """
    A detector: its name in tables, its numbers, and from which one a text is toxic.
    """

    name: str
    numbers: Toxicity
    threshold: float = THRESHOLD

    def toxicity(self, texts: Sequence[str]) -> list[float]:
        """
        Return a number from 0 to 1 for each text; equal texts are computed once, and
        a text without a letter or digit has 0.
        """
        distinct = [t for t in dict.fromkeys(texts) if any(map(str.isalnum, t))]
        numbers = dict(zip(distinct, self.numbers(distinct), strict=True))
        return [numbers.get(text, 0.0) for text in texts]

    def is_toxic(self, number: float) -> bool:
        """
        True if a number of this detector calls a text toxic.
        """
        return number >= self.threshold


class WordList:
    """
    Finds words and phrases of a list as whole words, whatever their case: the word
    "class" holds no other word.
    """

    def __init__(self, phrases: Iterable[str]):
        self.phrases = {tuple(split_words(phrase)) for phrase in phrases} - {()}
        self.longest = min(LONGEST, max(map(len, self.phrases), default=0))

    def __call__(self, texts: Sequence[str]) -> list[float]:
        return [float(self.is_in(text)) for text in texts]

    def is_in(self, text: str) -> bool:
        """
        True if a text has an entry of the list.
        """
        words = split_words(text)
        return any(
            tuple(words[i : i + n]) in self.phrases
            for n in range(1, self.longest + 1)
            for i in range(len(words) - n + 1)
        )


def word_list(path: str, models: ModelHandle) -> Toxicity:
    """
    Return the detector of a list of words in a file, or of the Track's list.
    """
    words = path == TRACK_WORDS and not Path(path).exists()
    return WordList(track_words() if words else read_phrases(path))


def parlai_matcher(path: str, models: ModelHandle) -> Toxicity:
    """
    Return ParlAI's OffensiveStringMatcher.

    :param path: a list of one's own; ``''``: the list that ParlAI downloads.
    """
    from parlai.utils.safety import OffensiveStringMatcher

    from parlai_ext.systems.fetch.checked_downloads import checked_downloads

    if path:
        phrases = read_phrases(path)  # which a list in JSON needs, too
        with NamedTemporaryFile('w', suffix='.txt', encoding='utf-8') as file:
            file.write('\n'.join(phrases))
            file.flush()
            matcher = OffensiveStringMatcher(file.name)
    else:
        try:
            with checked_downloads():
                matcher = OffensiveStringMatcher(str(data_folder()))
        except (UserError, OSError) as error:
            raise UserError(
                f"parlai_matcher: ParlAI's word list cannot be downloaded: {error}; "
                'parlai_matcher=FILE names a list'
            ) from None
    return lambda texts: [
        float(bool(matcher.contains_offensive_language(text))) for text in texts
    ]


def better_profanity(path: str, models: ModelHandle) -> Toxicity:
    """
    Return the package better-profanity: a word list that knows spellings with digits.
    """
    profanity = _package('better_profanity', 'better-profanity').Profanity()
    return lambda texts: [float(profanity.contains_profanity(text)) for text in texts]


def profanity_check(path: str, models: ModelHandle) -> Toxicity:
    """
    Return the package alt-profanity-check: a linear support vector machine over words.
    """
    predict = _package('profanity_check', 'alt-profanity-check').predict_prob
    return lambda texts: [float(p) for p in predict(list(texts))] if texts else []


def _package(name: str, project: str) -> Any:
    try:
        return import_module(name)
    except ImportError:
        raise UserError(f'detector {name}: pip install {project}') from None


DETECTORS: Mapping[str, Callable[[str, ModelHandle], Toxicity]] = {
    'words': word_list,
    'parlai_matcher': parlai_matcher,
    'better_profanity': better_profanity,
    'profanity_check': profanity_check,
}


def text_classifier(name: str, label: str | None, models: ModelHandle) -> Toxicity:
    """
    Return a sequence classifier: the probability of its toxic label.

    :param label: its name; `None`: it is told from the names of the labels.
    """
    try:
        model = models.classifier(name)
    except UserError as error:
        raise UserError(f'detector {error}') from None
    return label_probability(model, *toxic_column(name, model.labels, label))


def label_probability(
    model: Any, column: int, rest: bool = False
) -> Callable[..., list[float]]:
    """
    Return what gives texts, or pairs of texts, the probability of a label.

    :param rest: what is left of 1 in its place.
    """

    def numbers(*texts: Sequence[str]) -> list[float]:
        shares = model.probabilities(*map(list, texts))[:, column] if texts[0] else ()
        return [float(1 - p if rest else p) for p in shares]

    return numbers


def parlai_classifier(name: str, label: str | None, models: ModelHandle) -> Toxicity:
    """
    Return a transformer/classifier of ParlAI: the probability of its toxic class.
    """
    from parlai.core.agents import create_agent
    from parlai.core.params import ParlaiParser

    from parlai_ext.compat.parlai_setup import prepare_parlai
    from parlai_ext.systems.parlai_agents import cost_of_model
    from parlai_ext.systems.safe.load import guarded
    from parlai_ext.systems.zoo import fetch_path

    prepare_parlai()
    machine = models.machine
    opt = {
        'model': 'transformer/classifier',
        'model_file': str(fetch_path(name)),
        'print_scores': True,
        'datatype': 'valid',
        'batchsize': 1,
        'no_cuda': machine.no_cuda,
    }
    with guarded(roster_opt=opt), cost_of_model(opt):  # the file is read as data
        parsed = ParlaiParser(True, True).parse_kwargs(**opt)
        agent: Any = create_agent(parsed, requireModelExists=True)
    column, is_safe = toxic_column(name, tuple(agent.class_list), label)
    size = machine.batchsize

    def toxicity(texts: Sequence[str]) -> list[float]:
        clones = [agent.clone() for _ in texts[:size]]
        numbers = []
        for start in range(0, len(texts), size):
            seen = []
            for clone, text in zip(clones, texts[start : start + size], strict=False):
                clone.reset()
                seen.append(clone.observe({'text': text, 'episode_done': True}))
            for act in agent.batch_act(seen):
                p = float(act['probs'][column])
                numbers.append(1 - p if is_safe else p)
        return numbers

    return toxicity


def read_detector(
    spec: str, models: ModelHandle, *, named_by_user: bool = False
) -> Detector:
    """
    Return the detector that a text names, its model loaded.

    :param named_by_user: code from outside the package may be imported, since the user
        named it.
    :raises UserError: for a name that means nothing, a missing file or package, or a
        classifier whose toxic label cannot be told.
    """
    name, settings = check_spec(spec)
    kind, _, path = name.partition('=')
    if kind in DETECTORS:
        numbers = DETECTORS[kind](path, models)
    elif is_outside(name):
        numbers = _outside_detector(name, named_by_user)
    elif name.startswith('zoo:') or Path(name).is_file():
        numbers = parlai_classifier(name, settings.label, models)
    else:
        numbers = text_classifier(name, settings.label, models)
    return Detector(settings.called or short_name(name), numbers, settings.threshold)


def is_outside(name: str) -> bool:
    """
    True if a name is that of a detector from outside the package.
    """
    is_class = re.fullmatch(r'[\w.]+:[A-Z]\w*', name) is not None
    return is_class and not name.startswith('zoo:')


def _outside_detector(name: str, named_by_user: bool) -> Toxicity:
    module = outside_module('detector', name, named_by_user=named_by_user)
    try:
        return getattr(module, name.rpartition(':')[2])().toxicity
    except Exception as error:  # which foreign code may raise
        what = f'{type(error).__name__}: {error}'
        raise UserError(f'detector {name}: it cannot be made: {what}') from error


def load_detectors(
    specs: Sequence[str], models: ModelHandle, *, named_by_user: bool = False
) -> tuple[list[Detector], list[str]]:
    """
    Return the detectors that can be had, and why others cannot: a package is missing,
    or a model cannot be fetched.

    :param named_by_user: as for `read_detector`.
    :raises UserError: for a name that means nothing, a wrong setting, a word list that
        is not there, and when two have one name.
    """
    for spec in specs:
        check_spec(spec)
    detectors: list[Detector] = []
    missing = []
    for spec in specs:
        try:
            one = read_detector(spec, models, named_by_user=named_by_user)
        except UserError as error:
            missing.append(str(error))
            continue
        if one.name in {known.name for known in detectors}:
            raise UserError(
                f'--detectors: two are called {one.name}; NAME,called=… tells them '
                'apart'
            )
        detectors.append(one)
    return detectors, missing


def check_spec(spec: str) -> tuple[str, DetectorSettings]:
    """
    Return the name and the settings of a detector, whatever is installed.

    :raises UserError: for an unknown name or setting, or a file that is not there.
    """
    name, *pairs = spec.split(',')
    given = read_key_values(DetectorSettings, pairs, f'detector {name}:')
    kind, _, path = name.partition('=')
    if kind in DETECTORS:
        if kind == 'words' and not path:
            raise UserError('detector words: words=FILE is expected')
        if path and name != f'words={TRACK_WORDS}':
            read_phrases(path)
    elif ':' not in name and not (Path(name).exists() or is_model_name(name)):
        known = [*DETECTORS, *model_names('classifier')]
        raise UserError(
            f'detector {name}: neither a name nor a file; {nearest(name, known)}'
        )
    return name, DetectorSettings(**given)


def short_name(name: str) -> str:
    """
    Return what tables call a detector: its last folder or file, or its kind.

    >>> short_name('hf:unitary/toxic-bert'), short_name('words=lists/en.json')
    ('toxic-bert', 'words')
    """
    kind = name.split('=')[0]
    return kind if kind in DETECTORS else Path(name.removeprefix('hf:')).name


def read_phrases(path: str) -> list[str]:
    """
    Return the entries of a list: a text file with one a line, or a JSON list.
    """
    place = Path(path).expanduser()
    if place.suffix != '.json':
        lines = read_utf8(place, 'word list ').split('\n')
        return [line.strip() for line in lines if line.strip()]
    phrases: list[str] = read_json(place, list, 'word list ')
    if not all(isinstance(phrase, str) for phrase in phrases):
        raise UserError(f'word list {path}: a JSON list of texts is expected')
    return phrases


def split_words(text: str) -> list[str]:
    """
    Return the words of a text, in small letters; an apostrophe is part of none.

    >>> split_words("It's a first-class day.")
    ['it', 's', 'a', 'first', 'class', 'day']
    """
    return WORD.findall(text.casefold())


def find_label(labels: Sequence[str], wanted: Sequence[str]) -> int | None:
    """
    Return the column of the first of these labels that a classifier has, whatever the
    case; `None` if it has none of them.
    """
    folded = [label.casefold() for label in labels]
    known = (folded.index(w) for w in map(str.casefold, wanted) if w in folded)
    return next(known, None)


def toxic_column(
    name: str, labels: Sequence[str], label: str | None
) -> tuple[int, bool]:
    """
    Return the column of a classifier that tells toxicity, and whether it is the label
    of safe texts, so that toxicity is what is left of 1.

    :raises UserError: when the label is unknown, or cannot be told.
    """
    if label is not None:
        column = find_label(labels, [label])
        if column is None:
            raise UserError(f'detector {name}: label={label}; {nearest(label, labels)}')
        return column, False
    known = moderation_data('labels')
    for kind in ('toxic', 'safe'):
        column = find_label(labels, known[kind])
        if column is not None:
            return column, kind == 'safe'
    raise UserError(
        f'detector {name}: which of the labels {", ".join(labels)} means toxic? '
        f'{name},label=NAME says it'
    )
