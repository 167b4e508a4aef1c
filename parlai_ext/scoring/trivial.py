"""
Trivial scorers: how long a response is, how varied its words are, what it repeats, and
how much of it its partner has just said.

They need no model and no reference, and nobody should trust them: they stand beside
every other scorer, because one that agrees with people no better than the number of
words has measured nothing. The same measures of whole dialogues are ranked beside every
ranking (`ranking/baselines.py`).

A whole dialogue (an item without a response) is scored over the utterances of its
speaker, or over all of them where nobody says who spoke.
"""

from collections.abc import Iterable, Sequence
from itertools import chain
from typing import Any

from parlai_ext.core import frozen, option
from parlai_ext.ranking.baselines import (
    distinct_share,
    mean_length,
    mean_overlap,
    word_ngrams,
)
from parlai_ext.scoring.base import Items, ItemScore, Scorer, ScoringItem

# --- words of English -----------------------------------------------------------------
# Words of English: which are stop words, and what the pronouns of the first person are
# in the second.

# NLTK's 179 stop words of English, which come from Snowball's list
STOP_WORDS = """
i me my myself we our ours ourselves you you're you've you'll you'd your yours yourself
yourselves he him his himself she she's her hers herself it it's its itself they them
their theirs themselves what which who whom this that that'll these those am is are was
were be been being have has had having do does did doing a an the and but if or because
as until while of at by for with about against between into through during before after
above below to from up down in out on off over under again further then once here there
when where why how all any both each few more most other some such no nor not only own
same so than too very s t can will just don don't should should've now d ll m o re ve y
ain aren aren't couldn couldn't didn didn't doesn doesn't hadn hadn't hasn hasn't haven
haven't isn isn't ma mightn mightn't mustn mustn't needn needn't shan shan't shouldn
shouldn't wasn wasn't weren weren't won won't wouldn wouldn't
"""
LEFT_OUT = frozenset(STOP_WORDS.split())


def content_words(words: Iterable[str]) -> list[str]:
    """
    Return the words that are no stop words.
    """
    return [word for word in words if word not in LEFT_OUT]


# words of the first person, as the second says them: so a mirror says nothing new
SECOND_PERSON = {
    'i': 'you',
    'me': 'you',
    'my': 'your',
    'mine': 'yours',
    'myself': 'yourself',
    "i'm": "you're",
    "i've": "you've",
    "i'd": "you'd",
    "i'll": "you'll",
    'am': 'are',
    'was': 'were',
}


# --- scorers --------------------------------------------------------------------------

OVERALL = 'Overall'


@frozen
class NgramOptions:
    """
    How many neighbouring words count as one n-gram.
    """

    n: int = option(2, low=1, help='words of an n-gram')


class Trivial(Scorer):
    """
    One score without any model. Subclasses define `item_score`.
    """

    dimensions = (OVERALL,)
    no_score = 'there is no utterance to judge'

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each item.
        """
        return [ItemScore({OVERALL: self.item_score(item)}) for item in items]

    def item_score(self, item: ScoringItem) -> float | None:
        """
        Return the score of one item; `None` where there is nothing to count.
        """
        raise NotImplementedError


class Length(Trivial):
    """
    The number of words (parted by blanks) of a response; longer is better by
    convention. An empty response has 0 words.
    """

    name = 'length'
    unit = 'words'

    def item_score(self, item: ScoringItem) -> float | None:
        """
        Return the mean number of words of the judged utterances.
        """
        return mean_length(judged_texts(item))


class Distinct(Trivial):
    """
    The share of distinct word n-grams of a response, case folded (Li et al. 2016); 1 if
    no n-gram comes twice. A response with fewer than n words has no score.
    """

    name = 'distinct'
    options_class = NgramOptions
    options: NgramOptions

    def item_score(self, item: ScoringItem) -> float | None:
        """
        Return the share of distinct n-grams of all judged utterances together.
        """
        return distinct_share(judged_texts(item), self.options.n)

    def prepare(self) -> None:
        """
        Say of how many words there have to be enough.
        """
        self.no_score = f'no {self.options.n} words stand together in what is judged'


class Repetition(Distinct):
    """
    How little a response repeats: minus the share of its word n-grams, case folded,
    that stand in an earlier utterance of the dialogue, whoever said it.

    One score a response, from -1 (all is repeated) to 0. A response with fewer than n
    words has none. Without a context nothing can be repeated: 0.
    """

    name = 'repetition'

    def item_score(self, item: ScoringItem) -> float | None:
        """
        Return minus the mean share of repeated n-grams of the judged utterances.
        """
        grams = [word_ngrams(text, self.options.n) for text in item.utterances]
        shares = [
            share_in(grams[place], chain(*grams[:place]))
            for place in judged_places(item)
            if grams[place]
        ]
        return -sum(shares) / len(shares) if shares else None


class Overlap(Trivial):
    """
    The share of a response's words that stand in the last two turns of its partner;
    more is better by convention, as parrots please many judges.

    Case and punctuation do not count; a word that comes twice counts twice. One score a
    response, from 0 to 1; one without a word has none. Without a context it is 0.
    """

    name = 'overlap'
    no_score = 'there is no word in what is judged'

    def item_score(self, item: ScoringItem) -> float | None:
        """
        Return the mean overlap of the judged utterances.
        """
        heard = [heard_before(item, place) for place in judged_places(item)]
        return mean_overlap(judged_texts(item), heard)


def share_in(found: Sequence[Any], known: Iterable[Any]) -> float:
    """
    Return the share of the elements that are among the known ones; 0 of none.
    """
    there = set(known)
    return sum(one in there for one in found) / len(found) if found else 0.0


def heard_before(item: ScoringItem, place: int) -> list[str]:
    """
    Return the turns of the other speakers before an utterance; where nobody says who
    spoke, two speakers took turns.
    """
    texts, speakers = item.utterances[:place], item.speakers
    if len(set(speakers)) > 1 and len(speakers) > place:
        own = speakers[place]
        return [t for t, who in zip(texts, speakers, strict=False) if who != own]
    return [text for i, text in enumerate(texts) if (place - i) % 2]


def judged_places(item: ScoringItem) -> list[int]:
    """
    Return the places of the judged utterances among the utterances of an item: the
    response, or, of a whole dialogue, what its speaker said (all, if unknown).
    """
    places = range(len(item.utterances))
    if item.response is not None:
        return [places[-1]]
    if item.speaker not in item.speakers:
        return list(places)
    return [place for place in places if item.speakers[place] == item.speaker]


def judged_texts(item: ScoringItem) -> list[str]:
    """
    Return the judged utterances of an item.
    """
    return [item.utterances[place] for place in judged_places(item)]
