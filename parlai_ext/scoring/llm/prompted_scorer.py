"""
What scorers with a prompt have in common: options, models, and how an item is shown.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.options import option, signature_values
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.scoring.likelihood import judge_option
from parlai_ext.scoring.llm.prompt_file import load_prompt
from parlai_ext.scoring.llm.raters import LikelihoodRater, PromptRatings, ReplyRater
from parlai_ext.scoring.llm.reply_parsing import AnswerRating

RATINGS = ('auto', 'expected', 'parsed')
NOTHING = '(nothing)'
WHOLE = 'the conversation'


def llm_option() -> Any:
    """
    Return the option that names the model which is prompted.
    """
    return judge_option(what='a chat model, also http://HOST/v1,remote_model=NAME')


def rating_option() -> Any:
    """
    Return the option that says how an answer becomes a number.
    """
    return option(
        'auto',
        choices=RATINGS,
        help='expected: the mean of the scores under the probabilities of the labels; '
        'parsed: what the reply says; auto: expected where probabilities are told',
    )


@dataclass(frozen=True)
class Asked:
    """
    One filled prompt: the item that it is about, and the dimensions that it asks for.
    """

    item: int
    dimensions: tuple[str, ...]
    text: str


class PromptedScorer(Scorer):
    """
    Fills a prompt for each item (and dimension), has it rated, and returns the ratings.

    Subclasses say what of an item the prompt shows (`shown_texts`). The options of a
    subclass have ``judge_model_file``, ``prompt`` and ``context_turns``.
    """

    prompted = True
    options: Any

    def prepare(self) -> None:
        """
        Read the prompt.
        """
        self.prompt = load_prompt(self.options.prompt, self.level)
        self.dimensions = tuple(self.prompt.dimensions)

    @property
    def rating(self) -> str:
        """
        How an answer becomes a number; one in JSON can be parsed only.
        """
        json = self.prompt.answer == 'json'
        return 'parsed' if json else str(self.options.rating)

    def named_models(self) -> list[tuple[str, str]]:
        """
        Return the model: one of likelihoods where it is local and rates by them.
        """
        name = self.options.judge_model_file
        reads_reply = self.rating == 'parsed' or is_endpoint(name)
        return [('chat' if reads_reply else 'likelihood', name)]

    def load_models(self) -> None:
        """
        Load the model; a local one needs a chat template.
        """
        [(kind, name)] = self.named_models()
        self.rater: LikelihoodRater | ReplyRater
        if kind == 'likelihood':
            self.rater = LikelihoodRater(self.models.likelihood(name), self.prompt)
        else:
            self.rater = ReplyRater(self.models.chat(name), self.prompt, self.rating)

    def signature_fields(self) -> dict[str, Any]:
        """
        Return the signed options; ``prompt`` has a hash of the text, not a name.
        """
        return {**signature_values(self.options), 'prompt': self.prompt.hash}

    def shown_texts(self, item: ScoringItem) -> dict[str, str]:
        """
        Return the texts that stand in the prompt for the names of its level.
        """
        raise NotImplementedError

    def score(self, items: Sequence[ScoringItem]) -> list[ItemScore]:
        """
        Return the scores of each item; all prompts go to the model together.
        """
        lacks = [self._lacks(item) for item in items]
        asked = [
            one
            for place, item in enumerate(items)
            if lacks[place] is None
            for one in self._asked(place, self.shown_texts(item), item)
        ]
        rated = self.rater.rate([one.text for one in asked]) if asked else []
        answers: list[list[tuple[Asked, PromptRatings]]] = [[] for _ in items]
        for one, answer in zip(asked, rated, strict=True):
            answers[one.item].append((one, answer))
        return [
            item_score(own) if lack is None else self._missing(lack)
            for own, lack in zip(answers, lacks, strict=True)
        ]

    def _lacks(self, item: ScoringItem) -> str | None:
        """
        Return why an item cannot be shown; `None` if it can.
        """
        for name in self.prompt.needs:
            if not getattr(item, name):
                return f'the prompt shows {name}, which the item does not have'
        return None

    def _missing(self, reason: str) -> ItemScore:
        return ItemScore({}, dict.fromkeys(self.dimensions, reason))

    def _asked(
        self, place: int, texts: Mapping[str, str], item: ScoringItem
    ) -> Iterator[Asked]:
        """
        Yield the filled prompts of an item: one, or one for each dimension.
        """
        prompt = self.prompt
        fixed = {
            'lowest': f'{prompt.lowest:g}',
            'highest': f'{prompt.highest:g}',
            'questions': '\n'.join(f'- {k}: {v}' for k, v in prompt.dimensions.items()),
            'facts': item.facts or NOTHING,
            'persona': '\n'.join(item.persona) or NOTHING,
            'references': '\n'.join(item.references) or NOTHING,
            'judged': WHOLE,
            **texts,
        }
        if prompt.answer == 'json':
            yield Asked(place, self.dimensions, prompt.filled(fixed))
            return
        for name, question in prompt.dimensions.items():
            yield Asked(place, (name,), prompt.filled({**fixed, 'question': question}))


def item_score(answers: Sequence[tuple[Asked, PromptRatings]]) -> ItemScore:
    """
    Return the score of an item from the answers to its prompts.
    """
    ratings = {
        name: rating
        for asked, rated in answers
        for name, rating in zip(asked.dimensions, rated.ratings, strict=True)
    }
    return ItemScore(
        {name: rating.value for name, rating in ratings.items()},
        {name: rating.reason for name, rating in ratings.items()},
        {name: rating_evidence(rating) for name, rating in ratings.items()},
        max((rated.cut for _, rated in answers), default=0),
    )


def rating_evidence(rating: AnswerRating) -> dict[str, Any]:
    """
    Return what is stored of a rating: how it was made, and the labels' probabilities.
    """
    evidence: dict[str, Any] = {'manner': rating.manner}
    if rating.probabilities is not None:
        evidence['probabilities'] = dict(rating.probabilities)
    return evidence


def is_endpoint(name: str) -> bool:
    """
    True if a judge of this name is reached over HTTP.
    """
    from parlai_ext.models.judge_names import judge_system

    return judge_system(name).opt.get('model') == 'ext:remote'


def shown_turns(
    turns: Sequence[str], speakers: Sequence[str] | None, judged: str | None
) -> tuple[str, str | None]:
    """
    Return turns with A or B before each, and the letter of the judged speaker.

    :param speakers: of the turns, where they are known and two; otherwise turns
        alternate.
    :param judged: the speaker who is judged, where that is known.
    """
    names = list(dict.fromkeys(speakers or ()))
    letters = ['AB'[place % 2] for place in range(len(turns))]
    letter = None
    if speakers is not None and len(names) == 2 and len(speakers) == len(turns):
        letters = ['AB'[names.index(name)] for name in speakers]
        letter = 'AB'[names.index(judged)] if judged in names else None
    lines = [f'{name}: {text}' for name, text in zip(letters, turns, strict=True)]
    return '\n'.join(lines) or NOTHING, letter


def context_lines(item: ScoringItem, context_turns: int) -> str:
    """
    Return the last turns of a context with letters: the one who is judged is B.

    :param context_turns: how many turns are shown; 0: all.
    """
    turns = item.context[-context_turns:]
    last = len(turns)
    lines = [f'{"AB"[(last - place) % 2 == 0]}: {t}' for place, t in enumerate(turns)]
    return '\n'.join(lines) or NOTHING
