"""
Judges that answer with one of two labels: which of two responses is better (A or B,
PairEval), or whether a response is good (Yes or No, DirectEval and, without training,
`prompted`).

The label is a single token, and its probability is read, nothing is generated. Scorers
and the training of judges share these prompts, so that a judge is asked what it learnt.
The wording is ours, but for the question of DirectEval, which Park et al. (2024) print;
a file may hold another prompt for pairs (`pair_template`).

What is asked stands first and the end is short, so that prompts which begin with one
conversation share most of their tokens.
"""

import math
import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from random import Random
from typing import Any

from parlai_ext.core import (
    Answer,
    Question,
    UserError,
    content_id,
    errors_about,
    frozen,
    mean,
    option,
    optional,
)
from parlai_ext.data.corpora import CORPORA, Turns, read_corpus
from parlai_ext.data.judged.cards import OWN_ENDINGS, own_card, read_card
from parlai_ext.files import read_json, text_lines
from parlai_ext.models.questions import (
    PLAIN_FORMAT,
    ChatQuestions,
    judge_tokenizer,
    plain_ids,
)
from parlai_ext.scoring.base import (
    Items,
    ItemScore,
    ScoringItem,
    file_option,
    lettered_turns,
)
from parlai_ext.scoring.likelihood import (
    AnswerScorer,
    context_turns_option,
    difference,
    first_continuation_share,
    judge_option,
)
from parlai_ext.systems.chat.messages import ChatTurn, without_control_tokens
from parlai_ext.view import single_spaced

FORMATS = ('plain', 'chat')  # how a judge is asked
CONTEXT_TURNS = 4  # utterances before a response that are read


@frozen
class JudgedResponse:
    """
    A response after its context.

    :param facts: the knowledge that the response should use, where a judge is shown it.
    """

    context: tuple[str, ...]
    response: str
    facts: str = ''


CARD = 'judge_training.json'  # in the folder of a trained judge
PLACE = re.compile(r'\{(history|response|knowledge)_([12])\}')
NEEDED = ('{history_1}', '{response_1}', '{history_2}', '{response_2}')


@frozen
class LabelPrompt:
    """
    What a model is asked, how its answer begins, and the labels it may go on with.
    """

    question: str
    answer: str
    labels: tuple[str, str]


def pair_template(path: str | None) -> str:
    """
    Return the prompt for pairs in a file, '' where none is named: text that a label, A
    or B, goes on with.

    In it ``{history_1}``, ``{response_1}``, ``{history_2}`` and ``{response_2}`` stand
    for the two conversations, an utterance a line. A paragraph with no other place
    than ``{knowledge_1}`` or ``{knowledge_2}`` is left out where there are no facts.

    :raises UserError: when the file cannot be read, or one of the four is not in it.
    """
    if path is None:
        return ''
    text = '\n'.join(line for _, line in text_lines(path, empty=True)).rstrip()
    for place in NEEDED:
        if place not in text:
            raise UserError(f'prompt: {path}: {place} is not in it')
    return text


def pair_prompt(
    first: JudgedResponse, second: JudgedResponse, template: str = ''
) -> LabelPrompt:
    """
    Return the question which of two responses is better; the labels are A and B.

    :param template: of `pair_template`; '': our own wording.
    """
    if template:
        return LabelPrompt(filled_template(template, first, second), '', ('A', 'B'))
    parts = [
        'Which response fits its dialogue better?',
        *_conversation(first, ' A'),
        *_conversation(second, ' B'),
    ]
    return LabelPrompt('\n'.join(parts), 'Better response:', ('A', 'B'))


def filled_template(
    template: str, first: JudgedResponse, second: JudgedResponse
) -> str:
    """
    Return a template with the two conversations in their places.
    """
    texts = {
        (kind, number): text
        for number, one in (('1', first), ('2', second))
        for kind, text in (
            ('history', '\n'.join(map(single_spaced, one.context))),
            ('response', single_spaced(one.response)),
            ('knowledge', one.facts.strip()),
        )
    }
    paragraphs = []
    for paragraph in template.split('\n\n'):
        places = PLACE.findall(paragraph)
        if not places or any(at[0] != 'knowledge' or texts[at] for at in places):
            paragraphs.append(paragraph)
    return PLACE.sub(lambda at: texts[at[1], at[2]], '\n\n'.join(paragraphs))


def direct_prompt(candidate: JudgedResponse) -> LabelPrompt:
    """
    Return the question whether a response is good; the labels are Yes and No.
    """
    parts = [
        *_conversation(candidate, '')[1:],
        '',
        'Is the above response a good response to the given conversation?',
    ]
    return LabelPrompt('\n'.join(parts), 'Answer:', ('Yes', 'No'))


def _conversation(candidate: JudgedResponse, name: str) -> list[str]:
    """
    Return the lines of a conversation. The one who responds is Q, the other is P.
    """
    turns = lettered_turns(list(map(single_spaced, candidate.context)), 'PQ')
    facts = [f'Facts{name}', candidate.facts.strip()] if candidate.facts else []
    return [
        '',
        *facts,
        f'Dialogue{name}',
        *turns,
        f'Response{name}',
        f'Q: {single_spaced(candidate.response)}',
    ]


class LabelTokens:
    """
    Prompts and labels as the token ids of one tokenizer.

    ``plain``: the prompt is text that goes on with the label. ``chat``: the question is
    a user's message in the model's chat template, the label begins the reply.
    """

    def __init__(self, tokenizer: Any, prompt_format: str = 'plain'):
        from parlai_ext.systems.pretrained import surrounding_tokens

        self.tokenizer = tokenizer
        self.lead = list(surrounding_tokens(tokenizer)[0])
        self.chat: ChatQuestions | None = None
        if prompt_format == 'chat':
            self.chat = ChatQuestions(tokenizer, PLAIN_FORMAT)

    def prompt_ids(self, prompt: LabelPrompt) -> tuple[int, ...]:
        """
        Return the tokens before the label.
        """
        if self.chat is not None:
            ids = self.chat.reply_question(prompt.question, ()).context
            return tuple(map(int, ids))
        [clean] = without_control_tokens(
            [ChatTurn(False, prompt.question)], self.tokenizer
        )
        text = '\n\n'.join(filter(None, (clean.text, prompt.answer)))
        return (*self.lead, *plain_ids(self.tokenizer, text))

    def label_ids(self, labels: Sequence[str]) -> tuple[int, ...]:
        """
        Return the first token of each label.

        :raises UserError: when the labels begin with the same token.
        """
        space = ' ' if self.chat is None else ''
        ids = tuple(plain_ids(self.tokenizer, space + label)[0] for label in labels)
        if len(set(ids)) < len(ids):
            raise UserError(
                f'the judge: its tokenizer writes {" and ".join(labels)} with the same '
                'first token, so that its answers cannot be told apart'
            )
        return ids

    def question(self, prompt: LabelPrompt) -> Question:
        """
        Return the question how likely each label is after the prompt.
        """
        labels = self.label_ids(prompt.labels)
        return Question(self.prompt_ids(prompt), tuple((label,) for label in labels))


@frozen
class LabelOptions:
    """
    The judge, how it is asked, and how much of the dialogue it reads.
    """

    judge_model_file: str = judge_option(what='a judge of parlai train_judge')
    judge_format: str = option(
        'plain',
        choices=FORMATS,
        help='plain: text that the label completes; chat: a message in the judge’s '
        'chat template. A trained judge is asked as it was trained',
    )
    context_turns: int = context_turns_option(CONTEXT_TURNS)


class LabelScorer(AnswerScorer):
    """
    Asks a judge prompts of two labels.
    """

    prompted = True
    unit = 'a probability'
    options: LabelOptions

    def load_models(self) -> None:
        """
        Load the judge.

        :raises UserError: when it has no tokenizer of Hugging Face's library, or was
            trained for something else.
        """
        super().load_models()
        tokenizer = judge_tokenizer(self.judge)
        if tokenizer is None:
            raise UserError(
                f'scorer {self.name}: the judge is no model of Hugging Face’s library; '
                'hf:REPOSITORY or a folder would do'
            )
        asked = self.options.judge_format
        path = Path(getattr(tokenizer, 'name_or_path', '')) / CARD
        card = read_json(path, dict) if path.is_file() else {}
        for key, value, remedy in (
            ('method', self.name, 'scorer: {}'),
            ('prompt_format', asked, 'judge_format: {}'),
            ('prompt', self.signed.get('prompt'), 'prompt: what its training had'),
        ):
            if card.get(key, value) != value:
                raise UserError(
                    f'scorer {self.name}: the judge was trained with {key} '
                    f'{card[key]!r}; {remedy.format(card[key])} would do'
                )
        self.tokens = LabelTokens(tokenizer, asked)

    def candidate(self, item: ScoringItem) -> JudgedResponse:
        """
        Return a response after as much of its context as the judge reads.
        """
        return JudgedResponse(item.context[-self.options.context_turns :], item.text)


class DirectEval(LabelScorer):
    """
    DirectEval: the probability that a trained judge answers "Yes", of "Yes" and "No",
    to "Is the above response a good response to the given conversation?".

    One score a response, from 0 to 1; higher is better. Source: Park et al. (2024),
    "PairEval", section 4.1.2. ``parlai train_judge --method directeval`` makes such a
    judge; `prompted` asks an untrained chat model, in its own words.
    """

    name = 'directeval'
    options_class = LabelOptions
    value = staticmethod(first_continuation_share)

    def question(self, item: ScoringItem) -> Question:
        """
        Return the question whether a response is good.
        """
        return self.tokens.question(direct_prompt(self.candidate(item)))


ANSWERS = ('Yes', 'No')
QUESTION = (
    'Is the response a good response to the dialogue, one that makes sense and is '
    'specific to it? Answer Yes or No.'
)


@frozen
class PromptedOptions:
    """
    The judge, what it is asked, and how much of the dialogue it reads.
    """

    judge_model_file: str = judge_option(what='a decoder-only chat model')
    question: str = option(
        QUESTION, help='what is asked about the response; the answer is Yes or No'
    )
    context_turns: int = context_turns_option(6)


class Prompted(AnswerScorer):
    """
    The probability that a chat model answers "Yes", of "Yes" and "No".

    One score a response, from 0 to 1; higher is better. Source: the baseline DirectEval
    of Park et al. (2024), without their fine-tuning; the wording of the question is
    ours.
    """

    name = 'prompted'
    prompted = True
    options_class = PromptedOptions
    options: PromptedOptions
    value = staticmethod(first_continuation_share)

    def prepare(self) -> None:
        """
        Refuse an empty question.
        """
        if not self.options.question.strip():
            raise UserError('scorer: question: empty; a question is expected')

    def load_models(self) -> None:
        """
        Load the judge, which needs a chat template.
        """
        super().load_models()
        self.chat = ChatQuestions.from_judge(self.judge)

    def question(self, item: ScoringItem) -> Question:
        """
        Return the question about one response; the one who is judged is B, the other A.
        """
        turns = lettered_turns(item.context[-self.options.context_turns :])
        response = f'Response:\nB: {item.text}'
        prompt = '\n'.join(
            ['Dialogue:', *turns, '', response, '', self.options.question]
        )
        return self.chat.reply_question(prompt, ANSWERS)


# --- PairEval -------------------------------------------------------------------------
# PairEval: how often is a response better than the next turns of people's dialogues?
#
# A judge reads two conversations, the judged one and a comparison, and says which
# response is better. The score is the mean probability of the judged one over a few
# comparisons (3) and both orders, since judges prefer one place. Source: Park et al.
# (2024), "PairEval: Open-domain Dialogue Evaluation with Pairwise Comparison", section
# 3; the wording of the prompt is ours, unless a file has another. ``parlai
# train_judge`` makes such a judge.
#
# The comparisons are drawn from a file of dialogues (DailyDialog's validation split in
# the paper), which the option ``comparisons`` names, or from the items of a judged set
# (``judged_set``), or, with ``exhaustive``, are the other judged items themselves.
#
# ``probability: vocabulary``, ``weighted``, ``context_turns: 0`` and ``facts`` are what
# the authors' program does (https://github.com/ddehun/PairEval): the probability of the
# label itself, times the score of the comparison, the whole history and the knowledge.

Pair = tuple[JudgedResponse, JudgedResponse]


@frozen
class PairEvalOptions(LabelOptions):
    """
    The judge, and what responses are compared with.
    """

    comparisons: str | None = file_option(
        'dialogues between people with which responses are compared: the folder or the '
        'validation.zip of DailyDialog, or JSON lines {"dialogue": […]}. The signature '
        'holds those that are drawn',
        'PATH',
    )
    judged_set: str | None = optional(
        signed=False,
        metavar='NAME',
        help='draw the comparisons from the items of this judged set, whose file is in '
        'comparisons, or is it',
    )
    corpus: str = option(
        'dailydialog', choices=CORPORA, signed=False, help='the format of comparisons'
    )
    num_comparisons: int = option(3, low=1, help='comparisons of a response')
    runs: int = option(
        1,
        low=1,
        help='the mean of so many runs, each with comparisons of its own; the paper '
        'averages 5',
    )
    seed: int = option(0, low=0, help='by which comparisons are drawn')
    exhaustive: bool = option(
        False,
        help='compare each response with all others that are scored with it, instead; '
        'scores then depend on which those are',
    )
    prompt: str | None = file_option(
        'a file with the prompt, {history_1}, {response_1}, {history_2} and '
        '{response_2} in it, that A or B goes on with; the signature holds its text'
    )
    probability: str = option(
        'labels',
        choices=('labels', 'vocabulary'),
        signed='if changed',
        help='of a label among the two, or, as in the authors’ program, among all '
        'tokens',
    )
    weighted: bool = option(
        False,
        signed='if changed',
        help='count a comparison as much as people’s overall score of it, as the '
        'authors’ program does; needs judged_set',
    )
    facts: bool = option(
        False,
        signed='if changed',
        help='show the judge the facts, or the persona, that a response should use',
    )


class PairEval(LabelScorer):
    """
    The mean probability that a response is better than a comparison.

    One score a response, from 0 to 1 unless it is weighted; higher is better, and 0.5
    is as good as people's. The evidence holds the mean of each run, and in how many of
    the pairs the choice changes when the two responses change places.
    """

    name = 'paireval'
    shows_flips = True
    options_class = PairEvalOptions
    options: PairEvalOptions

    def prepare(self) -> None:
        """
        Draw the comparisons.

        :raises UserError: when no file is named, or it has too few dialogues.
        """
        options = self.options
        self.runs: list[list[JudgedResponse]] = []
        self.weights: dict[JudgedResponse, float] = {}
        self.compares_items = options.exhaustive
        with errors_about(f'scorer {self.name}'):
            self.template = pair_template(options.prompt)
        if options.weighted and (options.exhaustive or not options.judged_set):
            raise UserError(
                f'scorer {self.name}: weighted: people’s scores of the comparisons are '
                'needed; judged_set: NAME would do'
            )
        if not self.compares_items:
            self._draw()
        texts = [
            [[*one.context, one.response, *filter(None, [one.facts])] for one in run]
            for run in self.runs
        ]
        self.signed = {'comparisons': content_id(texts, *self.weights.values())}
        if self.template:
            self.signed |= {'prompt': content_id(self.template)}

    def _draw(self) -> None:
        """
        Draw the comparisons of each run.
        """
        options = self.options
        if options.comparisons is None:
            raise UserError(
                f'scorer {self.name}: comparisons: is needed: a folder or file of '
                'dialogues between people, such as the official validation.zip of '
                'DailyDialog'
            )
        path = Path(options.comparisons)
        with errors_about(f'scorer {self.name}: comparisons'):
            if options.judged_set is None:
                dialogues = read_corpus(options.corpus, path, 'validation')
                usable = [turns for turns in dialogues if len(turns) >= 2]
                self.runs = drawn_comparisons(usable, options)
                return
            named = options.judged_set
            is_own = named.endswith(OWN_ENDINGS)
            card = own_card(path / named) if is_own else read_card(named)
            judged = card.read(path)
        scores = {
            self.candidate(
                ScoringItem(
                    one.context, one.response, facts=one.facts, persona=one.persona
                )
            ): score
            for one in judged.items
            if one.response and (score := one.human(judged.overall or '')) is not None
        }
        self.runs = drawn_comparisons(list(scores), options)
        if options.weighted:
            self.weights = {one: scores[one] for run in self.runs for one in run}

    def candidate(self, item: ScoringItem) -> JudgedResponse:
        """
        Return a response after its context, with its knowledge where that is shown.
        """
        known = self.options.facts and item.has_knowledge
        return replace(super().candidate(item), facts=item.knowledge if known else '')

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each response, in one question to the judge.
        """
        candidates = [self.candidate(item) for item in items]
        sets = [self.runs for _ in candidates]
        if self.options.exhaustive:
            different = list(dict.fromkeys(candidates))
            sets = [[[one for one in different if one != own]] for own in candidates]
        asked = {
            pair: self.tokens.question(pair_prompt(*pair, self.template))
            for candidate, runs in zip(candidates, sets, strict=True)
            for comparison in dict.fromkeys(chain(*runs))
            for pair in ((candidate, comparison), (comparison, candidate))
        }
        # questions that begin alike stand together
        order = sorted(asked, key=lambda pair: asked[pair].context)
        given = self.judge.answer([asked[pair] for pair in order])
        answers = dict(zip(order, given, strict=True))
        return [
            self._score(candidate, runs, answers)
            for candidate, runs in zip(candidates, sets, strict=True)
        ]

    def _score(
        self,
        candidate: JudgedResponse,
        runs: Sequence[Sequence[JudgedResponse]],
        answers: Mapping[Pair, Answer],
    ) -> ItemScore:
        """
        Return the score of a candidate against its runs of comparisons.

        :param answers: of the judge about each pair, in both orders.
        """
        means, cut = [], 0
        flips = {}
        for run in runs:
            values = []
            for one in run:
                first, second = answers[candidate, one], answers[one, candidate]
                cut += first.num_truncated
                share, rest = map(first_continuation_share, (first, second))
                shares = [share, difference(1, rest)]
                # a choice and a tie differ, too
                choices = {(p > 0.5) - (p < 0.5) for p in shares if p is not None}
                if None not in shares:
                    flips[one] = len(choices) > 1
                if self.options.probability == 'vocabulary':
                    logprobs = first.continuations[0], second.continuations[1]
                    shares = [math.exp(math.fsum(label)) for label in logprobs]
                weight = self.weights.get(one, 1)
                values += [None if p is None else p * weight for p in shares]
            means.append(mean(values))
        evidence = {'runs': means, 'flips': [sum(flips.values()), len(flips)]}
        return ItemScore({'Overall': mean(means)}, evidence=evidence, cut=cut)


def drawn_comparisons(
    usable: Sequence[JudgedResponse | Turns], options: PairEvalOptions
) -> list[list[JudgedResponse]]:
    """
    Return the comparisons of each run, of different dialogues or judged items: these
    themselves, or of a dialogue a turn after the first, after its context.

    :raises UserError: when there are too few.
    """
    if len(usable) < options.num_comparisons:
        raise UserError(
            f'scorer paireval: comparisons: {len(usable)} can be drawn from; '
            f'num_comparisons: {options.num_comparisons} needs as many'
        )
    runs = []
    for run in range(options.runs):
        rng = Random(f'{options.seed} {run}')
        comparisons = []
        for one in rng.sample(usable, options.num_comparisons):
            if not isinstance(one, JudgedResponse):
                place = rng.randrange(1, len(one))
                one = JudgedResponse(one[:place][-options.context_turns :], one[place])
            comparisons.append(one)
        runs.append(comparisons)
    return runs
