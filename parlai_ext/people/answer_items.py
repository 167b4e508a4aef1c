"""
What annotators of recorded answers are shown: single answers, or blind pairs of answers
to the same prompt, with control items among them (Zhang et al. 2021, section 3).

    human      pairs of the human answer with each system's: part of the results
    shuffled   an answer beside the same system's answer to another prompt
    toxic      an answer beside one that is known to be toxic

Shuffled and toxic items judge the annotators and are no part of the results. The items
are those of rating pages: an answer is a dialogue of two turns, its prompt the opener.
"""

import math
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from parlai_ext.core import (
    UserError,
    content_id,
    frozen,
    option,
    optional,
    require_known,
)
from parlai_ext.data.corpora import RecordedAnswer
from parlai_ext.people.rating_set import (
    LIKERT,
    PAIR,
    DialogueReference,
    Questionnaire,
    RatingItem,
    RatingSet,
    ShownTurn,
    draw_items,
    rating_key,
)
from parlai_ext.view.page import terminal_lines

SHUFFLED = 'shuffled'  # the system of answers to other prompts
FEWEST_PROMPTS = 2


@frozen
class AnnotationOptions:
    """
    Which answers are shown, and with which controls.
    """

    num_prompts: int = option(
        160, low=1, help='prompts, drawn from those that all share (160)'
    )
    human: str | None = optional(
        metavar='SYSTEM',
        help='the system of the human answers; only prompts that have one are drawn',
    )
    human_pairs: int = option(
        60, low=0, help='pairs of a human answer with a system’s (60)'
    )
    toxic: str | None = optional(
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


class _AnswerDraw:
    """
    One answer for each system and prompt, and the items that are drawn from them.

    :ivar turns: of each answer, by its reference.
    :ivar prompts: the ids of the prompts that are drawn, in their order.
    :raises UserError: when too few prompts have an answer of each system.
    """

    def __init__(
        self,
        answers: Sequence[RecordedAnswer],
        kind: str,
        systems: Sequence[str],
        options: AnnotationOptions,
    ):
        self.kind, self.systems, self.options = kind, systems, options
        self.human = [*filter(None, [options.human])]
        self.turns: dict[DialogueReference, tuple[ShownTurn, ...]] = {}
        # system -> prompt id -> its answer
        self.by_system: dict[str, dict[str, DialogueReference]] = {}
        # an id that says nothing about the system to who reads it
        ids = {a: content_id('answer', a.system, a.prompt, a.text) for a in answers}
        for answer in sorted(answers, key=lambda a: self._place(ids[a])):
            prompt_id = content_id('prompt', answer.prompt)
            of_system = self.by_system.setdefault(answer.system, {})
            if prompt_id not in of_system:
                of_system[prompt_id] = self._add(
                    ids[answer],
                    answer.system,
                    prompt_id,
                    ShownTurn(False, False, answer.prompt),
                    ShownTurn(True, False, answer.text or ''),
                )
        self.prompts = self._shared_prompts([*systems, *self.human])

    def _shared_prompts(self, everyone: Sequence[str]) -> list[str]:
        """
        Return the prompts that are drawn from those to which all these gave an answer.
        """
        shared = set.intersection(*(set(self.by_system[name]) for name in everyone))
        prompts = sorted(shared, key=self._place)[: self.options.num_prompts]
        if len(prompts) < FEWEST_PROMPTS:
            raise UserError(
                f'--answers: {len(prompts)} prompts have an answer of each of '
                f'{", ".join(everyone)}; {FEWEST_PROMPTS} or more are needed'
            )
        return prompts

    def _place(self, identity: str) -> str:
        return content_id('draw', self.options.seed, identity)

    def _add(
        self, identity: str, system: str, prompt_id: str, *turns: ShownTurn
    ) -> DialogueReference:
        reference = DialogueReference(identity, system, (prompt_id, '', False), '', 0)
        self.turns[reference] = turns
        return reference

    def answers_of(self, systems: Iterable[str]) -> list[DialogueReference]:
        """
        Return the answers of these systems to the prompts.
        """
        return [self.by_system[name][one] for name in systems for one in self.prompts]

    def shuffled(self, system: str) -> list[DialogueReference]:
        """
        Return, for each prompt, the answer that the system gave to the next one.
        """
        answers = self.answers_of([system])
        references = []
        for answer, wrong in zip(answers, [*answers[1:], answers[0]], strict=True):
            (asked, right), (_, shown) = self.turns[answer], self.turns[wrong]
            if right != shown:  # a canned answer fits all prompts
                prompt = answer.opener_id
                identity = f'{wrong.dialogue_id}-{prompt}'
                references.append(self._add(identity, SHUFFLED, prompt, asked, shown))
        return references

    def items(self) -> Iterator[RatingItem]:
        """
        Yield the items that are part of the results: all pairs of systems for each
        prompt and some with the human answer; or each answer alone.
        """
        own, seed = self.answers_of(self.systems), self.options.seed
        every = own + self.answers_of(self.human)
        if self.kind == LIKERT:
            yield from draw_items(every, LIKERT, len(every), seed)
            return
        if len(self.systems) > 1:
            count = len(self.prompts) * math.comb(len(self.systems), 2)
            yield from draw_items(own, PAIR, count, seed)
        if self.human and self.options.human_pairs:
            matchups = [(human, name) for human in self.human for name in self.systems]
            yield from draw_items(every, PAIR, self.options.human_pairs, seed, matchups)

    def controls(self) -> Iterator[RatingItem]:
        """
        Yield items with an answer that is known to be bad, evenly over the systems
        whose answers stand beside it: alone, or beside a good answer to the same
        prompt.
        """
        each, rest = divmod(self.options.shuffled_controls, len(self.systems))
        groups = [
            (self.answers_of([name]), self.shuffled(name), each + (place < rest))
            for place, name in enumerate(self.systems)
        ]
        if self.options.toxic:
            toxic = self.by_system[self.options.toxic]
            # the human answer to each prompt, or that of a system, the systems in turn
            answers = []
            for place, prompt in enumerate(sorted(toxic)):
                turn = place % len(self.systems)
                order = [*self.human, *self.systems[turn:], *self.systems[:turn]]
                there = [n for n in order if prompt in self.by_system[n]]
                answers += [self.by_system[name][prompt] for name in there[:1]]
            groups.append((answers, [*toxic.values()], self.options.toxic_controls))
        for good, bad, count in groups:
            beside = {reference.opener_id for reference in good}
            if self.kind == PAIR:
                bad = [reference for reference in bad if reference.opener_id in beside]
            if not (bad and count):
                continue
            if self.kind == LIKERT:
                yield from draw_items(bad, LIKERT, count, self.options.seed)
                continue
            # one name for all, since items are drawn evenly over pairs of names
            by_alias = {replace(reference, system=''): reference for reference in good}
            matchups, shown = [('', bad[0].system)], [*by_alias, *bad]
            for item in draw_items(shown, PAIR, count, self.options.seed, matchups):
                pair = tuple(by_alias.get(d, d) for d in item.dialogues)
                yield replace(item, dialogues=pair)


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
    drawn = _AnswerDraw(answers, asked.kind, systems, options)
    items, controls = list(drawn.items()), list(drawn.controls())
    bad = (SHUFFLED, *filter(None, [options.toxic]))
    shown = (*items, *controls)
    key = rating_key(asked, shown, drawn.turns, bad, options.human)
    notes = terminal_lines(
        'drawn_answers',
        prompts=drawn.prompts,
        items=items,
        controls=controls,
        options=options,
    )
    return RatingSet(key, (shown,), drawn.turns, notes)


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
