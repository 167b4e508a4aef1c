"""
The prompts of a comparison, and the answers that systems gave to them.
"""

from collections.abc import Iterable, Sequence

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import content_id
from parlai_ext.core.progress import PlainBar, bar_of
from parlai_ext.data.recorded_answers import RecordedAnswer
from parlai_ext.data.toxic_pairs import ToxicPair, prompt_key
from parlai_ext.toxic.comparison import SystemAnswers
from parlai_ext.toxic.measures import AnswerMeasures, MeasuredAnswer, Prompt

BATCH = 512  # answers that are measured together


def prompts_of_pairs(
    pairs: Iterable[ToxicPair], with_context: bool = False
) -> list[Prompt]:
    """
    Return the distinct prompts of pairs. Only polite answers are references.

    :param with_context: the turns before a prompt are part of it.
    """
    groups: dict[str, list[ToxicPair]] = {}
    texts: dict[str, str] = {}
    for pair in pairs:
        before = pair.context if with_context else ()
        text = '\n'.join((*before, pair.prompt))
        texts.setdefault(_key(text), text)
        groups.setdefault(_key(text), []).append(pair)
    return [
        Prompt(
            of_prompt[0].id,
            texts[key],
            polite_answers(of_prompt),
            tuple(pair.id for pair in of_prompt[1:]),
        )
        for key, of_prompt in groups.items()
    ]


def polite_answers(pairs: Iterable[ToxicPair]) -> tuple[str, ...]:
    """
    Return the answers of the pairs that people call polite.
    """
    return tuple(pair.answer for pair in pairs if pair.polite and pair.answer)


def prompts_of_answers(answers: Iterable[RecordedAnswer]) -> list[Prompt]:
    """
    Return the distinct prompts that recorded answers name; an id is a hash of the text.

    :raises UserError: for an answer that has only the id of its prompt.
    """
    texts: dict[str, str] = {}
    for answer in answers:
        if not answer.prompt:
            raise UserError(
                f'the prompt {answer.prompt_id} of {answer.system} has no text: '
                '--toxic-data names the file of the prompts'
            )
        texts.setdefault(_key(answer.prompt), answer.prompt)
    return [Prompt(content_id('prompt', key), text) for key, text in texts.items()]


def answers_of_systems(
    answers: Sequence[RecordedAnswer],
    prompts: Sequence[Prompt],
    measures: AnswerMeasures,
) -> tuple[list[SystemAnswers], list[str]]:
    """
    Return the systems with their measured answers to the prompts, and lines about
    answers to other prompts and prompts without an answer.

    :raises UserError: when a system has no answer to any prompt.
    """
    by_id = {name: one for one in prompts for name in (one.id, *one.other_ids)}
    by_key = {_key(prompt.text): prompt for prompt in prompts}
    answered: dict[str, list[tuple[Prompt, RecordedAnswer]]] = {}
    n_others: dict[str, int] = {}
    for answer in answers:
        prompt = by_key.get(_key(answer.prompt)) if answer.prompt else None
        prompt = prompt or by_id.get(answer.prompt_id or '')
        answered.setdefault(answer.system, [])
        if prompt is None:
            n_others[answer.system] = n_others.get(answer.system, 0) + 1
        else:
            answered[answer.system].append((prompt, answer))
    n_answers = sum(map(len, answered.values()))
    with bar_of('measure', n_answers, unit='answer', delay=2) as bar:
        systems = [
            _measured(name, rows, measures, bar) for name, rows in answered.items()
        ]
    notes = [
        f'{name}: {n} answers to other prompts are left out'
        for name, n in n_others.items()
    ]
    sizes = {round(one.n_answers / max(1, len(one.answers))) for one in systems}
    if len(sizes) > 1:
        notes.append(
            'systems have different numbers of answers to a prompt: "any …" and '
            'distinct_2 do not compare them'
        )
    for one in systems:
        if not one.answers:
            raise UserError(f'{one.name}: it has no answer to any of the prompts')
        if n := len(prompts) - len(one.answers):
            notes.append(f'{one.name}: {n} of {len(prompts)} prompts have no answer')
        if one.n_failed:
            notes.append(f'{one.name}: {one.n_failed} answers failed: {one.reason}')
    return systems, notes


def _measured(
    name: str,
    rows: Sequence[tuple[Prompt, RecordedAnswer]],
    measures: AnswerMeasures,
    bar: PlainBar,
) -> SystemAnswers:
    """
    Return the answers of a system, measured in batches.
    """
    by_prompt: dict[str, list[MeasuredAnswer]] = {}
    for start in range(0, len(rows), BATCH):
        batch = rows[start : start + BATCH]
        measured = measures.measure([p for p, _ in batch], [a for _, a in batch])
        for (prompt, _), one in zip(batch, measured, strict=True):
            by_prompt.setdefault(prompt.id, []).append(one)
        bar.update(len(batch))
    failed = [answer for _, answer in rows if answer.text is None]
    reason = failed[0].reason if failed else None
    return SystemAnswers(name, by_prompt, len(failed), reason)


def _key(text: str) -> str:
    """
    Return what two spellings of a prompt share; one without letters is itself.
    """
    return prompt_key(text) or text.strip()
