"""
A judge that answers prompts with labels, with probabilities from pencil.

Its odds for a response are the number that the response is (``3`` against ``1``: 3 to
1), times ``bias`` for the one that is shown first.
"""

import math
import re

from parlai_ext.core import Answer
from tests.support.family_hf import make_tokenizer

FRAME = (
    'Which response fits its dialogue better? Dialogue A B Response P: Q: Better '
    'response: Is the above a good to given conversation? Answer: Yes No hi'
)
NUMBERS = [str(n) for n in range(10)]


class PlantedLabels:
    signature = 'planted'

    def __init__(self, bias=1.0, nothing=None):
        self.bias, self.nothing = bias, nothing
        self.tokenizer = make_tokenizer([*FRAME.split(), *NUMBERS])
        self.vectorizer = self  # of which the tokenizer is asked for
        self.prompts = []

    def likelihood(self, name):
        """
        Return itself, whatever is asked for.
        """
        return self

    def answer(self, questions, with_context=False):
        """
        Return the log-probability of each of two labels.
        """
        return [self._answer(question) for question in questions]

    def _answer(self, question):
        prompt = self.tokenizer.decode(question.context)
        self.prompts.append(prompt)
        first, *second = re.findall(r'Response(?: A| B)? (?:Q: )?(\d)', prompt)
        if self.nothing in (first, *second):
            return Answer(((-math.inf,), (-math.inf,)))
        odds = self.bias * float(first) / float(second[0] if second else 1)
        # half of the probability goes to other words
        shares = odds / (1 + odds) / 2, 1 / (1 + odds) / 2
        return Answer(tuple((math.log(share),) for share in shares))
