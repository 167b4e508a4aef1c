"""
Questions to an encoder-decoder about sections of text with the end token between them,
the answer being one token.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Likelihood, Question
from parlai_ext.models.likelihood.encoder_decoder import EncoderDecoder

NO_END = 'an encoder-decoder with an end token, such as T5, is needed'


class SectionQuestions:
    """
    Sections and answers as the token ids of one tokenizer.

    A section is tokenized by itself, so that no text in it can end it.
    """

    def __init__(self, tokenizer: Any):
        self.tokenizer = tokenizer
        self.end = tokenizer.eos_token_id

    @classmethod
    def from_judge(cls, likelihood: Likelihood) -> SectionQuestions:
        """
        Return the questions of a judge.

        :raises UserError: when it is no encoder-decoder of Hugging Face's.
        """
        tokenizer = getattr(getattr(likelihood, 'vectorizer', None), 'tokenizer', None)
        if not isinstance(likelihood, EncoderDecoder) or (
            getattr(tokenizer, 'eos_token_id', None) is None
        ):
            raise UserError(NO_END)
        return cls(tokenizer)

    def question(
        self, sections: Sequence[str], answers: Sequence[str], most_tokens: int
    ) -> tuple[Question, int]:
        """
        Return the question how likely the first token of each answer is, and how many
        tokens were cut.

        :param most_tokens: more lose the end of the last sections; the end token stays.
        """
        ids: list[int] = []
        for section in sections:
            ids += [*self._ids(section), self.end]
        cut = max(0, len(ids) - most_tokens)
        if cut:
            ids = [*ids[: most_tokens - 1], self.end]
        firsts = tuple((self._ids(answer)[0],) for answer in answers)
        return Question(tuple(ids), firsts), cut

    def _ids(self, text: str) -> list[int]:
        ids: list[int] = self.tokenizer(
            text, add_special_tokens=False, split_special_tokens=True, verbose=False
        )['input_ids']
        return ids
