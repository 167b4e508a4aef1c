"""
The options of ChatMatch: its three readings, and the thresholds that a user may change.

The paper's text and the authors' script differ, so a reading is part of every number's
signature: `paper` is the text, `released` what the script computes, `released_fixed`
the script with its swapped specificity mended. docs/chatmatch.md lists the differences.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from parlai_ext.core.options import option, read_options
from parlai_ext.scoring.model_options import model_option

DIMENSIONS = (
    'fluency',
    'knowledge',
    'proactivity',
    'specificity',
    'diversity',
    'consistency',
    'relevance',
)


READINGS = ('released_fixed', 'released', 'paper')
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
    def released(self) -> bool:
        """
        True for what the released script does otherwise than the text of the paper.

        A turn may repeat its own speaker only; a lone last ``?`` alone makes a repeated
        question; two questions in a turn count once; a similarity equal to the
        threshold is no contradiction; concepts are looked up as they are written,
        capitals and all; what a repeated turn does otherwise, the last turn of an even
        number of turns, and a side's worst perplexity do not count; an empty turn is a
        repetition; an entity counts once a game, for who names it first; entities
        behind a turn's first colon are not seen; specificity and knowledge look at
        uncounted turns, too.
        """
        return self.reading != 'paper'


def chatmatch_options(
    reading: str = 'released_fixed', thresholds: Mapping[str, Any] | None = None
) -> ChatMatchOptions:
    """
    Return a reading with some thresholds changed.

    :raises UserError: saying which is wrong and what would be right.
    """
    given = {'reading': reading, **(thresholds or {})}
    return read_options(ChatMatchOptions, given, 'scorer: ')
