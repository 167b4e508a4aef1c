"""
Rating sets: what people are asked, over which dialogues of a run, and the pages, the
sheets and the input of crowdsourcing tasks that they get.

A run is read twice, so that only the dialogues that are shown lie in memory. Items are
drawn evenly over systems, under the same conditions. A pair has two systems' dialogues
over the same opener with the same partner, so that only the systems differ; single
dialogues are drawn over the same openers for all systems. The draw depends on the seed
and on the dialogues alone. Where two systems share no conditions (dialogues that were
imported, say) any two dialogues are a pair.

What one call of `rate_dialogues` asks are pages of items, and the key that says which
systems' dialogues they are:

    RUN/people/<name>/key.json         stays with whoever evaluates
    RUN/people/<name>/rate-1.html …    go to the annotators, and name no system
"""

from __future__ import annotations

import json
import math
import random
import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, replace
from itertools import chain, combinations, islice, pairwise, zip_longest
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import Field, StrictBool

from parlai_ext.core import (
    SCHEMES,
    JsonObject,
    UserError,
    chunks,
    content_id,
    errors_about,
    frozen,
    grouped,
    option,
    optional,
    record_to_json,
    require_known,
)
from parlai_ext.core.records import RealNumber, Record, WholeNumber, record_from_json
from parlai_ext.files import Document, read_json, read_shipped
from parlai_ext.store import (
    RunFolder,
    json_lines_text,
    json_text,
    sealed_text,
    without_checksum,
    write_text,
)
from parlai_ext.view import count_of, spreadsheet_csv
from parlai_ext.view.page import (
    render_page,
    template_text,
    terminal_lines,
    terminal_notes,
)

if TYPE_CHECKING:
    from parlai_ext.ranking.standings import Standing

# --- questionnaires -------------------------------------------------------------------
# What annotators are asked about a dialogue, or about two side by side.
#
#     kind: pair                      # or likert
#     ties: true                      # pairs only: "no difference" is an answer
#     tie: Both are good              # … in these words
#     unrelated: Neither is any good  # pairs only: a further answer, in these words
#     flag: contains toxicity         # either dialogue may be flagged as this
#     labels: [Bad, …, Good]          # likert only: the answers in words
#     values: [-1, 0, 1]              # … and what each is worth (1, 2, …)
#     offensive: true                 # texts are shown after a click
#     questions:
#       Engaging:                     # the dimension of the judgements
#         text: Who would you prefer to talk to for a long conversation?
#         first: I would prefer to talk to <Speaker 1>
#         second: I would prefer to talk to <Speaker 2>
#       Fluent:                       # a likert question may have labels of its own
#         text: Is its English correct?
#         labels: [No, Yes]
#         values: [0, 1]
#
#     segments: [2, 3, 5]             # likert only: the first exchanges of a dialogue,
#                                     # whose speakers are both judged
#     questions:
#       Human:                        # asked about each speaker
#         text: Is <Speaker> a bot?
#         labels: [No, Yes]
#       Fluent:                       # the better one: three labels, both in the middle
#         text: Which speaker is more fluent?
#         labels: [Speaker 1, Both equally, Speaker 2]
#
# ``zoo_configs/questionnaires/`` has the shipped ones.

PAIR, LIKERT = 'pair', 'likert'
# the answers about a pair: a side, or one of these
SIDES = ('a', 'b')
TIED, UNRELATED = 'tie', 'unrelated'
# a question with this in its text is asked about both speakers of a segment
SPEAKER = '<Speaker>'
SPEAKERS = ('Speaker 1', 'Speaker 2')
BETTER = ((1.0, 0.0), (1.0, 1.0), (0.0, 1.0))  # speakers, of each label
Labels = Annotated[tuple[str, ...], Field(min_length=2, max_length=9)]  # keys 1 to 9
# the keys of one kind alone
OWN_KEYS = {
    PAIR: ('ties', 'tie', 'unrelated', 'first', 'second'),
    LIKERT: ('segments', 'labels', 'values'),
}


class LabelKeys(Record):
    """
    The keys of a file that a questionnaire and a question of its own may have.

    :param labels: the answers 1, 2, … in words.
    :param values: what each label is worth.
    """

    labels: Labels | None = None
    values: tuple[RealNumber, ...] | None = None


class QuestionKeys(LabelKeys):
    """
    The keys of one question.

    :param first, second: the answers that prefer the first and the second dialogue.
    """

    text: Annotated[str, Field(min_length=1)]
    first: str | None = None
    second: str | None = None


class QuestionnaireKeys(LabelKeys):
    """
    The keys of a questionnaire's file.

    :param description, source: what it is for, and where the wordings are from.
    :param questions: each dimension and its question.
    """

    kind: Literal['pair', 'likert']
    questions: Annotated[dict[str, QuestionKeys], Field(min_length=1)]
    description: str = ''
    source: str = ''
    ties: StrictBool = False
    tie: str | None = None
    unrelated: str | None = None
    flag: str | None = None
    offensive: StrictBool = False
    segments: tuple[Annotated[WholeNumber, Field(ge=1)], ...] | None = None


@frozen
class Wording:
    """
    One question: the dimension of its judgements, its text, and its answers in words.

    :param answers: of a pair the first and the second speaker; else one a label.
    :param values: what each label is worth; `None`: 1, 2, …
    :param speaker: of a segment the one who is judged, 0 or 1; `None` for both.
    """

    dimension: str
    text: str
    answers: tuple[str, ...]
    values: tuple[float, ...] | None = None
    speaker: int | None = None

    def value(self, answer: str) -> float:
        """
        Return what the number of a label is worth.
        """
        return self.values[int(answer) - 1] if self.values else float(answer)

    def name(self, answer: str) -> str:
        """
        Return an answer as people read it: a label by what it is worth.
        """
        return f'{self.value(answer):g}' if answer.isdecimal() else answer


@frozen
class Questionnaire:
    """
    What is asked about an item: one dialogue (``likert``) or two (``pair``).

    :param tie, unrelated, flag: words of answers; `None` where they are not offered, or
        where the usual words of a tie are meant.
    :param offensive: true if texts are shown after a click; `None` as false.
    :param segments: how many exchanges of a dialogue are shown, whose speakers are both
        judged; `None` for whole dialogues.
    """

    name: str
    kind: str
    questions: tuple[Wording, ...]
    ties: bool = False
    tie: str | None = None
    unrelated: str | None = None
    flag: str | None = None
    offensive: bool | None = None
    segments: tuple[int, ...] | None = None

    def only(self, dimensions: Sequence[str]) -> Questionnaire:
        """
        Return the questionnaire with the questions of these dimensions alone.

        :raises UserError: for a dimension that it has not.
        """
        known = [question.dimension for question in self.questions]
        for name in dimensions:
            require_known(name, known, f'--ask {name}: no question of {self.name}')
        asked = tuple(q for q in self.questions if q.dimension in dimensions)
        return replace(self, questions=asked)

    def require(self, kind: str, asker: str) -> None:
        """
        Refuse a questionnaire of another kind than ``asker`` asks.
        """
        if self.kind != kind:
            raise UserError(
                f'--questionnaire {self.name}: is of kind {self.kind}; {asker} asks '
                f'{kind} questions'
            )

    def question(self, dimension: str) -> Wording:
        """
        Return the question about a dimension that is asked.
        """
        return next(one for one in self.questions if one.dimension == dimension)

    @property
    def named_answers(self) -> dict[str, str]:
        """
        The answers to the one question that is asked, by the names that people read.
        """
        (question,) = self.questions
        return {question.name(answer): answer for answer in self.answers_to(question)}

    def answers_to(self, question: Wording) -> tuple[str, ...]:
        """
        Return the answers to a question as they are recorded: of labels the number.
        """
        if self.kind == LIKERT:
            return tuple(str(k + 1) for k in range(len(question.answers)))
        more = {TIED: self.ties, UNRELATED: self.unrelated}
        return (*SIDES, *(answer for answer, offered in more.items() if offered))


def read_questionnaire(name: str) -> Questionnaire:
    """
    Return the shipped questionnaire called ``name``, or that of a user's file.

    :raises UserError: names file, line and key of the first mistake.
    """
    with errors_about('--questionnaire'):
        doc = read_shipped('questionnaires', name)
    keys = doc.record(QuestionnaireKeys)
    if keys.tie and not keys.ties:
        raise doc.error('tie', 'ties: true is needed')
    _check_keys(doc, keys, keys.kind, ())
    questions = tuple(
        wording
        for dimension, question in keys.questions.items()
        for wording in _wordings(doc, keys, dimension, question)
    )
    return Questionnaire(
        Path(name).stem,
        keys.kind,
        questions,
        keys.ties,
        keys.tie,
        keys.unrelated,
        keys.flag,
        keys.offensive or None,
        keys.segments,
    )


def _check_keys(
    doc: Document, keys: LabelKeys, kind: str, where: tuple[str, ...]
) -> None:
    """
    Refuse keys of the other kind, and values that do not fit the labels.
    """
    for other, names in OWN_KEYS.items():
        for key in names:
            if other != kind and getattr(keys, key, None):
                raise doc.error((*where, key), f'of a {other} questionnaire only')
    labels, values = keys.labels or (), keys.values
    if values is not None and len(set(values)) != len(labels):
        problem = f'{len(labels)} different numbers are expected'
        raise doc.error((*where, 'values'), problem)


def _wordings(
    doc: Document, keys: QuestionnaireKeys, dimension: str, question: QuestionKeys
) -> Iterator[Wording]:
    """
    Yield the question about one dimension once, or about each speaker of a segment.
    """
    where = ('questions', dimension)
    _check_keys(doc, question, keys.kind, where)
    if keys.kind == PAIR:
        if not (question.first and question.second):
            raise doc.error(where, 'keys first and second are needed: the two answers')
        answers: tuple[str, ...] = (question.first, question.second)
        values = None
    else:
        labelled = question if question.labels else keys
        if not labelled.labels:
            raise doc.error('labels', '2 to 9 labels are expected')
        answers, values = labelled.labels, labelled.values
    if keys.segments and SPEAKER in question.text:
        for speaker, name in enumerate(SPEAKERS):
            text = question.text.replace(SPEAKER, name)
            yield Wording(f'{dimension} ({name})', text, answers, values, speaker)
        return
    if keys.segments and len(answers) != len(BETTER):
        raise doc.error(where, f'{len(BETTER)} labels, or {SPEAKER}, are expected')
    yield Wording(dimension, question.text, answers, values)


# --- dialogues and items --------------------------------------------------------------


@frozen(slots=True)
class DialogueReference:
    """
    One judged side of a dialogue, and where the dialogue is.

    :param conditions: what two dialogues share that can be compared: the opener, the
        partner, and whether the judged system began. In self-play there is no partner.
    """

    dialogue_id: str
    system: str
    conditions: tuple[str, str, bool]
    pairing_id: str
    shard: int

    @property
    def opener_id(self) -> str:
        """
        The opener of the dialogue.
        """
        return self.conditions[0]

    @property
    def other_side(self) -> DialogueReference:
        """
        The same dialogue as that of the partner; its system is '' where there is none.
        """
        opener, partner, began = self.conditions
        conditions = (opener, self.system, not began)
        return replace(self, system=partner, conditions=conditions)


@frozen(slots=True)
class ShownTurn:
    """
    One utterance on the page: of the judged system or not, given or not.
    """

    own: bool
    given: bool
    text: str


Turns = Mapping[DialogueReference, Sequence[ShownTurn]]


def judged_dialogues(
    run: RunFolder, systems: Collection[str] = ()
) -> tuple[list[DialogueReference], int]:
    """
    Return every dialogue of a run once for each judged target, and how many are left
    out because somebody broke them off.

    :param systems: of these targets only; empty: of all.
    """
    plan, wanted = run.plan, systems or run.manifest.targets
    references, num_broken = [], 0
    for shard in run.dialogue_shards():
        sides = [
            side
            for side in plan.judged_sides(run.pairing(shard.pairing_id))
            if side.first in wanted
        ]
        if not sides:
            continue
        for dialogue in run.read_dialogues(shard):
            if dialogue.ended_by is not None:
                num_broken += 1
                continue
            began = [u.speaker for u in dialogue.utterances[:1]]
            for side in sides:
                name = side.first
                partner = '' if name == side.second else side.second
                conditions = (dialogue.opener_id, partner, began == [name])
                references.append(
                    DialogueReference(
                        dialogue.id, name, conditions, shard.pairing_id, shard.index
                    )
                )
    return references, num_broken


def beginning_speakers(
    references: Iterable[DialogueReference],
) -> list[DialogueReference]:
    """
    Return each dialogue of two systems once, as that of the one who begins.
    """
    dialogues: dict[str, DialogueReference] = {}
    for one in references:
        opener, partner, began = one.conditions
        first = one if began else one.other_side
        if partner:
            dialogues.setdefault(first.dialogue_id, first)
    return list(dialogues.values())


def stream_turns(
    run: RunFolder, references: Collection[DialogueReference]
) -> Iterator[tuple[DialogueReference, tuple[ShownTurn, ...]]]:
    """
    Yield each of these dialogues with its turns, shard by shard.
    """
    by_shard = grouped(((one.pairing_id, one.shard), one) for one in references)
    for key, here in sorted(by_shard.items()):
        pairing = run.pairing(key[0])
        self_play = SCHEMES[pairing.scheme].is_self_play(*pairing.speakers)
        dialogues = {
            dialogue.id: dialogue for dialogue in run.read_dialogues(run.shard(*key))
        }
        for reference in here:
            turns = []
            for place, one in enumerate(dialogues[reference.dialogue_id].utterances):
                own = one.speaker == reference.system and not (self_play and place % 2)
                turns.append(ShownTurn(own, one.given, one.text))
            yield reference, tuple(turns)


@frozen
class RatingItem:
    """
    What annotators see at once: one dialogue, or two.

    :param id: says nothing about the systems.
    :param dialogues: of a pair, which one is first is drawn, too. Of a segment, the one
        dialogue of either speaker.
    :param exchanges: how many of a dialogue are shown; `None` for all.
    """

    id: str
    dialogues: tuple[DialogueReference, ...]
    exchanges: int | None = None

    @property
    def num_turns(self) -> int | None:
        """
        How many turns are shown; `None` for all.
        """
        return self.exchanges and 2 * self.exchanges


def draw_items(
    dialogues: Sequence[DialogueReference],
    kind: str,
    count: int,
    seed: int,
    matchups: Sequence[tuple[str, str]] = (),
) -> list[RatingItem]:
    """
    Return at most ``count`` items, evenly over the systems or over their pairs.

    :param matchups: the pairs of systems, the first one first; without them all.

    :raises UserError: for pairs of fewer than two systems, or no dialogues at all.
    """
    # by conditions: the first dialogues of all systems are over the same openers
    drawn = sorted(dialogues, key=lambda d: (_draw(seed, *d.conditions), d.dialogue_id))
    by_system = grouped((dialogue.system, dialogue) for dialogue in drawn)
    needed = len(SIDES) if kind == PAIR else 1
    if len(by_system) < needed:
        raise UserError(
            f'--run-dir: dialogues of {count_of(len(by_system), "system")} are there '
            f'to be rated; {needed} or more are needed'
        )
    if kind == LIKERT:
        queues: list[Iterable[tuple[DialogueReference, ...]]] = [
            [(d,) for d in by_system[name]] for name in sorted(by_system)
        ]
    else:
        every_pair = combinations(sorted(by_system), 2)
        pairs = matchups or sorted(every_pair, key=lambda pair: _draw(seed, *pair))
        queues = [_pairs(by_system[a], by_system[b], seed) for a, b in pairs]
    # one of each queue in turn
    rounds = chain.from_iterable(zip_longest(*queues))
    items = []
    for shown in islice(filter(None, rounds), count):
        names = [(d.dialogue_id, d.system) for d in shown]
        items.append(RatingItem(content_id('rating item', seed, names), shown))
    return items


def _pairs(
    one: Sequence[DialogueReference], other: Sequence[DialogueReference], seed: int
) -> Iterator[tuple[DialogueReference, ...]]:
    """
    Yield pairs of dialogues of two systems under the same conditions; any pairs where
    there are none. Which one is first is drawn.
    """
    by_conditions = {dialogue.conditions: dialogue for dialogue in other}
    matches = [
        (d, by_conditions[d.conditions]) for d in one if d.conditions in by_conditions
    ]
    pairs = matches or list(zip(one, other, strict=False))
    for pair in sorted(pairs, key=lambda pair: _draw(seed, *pair)):
        yield tuple(sorted(pair, key=lambda d: _draw(seed, 'side', d, pair)))


def segment_pages(
    items: Sequence[RatingItem], segments: Sequence[int], num_pages: int
) -> list[list[RatingItem]]:
    """
    Return pages with a segment of each dialogue, both of whose speakers are judged.
    Lengths take turns within a page, and a dialogue has another one on the next page,
    so that nobody reads it twice.
    """

    def segment(item: RatingItem, exchanges: int) -> RatingItem:
        (first,) = item.dialogues
        name = content_id('segment', item.id, exchanges)
        return RatingItem(name, (first, first.other_side), exchanges)

    return [
        [
            segment(item, segments[(place + page) % len(segments)])
            for place, item in enumerate(items)
        ]
        for page in range(num_pages)
    ]


def _draw(*parts: object) -> str:
    """
    Return what decides the place in a draw: a hash of these parts.
    """
    return content_id('draw', *map(str, parts))


FOLDER = 'people'
KEY = 'key.json'
SHARED_ITEMS = 10
FORMAT = 'parlai_ext ratings'  # of the files that pages save
ANSWER_COLUMN = {PAIR: 'choice', LIKERT: 'label'}  # of a sheet, which is filled in
LETTERS = {TIED: 'T', UNRELATED: 'U'}
BUCKET = 'label_'  # how the buckets of turn annotations begin that are labels


@frozen
class RatingOptions:
    """
    What people are asked, and about how many dialogues.
    """

    questionnaire: str = option(
        'acute',
        metavar='NAME|FILE',
        help='what is asked: acute or overall_pair (two dialogues side by side), '
        'likert_2022 or chatmatch_2022 (one at a time), spot_the_bot (beginnings), or '
        'a file',
    )
    ask: tuple[str, ...] = option(
        (),
        metavar='DIMENSION,…',
        help='only these questions of the questionnaire (default: all)',
    )
    num_items: int = option(40, low=1, help='dialogues, or pairs of them, on each page')
    num_pages: int = option(1, low=1, high=1000, help='pages, for groups of annotators')
    shared_items: int | None = optional(
        low=0,
        help='items that are on every page, so that groups can be compared (10 or all)',
    )
    systems: tuple[str, ...] = option(
        (), metavar='NAME,…', help='only these targets (default: all, floors too)'
    )
    name: str = option('rating', metavar='NAME', help='folder in RUN/people')
    seed: int = option(0, low=0, help='draws the items and their sides')

    @property
    def num_shared(self) -> int:
        """
        How many items are on every page.
        """
        if self.shared_items is None:
            return min(SHARED_ITEMS, self.num_items)
        return self.shared_items

    def __post_init__(self) -> None:
        if self.num_shared > self.num_items:
            raise UserError(
                f'--shared-items {self.num_shared}: a page has {self.num_items} items '
                '(--num-items)'
            )
        if not re.fullmatch(r'\w[\w.-]*', self.name):
            raise UserError(
                f'--name {self.name}: letters, digits, -, _ and . are expected'
            )


@frozen
class KeyDialogue:
    """
    A dialogue behind an item: whose it is, over which opener, and how many exchanges of
    it are shown (`None`: all).
    """

    dialogue_id: str
    system: str
    opener_id: str
    exchanges: int | None = None


@frozen(kw_only=True)
class RatingKey(Questionnaire):
    """
    What is needed to read the answers: the questions, and what the items are. It stays
    with the researcher.

    :param items: by item id one dialogue, or the two called ``a`` and ``b``.
    :param controls: systems whose answers are known to be bad.
    :param human: the system of the human answers.
    """

    rating_set: str
    items: Mapping[str, tuple[KeyDialogue, ...]]
    controls: tuple[str, ...] = ()
    human: str | None = None

    def is_control(self, item: str) -> bool:
        """
        True if an item judges the annotators, and is no part of the results.
        """
        return any(shown.system in self.controls for shown in self.items[item])


@frozen
class RatingSet:
    """
    The pages of a rating set with their key and texts, and what a user should know.
    """

    key: RatingKey
    pages: Sequence[Sequence[RatingItem]]
    turns: Turns
    notes: Sequence[str]


def make_rating_set(run: RunFolder, options: RatingOptions) -> RatingSet:
    """
    Draw the items of a rating set from a run's dialogues.

    :raises UserError: for an unknown system or question, or too few dialogues.
    """
    check_targets(run, options.systems)
    asked = read_questionnaire(options.questionnaire)
    if options.ask:
        asked = asked.only(options.ask)
    dialogues, num_broken = judged_dialogues(run, options.systems)
    shared = options.num_shared
    wanted = shared + (options.num_items - shared) * options.num_pages
    if asked.segments:
        dialogues, wanted = beginning_speakers(dialogues), options.num_items
    items = draw_items(dialogues, asked.kind, wanted, options.seed)
    turns = dict(stream_turns(run, {d for item in items for d in item.dialogues}))
    long = items
    if asked.segments:
        longest = 2 * max(asked.segments)
        long = [i for i in items if len(turns[i.dialogues[0]]) >= longest]
        pages = segment_pages(long, asked.segments, options.num_pages)
    else:
        pages = item_pages(items, shared, options.num_pages)
    notes = terminal_notes(
        'drawn_items',
        items=items,
        wanted=wanted,
        num_broken=num_broken,
        unmatched=sum(len({d.conditions for d in i.dialogues}) > 1 for i in items),
        num_short=len(items) - len(long),
    )
    key = rating_key(asked, list(dict.fromkeys(chain(*pages))), turns)
    return RatingSet(key, pages, turns, notes)


def item_pages(
    items: Sequence[RatingItem], num_shared: int, num_pages: int
) -> list[list[RatingItem]]:
    """
    Return pages with the first items, which all share, and a part of the others each.
    """
    # what follows each other: every n-th item would be of one system
    rest = items[num_shared:]
    ends = [len(rest) * page // num_pages for page in range(num_pages)]
    return [
        [*items[:num_shared], *rest[low:high]] for low, high in pairwise([*ends, None])
    ]


def check_targets(run: RunFolder, systems: Sequence[str]) -> None:
    """
    Refuse a system that is no target of the run.
    """
    for name in systems:
        problem = f'--systems {name}: no target of the run'
        require_known(name, run.manifest.targets, problem)


def rating_key(
    asked: Questionnaire,
    items: Sequence[RatingItem],
    turns: Turns,
    controls: tuple[str, ...] = (),
    human: str | None = None,
) -> RatingKey:
    """
    Return the key to the answers about these items. Its id depends on their texts:
    dialogues of two runs may have the same ids.
    """
    texts = {
        item.id: [turn.text for d in item.dialogues for turn in turns.get(d, ())]
        for item in items
    }
    return RatingKey(
        **vars(asked),
        rating_set=content_id('rating set', [record_to_json(asked), texts]),
        items={
            item.id: tuple(
                KeyDialogue(d.dialogue_id, d.system, d.opener_id, item.exchanges)
                for d in item.dialogues
            )
            for item in items
        },
        controls=controls,
        human=human,
    )


def write_key(folder: Path, key: RatingKey, option: str) -> Path:
    """
    Write a key into a folder and return its path.

    :param option: that names another folder.
    :raises UserError: when the folder holds the key of another rating set.
    """
    path = folder / KEY
    text = sealed_text(record_to_json(key))
    if path.exists() and path.read_bytes() != text.encode():
        raise UserError(
            f'{option}: {path} is of other items or questions, whose answers may still '
            f'come; give another {option}'
        )
    write_text(path, text)
    return path


def read_key(path: Path) -> RatingKey:
    """
    Return the key in a file, or in a folder.

    :raises UserError: for a file that is missing, damaged or no key.
    """
    file = path / KEY if path.is_dir() else path
    try:
        data = without_checksum(read_json(file, dict))
        return record_from_json(RatingKey, data)
    except ValueError as error:
        raise UserError(f'{file}: damaged, or no key: {error}') from None


def read_keys(run: RunFolder) -> dict[str, RatingKey]:
    """
    Return the keys of all rating sets of a run.

    :raises UserError: for a damaged one.
    """
    paths = sorted((run.root / FOLDER).glob(f'*/{KEY}'))
    return {key.rating_set: key for key in map(read_key, paths)}


# --- pages and sheets -----------------------------------------------------------------
# A page is an offline HTML file on which people compare or rate dialogues. It holds the
# dialogues, the questions and a script, and nothing that says which system spoke. Order
# and sides are drawn anew for each annotator, in the browser.
#
# Sheets are tables that annotators fill in, one for each of them.
#
#     sheet-1.csv …    row, prompt, answer_a, answer_b, choice, flag_a, flag_b
#                      or row, prompt, answer, label; empty cells are filled in
#     sheet-1.jsonl …  the same as JSON lines
#     GUIDELINES.txt   what is asked, by `terminal/guidelines.txt.j2`
#
# Every sheet has all items, in an order and with sides of its own. A row's name is that
# of its item, with the place of the first answer: 1 if it is A, 2 if it is B. No sheet
# names a system.

PAIR_COLUMNS = ('row', 'prompt', 'answer_a', 'answer_b', 'choice', 'flag_a', 'flag_b')
LABEL_COLUMNS = ('row', 'prompt', 'answer', 'label')
GUIDELINES = 'GUIDELINES.txt'
BYTE_ORDER_MARK = '\ufeff'  # spreadsheets take a file without it for another encoding


def render_rating_page(
    key: RatingKey, page: int, items: Sequence[RatingItem], turns: Turns
) -> str:
    """
    Return one rating page as one HTML file.

    :param page: its number, from 1.
    :param turns: of every dialogue of the items.
    """
    names = ('rating_set', 'kind', 'ties', 'tie', 'unrelated', 'flag')
    data = {
        'format': FORMAT,
        'page': page,
        **{name: getattr(key, name) for name in names},
        'offensive': bool(key.offensive),
        'segments': bool(key.segments),
        'questions': record_to_json(key.questions),
        'items': [
            {
                'id': item.id,
                'dialogues': [
                    [asdict(turn) for turn in turns[dialogue][: item.num_turns]]
                    for dialogue in item.dialogues[: 1 if key.segments else None]
                ],
            }
            for item in items
        ],
    }
    return render_page(
        'rating.html.j2',
        style='rating.css',
        script=template_text('rating.js'),
        data=data,
        page=page,
        key=key,
        num_items=len(items),
    )


def sheet_files(
    annotations: RatingSet, num_sheets: int, ending: str, seed: int
) -> dict[str, str]:
    """
    Return the sheets and the guidelines by their names.

    :param ending: ``csv`` or ``jsonl``.
    """
    key = annotations.key
    (question,) = key.questions
    columns = PAIR_COLUMNS if key.kind == PAIR else LABEL_COLUMNS
    lines = terminal_lines(
        'guidelines',
        key=key,
        question=question,
        labels=zip(key.named_answers, question.answers, strict=True),
        ending=ending,
    )
    files = {GUIDELINES: '\n'.join([*lines, ''])}
    for number in range(1, num_sheets + 1):
        rows = [*sheet_rows(annotations, random.Random(f'{seed} {number}'))]
        if ending == 'csv':
            text = BYTE_ORDER_MARK + spreadsheet_csv([columns, *rows])
        else:
            text = json_lines_text(dict(zip(columns, r, strict=True)) for r in rows)
        files[f'sheet-{number}.{ending}'] = text
    return files


def sheet_rows(annotations: RatingSet, rng: random.Random) -> Iterator[list[str]]:
    """
    Yield the rows of one sheet, whose last cells are left to be filled in.
    """
    items = list(annotations.pages[0])
    rng.shuffle(items)
    for item in items:
        prompt, answers = _texts(annotations, item)
        if annotations.key.kind == PAIR:
            swapped = rng.random() < 0.5
            shown = answers[::-1] if swapped else answers
            yield [f'{item.id}-{1 + swapped}', prompt, *shown, '', '', '']
        else:
            yield [item.id, prompt, *answers, '']


def item_lines(annotations: RatingSet) -> str:
    """
    Return what each item is, with systems and texts, as JSON lines for the researcher.
    """
    records = []
    for item in annotations.pages[0]:
        prompt, answers = _texts(annotations, item)
        records.append(
            {
                'item': item.id,
                'prompt': prompt,
                'systems': [dialogue.system for dialogue in item.dialogues],
                'answers': answers,
            }
        )
    return json_lines_text(records)


def _texts(annotations: RatingSet, item: RatingItem) -> tuple[str, list[str]]:
    """
    Return the prompt of an item, and its answers.
    """
    shown = [annotations.turns[dialogue] for dialogue in item.dialogues]
    return shown[0][0].text, [answer.text for _, answer in shown]


# --- crowdsourcing tasks --------------------------------------------------------------
# A run's dialogues as the input of ParlAI's crowdsourcing tasks.
#
# ``acute_eval``: pairings with an onboarding pair, and Fast-ACUTE's chats and config.
# ``turn_annotations``: chats whose every second utterance is annotated.
# ``model_chat``: which bots people talk with, and the settings of Sato et al. (2022).
#
# ParlAI's wheel holds no front end: the tasks need a checkout of ParlAI, and Mephisto.

OTHER = 'other_speaker'
# Sato et al. (2022), section 5.2 and its footnote 2
CHATS_OF_A_SYSTEM = 50

Files = dict[str, str]  # name -> text


def matchups_by_openness(
    systems: Sequence[str], standings: Iterable[Standing]
) -> list[tuple[str, str]]:
    """
    Return all pairs of systems: first those whose order the ranking leaves open, the
    nearest scores first; then the others.
    """
    known = {one.system: one for one in standings if one.score is not None}

    def key(pair: tuple[str, str]) -> tuple[bool, float, tuple[str, str]]:
        if not known.keys() >= {*pair}:
            return False, 0.0, pair
        one, other = (known[name] for name in pair)
        ranks = [(s.rank_low or 0, s.rank_high or math.inf) for s in (one, other)]
        settled = max(low for low, _ in ranks) > min(high for _, high in ranks)
        return settled, abs((one.score or 0) - (other.score or 0)), pair

    return sorted(combinations(sorted(systems), 2), key=key)


# --------------------------------------------------------------------------- ACUTE-Eval


def acute_files(items: Sequence[RatingItem], turns: Turns, wording: Wording) -> Files:
    """
    Return the files of an ACUTE-Eval task: pairings, its settings, and Fast-ACUTE's.
    """
    dialogues = list(dict.fromkeys(d for item in items for d in item.dialogues))
    numbers = {dialogue: number for number, dialogue in enumerate(dialogues)}
    pairs = [
        {
            'is_onboarding': False,
            'speakers_to_eval': [d.system for d in item.dialogues],
            'dialogue_ids': [numbers[d] for d in item.dialogues],
            'tags': [item.id],
            'dialogue_dicts': [
                {
                    'id': d.dialogue_id,
                    'speakers': [d.system, OTHER],
                    'dialogue': _acts(d.system, turns[d]),
                }
                for d in item.dialogues
            ],
        }
        for item in items  # as acute_eval_runner.py:124 reads it
    ]
    onboarding = read_shipped('crowdsourcing', 'onboarding').data
    settings = {
        'pairings_filepath': 'pairings.jsonl',
        'eval_question': wording.text,
        's1_choice': wording.answers[0],
        's2_choice': wording.answers[1],
    }
    return {
        'pairings.jsonl': json_lines_text([onboarding, *pairs]),
        'blueprint.json': json_text(settings),
        **_fast_acute_files(dialogues, turns),
    }


def _fast_acute_files(dialogues: Sequence[DialogueReference], turns: Turns) -> Files:
    """
    Return Fast-ACUTE's config with one file of chats a system.
    """
    files = {}
    config = {}
    by_system = grouped((dialogue.system, dialogue) for dialogue in dialogues)
    for place, (system, chats) in enumerate(sorted(by_system.items())):
        acts = [_acts(system, turns[chat]) for chat in chats]
        name = f'self_chats/{place}.jsonl'
        # as self-chats, all would have to begin with the same speaker
        config[system] = {'log_path': name, 'is_selfchat': False}
        # two by two, as world logs have them
        files[name] = json_lines_text(
            {'dialog': list(chunks(own, 2)), 'context': []} for own in acts
        )
    files['fast_acute_models.json'] = json_text(config)
    return files


def _acts(name: str, turns: Iterable[ShownTurn]) -> list[dict[str, str]]:
    return [{'id': name if one.own else OTHER, 'text': one.text} for one in turns]


# --------------------------------------------------------------------- turn annotations


def turn_annotation_files(items: Sequence[RatingItem], turns: Turns) -> Files:
    """
    Return the dialogues as turn_annotations_static reads them: pairs of acts, of which
    the second one is the judged system's and is annotated.

    Where the judged system began, its first utterance stands in the act that follows,
    in brackets: it is shown and not annotated.
    """
    lines = []
    for item in items:
        (dialogue,) = item.dialogues
        shown = turns[dialogue]
        begins = int(shown[0].own)
        pairs: list[list[dict[str, Any]]] = []
        for place in range(begins, len(shown) - 1, 2):
            text = shown[place].text
            if begins and not pairs:
                text = f'[The other speaker began: {shown[0].text}] {text}'
            judged = {
                'system': dialogue.system,
                'dialogue_id': dialogue.dialogue_id,
                'utterance_index': place + 1,
            }
            own = {
                'id': 'judged',
                'text': shown[place + 1].text,
                'other_metadata': judged,
            }
            pairs.append([{'id': 'other', 'text': text}, own])
        if pairs:
            lines.append({'dialog': pairs})
    return {'dialogues.jsonl': json_lines_text(lines)}


def label_files(key: Questionnaire) -> Files:
    """
    Return the settings of turn_annotations_static in which labels are ticked.
    """
    (question,) = key.questions
    buckets = [
        {'value': BUCKET + name, 'name': text, 'description': text}
        for name, text in zip(key.named_answers, question.answers, strict=True)
    ]
    settings = {
        'data_jsonl': 'dialogues.jsonl',
        'annotations_config_path': 'annotations_config.json',
        'annotation_question': question.text,
    }
    return {
        'annotations_config.json': json_text(buckets),
        'blueprint.json': json_text(settings),
    }


# --------------------------------------------------------------------------- model_chat


def model_chat_files(
    opts: Mapping[str, JsonObject], asked: Questionnaire, num_turns: int
) -> Files:
    """
    Return the bots and the settings of a model_chat task in which people talk with
    them: "Hi!", some turns, 50 dialogues a system, one rating for each question.

    :param opts: the ParlAI options of each system.
    :raises UserError: for an option that a line of flags cannot hold.
    """
    for name in opts:
        if ',' in name or ':' in name:
            raise UserError(
                f'system {name!r}: model_chat takes no name with a comma or a colon'
            )
    names = sorted(opts)
    lines = [f'{json.dumps(n)}: >\n  {flags_of_opt(n, opts[n])}\n' for n in names]
    settings = {
        'model_opt_path': 'model_opts.yaml',
        'conversation_start_mode': 'hi',
        'num_turns': num_turns,
        'conversations_needed_string': ','.join(
            f'{name}:{CHATS_OF_A_SYSTEM}' for name in names
        ),
        'final_rating_question': '|'.join(w.text for w in asked.questions),
    }
    return {'model_opts.yaml': ''.join(lines), 'blueprint.json': json_text(settings)}


def flags_of_opt(name: str, opt: JsonObject) -> str:
    """
    Return ParlAI options as one line of flags, which ParlAI splits at blanks.

    :raises UserError: for a value that is no text, number or truth value, holds a blank
        or begins like a flag.
    """
    flags = []
    for key, value in opt.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        flag = f'--{key.replace("_", "-")}'
        if (
            not isinstance(value, str | int | float)
            or [flag, text] != f'{flag} {text}'.split()
            or text.startswith('--')  # or it would be a flag itself
        ):
            raise UserError(
                f'system {name!r}: {key}: {value!r} does not fit into model_opts.yaml, '
                'where ParlAI splits options at blanks'
            )
        flags += [flag, text]
    return ' '.join(flags)
