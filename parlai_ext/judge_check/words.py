"""
The check of a judge in words.
"""

from collections.abc import Mapping

from parlai_ext.core.display import percent
from parlai_ext.judge_check.record import PASS, JudgeCheck, KindResult, PromptProbes

# how a sentence names the authors of originals, and what they did
AUTHORS: Mapping[str, str] = {'systems': 'the systems', 'people': 'people'}
VERBS: Mapping[str, str] = {'systems': 'said', 'people': 'wrote'}
ALL_PARROTS = 'parrots'  # all kinds of parrots (`parrots.PARROTS`) together
PARROT_WORDS: Mapping[str, str] = {
    'padded_echo': 'padded echoes of the last turn',
    'echo_question': 'echoes of the last turn as a question',
    'key_words': 'empty sentences with key words of the last turn',
    'flatterer': 'flattery',
    'mirror': 'the last turn with its pronouns swapped',
    'question_spammer': 'questions that fit everything',
    'quoted_question': 'questions that fit everything, with a key word in them',
    'earlier_echo': "padded echoes of the partner's turn before",
    'partial_echo': 'halves of the last turn',
    'echo_generic': 'the last turn with a generic reply behind it',
}
# what a perturbed copy of each kind is, as the object of a sentence
KIND_WORDS: Mapping[str, str] = {
    'shuffled_words': 'shuffled words',
    'other_dialogue': 'replies from other dialogues',
    'repeat_partner': "repetitions of the partner's last turn",
    'repeat_self': 'repetitions of an own earlier turn',
    'punctuation': 'punctuation alone',
    'generic': 'generic replies',
    'truncated': 'replies cut in the middle',
    'injected': 'replies with an instruction to the judge',
    'padded': 'replies with empty words behind them',
    **PARROT_WORDS,
    ALL_PARROTS: 'parrots of any kind',
}


def preferred_words(result: KindResult) -> str:
    """
    Return in words how often a judge puts the perturbed copy above the original.
    """
    what = KIND_WORDS[result.kind]
    verb = VERBS[result.source]
    above = 1 - (0.0 if result.share is None else result.share)
    half = ', ties counted as half' if result.n_ties else ''
    return (
        f'{what} above what {AUTHORS[result.source]} {verb} in {percent(above)} of '
        f'{result.n} cases{half}'
    )


def check_lines(check: JudgeCheck) -> list[str]:
    """
    Return the outcomes as lines of text, one for each dimension that does not pass.
    """
    cost = f'{check.n_scored} scorings, {percent(check.cost)} of those of the run'
    counts = [f'{check.n_responses} responses']
    counts += [f'{check.n_people} replies of people'] if check.n_people else []
    passed = [d for d, own in check.dimensions.items() if own.outcome == PASS]
    return [
        f'judge check: {" and ".join(counts)} ({cost})',
        *([f'judge check: pass on {", ".join(passed)}'] if passed else []),
        *(
            f'judge check: {own.outcome} on {name}: {own.reasons[0]}'
            for name, own in check.dimensions.items()
            if own.reasons
        ),
        *(probe_lines(check.probes) if check.probes else ()),
    ]


def probe_lines(probes: PromptProbes) -> list[str]:
    """
    Return what a prompted judge does when it is asked again, or the other way round.
    """
    lines = []
    if probes.n_changed:
        change = probes.mean_change
        by = '' if change is None else f', by {change:.2g} standard deviations'
        lines.append(
            f'judge check: asked again, it changes {probes.n_changed} of '
            f'{probes.n_repeated} scores{by}'
        )
    order = probes.order
    if order is not None and order.n:
        first = '' if order.first_share is None else percent(order.first_share)
        lines.append(
            f'judge check: {percent(order.n_changed / order.n)} of {order.n} choices '
            'change with the order of the two responses'
            + (f'; it prefers the first one in {first} of all' if first else '')
        )
    return lines
