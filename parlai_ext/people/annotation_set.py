"""
What annotators of recorded answers are shown: single answers, or blind pairs of answers
to the same prompt, with control items among them (Zhang et al. 2021, section 3).

    human      pairs of the human answer with each system's: part of the results
    shuffled   an answer beside the same system's answer to another prompt
    toxic      an answer beside one that is known to be toxic

Shuffled and toxic items judge the annotators and are no part of the results. The items
are those of rating pages: an answer is a dialogue of two turns, its prompt the opener.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.core.json_text import parse_json
from parlai_ext.core.nouns import content_id
from parlai_ext.core.options import option
from parlai_ext.core.records import WrongType, record_from_json, record_to_json
from parlai_ext.data.recorded_answers import Answer
from parlai_ext.people.draw_items import RatingItem, draw_items
from parlai_ext.people.questionnaire import LIKERT, PAIR, Questionnaire
from parlai_ext.people.rating_set import KEY, SCHEMA, RatingKey, rating_key
from parlai_ext.people.run_dialogues import DialogueReference, ShownTurn
from parlai_ext.store.atomic import make_folder, write_file
from parlai_ext.store.lines import dumps

SHUFFLED = 'shuffled'  # the system of answers to other prompts
FEWEST_PROMPTS = 2

References = Mapping[str, Mapping[str, DialogueReference]]  # system -> prompt id -> …
Turns = dict[DialogueReference, tuple[ShownTurn, ...]]


@dataclass(frozen=True)
class AnnotationOptions:
    """
    Which answers are shown, and with which controls.
    """

    num_prompts: int = option(
        160, low=1, help='prompts, drawn from those that all share (160)'
    )
    human: str | None = option(
        None,
        metavar='SYSTEM',
        help='the system of the human answers; only prompts that have one are drawn',
    )
    human_pairs: int = option(
        60, low=0, help='pairs of a human answer with a system’s (60)'
    )
    toxic: str | None = option(
        None,
        metavar='SYSTEM',
        help='the system of answers that are known to be toxic, for controls',
    )
    toxic_controls: int = option(
        20, low=0, help='control items with a toxic answer (20)'
    )
    shuffled_controls: int = option(
        20,
        low=0,
        help='control items with an answer to another prompt (20)',
    )
    systems: tuple[str, ...] = option(
        (), metavar='NAME,…', help='only these systems (default: all in the files)'
    )
    seed: int = option(0, help='draws prompts, answers, sides and orders (0)')


@dataclass(frozen=True)
class AnnotationKey:
    """
    What is needed to read annotators' answers; it stays with the researcher.

    :param human: the system of the human answers.
    :param controls: systems whose answers are known to be bad.
    """

    schema: int
    controls: tuple[str, ...]
    rating: RatingKey
    human: str | None = None


@dataclass(frozen=True)
class AnnotationSet:
    """
    The items with their texts, the key, and what a user should know.
    """

    key: AnnotationKey
    items: tuple[RatingItem, ...]
    turns: Turns
    notes: tuple[str, ...]

    def texts(self, item: RatingItem) -> tuple[str, tuple[str, ...]]:
        """
        Return the prompt of an item, and its answers.
        """
        shown = [self.turns[dialogue] for dialogue in item.dialogues]
        return shown[0][0].text, tuple(turns[1].text for turns in shown)


def answer_id(answer: Answer) -> str:
    """
    Return an id that says nothing about the system to who reads it.
    """
    return content_id('answer', answer.system, answer.prompt, answer.text)


class _Drawing:
    """
    The answers that were drawn, one for each system and prompt, and their turns.
    """

    def __init__(self, answers: Sequence[Answer], seed: int):
        self.seed = seed
        self.turns: Turns = {}
        drawn: dict[tuple[str, str], Answer] = {}
        order = sorted(answers, key=lambda a: content_id('draw', seed, answer_id(a)))
        for answer in order:
            prompt_id = content_id('prompt', answer.prompt)
            drawn.setdefault((answer.system, prompt_id), answer)
        self.answers = drawn
        by_system: dict[str, dict[str, DialogueReference]] = {}
        for (system, prompt), answer in drawn.items():
            by_system.setdefault(system, {})[prompt] = self.add(
                system, prompt, answer.prompt, answer
            )
        self.by_system: References = by_system

    def add(
        self, system: str, prompt_id: str, prompt: str, answer: Answer
    ) -> DialogueReference:
        """
        Return a reference to an answer as it is shown below a prompt.
        """
        identity = answer_id(answer)
        if system == SHUFFLED:
            identity += f'-{prompt_id}'
        reference = DialogueReference(identity, system, (prompt_id, '', False), '', 0)
        self.turns[reference] = (
            ShownTurn(own=False, given=False, text=prompt),
            ShownTurn(own=True, given=False, text=answer.text or ''),
        )
        return reference

    def shared_prompts(self, systems: Sequence[str], count: int) -> list[str]:
        """
        Return at most ``count`` prompts that all of these systems answered.
        """
        prompts = set.intersection(*(set(self.by_system[name]) for name in systems))
        order = sorted(prompts, key=lambda p: content_id('draw', self.seed, p))
        return order[:count]

    def shuffled(self, system: str, prompts: Sequence[str]) -> list[DialogueReference]:
        """
        Return, for each prompt, the answer that the system gave to the next one.
        """
        following = [*prompts[1:], *prompts[:1]]
        references = []
        for prompt, other in zip(prompts, following, strict=True):
            own, wrong = self.answers[system, prompt], self.answers[system, other]
            if own.text != wrong.text:  # a canned answer fits all prompts
                references.append(self.add(SHUFFLED, prompt, own.prompt, wrong))
        return references


def make_annotation_set(
    answers: Sequence[Answer], asked: Questionnaire, options: AnnotationOptions
) -> AnnotationSet:
    """
    Draw the items of an annotation set from recorded answers.

    :param asked: has one question; pairs or single answers are drawn as it says.
    :raises UserError: for an unknown system, or prompts that no two systems share.
    """
    for answer in answers:
        if not answer.prompt:
            raise UserError(
                f'--answers: an answer of {answer.system} has the id '
                f'{answer.prompt_id} and no prompt; annotators need its text'
            )
    if len(asked.wordings) != 1:
        raise UserError(
            f'--questionnaire {asked.name}: has {len(asked.wordings)} questions; '
            'answers are annotated with one'
        )
    systems = _judged_systems(answers, asked, options)
    drawing = _Drawing(answers, options.seed)
    everyone = [*systems, *([options.human] if options.human else [])]
    prompts = drawing.shared_prompts(everyone, options.num_prompts)
    if len(prompts) < FEWEST_PROMPTS:
        raise UserError(
            f'--answers: {len(prompts)} prompts have an answer of each of '
            f'{", ".join(everyone)}; {FEWEST_PROMPTS} or more are needed'
        )
    items = list(_items(drawing, asked.kind, systems, prompts, options))
    controls = list(_controls(drawing, asked.kind, systems, prompts, options))
    rating = rating_key(asked, [*items, *controls])
    bad = (SHUFFLED, *([options.toxic] if options.toxic else []))
    key = AnnotationKey(SCHEMA, bad, rating, options.human)
    notes = [
        f'{len(prompts)} prompts, {len(items)} items and {len(controls)} control items'
    ]
    if len(prompts) < options.num_prompts:
        notes.append(f'only {len(prompts)} prompts have answers of all systems')
    wanted = options.shuffled_controls + bool(options.toxic) * options.toxic_controls
    if len(controls) < wanted:
        notes.append(f'{len(controls)} control items, not {wanted}: no more are there')
    return AnnotationSet(key, (*items, *controls), drawing.turns, tuple(notes))


def _judged_systems(
    answers: Sequence[Answer], asked: Questionnaire, options: AnnotationOptions
) -> tuple[str, ...]:
    """
    Return the systems that are compared, the human answers not among them.
    """
    known = tuple(dict.fromkeys(answer.system for answer in answers))
    for flag, names in (
        ('--human', [options.human]),
        ('--toxic', [options.toxic]),
        ('--systems', options.systems),
    ):
        for name in names:
            if name is not None and name not in known:
                raise UserError(
                    f'{flag} {name}: has no answers; {nearest(name, known)}'
                )
    if SHUFFLED in known:
        raise UserError(f'--answers: a system may not be called {SHUFFLED}')
    apart = {options.human, options.toxic}
    systems = tuple(
        n for n in known if n not in apart and n in (options.systems or known)
    )
    needed = 1 if asked.kind == LIKERT or options.human else 2
    if len(systems) < needed:
        raise UserError(
            f'--answers: answers of {len(systems)} systems are there; {needed} or more '
            'are needed'
        )
    return systems


def _items(
    drawing: _Drawing,
    kind: str,
    systems: Sequence[str],
    prompts: Sequence[str],
    options: AnnotationOptions,
) -> Iterator[RatingItem]:
    """
    Yield the items that are part of the results: all pairs of systems for each prompt
    and some with the human answer; or each answer alone.
    """
    human = [options.human] if options.human else []
    of = {
        name: [drawing.by_system[name][prompt] for prompt in prompts]
        for name in [*systems, *human]
    }
    every = [reference for references in of.values() for reference in references]
    if kind == LIKERT:
        yield from draw_items(every, LIKERT, len(every), options.seed)
        return
    if len(systems) > 1:
        shown = [reference for name in systems for reference in of[name]]
        count = len(prompts) * len(list(combinations(systems, 2)))
        yield from draw_items(shown, PAIR, count, options.seed)
    if human and options.human_pairs:
        matchups = [(human[0], name) for name in systems]
        yield from draw_items(every, PAIR, options.human_pairs, options.seed, matchups)


def _controls(
    drawing: _Drawing,
    kind: str,
    systems: Sequence[str],
    prompts: Sequence[str],
    options: AnnotationOptions,
) -> Iterator[RatingItem]:
    """
    Yield items with an answer that is known to be bad, evenly over the systems whose
    answers stand beside it.
    """
    for place, system in enumerate(systems):
        share = _share(options.shuffled_controls, place, len(systems))
        good = [drawing.by_system[system][prompt] for prompt in prompts]
        bad = drawing.shuffled(system, prompts)
        yield from _beside(good, bad, kind, share, options.seed)
    if options.toxic:
        toxic = drawing.by_system[options.toxic]
        beside = _best_answers(drawing, options.human, systems, toxic)
        bad = list(toxic.values())
        yield from _beside(beside, bad, kind, options.toxic_controls, options.seed)


def _share(total: int, place: int, parts: int) -> int:
    return total // parts + (place < total % parts)


def _best_answers(
    drawing: _Drawing,
    human: str | None,
    systems: Sequence[str],
    prompts: Mapping[str, DialogueReference],
) -> list[DialogueReference]:
    """
    Return the human answer to each prompt, or that of a system, the systems in turn.
    """
    references = []
    for place, prompt in enumerate(sorted(prompts)):
        turn = place % len(systems)
        order = [*([human] if human else []), *systems[turn:], *systems[:turn]]
        there = [n for n in order if prompt in drawing.by_system[n]]
        if there:
            references.append(drawing.by_system[there[0]][prompt])
    return references


def _beside(
    good: Sequence[DialogueReference],
    bad: Sequence[DialogueReference],
    kind: str,
    count: int,
    seed: int,
) -> list[RatingItem]:
    """
    Return at most ``count`` items of a bad answer: alone, or beside a good one to the
    same prompt.
    """
    if kind == LIKERT:
        return draw_items(bad, LIKERT, count, seed) if bad and count else []
    prompts = {reference.opener_id for reference in good}
    bad = [reference for reference in bad if reference.opener_id in prompts]
    if not (bad and count):
        return []
    # one name for all, since items are drawn evenly over pairs of names
    by_alias = {replace(reference, system=''): reference for reference in good}
    items = draw_items([*by_alias, *bad], PAIR, count, seed, [('', bad[0].system)])
    return [
        replace(item, dialogues=tuple(by_alias.get(d, d) for d in item.dialogues))
        for item in items
    ]


def write_annotation_key(folder: Path, key: AnnotationKey) -> Path:
    """
    Write the key into a folder and return its path.

    :raises UserError: when the folder holds the key of another annotation set.
    """
    path = folder / KEY
    text = dumps(record_to_json(key), indent=1) + '\n'
    if path.exists() and path.read_text(encoding='utf-8') != text:
        raise UserError(
            f'--out {folder}: its {KEY} is of other items or questions, whose answers '
            'may still come; give another folder'
        )
    make_folder(folder)
    write_file(path, text.encode())
    return path


def read_annotation_key(path: Path) -> AnnotationKey:
    """
    Return the key in a file or in the folder that `export_annotation` wrote.

    :raises UserError: for a file that is missing or no key.
    """
    file = path / KEY if path.is_dir() else path
    try:
        data = parse_json(file.read_bytes())
        key: AnnotationKey = record_from_json(AnnotationKey, data)
    except OSError as error:
        raise UserError(f'--key {file}: {error.strerror}') from None
    except (WrongType, ValueError) as error:
        raise UserError(f'--key {file}: no key of export_annotation: {error}') from None
    return key
