"""
What the check of a judge found, as frozen records; the file `judge_check.json`.

The record lies beside the scores that it is about, and in `ranking.json`. Reading it
needs no model. Nothing in it depends on the clock: cost is counted in scorings.
"""

from collections.abc import Mapping
from dataclasses import field
from typing import Any

from parlai_ext.core import JsonObject, UserError, frozen, option, record_to_json
from parlai_ext.store import ScoreStore

SCHEMA = 1
NAME = 'judge_check.json'
REMEDY = 'delete it and score the run again to have it remade'
PASS, WEAK, FAIL = 'pass', 'weak', 'fail'
UNTESTED = 'untested'  # a kind with too few pairs; never an outcome on a judge
SOURCES = ('systems', 'people')  # where originals come from


@frozen
class KindResult:
    """
    How a judge scores originals against one kind of perturbed copies.

    `share` is the share of pairs in which the original scores higher, ties counted as
    half; `low` and `high` are its 95 % Wilson interval. They are `None` without pairs.

    :param source: ``systems`` or ``people``: who wrote the originals.
    :param required: a judge that fails this kind fails; otherwise it is weak.
    :param outcome: ``pass``, ``weak``, ``fail`` or ``untested``.
    """

    kind: str
    source: str
    n: int
    n_higher: int
    n_ties: int
    share: float | None
    low: float | None
    high: float | None
    required: bool
    outcome: str


@frozen
class HumanAnchor:
    """
    Mean scores of people's replies and of the systems' replies to the same contexts.

    :param n: contexts that have a reply of a person.
    :param systems: the mean score of each system there.
    :param warning: names the systems that score far above people; `None` if none does.
    """

    n: int
    people_mean: float
    systems_mean: float
    systems: Mapping[str, float]
    warning: str | None


@frozen
class Biases:
    """
    What scores go with, over all judged responses of the run.

    `length`, `position` and `overlap` are Spearman correlations of the score with the
    number of words, with the place in the dialogue, and with the share of words that
    stand in the partner's last two turns. The shares are of the variance of scores
    that lies between systems, partners and openers (sum of squares between groups over
    the whole). `None`: it does not vary, or there is one group only.
    """

    n: int
    length: float | None
    position: float | None
    system_share: float | None
    partner_share: float | None
    opener_share: float | None
    overlap: float | None = None


@frozen
class DimensionCheck:
    """
    The check of a judge in one dimension.

    :param outcome: ``pass``, ``weak`` or ``fail``.
    :param reasons: sentences that say why it is not a pass, the gravest first.
    """

    dimension: str
    outcome: str
    reasons: tuple[str, ...]
    kinds: tuple[KindResult, ...]
    human_anchor: HumanAnchor | None = None
    biases: Biases | None = None

    @property
    def failed(self) -> bool:
        """
        True if a ranking by this dimension says little about quality.
        """
        return self.outcome == FAIL


@frozen
class OrderSwap:
    """
    Pairs that were shown to a scorer of pairs in both orders.

    :param n: pairs with a score in both orders.
    :param n_changed: those in which it then prefers another response, or one instead of
        none.
    :param low, high: the 95 % Wilson interval of the share of changed ones.
    :param first_share: the share of preferences, in all orders, for the response that
        is shown first; 0.5 is fair. `None` without a preference.
    """

    n: int
    n_changed: int
    low: float | None
    high: float | None
    first_share: float | None


@frozen
class PromptProbes:
    """
    Checks of judges that are prompted (chat models).

    :param n_repeated: responses that were scored a second time.
    :param n_changed: those that then got another score.
    :param same_model: ranked systems that are the judge's own model.
    :param mean_change: the mean difference of first and second score, in standard
        deviations of the scores; `None` where that is not known.
    :param same_family: ranked systems of the judge's family of models, and what they
        have in common.
    :param order: what a scorer of pairs says when the two responses change places.
    """

    n_repeated: int
    n_changed: int
    same_model: tuple[str, ...] = ()
    mean_change: float | None = None
    same_family: Mapping[str, str] = field(default_factory=dict)
    order: OrderSwap | None = None


@frozen
class JudgeCheck:
    """
    The check of the judge behind the scores of one signature.

    :param signature: of the scores that were checked.
    :param n_responses: the systems' responses in the sample (whole dialogues of one
        speaker, where these are judged).
    :param n_people: replies of people in the sample.
    :param people_source: where these replies come from; `None` without any.
    :param n_scored: scorings that the check needed; originals of systems need none.
    :param cost: `n_scored` as a share of the scorings of the run itself.
    :param dimensions: the check of each dimension.
    :param tournament: the check of a rating by games: an original counts as higher if
        it is higher in more dimensions than it is lower. `None` for one dimension.
    :param notes: sentences on what could not be checked.
    """

    signature: str
    n_responses: int
    n_people: int
    people_source: str | None
    n_scored: int
    cost: float
    dimensions: Mapping[str, DimensionCheck]
    tournament: DimensionCheck | None = None
    probes: PromptProbes | None = None
    notes: tuple[str, ...] = ()

    def check_of(self, dimension: str) -> DimensionCheck | None:
        """
        Return the check behind a ranking by this dimension.

        :param dimension: a dimension of the scores, or the name of a rating by games.
        """
        if dimension not in self.dimensions and len(self.dimensions) == 1:
            return next(iter(self.dimensions.values()))  # games in one dimension
        return self.dimensions.get(dimension, self.tournament)


def check_to_json(check: JudgeCheck) -> JsonObject:
    """
    Return what `judge_check.json` holds.
    """
    return {'schema': SCHEMA, **record_to_json(check)}


def check_path(store: ScoreStore) -> str:
    """
    Return the name of the check's file within the run folder.
    """
    return f'scores/{store.root.name}/{NAME}'


def write_check(store: ScoreStore, check: JudgeCheck | None, basis: str = '') -> None:
    """
    Write the check of a judge beside its scores; `None` removes one that is there.

    :param basis: a hash of what the check rests on; another one asks for a new check.
    """
    path = check_path(store)
    if check is None:
        store.run.remove(path)
    else:
        store.run.write_json(path, {'basis': basis, **check_to_json(check)})


def check_basis(store: ScoreStore) -> str | None:
    """
    Return the hash of what the check that lies beside scores rests on.
    """
    path = check_path(store)
    about: Mapping[str, Any] = store.run.read_record(path, dict, REMEDY) or {}
    return about.get('basis')


def read_check(store: ScoreStore) -> JudgeCheck | None:
    """
    Return the check that lies beside scores; `None` where none was made.

    :raises UserError: when the file is damaged.
    """
    return store.run.read_record(check_path(store), JudgeCheck, REMEDY)


SAMPLE = 200


@frozen
class CheckOptions:
    """
    How large the sample of the judge check is.
    """

    title = 'judge check'
    check_sample: int = option(
        SAMPLE,
        low=0,
        help='responses of the judge check at most (0: no check); it shrinks in small '
        'runs, to 40 at least',
    )


@frozen
class RequireCheck:
    """
    Whether a judge must pass its check.
    """

    title = 'judge check'
    require_judge_check: bool = option(
        False,
        help='exit code 3 if the judge that ranks was not checked or failed its check',
    )


class JudgeCheckFailed(UserError):
    """
    The judge that ranks failed its check, or has none: exit code 3.
    """

    exit_code = 3


def require_passed(check: DimensionCheck | None) -> None:
    """
    Refuse a ranking whose judge failed its check or was not checked.

    :raises JudgeCheckFailed: with the first reason.
    """
    if check is None:
        raise JudgeCheckFailed(
            '--require-judge-check: this judge was not checked; score the run again '
            'with --check-sample above 0'
        )
    if check.failed:
        raise JudgeCheckFailed(
            f'--require-judge-check: the judge failed its check on {check.dimension}: '
            f'{check.reasons[0]}'
        )
