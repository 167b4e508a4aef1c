"""
Small judged sets and scorers for the bench, without models.
"""

from dataclasses import dataclass, replace

from parlai_ext.bench.bench_files import Bench, ScorerAbout, SetAbout
from parlai_ext.core import UserError, option
from parlai_ext.data.judged import Annotation, JudgedItem, JudgedSet
from parlai_ext.scoring.base import ItemScore, Scorer

WORDS = ('yes', 'no', 'well', 'fine', 'sure', 'thanks', 'maybe', 'never')


def bench_of(labels, qualities, rows=()):
    """
    Return a bench of scorers with these labels on sets of turns with these qualities.
    """
    about = ('turn', ('Overall',), False)
    scorers = tuple(ScorerAbout(label, label, label, *about) for label in labels)
    sets = tuple(
        SetAbout(name, '', '', '', 'turn', 'item', None, tuple(q), 10, 10, 10, 1)
        for name, q in qualities.items()
    )
    return Bench(scorers, sets, tuple(rows), 0, 10)


def judged_set(name='small', n_contexts=20, systems=('a', 'b', 'c', 'd', 'e'), **more):
    """
    Return a set in which every system answers every context; people like system ``e``
    best, and long answers.
    """
    items = []
    for c in range(n_contexts):
        for s, system in enumerate(systems):
            length = 1 + (3 * c + 5 * s) % 7
            words = [WORDS[(c + s + k) % len(WORDS)] for k in range(length)]
            values = (s + length / 4, s + length / 4 + (c % 3))
            given = tuple(Annotation(str(k), v) for k, v in enumerate(values))
            quality = {'Overall': given, 'Relevant': given[:1]}
            context = (f'question {c}',)
            response = ' '.join(words)
            items.append(JudgedItem(f'{c}{system}', context, response, system, quality))
    about = {'title': name, 'source': 'here', 'licence': 'MIT', 'level': 'turn'}
    about |= {'unit': 'context', 'overall': 'Overall', **more}
    return JudgedSet(name, items=tuple(items), **about)


def judged_dialogue(number, *texts, overall=0.0):
    """
    Return a judged dialogue of a person and a system, who take turns; the person begins
    with the first text.
    """
    speakers = tuple(('User', 'bot')[place % 2] for place in range(len(texts)))
    given = {'Overall': (Annotation('1', overall),)}
    return JudgedItem(str(number), texts, None, 'bot', given, speakers=speakers)


@dataclass(frozen=True)
class CountedOptions:
    """
    A factor that changes the signature.
    """

    factor: float = option(1.0, help='of the score')


class Counted(Scorer):
    """
    The number of words; the class counts what it was asked to score.
    """

    name = 'counted'
    dimensions = ('Overall',)
    options_class = CountedOptions
    seen: list = []

    def score(self, items):
        """
        Return the score of each item.
        """
        type(self).seen += items
        return [self.judge(item) for item in items]

    def judge(self, item):
        """
        Return the number of words of the response.
        """
        factor = self.options.factor
        return ItemScore({'Overall': factor * len(item.response.split())})


class Fitted(Counted):
    """
    A scorer that was fitted on two sets.
    """

    fitted_on = ('usr_persona', 'elsewhere')


class Refuses(Counted):
    """
    A scorer for which every item is too long.
    """

    name = 'refuses'

    def judge(self, item):
        """
        Return the reason.
        """
        return ItemScore({'Overall': None}, {'Overall': 'it is too long'})


class Flipping(Counted):
    """
    A scorer whose choice changes with the order in one of four pairs.
    """

    name = 'flipping'
    shows_flips = True

    def judge(self, item):
        """
        Return the number of words of the response.
        """
        return replace(super().judge(item), evidence={'flips': [1, 4]})


class Cutting(Counted):
    """
    A scorer that reads three words of a response.
    """

    name = 'cutting'

    def judge(self, item):
        """
        Return the number of words of the response.
        """
        return replace(super().judge(item), cut=max(0, len(item.text.split()) - 3))


class Whole(Counted):
    """
    The number of words of a whole dialogue, which this scorer of turns can judge.
    """

    name = 'whole'
    also_level = 'dialogue'

    def judge(self, item):
        """
        Return the number of words of all utterances.
        """
        return ItemScore({'Overall': float(len(' '.join(item.utterances).split()))})


class TwoSided(Counted):
    """
    The number of words, once as it is and once with its sign turned, which no response
    of one word has.
    """

    name = 'two_sided'
    dimensions = ('Long', 'Short')

    def judge(self, item):
        """
        Return both numbers.
        """
        n = len(item.response.split())
        values = {'Long': n, 'Short': -n if n > 1 else None}
        return ItemScore(values, {'Short': 'one word'})


class NeedsReferences(Counted):
    """
    The same for items with references.
    """

    name = 'needy'
    needs = ('references',)


class NoModel(Counted):
    """
    A scorer whose model is not there.
    """

    name = 'modelless'

    def load_models(self):
        """
        Find no model.
        """
        raise UserError('the model is not there')


class Defect(Counted):
    """
    A scorer with a mistake in its code.
    """

    name = 'defect'

    def judge(self, item):
        """
        Divide by zero.
        """
        return ItemScore({'Overall': 1 / 0})


class SaidNumber(Counted):
    """
    Gives the number with which a response begins.
    """

    name = 'said_number'

    def judge(self, item):
        return ItemScore({'Overall': float(item.response.split()[0])})
