"""
Scorers that read from a language model how likely an utterance is after a context: the
response itself (likelihood, and what ParlAI reports of a generator's labels, perplexity
and token accuracy), or praise and complaints as what follows it (FED and FULL).

Likelihood is the mean log-probability of the response's tokens, its end token included,
so that a response that breaks off in the middle loses. It is a perplexity turned round:
exp(-score). Likely is not the same as good: bland and repeated responses are likely.
"""

import math
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, Self

from pydantic import field_validator, model_validator

from parlai_ext.core import (
    Answer,
    Dialogue,
    LanguageModel,
    Question,
    ScoredDialogue,
    UserError,
    computed_once,
    content_id,
    frozen,
    known_values,
    nearest,
    option,
    require_known,
)
from parlai_ext.core.records import Record, WrongType
from parlai_ext.engines import data_folder
from parlai_ext.files import Document
from parlai_ext.models.questions import (
    PLAIN_FORMAT,
    ChatQuestions,
    as_turns,
    decoder_tokenizer,
    gives_context,
    plain_ids,
)
from parlai_ext.scoring.base import (
    EncoderScorer,
    Items,
    ItemScore,
    ScoringItem,
    model_option,
    read_shipped_file,
)
from parlai_ext.systems.fetch.pinned_file import assigned_literals, read_pinned

LARGEST_EXPONENT = 700.0  # whose exponential is still a number
NO_PROBABILITY = 'the judge gives the response no finite probability'


def judge_option(
    default: str = 'smollm2-135m-q4', what: str = 'the model inside the scorer'
) -> Any:
    """
    Return the option that names the language model inside a scorer.

    :param what: which models would do, for the help text.
    """
    return model_option(
        default,
        'likelihood',
        f'{what}: a catalogue name, a model file, zoo:…, or hf:REPOSITORY[@REVISION]',
        flag='--judge-model-file',
    )


def context_turns_option(default: int = 0) -> Any:
    """
    Return the option that says how many utterances before a response are read.
    """
    meaning = 'utterances before the response that the judge reads; 0: all'
    return option(default, low=0, help=meaning)


class JudgeScorer(EncoderScorer):
    """
    A scorer with the option ``judge_model_file``, a language model.
    """

    @property
    def judge(self) -> LanguageModel:
        """
        The language model inside the scorer.
        """
        return self.models.likelihood(self.options.judge_model_file)


class AnswerScorer(JudgeScorer):
    """
    One score a response, from the judge's answer to one question about it.

    Subclasses define `value`, and `question` if it is not how likely the response is.

    :cvar asked: what the judge is asked with each question.
    """

    dimensions = ('Overall',)
    no_score = NO_PROBABILITY
    asked: Mapping[str, bool] = {}

    def question(self, item: ScoringItem) -> Question:
        """
        Return the question about one response: how likely it is after its context.
        """
        return response_question(item, self.options.context_turns)

    def value(self, answer: Answer) -> float | None:
        """
        Return the score that an answer means; `None` if it means none.
        """
        raise NotImplementedError

    def evidence(self, answer: Answer) -> Any:
        """
        Return what is stored of an answer.
        """

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each response; all questions go to the judge together.
        """
        questions = [self.question(item) for item in items]
        [name] = self.dimensions
        return [
            ItemScore(
                {name: self.value(answer)},
                evidence=self.evidence(answer),
                cut=answer.num_truncated,
            )
            for answer in self.judge.answer(questions, **self.asked)
        ]


def finite_sum(logprobs: Sequence[float]) -> float | None:
    """
    Return the sum of log-probabilities; `None` without any, or where one is not finite.
    """
    known = bool(logprobs) and all(map(math.isfinite, logprobs))
    return math.fsum(logprobs) if known else None


def reduced_logprob(logprobs: Sequence[float], reduction: str) -> float | None:
    """
    Return the mean or the sum of the log-probabilities of tokens; `None` without any,
    or where one is not finite.
    """
    total = finite_sum(logprobs)
    return total if total is None or reduction == 'sum' else total / len(logprobs)


def mean_logprob(answer: Answer) -> float | None:
    """
    Return the mean over the tokens of an answer's only continuation; `None` when it has
    no finite probability.
    """
    return reduced_logprob(answer.continuations[0], 'mean')


def token_count(answer: Answer) -> dict[str, int]:
    """
    Return the evidence of an answer about a response: how many tokens it has.
    """
    return {'tokens': len(answer.continuations[0])}


@frozen
class ResponseOptions:
    """
    The judge, and how much of the context it reads.
    """

    judge_model_file: str = judge_option()
    context_turns: int = context_turns_option()


@frozen
class LikelihoodOptions(ResponseOptions):
    """
    The judge, how much of the context it reads, and what the probability is compared
    with.
    """

    less: str = option(
        'nothing',
        help='what is subtracted: nothing, or the mean log-probability of the same '
        'response after no context, which leaves what the context adds',
        choices=('nothing', 'no_context'),
    )


class Likelihood(AnswerScorer):
    """
    Mean log-probability (natural) of a response's tokens after its context.

    One score a response, at most 0 where nothing is subtracted; higher is better. With
    ``less: no_context`` it is the pointwise mutual information of response and context
    per token (Li et al. 2016), which a bland response does not gain from.
    """

    name = 'likelihood'
    unit = 'log-probability (nats) of a token'
    dimensions = ('Likelihood',)
    options_class = LikelihoodOptions
    options: LikelihoodOptions

    value = staticmethod(mean_logprob)
    evidence = staticmethod(token_count)

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the mean of each response, less that of it alone where asked for.
        """
        scores = super().score(items)
        if self.options.less == 'nothing':
            return scores
        [name] = self.dimensions
        alone = map(mean_logprob, answers_without_context(self.judge, items))
        return [
            replace(score, values={name: difference(score.values[name], less)})
            for score, less in zip(scores, alone, strict=True)
        ]


class Perplexity(AnswerScorer):
    """
    Minus the perplexity of a response's tokens after its context, the end token
    included: at most -1, higher is better.

    Response by response it orders as `likelihood` does, of which it is minus the
    exponential of the score with its sign turned; means over responses differ.
    """

    name = 'perplexity'
    options_class = ResponseOptions
    no_score = 'the judge gives the response no probability, or too large a perplexity'

    def value(self, answer: Answer) -> float | None:
        """
        Return minus the perplexity.
        """
        return minus_perplexity(mean_logprob(answer))


class TokenAccuracy(AnswerScorer):
    """
    The share of a response's tokens, its end token included, that are the likeliest
    ones after the context and the tokens before them: from 0 to 1.

    Bland responses are made of such tokens; so are those that the judge itself would
    give.
    """

    name = 'token_accuracy'
    options_class = ResponseOptions
    no_score = 'the response has no token'
    asked = {'greedy': True}
    value = staticmethod(mean_logprob)  # of hits, each 0 or 1
    evidence = staticmethod(token_count)


def response_question(item: ScoringItem, context_turns: int) -> Question:
    """
    Return the question how likely a response is after its context.

    :param context_turns: how many utterances of the context are read; 0: all.
    """
    return Question(item.context[-context_turns:], (item.text,))


def response_answers(
    judge: LanguageModel, items: Items, context_turns: int
) -> list[Answer]:
    """
    Return the log-probabilities of each item's response after its context.

    :param context_turns: as for `response_question`.
    """
    return judge.answer([response_question(item, context_turns) for item in items])


def answers_without_context(judge: LanguageModel, items: Items) -> list[Answer]:
    """
    Return the log-probabilities of each item's response as the first of a dialogue.
    """
    return computed_once(judge.answer, [Question((), (item.text,)) for item in items])


def first_continuation_share(answer: Answer) -> float | None:
    """
    Return the probability of the first of an answer's two continuations among the two;
    `None` where neither has one.
    """
    first, second = map(math.fsum, answer.continuations)
    odds = second - first  # not a number where both are minus infinity
    return None if math.isnan(odds) else 1 / (1 + math.exp(min(LARGEST_EXPONENT, odds)))


def minus_perplexity(logprob: float | None) -> float | None:
    """
    Return minus the perplexity that is behind a mean log-probability; `None` where that
    is missing, or the perplexity too large.
    """
    if logprob is None or -logprob >= LARGEST_EXPONENT:
        return None
    return -math.exp(-logprob)


def difference(first: float | None, second: float | None) -> float | None:
    """
    Return the difference of two numbers, `None` where one is missing.
    """
    return None if first is None or second is None else first - second


Ids = tuple[int, ...]


class Strings:
    """
    Strings before a decoder-only judge, in tokens of its own tokenizer, as programs
    around GPT-2 take them: one pass a text, the first token read and not counted.

    A mark that somebody typed is plain text; only `kept_ids` puts an end token.
    """

    def __init__(self, judge: LanguageModel):
        self.judge: Any = judge
        self.tokenizer = decoder_tokenizer(
            judge,
            'scorer: judge_model_file: the judge must be a decoder-only Hugging Face '
            'model, such as smollm2-135m-q4',
        )

    def kept_ids(self, *texts: str, end: bool) -> tuple[list[Ids], int]:
        """
        Return the tokens of texts that begin alike, and how many were cut at the
        beginning of each, so that the first fits into the judge's positions.

        :param end: put the end token behind each.
        """
        mark = [self.tokenizer.eos_token_id] if end else []
        strings = [
            (*self.tokenizer.encode(text, split_special_tokens=True), *mark)
            for text in texts
        ]
        limit = self.judge.positions
        cut = 0 if limit is None else max(0, len(strings[0]) - limit)
        return [ids[cut:] for ids in strings], cut

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


# --- FED ------------------------------------------------------------------------------
# FED (Mehri and Eskenazi 2020): how likely are praise and complaints as next utterance?
#
#     FED(c, r) = sum over p in P of D(c + r, p)  -  sum over n in N of D(c + r, n)
#
# D is the mean log-probability of the follow-up, its end token included. By default
# only the complaints N count, as in bipartite-play; higher is better in every case.
# FULL asks complaints, too.

# Follow-up sets: what a partner would say after a good utterance, and after a bad
# one.
#
#     dimensions:                       # the shape of the shipped sets
#       Specificity:
#         positive: [Good to know!]
#         negative: [You could say that to anyone.]
#
# A file in the shape ``turn: {quality: {positive, negative}}, dialogue: …`` is read
# too, and one that chooses from another set, side by side:
#
#     of: fed_2020
#     dimensions:
#       Overall: {positive: {likeable: all}, negative: {likeable: [2]}}  # places from 1
#
# Those of Mehri and Eskenazi (2020) carry no licence, so they are not shipped but
# fetched from the authors' repository on request. Their file is a program: its lists
# are read as literals and nothing in it is run.


FED_2020 = 'fed_2020'
URL = (
    'https://raw.githubusercontent.com/Shikib/fed/'
    'fd498618c669f590cb5d78e6b55a70240e967925/fed.py'
)
SHA256 = '1f47bae5e49395fe83f72d2e404f52ba45bec209526c37ba90bea658b0d25b9e'


class Sides(Record):
    """
    The follow-ups of one dimension: praise and complaints.
    """

    positive: tuple[str, ...] = ()
    negative: tuple[str, ...] = ()

    @field_validator('positive', 'negative')
    @classmethod
    def _check_texts(cls, texts: tuple[str, ...]) -> tuple[str, ...]:
        for i, text in enumerate(texts):
            if not text.strip():
                raise WrongType('an empty follow-up', (i,))
            if text in texts[:i]:
                raise WrongType(f'{text!r} is there already', (i,))
        return texts

    @model_validator(mode='after')
    def _check(self) -> Self:
        if not (self.positive or self.negative):
            raise ValueError('needs positive or negative follow-ups')
        return self


class FollowUpKeys(Record):
    """
    The keys of a file of follow-ups: dimensions, or the authors' keys, by level.
    """

    description: str = ''
    dimensions: dict[str, Sides] = {}
    turn: dict[str, Sides] = {}
    dialogue: dict[str, Sides] = {}

    @model_validator(mode='after')
    def _check(self) -> Self:
        if not (self.dimensions or self.turn or self.dialogue):
            raise ValueError('a follow-up set needs at least one dimension')
        if self.dimensions and (self.turn or self.dialogue):
            raise ValueError('dimensions, or turn and dialogue, are expected')
        return self


class SidesChoice(Record):
    """
    For each side, the places of the texts of a quality, from 1, or the word ``all``.
    """

    positive: dict[str, Any] = {}
    negative: dict[str, Any] = {}


class FollowUpChoice(Record):
    """
    The keys of a file that chooses follow-ups from another set, `of`.
    """

    of: str
    dimensions: dict[str, SidesChoice]
    description: str = ''


@frozen
class FollowUps:
    """
    The follow-ups of each dimension, in order.

    `dialogue_level` names those that are asked of a whole dialogue, not of each turn.
    """

    dimensions: Mapping[str, Sides]
    dialogue_level: frozenset[str] = frozenset()

    @property
    def hash(self) -> str:
        """
        Return 16 hex digits that depend on dimensions, levels and texts alone.
        """
        levels = [sorted(self.dialogue_level)] if self.dialogue_level else []
        return content_id(
            'followups',
            [[name, s.positive, s.negative] for name, s in self.dimensions.items()],
            *levels,
        )

    def without(self, left_out: Collection[str]) -> 'FollowUps':
        """
        Return the follow-ups of the other dimensions.

        :raises UserError: for a dimension that is not there, or if none is left.
        """
        for name in left_out:
            problem = f'scorer: without: no dimension {name!r}'
            require_known(name, self.dimensions, problem)
        kept = {n: s for n, s in self.dimensions.items() if n not in left_out}
        if not kept:
            raise UserError('scorer: without: no dimension is left')
        return FollowUps(kept, self.dialogue_level & frozenset(kept))


def load_followups(name: str) -> FollowUps:
    """
    Return a follow-up set by shipped name, by path, or ``fed_2020`` (fetched).

    :raises UserError: for anything in the file that cannot be meant.
    """
    if name == FED_2020:
        return read_followups(fetch_fed_2020())
    doc = read_shipped_file('followups', name, 'followups', (FED_2020,))
    is_choice = isinstance(doc.data, dict) and 'of' in doc.data
    return read_followups(chosen_followups(doc) if is_choice else doc)


def chosen_followups(doc: Document) -> Document:
    """
    Return the document of a set whose follow-ups are chosen from another one.

    :raises UserError: for a quality or a place that the other set does not have.
    """
    given = doc.record(FollowUpChoice)
    qualities = load_followups(given.of).dimensions

    def texts(name: str, side: str) -> Iterator[str]:
        for quality, which in getattr(given.dimensions[name], side).items():
            place = ('dimensions', name, side, quality)
            if quality not in qualities:
                hint = nearest(quality, qualities)
                raise doc.error(place, f'{given.of} has no such quality; {hint}')
            known = dict(enumerate(getattr(qualities[quality], side), 1))
            wanted = known if which == 'all' else doc.typed(which, place, list)
            if wrong := [one for one in wanted if one not in known]:
                problem = f'all, or places from 1 to {len(known)}, not {wrong[0]!r}'
                raise doc.error(place, problem)
            yield from (known[one] for one in wanted)

    chosen = {
        name: {side: [*texts(name, side)] for side in ('positive', 'negative')}
        for name in given.dimensions
    }
    return replace(doc, data={'dimensions': chosen})


def read_followups(doc: Document) -> FollowUps:
    """
    Return the follow-ups of a document with the key ``dimensions``, or with the
    authors' keys ``turn`` and ``dialogue``.

    :raises UserError: with file, line and key.
    """
    given = doc.record(FollowUpKeys)
    on_both = given.turn.keys() & given.dialogue.keys()

    def named(level: str, sides: Mapping[str, Sides]) -> dict[str, Sides]:
        # a quality that is judged on both levels has a name for each
        return {f'{level} {n}' if n in on_both else n: own for n, own in sides.items()}

    whole = named('dialogue', given.dialogue)
    turns = given.dimensions or named('turn', given.turn)
    return FollowUps({**turns, **whole}, frozenset(whole))


def fetch_fed_2020() -> Document:
    """
    Return the authors' follow-ups, ``{'turn': …, 'dialogue': …}`` by quality, as
    `read_followups` takes them, from the cache or the network.

    :raises UserError: when they cannot be had, with what to do instead.
    """
    place = Path(data_folder(), 'followups', 'fed_2020.txt')
    what = f'follow-ups {FED_2020!r}'
    program = read_pinned(URL, SHA256, place, what, '--followups FILE')
    lists = assigned_literals(program.decode('utf-8'))
    turn, dialogue = lists['turn_level_utts'], lists['dialog_level_utts']
    return Document({'turn': turn, 'dialogue': dialogue}, URL)


# --- scorers --------------------------------------------------------------------------

JUDGE = 'zoo:blender/blender_9B/model'
ORIGINAL_JUDGE = 'hf:microsoft/DialoGPT-large'
NO_CONTEXT = (
    'fed: scope whole counts the context, to which an encoder-decoder gives no '
    'probability; scope followup, or a decoder-only judge, would do'
)
# Table 1 of Sato et al. (2022), with the names of the paper
VARIANTS = {
    'FED': {'polarity': 'both'},
    'w/o neg': {'polarity': 'positive'},
    'w/o pos': {'polarity': 'negative'},
}


@frozen
class FedOptions:
    """
    Which follow-ups count, whose tokens, and how these are put together.

    Variant *bipartite* is FED as bipartite-play uses it: complaints only, the mean
    log-probability of each, summed. *original* is the program of Mehri and Eskenazi
    (2020): praise and complaints, the loss of the whole string (context and follow-up),
    the mean over each.
    """

    followups: str = option(
        'default',
        help='follow-up set: a shipped name, fed_2020, or a file',
        flag='--followups',
        metavar='NAME|FILE',
    )
    variant: str = option(
        'bipartite',
        help='bipartite-play, or the program of 2020: how a context is written for '
        'the judge, and the defaults of the other options',
        choices=('bipartite', 'original'),
        signed='if changed',
    )
    polarity: str = option(
        'negative',
        help='follow-ups that count',
        choices=('negative', 'positive', 'both'),
    )
    token_reduction: str = option(
        'mean',
        help="a follow-up's score over its tokens",
        choices=('mean', 'sum'),
        flag='--fed-tokens',
    )
    followup_reduction: str = option(
        'sum',
        help='over follow-ups',
        choices=('sum', 'mean'),
        flag='--fed-followups-reduction',
    )
    scope: str = option(
        'followup',
        help="tokens that count: the follow-up's, or the whole string's",
        choices=('followup', 'whole'),
        signed='if changed',
    )
    judge_format: str = option(
        'plain',
        help='how the judge is shown the dialogue: its turns as they are, or its own '
        'chat template, with the judged speaker as the assistant and follow-ups as the '
        "user's next message",
        choices=('plain', 'chat'),
        signed='if changed',
    )
    less: str = option(
        'nothing',
        help="what is subtracted from a follow-up's score: nothing, or its score where "
        'the judged utterance is left out',
        choices=('nothing', 'no_response'),
        signed='if changed',
    )
    without: tuple[str, ...] = option(
        (),
        help='dimensions of the follow-up set that are left out',
        signed=False,  # the follow-ups that are left are signed
    )
    judge_model_file: str = judge_option(JUDGE)

    presets = {
        'variant': {
            'original': {
                'followups': 'fed_2020',
                'polarity': 'both',
                'followup_reduction': 'mean',
                'scope': 'whole',
                'judge_model_file': ORIGINAL_JUDGE,
            }
        }
    }


class Fed(JudgeScorer):
    """
    Asks the judge for each different follow-up once a context, which is every utterance
    up to and including the judged one.

    The evidence of an utterance is D of each follow-up. Dimensions whose follow-ups are
    about the whole dialogue are asked once a speaker, after its last judged utterance.
    """

    name = 'fed'
    unit = 'log-probabilities (nats) of the follow-ups, added up'
    options_class = FedOptions
    variants = VARIANTS
    instead = (
        'or a small judge: --judge-model-file zoo:mini/judge/model needs no download '
        '(it knows small talk only), smollm2-135m-q4 one of 93 MB'
    )
    also_level = 'dialogue'
    options: FedOptions

    def prepare(self) -> None:
        """
        Read the follow-ups.

        :raises UserError: for a judge that cannot give what scope ``whole`` needs.
        """
        if self.options.scope == 'whole' and self.options.judge_model_file == JUDGE:
            raise UserError(
                'scorer: judge_model_file: scope whole needs a decoder-only model; '
                f'{ORIGINAL_JUDGE} would do'
            )
        if self.options.variant == 'original' and (
            self.options.judge_format != 'plain' or self.options.less != 'nothing'
        ):
            raise UserError(
                'scorer: variant original is a program of 2020, which has judge_format '
                'plain and less nothing; variant bipartite would do'
            )
        if self.options.scope == 'whole' and self.options.less != 'nothing':
            raise UserError(
                'scorer: less: no_response needs scope followup, since it compares '
                'the same tokens'
            )
        whole_set = load_followups(self.options.followups)
        self.followups = whole_set.without(self.options.without)
        self.signed = {'followups': self.followups.hash}
        self.dimensions = tuple(self.followups.dimensions)
        self.evidence_labels = evidence_labels(self.followups, self.options.polarity)
        if self.options.polarity != 'both':
            self.variants = {}

    def load_models(self) -> None:
        """
        Load the judge.

        :raises UserError: when it gives contexts no probability and they count.
        """
        super().load_models()
        labels = self.evidence_labels
        self.question: Callable[[tuple[str, ...]], Question]
        self.question = lambda context: Question(context, labels)
        if self.options.variant == 'original':
            self.question = original_questions(self.judge, labels)
        if self.options.judge_format == 'chat':
            chat = ChatQuestions.from_judge(self.judge, PLAIN_FORMAT)
            self.question = lambda turns: chat.question(as_turns(turns), False, labels)
        if self.options.scope == 'whole' and not gives_context(self.judge):
            raise UserError(NO_CONTEXT)

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each item. All are asked about in one call of the judge;
        with ``less: no_response`` a second one asks about them without the response.
        """
        questions = [self.question(item.utterances) for item in items]
        whole = self.options.scope == 'whole'
        answers = self.judge.answer(questions, with_context=whole)
        rows = list(map(self._followup_scores, answers))
        if self.options.less == 'no_response':
            both = zip(rows, self._scores_of_silence(items), strict=True)
            rows = [tuple(map(difference, *pair)) for pair in both]
        return [
            followups_score(
                self.followups,
                self.options,
                dict(zip(self.evidence_labels, row, strict=True)),
                answer.num_truncated,
            )
            for row, answer in zip(rows, answers, strict=True)
        ]

    def _scores_of_silence(self, items: Items) -> Iterator[tuple[float | None, ...]]:
        """
        Return D of each follow-up where an item's response is left out.
        """
        # in a chat template it is an empty message then, since two messages of a user
        # may not follow each other
        silence = () if self.options.judge_format == 'plain' else ('',)
        silent = [
            item.context if item.response is None else (*item.context, *silence)
            for item in items
        ]
        answers = self.judge.answer(list(map(self.question, silent)))
        return map(self._followup_scores, answers)

    def score_of_evidence(self, score: ItemScore, variant: str = '') -> ItemScore:
        """
        Return the score with the polarity of this scorer, or of a variant.
        """
        labels = evidence_labels(self.followups, 'both')
        scores = dict(zip(labels, score.evidence, strict=True))
        changed: Mapping[str, Any] = VARIANTS.get(variant, {})
        options = replace(self.options, **changed)
        return followups_score(self.followups, options, scores, score.cut)

    def scored_dialogue(
        self, dialogue: Dialogue, indices: Sequence[int], scores: Sequence[ItemScore]
    ) -> ScoredDialogue:
        """
        Return the scores of one dialogue; those about the whole of it stand with each
        speaker's last judged utterance only.
        """
        scored = super().scored_dialogue(dialogue, indices, scores)
        # both speakers of self-play have one name; even and odd places differ
        last_of_parity = {index % 2: index for index in sorted(indices)}
        kept = tuple(
            score
            for score in scored.scores
            if score.dimension not in self.followups.dialogue_level
            or score.utterance_index in last_of_parity.values()
        )
        return replace(scored, scores=kept)

    def _followup_scores(self, answer: Answer) -> tuple[float | None, ...]:
        """
        Return D of each follow-up.
        """
        before = answer.context or ()  # which is there with scope `whole`
        return tuple(
            reduced_logprob(
                (*before, *row) if row else (), self.options.token_reduction
            )
            for row in answer.continuations
        )


def followups_score(
    followups: FollowUps,
    options: FedOptions,
    scores: Mapping[str, float | None],
    cut: int,
) -> ItemScore:
    """
    Return the scores of one utterance from the score D of each follow-up
    (`reduced_logprob`): of each dimension by Equation 1, praise less complaints.

    With polarity ``both``, a side without follow-ups adds nothing, as in the paper.
    """
    known = known_values(scores)
    is_mean = options.followup_reduction == 'mean'
    values: dict[str, float | None] = {}
    reasons: dict[str, str | None] = {}
    for name, sides in followups.dimensions.items():
        values[name] = reasons[name] = None
        used = _used(sides, options.polarity)
        unknown = [text for texts in used for text in texts if text not in known]
        if not any(used):
            reasons[name] = f'no {options.polarity} follow-ups'
        elif unknown:
            reasons[name] = f'the judge gives {unknown[0]!r} no finite probability'
        else:
            praise, complaints = (
                math.fsum(known[text] for text in texts)
                / (max(1, len(texts)) if is_mean else 1)
                for texts in used
            )
            values[name] = praise - complaints
    labels = evidence_labels(followups, options.polarity)
    return ItemScore(values, reasons, tuple(scores[text] for text in labels), cut)


def evidence_labels(followups: FollowUps, polarity: str) -> tuple[str, ...]:
    """
    Return the different follow-ups that count, in order.
    """
    used = (_used(sides, polarity) for sides in followups.dimensions.values())
    return tuple(
        dict.fromkeys(text for sides in used for texts in sides for text in texts)
    )


def original_questions(
    judge: LanguageModel, followups: Sequence[str]
) -> Callable[[Sequence[str]], Question]:
    """
    Return what makes the question of a context, in which contexts and follow-ups are
    written as the program of Mehri and Eskenazi (2020) writes them.

        <|endoftext|> first utterance <|endoftext|> second <|endoftext|> follow-up

    One space on either side of each mark, none of them after the follow-up. The judge's
    tokenizer, not ours, decides what becomes of the spaces. A mark parts the text: ids
    before it depend on nothing after it, so the follow-ups of a context share it, and
    so do the turns of a dialogue. The mark before a follow-up is the context's.
    """
    tokenizer = decoder_tokenizer(
        judge,
        'fed: variant original takes the loss of context and follow-up: the judge '
        'must be a decoder-only model; variant bipartite would do',
    )
    mark = tokenizer.eos_token
    if not mark:
        raise UserError('fed: variant original needs a judge with an end token')
    continuations = tuple(plain_ids(tokenizer, f'{mark} {f}')[1:] for f in followups)

    def question(utterances: Sequence[str]) -> Question:
        turns = ''.join(f'{mark} {text} ' for text in utterances)
        return Question(plain_ids(tokenizer, turns + mark), continuations)

    return question


def _used(sides: Sides, polarity: str) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """
    Return the positive and the negative follow-ups that count under this polarity.
    """
    return (
        () if polarity == 'negative' else sides.positive,
        () if polarity == 'positive' else sides.negative,
    )


# --- FULL -----------------------------------------------------------------------------

FULL_JUDGE = 'hf:facebook/blenderbot-400M-distill,hf_turn_separator="\\t"'
MEAN_COMPLAINT = FedOptions(polarity='negative', followup_reduction='mean')


@frozen
class FullOptions:
    """
    Which follow-ups are asked, of which judge, and how their losses are put together.
    """

    followups: str = option(
        'full',
        help='follow-up set, of which the negative ones are asked: full (the five), '
        'full_released (as the program of 2022 reads them), another name, or a file',
        metavar='NAME|FILE',
    )
    reduction: str = option(
        'perplexity',
        help='over follow-ups: the mean of their perplexities, or of their losses',
        choices=('perplexity', 'loss'),
    )
    context_turns: int = context_turns_option(50)  # as the authors' program reads
    judge_model_file: str = judge_option(FULL_JUDGE)


class Full(JudgeScorer):
    """
    FULL (De Bruyn et al. 2022): how unlikely are complaints as the next utterance?

        FULL(c, r) = mean over f in F of exp(loss(f | c + r))

    F are five complaints; the loss of one is the mean of its tokens', its end token
    included. FED with its complaints alone differs in the mean of perplexities instead
    of losses, in the follow-ups and in the judge.

    One score a response in each dimension of the follow-ups (`full`: Overall), above 0;
    higher is better. The evidence is the loss of each follow-up.
    """

    name = 'full'
    instead = 'or another judge: --scorer-option judge_model_file=smollm2-135m-q4'
    options_class = FullOptions
    options: FullOptions

    def prepare(self) -> None:
        """
        Read the follow-ups.

        :raises UserError: for a set without negative ones.
        """
        self.followups = load_followups(self.options.followups)
        self.signed = {'followups': self.followups.hash}
        for name, sides in self.followups.dimensions.items():
            if not sides.negative:
                raise UserError(
                    f'scorer: followups {self.options.followups}: {name} has no '
                    'negative follow-ups, which are all that FULL asks'
                )
        self.dimensions = tuple(self.followups.dimensions)
        self.evidence_labels = evidence_labels(self.followups, 'negative')

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the scores of each response, in one question to the judge.
        """
        # where an encoder-decoder joins turns by a separator, the authors' program
        # begins with one
        joins_turns = hasattr(getattr(self.judge, 'vectorizer', None), 'separator')
        first = ('',) if joins_turns and not gives_context(self.judge) else ()
        most = self.options.context_turns
        read = [replace(item, context=item.context[-most:]) for item in items]
        questions = [
            Question((*first, *item.utterances), self.evidence_labels) for item in read
        ]
        scores = []
        for answer in self.judge.answer(questions):
            terms = [reduced_logprob(row, 'mean') for row in answer.continuations]
            losses = tuple(None if term is None else -term for term in terms)
            if self.options.reduction == 'perplexity':
                terms = [minus_perplexity(term) for term in terms]
            known = dict(zip(self.evidence_labels, terms, strict=True))
            score = followups_score(
                self.followups, MEAN_COMPLAINT, known, answer.num_truncated
            )
            scores.append(replace(score, evidence=losses))
        return scores
