"""
The nouns: frozen records that every room shares, and the protocols between rooms.

Ids are hashes of content, so that the same thing has the same id on every machine.
"No score" is `None` with a reason; it is counted, never averaged as 0. Signatures say
with which settings something was made.
"""

import dataclasses
import hashlib
import json
import math
import typing
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, field, fields, is_dataclass
from typing import Any, dataclass_transform

from parlai_ext.core.json_text import JsonDict, JsonObject, half_character


@dataclass_transform(frozen_default=True, field_specifiers=(dataclasses.field,))
def frozen(cls: Any = None, **how: bool) -> Any:
    """
    Make a class a frozen dataclass, with what else `how` asks of dataclasses.
    """
    return dataclasses.dataclass(cls, frozen=True, **how)


FOLDS = ('train', 'valid', 'test')  # the parts of a set, as ParlAI calls them
K = typing.TypeVar('K')
V = typing.TypeVar('V')


def bytes_hash(data: bytes) -> str:
    """
    Return the sha256 of data in hex digits.
    """
    return hashlib.sha256(data).hexdigest()


def short_hash(data: bytes) -> str:
    """
    Return 16 hex digits of the sha256 of data.
    """
    return bytes_hash(data)[:16]


def content_id(*parts: Any) -> str:
    """
    Return 16 hex digits that depend on the content of ``parts`` alone.
    """
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, default=str)
    return short_hash(text.encode('utf-8', 'surrogatepass'))


class Recorded(typing.NamedTuple):
    """
    Where something was read that nobody named in this command: the hash of a record,
    and its part (`isolation.policy`).
    """

    record: str
    part: str


@frozen
class System:
    """
    A dialogue system: a name and the ParlAI options that build it.

    A name that starts with ``floor-`` marks a floor: ranked and shown, but no part
    of any claim about order.

    :param recorded: where its options stand that were read from a run folder; `None`
        if the user named them.
    """

    name: str
    opt: JsonObject = field(default_factory=dict)
    recorded: Recorded | None = field(default=None, compare=False, repr=False)


@frozen
class Roster:
    """
    Who is evaluated, and with whom they talk (empty outside bipartite-play).
    """

    targets: tuple[System, ...]
    partners: tuple[System, ...] = ()

    @property
    def systems(self) -> tuple[System, ...]:
        """
        Everybody: targets, then partners.
        """
        return self.targets + self.partners

    def system(self, name: str) -> System:
        """
        Return the system called ``name``.

        :raises KeyError: when there is none.
        """
        return {system.name: system for system in self.systems}[name]

    def replaced(self, by_name: Mapping[str, System]) -> 'Roster':
        """
        Return the same names with these systems; a name without one is left out.
        """
        sides = (
            tuple(by_name[system.name] for system in side if system.name in by_name)
            for side in (self.targets, self.partners)
        )
        return Roster(*sides)


@frozen
class Opener:
    """
    The given first utterances of a dialogue; the first is the first speaker's.

    `reply` is what a person said next, where the source has it: no system hears it; the
    judge check compares with it.
    """

    id: str
    utterances: tuple[str, ...]
    source: str
    reply: str | None = None

    @classmethod
    def from_utterances(
        cls, utterances: Sequence[str], source: str, reply: str | None = None
    ) -> 'Opener':
        """
        Return the opener of these utterances; its id depends on their text alone.
        """
        id = content_id('opener', list(utterances))
        return cls(id, tuple(utterances), source, reply)


@frozen
class Pairing:
    """
    Two systems, by name, over the run's openers; ``first`` speaks first.
    """

    id: str
    first: str
    second: str
    scheme: str

    @property
    def speakers(self) -> tuple[str, str]:
        """
        Its systems; they are one in self-play.
        """
        return self.first, self.second


@frozen(slots=True)
class Utterance:
    """
    What one speaker said; ``given`` when it came from the opener. An import may know
    `references`: good utterances by people in this place.
    """

    speaker: str
    text: str
    given: bool = False
    references: tuple[str, ...] = ()


@frozen(slots=True)
class Dialogue:
    """
    One finished dialogue.

    `ended_by` is the name of the system that broke it off (empty, absent or raising
    reply) and `reason` says how; both are `None` when it reached its length. In
    self-play both speakers have one name: utterance ``i`` is the first speaker's
    when ``i`` is even.
    """

    id: str
    pairing_id: str
    opener_id: str
    utterances: tuple[Utterance, ...]
    ended_by: str | None = None
    reason: str | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """
        The texts of its utterances.
        """
        return tuple(utterance.text for utterance in self.utterances)

    @property
    def speakers(self) -> tuple[str, ...]:
        """
        The speaker of each utterance.
        """
        return tuple(utterance.speaker for utterance in self.utterances)

    def turns_of(self, system: str) -> list[bool]:
        """
        Return, for each utterance, whether it is the system's; in self-play, whether it
        is that of the speaker who began.
        """
        names = self.speakers
        alone = len({*names}) == 1
        return [n == system and not (alone and i % 2) for i, n in enumerate(names)]


@frozen(slots=True)
class Score:
    """
    What a scorer says of one utterance (or, with index `None`, of a whole dialogue).
    """

    dialogue_id: str
    utterance_index: int | None
    system: str
    dimension: str
    value: float | None
    reason: str | None = None


@frozen(slots=True)
class ScoredDialogue:
    """
    All scores of one dialogue, with the numbers behind them.

    `evidence` maps an utterance index to a tuple with one number for each of the
    scorer's `evidence_labels` (FED: the log-probability of each follow-up), or `None`,
    or to other JSON data.
    `truncated` maps the index of an utterance whose context was too long for the judge
    to how many of its tokens were cut.
    """

    dialogue_id: str
    scores: tuple[Score, ...]
    evidence: Mapping[int, Any] = field(default_factory=dict)
    truncated: Mapping[int, int] = field(default_factory=dict)

    @property
    def figures(self) -> dict[int, tuple[float | None, ...]]:
        """
        The evidence that is tuples of numbers; pages show no other.
        """
        return {
            at: row
            for at, row in self.evidence.items()
            if isinstance(row, tuple)
            and all(isinstance(value, int | float | None) for value in row)
        }


@frozen
class HumanJudgement:
    """
    What one person said of one system, dialogue or utterance.
    """

    system: str
    dimension: str
    value: float
    rater: str | None = None
    dialogue_id: str | None = None
    utterance_index: int | None = None


@frozen
class Question:
    """
    One context and the continuations whose likelihood is asked.

    A context is a tuple of utterances, oldest first (the model builds its own
    history of them, as if it had listened), or a tuple of token ids taken as they
    are. Continuations likewise are texts (the model adds its end token) or tuples of
    token ids taken as they are.
    """

    context: tuple[str, ...] | tuple[int, ...]
    continuations: tuple[str, ...] | tuple[tuple[int, ...], ...]


@frozen
class Answer:
    """
    Natural-log probabilities, in the order of the question.

    `continuations[k][t]` is log P(token t of continuation k | context, tokens < t),
    the end token included; `context[t]` is log P(context token t | tokens < t) when
    it was asked for and the model has it (decoder-only models), else `None`.
    `num_truncated` counts the context tokens that were cut.

    Where the question was asked with ``greedy``, there is 1 instead of a
    log-probability for a token than which no other is likelier there, and 0 for any
    other token.
    """

    continuations: tuple[tuple[float, ...], ...]
    context: tuple[float, ...] | None = None
    num_truncated: int = 0


class LanguageModel(typing.Protocol):
    """
    A language model that says how likely continuations are after contexts.
    """

    signature: str

    def answer(
        self,
        questions: Sequence[Question],
        with_context: bool = False,
        greedy: bool = False,
    ) -> list[Answer]:
        """
        Return one `Answer` for each question, in their order.
        """
        ...


@frozen
class JudgeModel:
    """
    A model that a scorer asks: its kind and name, how many weights it has (`None` where
    that is not known, as of a model behind an endpoint), and the commit of its files
    (`None` where they are from no hub).
    """

    kind: str
    name: str
    num_parameters: int | None = None
    commit: str | None = None


def utterance_json(utterance: Utterance) -> JsonDict:
    """
    Return an utterance as plain JSON data, as it ever was where it has no references,
    so that ids and signatures stay.
    """
    data = asdict(utterance)
    if not utterance.references:
        del data['references']
    return data


def reference_texts(value: Any) -> tuple[str, ...]:
    """
    Return the references of a turn from the lines of a text or a list of texts.

    :raises ValueError: for anything else.
    """
    texts = value.split('\n') if isinstance(value, str) else value or ()
    if not isinstance(texts, list | tuple) or not all(
        isinstance(text, str) and not half_character(text) for text in texts
    ):
        raise ValueError(f'a text or a list of texts is expected, not {value!r:.40}')
    return tuple(text for text in texts if text.strip())


def dialogue_means(
    dialogue: Dialogue, scored: ScoredDialogue, judged: str
) -> dict[str, float | None]:
    """
    Return the judged system's mean score of one dialogue, by dimension.

    A dialogue that the judged system itself broke off has no score: otherwise a
    system could gain by falling silent after one good utterance.
    """
    values: dict[str, list[float]] = {}
    of_dialogue: dict[str, list[float]] = {}
    for score in scored.scores:
        values.setdefault(score.dimension, [])
        if score.value is not None and score.system == judged:
            into = of_dialogue if score.utterance_index is None else values
            into.setdefault(score.dimension, []).append(score.value)
    # a score of the whole dialogue counts, not the mean of its turns
    values.update(of_dialogue)
    if dialogue.ended_by == judged:
        return dict.fromkeys(values)
    return {d: sum(v) / len(v) if v else None for d, v in values.items()}


# a planted order may name floors: how a judge agrees with it is a claim about the judge
FLOOR_PREFIX = 'floor-'


def is_floor(system: str) -> bool:
    """
    True if a system's name marks it as a floor.
    """
    return system.startswith(FLOOR_PREFIX)


def known_values(values: Mapping[K, V | None]) -> dict[K, V]:
    """
    Return a mapping without the keys whose value is `None`.
    """
    return {key: value for key, value in values.items() if value is not None}


def grouped(pairs: Iterable[tuple[K, V]]) -> dict[K, list[V]]:
    """
    Return the values of each key, both in the order in which they come.
    """
    groups = defaultdict(list)
    for key, value in pairs:
        groups[key].append(value)
    return dict(groups)


def chunks(members: Sequence[V], size: int) -> Iterator[Sequence[V]]:
    """
    Yield the members, so many at a time; the last chunk may be smaller.

    >>> list(chunks('abcde', 2))
    ['ab', 'cd', 'e']
    """
    for start in range(0, len(members), size):
        yield members[start : start + size]


def computed_once(
    function: Callable[[list[K]], Iterable[V]], inputs: Sequence[K]
) -> list[V]:
    """
    Call a function once, with the different ones of some inputs in order; return its
    result for each input.

    >>> computed_once(lambda words: map(str.upper, words), ['a', 'b', 'a'])
    ['A', 'B', 'A']
    """
    different = list(dict.fromkeys(inputs))
    results = dict(zip(different, function(different), strict=True))
    return [results[one] for one in inputs]


def mean(values: Sequence[float | None]) -> float | None:
    """
    Return the mean; `None` when there is nothing, or something has no value.
    """
    numbers = [value for value in values if value is not None]
    if not numbers or len(numbers) < len(values):
        return None
    return math.fsum(numbers) / len(numbers)


# --- records as JSON data -------------------------------------------------------------


def json_keys(**names: str) -> Any:
    """
    Return the ``__pydantic_config__`` of a dataclass some of whose fields have other
    names in the data.
    """
    return {'alias_generator': lambda name: names.get(name, name)}


def record_to_json(record: Any) -> Any:
    """
    Return a record as JSON data, with the records, mappings and tuples inside it.
    """
    if is_dataclass(record):
        config: Any = getattr(record, '__pydantic_config__', json_keys())
        return {
            config['alias_generator'](one.name): record_to_json(value)
            for one in fields(record)
            if (value := getattr(record, one.name)) is not None
            or one.default is not None
        }
    if isinstance(record, Mapping):
        return {key: record_to_json(value) for key, value in record.items()}
    if isinstance(record, tuple | list):
        return [record_to_json(value) for value in record]
    return record


# --- signatures -----------------------------------------------------------------------
# The one-line string that makes a number reproducible, and where two of them, or any
# two values of JSON data, differ.
#
# It has two parts, how dialogues arise and how they are scored, and for a tournament
# a third, how they are rated. Targets belong to none of them: runs with the same
# signature compare.

# between the parts: how dialogues arise, how they are scored, how they are rated
PART_SEPARATOR = ' || '
GIVEN_JUDGED = '|given:judged'  # ends that of scores which include given utterances


def signature_line(fields: Mapping[str, object]) -> str:
    """
    Return ``name:value|name:value|…`` in the order given; long values are hashed.
    """
    return '|'.join(f'{name}:{_short(value)}' for name, value in fields.items())


def scorer_name(signature: str) -> str:
    """
    Return the name of a scorer, with which its signature begins.
    """
    return signature.partition('|')[0].removeprefix('scorer:')


def signature_differences(old: str, new: str) -> list[str]:
    """
    Return ``key: old → new`` for each field in which two signatures differ.
    """
    before, after = (
        {key: value for key, _, value in (p.partition(':') for p in line.split('|'))}
        for line in (old, new)
    )
    return [f'{key}: {a} → {b}' for key, a, b in differences(before, after)]


def _short(value: Any) -> str:
    """
    Return a value as one word: containers and long texts by their hash.
    """
    if isinstance(value, Mapping | list | tuple) or len(str(value)) > 60:
        return '#' + content_id(value)[:10]
    return str(value).replace('|', '/').replace(':', '=').replace('\n', ' ')


CLOSE = 1e-9  # numbers may differ by so much of themselves, for other libraries' sums
LONGEST = 60  # characters of a value that are shown


class Absent:
    """
    What stands for a value that is not there.
    """

    def __format__(self, spec: str) -> str:
        return '(absent)'


ABSENT = Absent()


def differences(
    old: Any, new: Any, where: str = '', tolerance: float | None = None
) -> Iterator[tuple[str, Any, Any]]:
    """
    Yield each place at which two values differ, with both values there. A place in a
    list of standings is named by the system.

    :param tolerance: by so much numbers may differ, and by `CLOSE` of themselves;
        `None`: not at all.
    """
    if isinstance(old, Mapping) and isinstance(new, Mapping):
        for key in dict.fromkeys((*old, *new)):
            inner = f'{where}.{key}' if where else str(key)
            pair = old.get(key, ABSENT), new.get(key, ABSENT)
            yield from differences(*pair, inner, tolerance)
    elif isinstance(old, list) and isinstance(new, list):
        for i, (a, b) in enumerate(zip(old, new, strict=False)):
            name = a.get('system', i) if isinstance(a, Mapping) else i
            yield from differences(a, b, f'{where}[{name}]', tolerance)
        if len(old) != len(new):
            yield f'length of {where}', len(old), len(new)
    elif old != new:
        numbers = {type(old), type(new)} <= {int, float} and tolerance is not None
        if not (
            numbers and math.isclose(old, new, rel_tol=CLOSE, abs_tol=tolerance or 0)
        ):
            yield where, old, new


def change_lines(old: Any, new: Any, where: str = '') -> list[str]:
    """
    Return ``key: old → new`` for each place at which two values differ.
    """
    return [
        f'{key if key.isprintable() else repr(key)}: {_shown(a)} → {_shown(b)}'
        for key, a, b in differences(old, new, where)
    ]


def _shown(value: Any) -> str:
    """
    Return a value on one line; a long one is cut.
    """
    text = f'{value}'
    if value is not ABSENT:
        text = json.dumps(value, ensure_ascii=not text.isprintable())
    if len(text) <= LONGEST:
        return text
    return f'{text[: LONGEST - 12]}… #{content_id(value)[:8]}'
