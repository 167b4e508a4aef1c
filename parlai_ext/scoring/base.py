"""
The scorer interface: a class with a name, dimensions and ``score(items)`` is a scorer.

    class Relevance(Scorer):
        name = 'relevance'
        dimensions = ('Relevance',)
        options_class = RelevanceOptions

        def score(self, items):
            encoder = self.models.embedder(self.options.encoder)
            …
            return [ItemScore({'Relevance': value}) for value in cosines]

The base class reads the options, makes the signature, cuts dialogues into items,
checks the scores and turns them into what a run folder stores. docs/scorers.md has an
example.
"""

from __future__ import annotations

import inspect
import json
import math
import traceback
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import field, replace
from functools import cached_property
from itertools import chain
from pathlib import Path
from typing import Any, Self, TypeVar

import numpy as np

from parlai_ext import zoo_configs
from parlai_ext.core import (
    DATA_ERRORS,
    Dialogue,
    JsonObject,
    JudgeModel,
    Score,
    ScoredDialogue,
    UserError,
    frozen,
    nearest,
    option,
    option_values,
    options_of,
    read_options,
    require_known,
    shortened,
    signature_line,
    signature_values,
)
from parlai_ext.files import Document, is_texts, read_file, sha256
from parlai_ext.models.handle import AskedModels, Models

T = TypeVar('T')
R = TypeVar('R')
NO_KNOWLEDGE = 'the item has neither facts nor a persona'
OWN_INIT = (
    'its __init__ has to take (options, models) and pass them to super().__init__; '
    'what it sets of its own belongs into prepare(self)'
)
OTHER = 'other'  # the key in an item's extras: the response that it is compared with


@frozen
class ScoringItem:
    """
    What is judged: a response after its context, or a whole dialogue.

    :param context: the earlier utterances, oldest first; all of a whole dialogue.
    :param response: the judged utterance; `None` where the whole dialogue is judged.
    :param speaker: whose response, or whose part of the dialogue, is judged.
    :param references: good responses written by people.
    :param facts: the knowledge that the response should use.
    :param persona: what the speaker is told to be.
    :param extras: what else a source of items knows. A run's dialogues give
        ``speakers`` (of every utterance), ``later`` (the utterances after the
        response), ``dialogue_id`` and ``utterance_index``, or, of a whole one, the
        places of the ``judged`` utterances; a comparison of two responses gives the
        ``other`` one.
    """

    context: tuple[str, ...]
    response: str | None
    speaker: str = ''
    references: tuple[str, ...] = ()
    facts: str | None = None
    persona: tuple[str, ...] = ()
    extras: Mapping[str, Any] = field(default_factory=dict)

    @property
    def text(self) -> str:
        """
        The response, empty where there is none.
        """
        return self.response or ''

    @property
    def speakers(self) -> Sequence[str]:
        """
        Who said each utterance; empty where it is not known.
        """
        return self.extras.get('speakers') or ()

    @property
    def has_knowledge(self) -> bool:
        """
        True if the item has facts or a persona.
        """
        return bool(self.facts or self.persona)

    @property
    def knowledge(self) -> str:
        """
        The facts, else the persona with a sentence a line as PersonaChat writes it,
        else the word that stands for no fact in Topical-Chat: for metrics trained on
        it.
        """
        lines = (f'your persona: {line}' for line in self.persona)
        return self.facts or '\n'.join(lines) or '_nofact'

    def lacking(self, fields: Sequence[str]) -> str | None:
        """
        Return the first of these fields that the item does not have; `None` if it has
        them all.
        """
        return next((name for name in fields if not getattr(self, name)), None)

    @property
    def utterances(self) -> tuple[str, ...]:
        """
        The context and, if there is one, the response.
        """
        return (*self.context, *(() if self.response is None else (self.response,)))


Items = Sequence[ScoringItem]


@frozen
class ItemScore:
    """
    The scores of one item.

    :param values: score by dimension; `None` where there is none.
    :param reasons: why a dimension has none.
    :param evidence: JSON data behind the scores; a list with one entry for each of the
        scorer's `evidence_labels` is shown as a table.
    :param cut: how many tokens of the item no model saw.
    """

    values: Mapping[str, float | None]
    reasons: Mapping[str, str | None] = field(default_factory=dict)
    evidence: Any = None
    cut: int = 0

    def completed(self, dimensions: Sequence[str], no_score: str = '') -> ItemScore:
        """
        Return the scores with a finite value, or `None` and a reason, in every
        dimension.

        :param no_score: the reason where there is no other.
        :raises UserError: for a score in another dimension, or one that is no number.
        """
        for name, what in ('values', 'numbers'), ('reasons', 'texts'):
            if not isinstance(given := getattr(self, name), Mapping):
                problem = f'a mapping of dimensions to {what} is expected'
                raise UserError(f'{name}: {problem}, not {given!r:.40}')
        if not isinstance(self.cut, int) or self.cut < 0:
            problem = 'a number of tokens is expected'
            raise UserError(f'cut: {problem}, not {self.cut!r:.40}')
        values: dict[str, float | None] = {}
        reasons: dict[str, str | None] = {}
        for name in self.values:
            problem = f'a score in no dimension of it, {name!r}'
            require_known(name, dimensions, problem)
        for name in dimensions:
            value = self.values.get(name)
            try:
                is_score = value is not None and math.isfinite(value)
            except TypeError:
                problem = f'a number or None is expected, not {value!r:.40}'
                raise UserError(f'{name}: {problem}') from None
            if value is not None and is_score:
                values[name] = float(value)
            else:
                values[name] = None
                reason = self.reasons.get(name) or no_score
                reasons[name] = str(reason or f'the scorer gives {value}')
        return replace(self, values=values, reasons=reasons)


def swapped_item(item: ScoringItem) -> ScoringItem:
    """
    Return a pair with the two responses in each other's place; an item without another
    response as it is.
    """
    if OTHER not in item.extras:
        return item
    extras = {**item.extras, OTHER: item.text}
    return replace(item, response=str(item.extras[OTHER]), extras=extras)


def turn_items(dialogue: Dialogue, indices: Sequence[int]) -> list[ScoringItem]:
    """
    Return an item for each judged utterance of a dialogue.
    """
    texts, speakers = dialogue.texts, dialogue.speakers
    return [
        ScoringItem(
            texts[:index],
            texts[index],
            speakers[index],
            dialogue.utterances[index].references,
            extras={
                'speakers': speakers,
                'later': texts[index + 1 :],
                'dialogue_id': dialogue.id,
                'utterance_index': index,
            },
        )
        for index in indices
    ]


def dialogue_items(dialogue: Dialogue, indices: Sequence[int]) -> list[ScoringItem]:
    """
    Return an item for each speaker of the judged utterances.
    """
    extras = {
        'speakers': dialogue.speakers,
        'dialogue_id': dialogue.id,
        'judged': tuple(indices),
    }
    return [
        ScoringItem(dialogue.texts, None, speaker, extras=extras)
        for speaker in judged_speakers(dialogue, indices)
    ]


def judged_speakers(dialogue: Dialogue, indices: Sequence[int]) -> list[str]:
    """
    Return the speakers of the judged utterances, in order.
    """
    return list(dict.fromkeys(dialogue.speakers[i] for i in indices))


def judged_indices(
    dialogue: Dialogue,
    first_speaker_only: bool,
    include_given: bool = False,
    speakers: Collection[str] | None = None,
) -> list[int]:
    """
    Return the places of the utterances to judge.

    Given utterances, which no system said, are left out unless asked for. So are those
    of a system that broke the dialogue off: it would gain by falling silent after one
    good utterance.

    :param first_speaker_only: judge the first speaker's (even places), not both's.
    :param speakers: judge these only (`None`: all).
    """
    return [
        i
        for i, utterance in enumerate(dialogue.utterances)
        if (i % 2 == 0 or not first_speaker_only)
        and (speakers is None or utterance.speaker in speakers)
        and (include_given or not utterance.given)
        and utterance.speaker != dialogue.ended_by
    ]


def unscored_systems(
    dialogue: Dialogue, first_speaker_only: bool, include_given: bool = False
) -> dict[str, str]:
    """
    Return, for each system to be judged that has nothing to judge, the reason.
    """
    judged = judged_indices(dialogue, first_speaker_only, include_given)
    scored = {dialogue.speakers[i] for i in judged}
    speakers = {*dialogue.speakers[: 1 if first_speaker_only else 2]}
    if dialogue.ended_by and not (first_speaker_only and dialogue.utterances):
        speakers.add(dialogue.ended_by)  # it may not have come to say anything
    reasons = {}
    for name in sorted(speakers - scored):
        if dialogue.ended_by is None:
            reasons[name] = 'it says nothing that is judged'
        elif dialogue.ended_by == name:
            reasons[name] = f'it broke the dialogue off: {dialogue.reason}'
        else:
            reasons[name] = (
                f'{dialogue.ended_by} broke the dialogue off before it spoke'
            )
    return reasons


def in_groups(
    function: Callable[[list[T]], Iterable[R]], groups: Sequence[Sequence[T]]
) -> list[list[R]]:
    """
    Call a function once, with the members of all groups, if there are any; return its
    results, one for each member, in the same groups.
    """
    members = list(chain(*groups))
    results = iter(function(members) if members else ())
    return [[next(results) for _ in group] for group in groups]


def lettered_turns(turns: Sequence[str], letters: str = 'AB') -> list[str]:
    """
    Return the turns before a response with letters, of which the one who is judged has
    the second.
    """
    last = len(turns) - 1
    return [f'{letters[(last - k) % 2]}: {text}' for k, text in enumerate(turns)]


# --- the scorer -----------------------------------------------------------------------

FROM = 'a folder, or hf:REPOSITORY[@REVISION]'
NO_MODEL = (None, 'none')
DIGITS = 6  # of a similarity; of float32 models, rounding changes the seventh
WHOLE_SETS = (
    'its scores depend on the items that are scored together; run_bench scores a set '
    'as a whole'
)


def model_option(default: str | None, kind: str, what: str, **info: Any) -> Any:
    """
    Return the option that names a model of one kind inside a scorer.

    :param what: which models would do, for the help text.
    """
    return option(default, help=what, metavar='MODEL', model=kind, path=True, **info)


def file_option(what: str, metavar: str = 'FILE') -> Any:
    """
    Return the option that names a file of the user's; what it holds is signed.

    :param what: what is in it, for the help text.
    """
    return option(None, help=what, metavar=metavar, path=True, signed=False)


def encoder_option(default: str = 'minilm') -> Any:
    """
    Return the option that names the sentence encoder inside a scorer.
    """
    return model_option(
        default, 'embedder', f'the sentence encoder: a catalogue name, {FROM}'
    )


@frozen
class NoOptions:
    """
    The options of a scorer without any.
    """


# those of a table of scores, besides one for each dimension
UTTERANCE_COLUMNS = (
    'dialogue_id',
    'utterance_index',
    'speaker',
    'text',
    'reason',
    'cut_tokens',
)


class ScorerInterface:
    """
    What a scorer, a method that judges utterances or dialogues, declares and defines:
    `name`, `dimensions` and `score`; everything else has a default.

    :cvar level: what an item is: a ``turn``, a whole ``dialogue`` of one speaker, or a
        ``pair`` of responses.
    :cvar needs: fields of `ScoringItem` that must be there (``references``, ``facts``,
        ``persona``). Models are named by options (``option(…, model='embedder')``).
    :cvar options_class: a frozen dataclass of `core.option` fields.
    :cvar evidence_labels: the columns of evidence that is a list.
    :cvar also_level: what else it can judge: a scorer of turns a whole ``dialogue``,
        as its last utterance after all others; a scorer of dialogues a single ``turn``.
    :cvar variants: names under which scores by other values of options are reported
        from the same evidence, and these values (FED without its complaints). The
        evidence of the first has the scores of all (FED: praise and complaints).
    :cvar compares_items: an item's score depends on the items that are scored with it;
        a bench then scores all items of a set in one call.
    :cvar shows_flips: its evidence has, as ``flips``, in how many of how many pairs its
        choice changes when the responses change places; a bench prints it.
    :cvar even: the score of a pair at which neither response is better.
    :cvar prompted: the scorer asks a model in words, whom a response may address. A
        scorer with a chat model need not say so.
    :ivar fitted_on: the judged sets on whose human values something in it was fitted
        (of data that are no judged set here, words for them); tables mark it there.
        `prepare` sets it, where a file says what was fitted.
    :ivar signed: what the signature has besides the options, or in place of some, such
        as the hash of a file; `prepare` or `load_models` sets it.
    :ivar evidence_record: what is recorded beside the scores to explain their evidence.
    :cvar instead: what to name where the models of its options cannot be had.
    :cvar no_score: why a dimension has no score, where an item's reasons do not say it.
    :cvar unit: what a score counts, in words, for the page.
    :cvar version: raise it when the same options give other numbers.
    :cvar code: file and sha256 of a scorer from outside the package.
    """

    name = ''
    level: str = 'turn'
    needs: tuple[str, ...] = ()
    options_class: Any = NoOptions
    even = 0.5
    shows_flips = False
    prompted = False
    also_level: str | None = None
    instead = ''
    no_score = ''
    unit = "points of the scorer's own"
    version: int | None = None
    code: OutsideCode | None = None
    dimensions: tuple[str, ...] = ()
    evidence_labels: tuple[str, ...] = ()
    variants: Mapping[str, Mapping[str, Any]] = {}
    compares_items: bool = False
    fitted_on: tuple[str, ...] = ()
    signed: Mapping[str, Any] = {}
    evidence_record: Mapping[str, Any] = {}
    options: Any

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each item, in order.
        """
        raise UserError(f'scorer {self.name}: its class has no method `score`')

    def prepare(self) -> None:
        """
        Read files that the options name, and refuse options that do not go together.
        Models are not loaded yet: a run is checked so before its first dialogue.
        """

    def score_of_evidence(self, score: ItemScore, variant: str = '') -> ItemScore:
        """
        Return the score of an item from its evidence by the scorer of `with_evidence`;
        no model is asked.

        :param variant: by which of the `variants`; by default with the scorer's own
            options.
        """
        raise NotImplementedError


class Scorer(ScorerInterface):
    """
    A scorer as the program uses it: its options are read, its signature is made,
    dialogues are cut into items, and their scores are checked. Subclasses of it are
    scorers.
    """

    def __init__(self, options: Any = None, models: Models | None = None):
        given = (
            options
            if isinstance(options, Mapping)
            else option_values(options or self.options_class())
        )
        self.models = AskedModels(self.name, models)
        with self._naming_own_code():
            self.options = read_options(self.options_class, given, 'scorer: ')
            self.prepare()
            here = f'scorer {self.name}: '
            names = self.dimensions
            problem = ''
            if isinstance(names, str):  # ('Overall') is no tuple
                problem = f"a tuple is expected, such as ('{names}',)"
            elif not is_texts([*names]) or len({*names}) < len(names):
                problem = f'different names are expected, not {names!r:.60}'
            elif taken := {*names}.intersection(UTTERANCE_COLUMNS):
                problem = f'{min(taken)!r} is taken, as a column of tables of scores'
            if problem:
                raise UserError(f'{here}dimensions: {problem}')
            level = f'{here}level: {self.level!r}'
            require_known(self.level, ('turn', 'dialogue', 'pair'), level)
            for need in self.needs:
                require_known(
                    need, ScoringItem.__dataclass_fields__, f'{here}needs: {need!r}'
                )

    @classmethod
    def from_section(cls, section: JsonObject, models: Models | None = None) -> Scorer:
        """
        Return the scorer of a protocol's ``scorer:`` section. No model is loaded.

        :raises UserError: names the key that is wrong.
        """
        given = {k: v for k, v in section.items() if k != 'name'}
        try:
            inspect.signature(cls).bind(given, models)
        except TypeError:
            raise UserError(f'scorer {cls.name}: {OWN_INIT}') from None
        return cls(given, models).with_options()

    def with_options(self) -> Self:
        """
        Return this scorer.

        :raises UserError: when its own ``__init__`` has read no options.
        """
        if not hasattr(self, 'models'):
            raise UserError(f'scorer {self.name}: {OWN_INIT}')
        return self

    def load_models(self) -> None:
        """
        Load the models that the options name.

        A scorer that also needs a model that no option names overrides this and loads
        it here, by ``self.models.embedder(name)`` or the like: the signature, which is
        made next, lists all models.
        """
        for kind, name in self.named_models():
            getattr(self.models, kind)(name)

    def named_models(self) -> list[tuple[str, str]]:
        """
        Return kind and name of each model that the options name.
        """
        return [(kind, name) for kind, name in self._models() if name not in NO_MODEL]

    def _models(self) -> list[tuple[str, Any]]:
        values = option_values(self.options)
        return [
            (option.model, values[name])
            for name, option in options_of(type(self.options)).items()
            if option.model is not None
        ]

    @cached_property
    def signature(self) -> str:
        """
        The signature: one line that holds all that the scores depend on. The models are
        loaded for it.
        """
        with self._naming_own_code(), self.naming_another():
            self.load_models()
        self.models.complete = True
        fields: dict[str, Any] = {'scorer': self.name}
        if self.code is not None:
            fields['code'] = self.code.sha256[:16]
        if self.version is not None:
            fields['v'] = self.version
        values, known = signature_values(self.options), options_of(self.options_class)
        contents = {  # a file that was changed makes other scores
            name: sha256(Path(value))[:16]
            for name, value in values.items()
            if known[name].path and isinstance(value, str) and Path(value).is_file()
        }
        fields |= {**values, **contents, **self.signed}
        return '|'.join([signature_line(fields), *self._signed_models()])

    def _signed_models(self) -> Iterator[str]:
        """
        Yield the signatures of the models, and kinds of which no model is named.
        """
        models = [
            (one.kind, self.models.loaded[one.kind, one.name].signature)
            for one in self.models_used()
        ]
        used = {kind for kind, _ in models}
        models += [
            (kind, 'none')
            for kind, name in self._models()
            if name in NO_MODEL and kind not in used
        ]
        for kind, signature in models:
            yield f'{"judge" if kind == "likelihood" else kind}:({signature})'

    def require_dialogues(self) -> None:
        """
        Refuse dialogues if the scorer judges no part of one by itself.

        :raises UserError: says what it needs.
        """
        if self.level == 'pair':
            raise UserError(
                f'scorer {self.name} needs two responses to compare, which the '
                'dialogues of a run do not have; a judged set may have them'
            )
        if self.compares_items:  # a run is scored in parts
            raise UserError(f'scorer {self.name}: {WHOLE_SETS}')

    def score_dialogues(
        self, dialogues: Sequence[Dialogue], indices: Sequence[Sequence[int]]
    ) -> list[ScoredDialogue]:
        """
        Judge, in ``dialogues[i]``, the utterances ``indices[i]`` (or the parts of their
        speakers). A scorer that sees a dialogue otherwise than as items overrides this.

        :raises UserError: when a dialogue lacks what the scorer needs.
        """
        self.require_dialogues()
        make = dialogue_items if self.level == 'dialogue' else turn_items
        groups = [make(*pair) for pair in zip(dialogues, indices, strict=True)]
        for item in chain(*groups):
            if need := item.lacking(self.needs):
                place = item.extras.get('utterance_index', 'the whole')
                raise UserError(
                    f'scorer {self.name} needs {need}, which dialogue '
                    f'{item.extras["dialogue_id"]} of the run does not have '
                    f'(utterance {place}); a judged set, or an import with '
                    'references, may have them'
                )
        scores = in_groups(self.checked_scores, groups)
        return list(map(self.scored_dialogue, dialogues, indices, scores))

    def checked_scores(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of items, each with a value or a reason in every dimension.

        :raises OwnScorerFailed: names an exception, and where in the scorer's file; for
            a score too many or too few, or an unknown dimension.
        """
        _ = self.signature  # no model may join after it; it loads those there are
        if not self.dimensions:
            raise UserError(f'scorer {self.name}: dimensions: it names none')
        with self._naming_own_code():
            # nothing that it does to a list of its own could change the order here
            scores = self.score(tuple(items)) if items else []
            try:
                return self._completed(scores, len(items))
            except UserError as error:
                raise OwnScorerFailed(f'scorer {self.name}: {error}') from None

    def _completed(self, scores: Any, n_items: int) -> list[ItemScore]:
        """
        Return scores of the right form with a value or a reason in every dimension.

        :param scores: what a method `score` has returned for so many items.
        """
        if not isinstance(scores, Sequence) or not all(
            isinstance(one, ItemScore) for one in scores
        ):
            problem = '`score` is to return a list of ItemScore'
            raise UserError(f'{problem}, not {scores!r:.60}')
        if len(scores) != n_items:
            raise UserError(f'{n_items} items got {len(scores)} scores')
        for one in scores if self.code else ():
            try:
                json.dumps(one.evidence, allow_nan=False)
            except DATA_ERRORS as error:
                problem = f'evidence: JSON data is expected ({error})'
                raise UserError(problem) from None
        return [one.completed(self.dimensions, self.no_score) for one in scores]

    @contextmanager
    def naming_another(self) -> Iterator[None]:
        """
        Add to the error about a model which other scorer would do, if `instead` has it.
        """
        try:
            yield
        except UserError as error:
            if not self.instead:
                raise
            raise UserError(f'scorer {self.name}: {error}; {self.instead}') from None

    @contextmanager
    def _naming_own_code(self) -> Iterator[None]:
        """
        Say where an exception of a scorer from outside the package comes from: the last
        line of its own file, else of any.
        """
        try:
            yield
        except UserError:
            raise
        except (Exception, SystemExit) as error:
            if self.code is None:
                raise
            calls = traceback.extract_tb(error.__traceback__)
            own = [one for one in calls if Path(one.filename).name == self.code.file]
            last = (own or calls)[-1]
            where = f'scorer {self.name}: {Path(last.filename).name}:{last.lineno}'
            what = f'{type(error).__name__}: {shortened(str(error))}'
            raise OwnScorerFailed(f'{where}: {what}') from error

    def scored_dialogue(
        self, dialogue: Dialogue, indices: Sequence[int], scores: Sequence[ItemScore]
    ) -> ScoredDialogue:
        """
        Return the scores of one dialogue's items as they are stored.

        The score of a whole dialogue has no utterance index; its evidence is stored
        with its speaker's last judged utterance.

        :param indices: the judged utterances.
        :param scores: one for each index, or, where whole dialogues are judged, one for
            each of their speakers.
        """
        places, speakers = indices, dialogue.speakers
        is_whole = self.level == 'dialogue'
        if is_whole:
            last_of = {speakers[i]: i for i in sorted(indices)}
            places = [last_of[name] for name in judged_speakers(dialogue, indices)]
        placed = list(zip(places, scores, strict=True))
        return ScoredDialogue(
            dialogue.id,
            tuple(
                Score(
                    dialogue.id,
                    None if is_whole else place,
                    speakers[place],
                    dimension,
                    one.values[dimension],
                    one.reasons.get(dimension),
                )
                for place, one in placed
                for dimension in self.dimensions
            ),
            {place: one.evidence for place, one in placed if one.evidence is not None},
            {place: one.cut for place, one in placed if one.cut},
        )

    @classmethod
    def with_evidence(cls, section: JsonObject) -> JsonObject:
        """
        Return a ``scorer:`` section with the options under which the evidence serves
        all `variants`.
        """
        return {**section, **next(iter(cls.variants.values()), {})}

    def in_given_order(self) -> Scorer:
        """
        Return the scorer itself, or, of a scorer of pairs that asks in both orders, one
        that asks in the given order only.
        """
        return self

    def models_used(self) -> list[JudgeModel]:
        """
        Return the models in the order of the signature, which has to be made first.
        """
        asked = dict.fromkeys(self.named_models()) | dict.fromkeys(self.models.loaded)
        return [
            JudgeModel(
                kind,
                name,
                getattr(self.models.loaded[kind, name], 'num_parameters', None),
                self.models.commit(name),
            )
            for kind, name in asked
        ]


class EncoderScorer(Scorer):
    """
    A scorer that may have the option ``encoder``.
    """

    @property
    def encoder(self) -> Any:
        """
        The sentence encoder inside the scorer.
        """
        return self.models.embedder(self.options.encoder)


@frozen
class OutsideCode:
    """
    The file from which a scorer outside the package was imported, and the sha256 of it
    and the files beside it that it imports, one after the other.
    """

    file: str
    sha256: str


class OwnScorerFailed(UserError):
    """
    A scorer from outside the package has raised an exception.
    """


def row_cosines(first: np.ndarray, second: np.ndarray) -> list[float | None]:
    """
    Return the cosine of each row of one array and the same row of the other; `None`
    where a row is zero.
    """
    left, right = np.asarray(first, np.float64), np.asarray(second, np.float64)
    lengths = np.linalg.norm(left, axis=1) * np.linalg.norm(right, axis=1)
    products = np.einsum('ij,ij->i', left, right)
    return [
        float(product / length) if length > 0 else None
        for product, length in zip(products, lengths, strict=True)
    ]


def tied(similarity: float | None) -> float | None:
    """
    Return a similarity rounded to `DIGITS` digits.

    The same texts in another batch, or the same words in another order, differ by less.
    Unrounded, such differences would order scores that are equal: those of all
    responses that are their own reference, or that repeat the last turn.
    """
    return None if similarity is None else round(similarity, DIGITS)


def unit_rows(rows: np.ndarray, least: float = 0.0) -> np.ndarray:
    """
    Return the rows, each divided by its length.

    :param least: what a row is divided by at the least.
    """
    lengths = np.linalg.norm(rows, axis=1, keepdims=True)
    return rows / np.maximum(lengths, least)


# --- files that scorers read ----------------------------------------------------------
# A YAML file that an option of a scorer names: one that is shipped, or the user's own.

OWN_ENDINGS = ('.yaml', '.yml', '.json')


def read_shipped_file(
    folder: str, name: str, option: str, also: Collection[str] = ()
) -> Document:
    """
    Return the file called ``name`` in a folder of `zoo_configs`, or a user's own file,
    whose name has a path separator or an ending.

    :param option: what messages call the name.
    :param also: further names that would be right.
    :raises UserError: when there is none, with the nearest name.
    """
    if '/' in name or name.endswith(OWN_ENDINGS):
        return read_file(name)
    known = zoo_configs.names(folder)
    if name not in known:
        hint = nearest(name, [*known, *also])
        raise UserError(f'scorer: {option}: no file {name!r}; {hint}')
    return read_file(zoo_configs.HOME / folder / f'{name}.yaml')
