"""
The options of ChatMatch: its three readings, and the thresholds that a user may change.

The paper's text and the authors' script differ, so a reading is part of every number's
signature: `paper` is the text, `released` what the script computes, `released_fixed`
the script with its swapped specificity mended. docs/chatmatch.md lists the differences.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from parlai_ext.core.options import option, read_options
from parlai_ext.scoring.model_options import model_option

DIMENSIONS = (
    *('fluency', 'knowledge', 'proactivity', 'specificity'),
    *('diversity', 'consistency', 'relevance'),
)


@dataclass(frozen=True)
class Manner:
    """
    What a reading does that no threshold says.

    :param foreign_history: a turn may also repeat what the other speaker said.
    :param each_question: two questions in a turn count twice.
    :param token_question: only a lone last ``?`` makes a repeated question.
    :param equal_contradicts: similarity equal to the threshold is a contradiction too.
    :param raw_concepts: concepts are looked up as they are written, capitals and all.
    :param skips_repeated: what a repeated turn does otherwise does not count.
    :param drops_last: the last turn of an even number of turns does not count.
    :param drops_worst: a side's worst perplexity does not count.
    :param empty_repeats: an empty turn is a repetition.
    :param names_once: an entity counts once a game, for who names it first.
    :param cuts_at_colon: entities behind a turn's first colon are not seen.
    :param whole_game: specificity and knowledge look at uncounted turns too.
    :param swaps: the script's slips: each side gets the other's specificity, and
        fluency too where only the first speaker has one unrepeated turn.
    """

    foreign_history: bool = False
    each_question: bool = False
    token_question: bool = False
    equal_contradicts: bool = False
    raw_concepts: bool = False
    skips_repeated: bool = False
    drops_last: bool = False
    drops_worst: bool = False
    empty_repeats: bool = False
    names_once: bool = False
    cuts_at_colon: bool = False
    whole_game: bool = False
    swaps: bool = False


TEXT = Manner(foreign_history=True, each_question=True, equal_contradicts=True)
MENDED = Manner(
    token_question=True,
    raw_concepts=True,
    skips_repeated=True,
    drops_last=True,
    drops_worst=True,
    empty_repeats=True,
    names_once=True,
    cuts_at_colon=True,
    whole_game=True,
)
READINGS = {
    'released_fixed': MENDED,
    'released': replace(MENDED, swaps=True),
    'paper': TEXT,
}
UNITS = ('character', 'token')


@dataclass(frozen=True)
class ChatMatchOptions:
    """
    A reading with its thresholds, and where entities, concepts and perplexities come
    from. The defaults are those of reading ``released_fixed``.
    """

    reading: str = option(
        'released_fixed',
        help='the text, the released script, or that with its swapped point mended; '
        'it sets the defaults of the thresholds',
        choices=READINGS,
    )
    repetition: float = option(
        0.95, help='similarity from which a turn is a repetition (σ_r)', low=0, high=1
    )
    contradiction: float = option(
        0.8,
        help='similarity below which an answer is another one (σ_c)',
        low=0,
        high=1,
    )
    recall_distance: int = option(
        1, help='a concept is recalled after more than this many turns (d)', low=0
    )
    concept_share: float = option(
        0.5,
        help='share of concepts, rarest first, that can be recalled (p)',
        low=0,
        high=1,
    )
    perplexity_cap: float = option(
        50.0, help='no perplexity counts as more; 0 is no cap', low=0
    )
    perplexity_unit: str = option(
        'character',
        help="perplexity per character, as the script's model, or per token",
        choices=UNITS,
    )
    distinct_unit: str = option(
        'character', help='what distinct-1 and distinct-2 count', choices=UNITS
    )
    first_judged: int = option(
        3, help='first place whose repetition and fluency are judged', low=1
    )
    entities: str = option(
        'gazetteer',
        help='gazetteer, capitals, spacy[:MODEL], stanza[:LANGUAGE] or none',
    )
    concepts: str = option(
        'content_words',
        help='content_words, nltk, or a file or folder of dictionaries',
        path=True,
    )
    judge_model_file: str = model_option(
        'zoo:mini/judge/model',
        'likelihood',
        'the language model for fluency: a model file, zoo:…, hf:REPOSITORY, or none',
        flag='--judge-model-file',
    )

    @classmethod
    def presets(cls, given: Mapping[str, Any]) -> dict[str, Any]:
        """
        Return the thresholds of the reading.
        """
        if given.get('reading') != 'paper':
            return {}
        return {
            'perplexity_cap': 0.0,
            'perplexity_unit': 'token',
            'distinct_unit': 'token',
            'first_judged': 1,
        }

    @property
    def manner(self) -> Manner:
        """
        The rules of the reading that are no thresholds.
        """
        return READINGS[self.reading]


def chatmatch_options(
    reading: str = 'released_fixed', thresholds: Mapping[str, Any] | None = None
) -> ChatMatchOptions:
    """
    Return a reading with some thresholds changed.

    :raises UserError: saying which is wrong and what would be right.
    """
    given = {'reading': reading, **(thresholds or {})}
    return read_options(ChatMatchOptions, given, 'scorer: ')
