"""
What annotators of recorded answers are shown: single answers, or blind pairs of answers
to the same prompt, with control items among them (Zhang et al. 2021, section 3).

    human      pairs of the human answer with each system's: part of the results
    shuffled   an answer beside the same system's answer to another prompt
    toxic      an answer beside one that is known to be toxic

Shuffled and toxic items judge the annotators and are no part of the results. The items
are those of rating pages: an answer is a dialogue of two turns, its prompt the opener.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations

from parlai_ext.core import UserError, content_id, option, require_known
from parlai_ext.data.toxic_pairs import RecordedAnswer
from parlai_ext.people.questionnaire import LIKERT, PAIR, Questionnaire
from parlai_ext.people.rating_set import (
    DialogueReference,
    RatingItem,
    RatingSet,
    ShownTurn,
    draw_items,
    rating_key,
)
from parlai_ext.view import count_of

SHUFFLED = 'shuffled'  # the system of answers to other prompts
FEWEST_PROMPTS = 2


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
    seed: int = option(0, low=0, help='draws prompts, answers, sides and orders (0)')


class _DrawnAnswers:
    """
    One answer for each system and prompt, as references to their turns.
    """

    def __init__(self, answers: Sequence[RecordedAnswer], seed: int):
        self.turns: dict[DialogueReference, tuple[ShownTurn, ...]] = {}
        # system -> prompt id -> its answer
        self.by_system: dict[str, dict[str, DialogueReference]] = {}
        # an id that says nothing about the system to who reads it
        ids = {a: content_id('answer', a.system, a.prompt, a.text) for a in answers}
        for answer in sorted(answers, key=lambda a: content_id('draw', seed, ids[a])):
            prompt_id = content_id('prompt', answer.prompt)
            of_system = self.by_system.setdefault(answer.system, {})
            if prompt_id not in of_system:
                turns = ((False, answer.prompt), (True, answer.text or ''))
                of_system[prompt_id] = self._add(
                    ids[answer],
                    answer.system,
                    prompt_id,
                    *(ShownTurn(own, False, text) for own, text in turns),
                )

    def _add(
        self, identity: str, system: str, prompt_id: str, *turns: ShownTurn
    ) -> DialogueReference:
        reference = DialogueReference(identity, system, (prompt_id, '', False), '', 0)
        self.turns[reference] = turns
        return reference

    def shuffled(self, system: str, prompts: Sequence[str]) -> list[DialogueReference]:
        """
        Return, for each prompt, the answer that the system gave to the next one.
        """
        answers = self.by_system[system]
        references = []
        for prompt, other in zip(prompts, [*prompts[1:], *prompts[:1]], strict=True):
            wrong = answers[other]
            (asked, right), (_, shown) = self.turns[answers[prompt]], self.turns[wrong]
            if right != shown:  # a canned answer fits all prompts
                identity = f'{wrong.dialogue_id}-{prompt}'
                references.append(self._add(identity, SHUFFLED, prompt, asked, shown))
        return references

    def best_answers(
        self, human: str | None, systems: Sequence[str], prompts: Mapping[str, object]
    ) -> list[DialogueReference]:
        """
        Return the human answer to each prompt, or that of a system, the systems in
        turn.
        """
        references = []
        for place, prompt in enumerate(sorted(prompts)):
            turn = place % len(systems)
            order = [*filter(None, [human]), *systems[turn:], *systems[:turn]]
            there = [n for n in order if prompt in self.by_system[n]]
            references += [self.by_system[name][prompt] for name in there[:1]]
        return references


def make_annotation_set(
    answers: Sequence[RecordedAnswer], asked: Questionnaire, options: AnnotationOptions
) -> RatingSet:
    """
    Draw the items of an annotation set from recorded answers; all are on one page.

    :param asked: has one question; pairs or single answers are drawn as it says.
    :raises UserError: for an unknown system, or prompts that no two systems share.
    """
    for answer in answers:
        if not answer.prompt:
            raise UserError(
                f'--answers: an answer of {answer.system} has the id '
                f'{answer.prompt_id} and no prompt; annotators need its text'
            )
    if len(asked.questions) != 1:
        raise UserError(
            f'--questionnaire {asked.name}: has {len(asked.questions)} questions; '
            'answers are annotated with one'
        )
    systems = _judged_systems(answers, asked, options)
    drawn = _DrawnAnswers(answers, options.seed)
    everyone = [*systems, *filter(None, [options.human])]
    shared = set.intersection(*(set(drawn.by_system[name]) for name in everyone))
    order = sorted(shared, key=lambda p: content_id('draw', options.seed, p))
    prompts = order[: options.num_prompts]
    if len(prompts) < FEWEST_PROMPTS:
        raise UserError(
            f'--answers: {len(prompts)} prompts have an answer of each of '
            f'{", ".join(everyone)}; {FEWEST_PROMPTS} or more are needed'
        )
    items = list(_items(drawn, asked.kind, systems, prompts, options))
    controls = list(_controls(drawn, asked.kind, systems, prompts, options))
    bad = (SHUFFLED, *filter(None, [options.toxic]))
    shown = [*items, *controls]
    key = rating_key(asked, shown, drawn.turns, bad, options.human)
    notes = [
        f'{count_of(len(prompts), "prompt")}, {count_of(len(items), "item")} and '
        f'{count_of(len(controls), "control item")}'
    ]
    if len(prompts) < options.num_prompts:
        notes.append(f'only {len(prompts)} prompts have answers of all systems')
    wanted = options.shuffled_controls + bool(options.toxic) * options.toxic_controls
    if len(controls) < wanted:
        there = count_of(len(controls), 'control item')
        notes.append(f'{there}, not {wanted}: no more are there')
    return RatingSet(key, ((*items, *controls),), drawn.turns, tuple(notes))


def _judged_systems(
    answers: Sequence[RecordedAnswer], asked: Questionnaire, options: AnnotationOptions
) -> tuple[str, ...]:
    """
    Return the systems that are compared, the human answers not among them.
    """
    known = tuple(dict.fromkeys(answer.system for answer in answers))
    named = [('--human', options.human), ('--toxic', options.toxic)]
    named += [('--systems', name) for name in options.systems]
    for flag, name in named:
        if name is not None:
            require_known(name, known, f'{flag} {name}: has no answers')
    if SHUFFLED in known:
        raise UserError(f'--answers: a system may not be called {SHUFFLED}')
    wanted = {*(options.systems or known)} - {options.human, options.toxic}
    systems = tuple(name for name in known if name in wanted)
    needed = 1 if asked.kind == LIKERT or options.human else 2
    if len(systems) < needed:
        raise UserError(
            f'--answers: answers of {len(systems)} systems are there; {needed} or more '
            'are needed'
        )
    return systems


def _items(
    drawn: _DrawnAnswers,
    kind: str,
    systems: Sequence[str],
    prompts: Sequence[str],
    options: AnnotationOptions,
) -> Iterator[RatingItem]:
    """
    Yield the items that are part of the results: all pairs of systems for each prompt
    and some with the human answer; or each answer alone.
    """
    human = [*filter(None, [options.human])]
    own = [drawn.by_system[name][prompt] for name in systems for prompt in prompts]
    every = own + [drawn.by_system[name][p] for name in human for p in prompts]
    if kind == LIKERT:
        yield from draw_items(every, LIKERT, len(every), options.seed)
        return
    if len(systems) > 1:
        count = len(prompts) * len(list(combinations(systems, 2)))
        yield from draw_items(own, PAIR, count, options.seed)
    if human and options.human_pairs:
        matchups = [(human[0], name) for name in systems]
        yield from draw_items(every, PAIR, options.human_pairs, options.seed, matchups)


def _controls(
    drawn: _DrawnAnswers,
    kind: str,
    systems: Sequence[str],
    prompts: Sequence[str],
    options: AnnotationOptions,
) -> Iterator[RatingItem]:
    """
    Yield items with an answer that is known to be bad, evenly over the systems whose
    answers stand beside it: alone, or beside a good answer to the same prompt.
    """
    groups = []
    for place, system in enumerate(systems):
        rest = place < options.shuffled_controls % len(systems)
        count = options.shuffled_controls // len(systems) + rest
        good = [drawn.by_system[system][prompt] for prompt in prompts]
        groups.append((good, drawn.shuffled(system, prompts), count))
    if options.toxic:
        toxic = drawn.by_system[options.toxic]
        good = drawn.best_answers(options.human, systems, toxic)
        groups.append((good, list(toxic.values()), options.toxic_controls))
    for good, bad, count in groups:
        beside = {reference.opener_id for reference in good}
        if kind == PAIR:
            bad = [reference for reference in bad if reference.opener_id in beside]
        if not (bad and count):
            continue
        if kind == LIKERT:
            yield from draw_items(bad, LIKERT, count, options.seed)
            continue
        # one name for all, since items are drawn evenly over pairs of names
        by_alias = {replace(reference, system=''): reference for reference in good}
        matchups = [('', bad[0].system)]
        for item in draw_items([*by_alias, *bad], PAIR, count, options.seed, matchups):
            shown = tuple(by_alias.get(d, d) for d in item.dialogues)
            yield replace(item, dialogues=shown)
