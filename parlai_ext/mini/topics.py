"""
What people chat about: the topics of our small talk and the details they share.

A topic is one thing a speaker likes or does (``{x}``, one of its items) and the verb
phrases that talk about it; a detail (when, who, where, how long, why) is what the other
may ask next. Sentences here avoid agreement with ``{x}``, so any item fits any frame.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    """
    One topic: its items, and the sentences that ask, tell and comment about them.
    """

    name: str
    items: tuple[str, ...]
    ask: tuple[str, ...]
    tell: tuple[str, ...]
    comment: tuple[str, ...]
    do: str
    doing: str
    probes: tuple[str, ...]


def topic(name: str, do: str, doing: str, probes: str, **lists: str) -> Topic:
    """
    Return a topic whose lists are written with ``|`` between their members.
    """
    parts = {
        key: tuple(one.strip() for one in text.split('|'))
        for key, text in lists.items()
    }
    return Topic(name=name, do=do, doing=doing, probes=tuple(probes.split()), **parts)


@dataclass(frozen=True)
class Detail:
    """
    One kind of detail ``{y}``: how it is asked for, given and taken up.

    ``check`` are questions that refer to the value just given, ``confirm`` their
    answers. ``{yours}`` is the value as the listener says it (my sister, your sister).
    """

    values: tuple[str, ...]
    ask: tuple[str, ...]
    answer: tuple[str, ...]
    remark: tuple[str, ...]
    check: tuple[str, ...]
    confirm: tuple[str, ...]


def detail(**lists: str) -> Detail:
    """
    Return a detail whose lists are written with ``|`` between their members.
    """
    return Detail(
        **{
            key: tuple(one.strip() for one in text.split('|'))
            for key, text in lists.items()
        }
    )


DETAILS = {
    'when': detail(
        values='every Sunday | on Friday evenings | twice a week | almost every day '
        '| once a month | before work | after dinner | at the weekend | on rainy days '
        '| late at night | early in the morning | every Tuesday',
        ask='How often do you {do}? | When do you usually {do}? | When do you {do}? '
        '| When do you find the time for that? | Do you {do} often?',
        answer='I {do} {y}. | Usually {y}. | {Y}, most of the time. '
        '| Mostly {y}, I think. | I try to {do} {y}. | {Y} is when I {do}. '
        '| I like to {do} {y}.',
        remark='{Y} sounds about right. | {Y}, that is a good habit. '
        '| So {y}, that is nice. | I could never do that {y}. | {Y} would suit me too.',
        check='Why {y}? | Is {y} not hard to keep up? | Do you really {do} {y}?',
        confirm='Because I am free {y}. | I have more time {y}, so it is easy. '
        '| Yes, I really {do} {y}. | {Y} is just when I have a quiet hour.',
    ),
    'who': detail(
        values='my sister | my brother | my best friend | my neighbor | my cousin '
        '| my uncle | my grandmother | my daughter | my son | my aunt | my boss '
        '| my old teacher',
        ask='Who do you {do} with? | Do you {do} with anybody? | Do you {do} alone? '
        '| Does anyone join you?',
        answer='I {do} with {y}. | With {y}, usually. | Mostly with {y}. '
        '| {Y} always joins me. | No, {y} comes along. | I always {do} with {y}.',
        remark='It must be nice to have {yours} around. | {Yours} sounds like good '
        'company. | I would like to meet {yours}. | How sweet of {yours}. '
        '| You and {yours} must be close.',
        check='Does {yours} like {x} too? | Was it {yours} who showed you {x}? '
        '| What does {yours} think of {x}? | Is {yours} as keen as you?',
        confirm='Yes, {y} loves {x}. | {Y} likes {x} even more than I do. '
        '| {Y} is very fond of {x}. | Oh yes, {y} talks about {x} all the time.',
    ),
    'where': detail(
        values='near the river | in the old town | close to the station | by the lake '
        '| in my village | next to the library | behind the school | on the island '
        '| at the market square | in the city center',
        ask='Where do you {do}? | Where do you go for that? '
        '| Is there a good place for that? | Where is the best place to {do}?',
        answer='I {do} {y}. | Mostly {y}. | There is a good place {y}. '
        '| I know a spot {y}. | I found a place {y}. | Usually somewhere {y}.',
        remark='I have heard it is lovely {y}. | I used to live {y}. '
        '| I should go and look {y}. | {Y} must be pretty. | I know the place {y}.',
        check='Is it quiet {y}? | Is it crowded {y}? | Is it far to get there? '
        '| What is it like {y}?',
        confirm='It is very calm {y}. | It gets busy {y}, but I do not mind. '
        '| It is lovely {y}. | Not really, I live {y}. | I feel at home {y}.',
    ),
    'span': detail(
        values='two years | three months | ten years | six weeks | half a year '
        '| five years | twenty years | a whole year | seven months | four years',
        ask='How long have you been {doing}? | Have you been {doing} for long? '
        '| When did you start {doing}? | Since when have you been {doing}?',
        answer='For {y} now. | I have been {doing} for {y}. | It has been {y}. '
        '| About {y}. | I started {y} ago. | Oh, for {y} at least.',
        remark='Wow, {y}! | {Y} is quite some time. | After {y} you must know it well. '
        '| {Y}, you must really enjoy it. | I would have stopped before {y}.',
        check='Did it get easier after {y}? | Are you not bored after {y}? '
        '| Do you still like it after {y}?',
        confirm='After {y} I like it more than ever. | No, {y} went by so fast. '
        '| Yes, {y} made a big difference. | I could go on for another {y}.',
    ),
    'why': detail(
        values='it helps me relax | it makes me laugh | it keeps me busy '
        '| it reminds me of home | it is good for me | it gives me new ideas '
        '| it makes me happy | it keeps my mind clear | it cheers me up '
        '| it lets me forget my worries',
        ask='Why do you like {doing}? | What do you enjoy about {doing}? '
        '| What makes {x} so special for you? | Why {x} of all things?',
        answer='Because {y}. | I like {doing} because {y}. | Well, {y}. '
        '| I would say {y}. | I guess {y}. | Mainly because {y}.',
        remark='I am glad {yours}. | It is great that {yours}. '
        '| I can see that {yours}. | That is a good reason. '
        '| If {yours}, you should keep going.',
        check='Did you expect that {yours}? | Is it true that {yours} every time? '
        '| Do you know why {yours}?',
        confirm='Yes, {y} every time. | I never expected it, but {y}. '
        '| I do not know why, but {y}. | It is simply true that {y}.',
    ),
}
