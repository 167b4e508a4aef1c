"""
The log-probabilities of whole strings, as programs around GPT-2 take them: one text,
one forward pass, the first token read and not counted.
"""

from collections.abc import Sequence
from typing import Any

from parlai_ext.core.nouns import Likelihood, Question
from parlai_ext.scoring.likelihood import judge_tokenizer

Ids = tuple[int, ...]


class Strings:
    """
    Strings before a decoder-only judge, in tokens of its own tokenizer.

    A mark that somebody typed is plain text; only `ids` puts an end token.
    """

    def __init__(self, judge: Likelihood):
        self.judge: Any = judge
        self.tokenizer = judge_tokenizer(
            judge,
            'scorer: judge_model_file: the judge must be a decoder-only Hugging Face '
            'model, such as smollm2-135m-q4',
        )

    def ids(self, text: str, end: bool) -> Ids:
        """
        Return the tokens of a text.

        :param end: put the end token behind it.
        """
        ids = self.tokenizer.encode(text, split_special_tokens=True)
        return (*ids, *([self.tokenizer.eos_token_id] if end else ()))

    def num_over_limit(self, ids: Ids) -> int:
        """
        Return how many tokens a string has beyond the judge's positions.
        """
        limit = self.judge.positions
        return 0 if limit is None else max(0, len(ids) - limit)

    def logprobs(self, strings: Sequence[Ids]) -> list[tuple[float, ...]]:
        """
        Return, for each string, the log-probability of each token but the first.
        """
        different = [ids for ids in dict.fromkeys(strings) if len(ids) > 1]
        answers = self.judge.answer(
            [Question((ids[0],), (ids[1:],)) for ids in different]
        )
        rows = [answer.continuations[0] for answer in answers]
        known = dict(zip(different, rows, strict=True))
        return [known.get(ids, ()) for ids in strings]
