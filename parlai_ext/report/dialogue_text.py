"""
One dialogue with its scores as lines for a terminal.
"""

from collections.abc import Iterator, Sequence

from parlai_ext.core.nouns import Dialogue, Pairing, ScoredDialogue, dialogue_means
from parlai_ext.view.text import MAX_CHARACTERS, number, wrap_lines

INDENT = '    '
DIGITS = 3


def dialogue_lines(
    dialogue: Dialogue,
    pairing: Pairing,
    scored: ScoredDialogue | None,
    dimensions: Sequence[str],
    width: int,
) -> Iterator[str]:
    """
    Yield the lines of a dialogue: who talks, means, then each turn with its scores.

    :param dimensions: those whose scores are shown.
    :param width: columns of the terminal.
    """
    names = tuple(dict.fromkeys(pairing.speakers))
    speakers = f'{pairing.first} with {pairing.second}'
    yield from wrap_lines(f'dialogue {dialogue.id}: {speakers}', width=width)
    yield from wrap_lines(f'opener {dialogue.opener_id or "unknown"}', width=width)
    for name in names:
        means = {} if scored is None else dialogue_means(dialogue, scored, name)
        known = [(d, means[d]) for d in dimensions if means.get(d) is not None]
        if known:
            line = f'mean of {name}: {_figures(known)}'
            yield from wrap_lines(line, width=width)
    for k, turn in enumerate(dialogue.utterances):
        yield ''
        given = ', given' if turn.given else ''
        yield from wrap_lines(f'{k}  {turn.speaker}{given}', width=width)
        yield from wrap_lines(turn.text, INDENT, width, '', MAX_CHARACTERS)
        if scored is not None:
            yield from _score_lines(scored, k, dimensions, width)
    if scored is not None:
        yield from _score_lines(scored, None, dimensions, width)
    if dialogue.ended_by is not None:
        yield ''
        reason = dialogue.reason or 'no reason given'
        yield from wrap_lines(
            f'broken off by {dialogue.ended_by}: {reason}', width=width
        )


def _score_lines(
    scored: ScoredDialogue, place: int | None, dimensions: Sequence[str], width: int
) -> Iterator[str]:
    """
    Yield the scores of a turn, or with `None` of the whole dialogue, by system.
    """
    own = [
        score
        for score in scored.scores
        if score.utterance_index == place and score.dimension in dimensions
    ]
    for system in dict.fromkeys(score.system for score in own):
        of_system = [score for score in own if score.system == system]
        figures = [(s.dimension, s.value) for s in of_system if s.value is not None]
        reasons = dict.fromkeys(
            s.reason or 'no reason given' for s in of_system if s.value is None
        )
        parts = [_figures(figures)] if figures else []
        parts += [f'not scored: {reason}' for reason in reasons]
        if place is None:
            yield ''
        start = f'the whole dialogue of {system}: ' if place is None else '→ '
        yield from wrap_lines(start + '; '.join(parts), INDENT, width)


def _figures(values: Sequence[tuple[str, float | None]]) -> str:
    return ', '.join(f'{name} {number(value, DIGITS)}' for name, value in values)
