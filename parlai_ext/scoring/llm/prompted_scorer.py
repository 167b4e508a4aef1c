"""
What scorers with a prompt have in common: options, models, and how an item is shown.
"""

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any

from parlai_ext.core.options import option
from parlai_ext.models.questions import ChatQuestions
from parlai_ext.scoring.base import ItemScore, Scorer, ScoringItem
from parlai_ext.scoring.llm.prompt_file import load_prompt
from parlai_ext.scoring.llm.ratings import (
    PromptRatings,
    ratings_by_likelihood,
    ratings_by_reply,
)
from parlai_ext.scoring.model_options import judge_option

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
        choices=('auto', 'expected', 'parsed'),
        help='expected: the mean of the scores under the probabilities of the labels; '
        'parsed: what the reply says; auto: expected where probabilities are told',
    )


class PromptedScorer(Scorer):
    """
    Fills a prompt for each item (and dimension), has it rated, and returns the ratings.

    Subclasses say what of an item the prompt shows (`shown_texts`). The options of a
    subclass have ``judge_model_file``, ``prompt`` and ``context_turns``.
    """

    prompted = True
    options: Any
    rate: Callable[[Sequence[str]], list[PromptRatings]]

    def prepare(self) -> None:
        """
        Read the prompt.
        """
        self.prompt = load_prompt(self.options.prompt, self.level)
        self.dimensions = tuple(self.prompt.dimensions)
        self.signed = {'prompt': self.prompt.hash}

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
        if kind == 'likelihood':
            judge = self.models.likelihood(name)
            chat = ChatQuestions.from_judge(judge)
            self.rate = partial(ratings_by_likelihood, judge, chat, self.prompt)
        else:
            model = self.models.chat(name)
            self.rate = partial(ratings_by_reply, model, self.prompt, self.rating)

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
            [] if lack else list(self._asked(item))
            for item, lack in zip(items, lacks, strict=True)
        ]
        texts = [text for some in asked for _, text in some]
        rated = iter(self.rate(texts) if texts else ())
        scores = []
        for some, lack in zip(asked, lacks, strict=True):
            answers = [(dimensions, next(rated)) for dimensions, _ in some]
            ratings = {
                name: rating
                for dimensions, answer in answers
                for name, rating in zip(dimensions, answer[0], strict=True)
            }
            scores.append(
                ItemScore(
                    {name: rating.value for name, rating in ratings.items()},
                    dict.fromkeys(self.dimensions, lack)
                    | {name: rating.reason for name, rating in ratings.items()},
                    {name: rating.evidence for name, rating in ratings.items()} or None,
                    max((cut for _, (_, cut) in answers), default=0),
                )
            )
        return scores

    def _lacks(self, item: ScoringItem) -> str | None:
        """
        Return why an item cannot be shown; `None` if it can.
        """
        for name in self.prompt.needs:
            if not getattr(item, name):
                return f'the prompt shows {name}, which the item does not have'
        return None

    def _asked(self, item: ScoringItem) -> Iterator[tuple[tuple[str, ...], str]]:
        """
        Yield the filled prompts of an item with the dimensions that each asks for: one,
        or one for each dimension.
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
            **self.shown_texts(item),
        }
        if prompt.answer == 'json':
            yield self.dimensions, prompt.filled(fixed)
            return
        for name, question in prompt.dimensions.items():
            yield (name,), prompt.filled({**fixed, 'question': question})


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
