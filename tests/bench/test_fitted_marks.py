"""
A scorer that was fitted on human scores says so, and every table marks it.
"""

import pytest

from parlai_ext.data.judged import card_names
from parlai_ext.scoring.registry import find_scorer
from tests.support.user_error import user_error
from tests.support.written import written

COMPOSITE = find_scorer('composite')


@pytest.mark.parametrize(
    'name, data',
    [
        ('learned', 'dstc9_interactive'),  # docs/learned_method.md
        ('usr', 'usr_topical'),  # the authors' regression
        ('bleurt', 'translations of WMT'),
    ],
)
def test_a_scorer_fitted_on_human_scores_says_on_which(name, data):
    assert data in find_scorer(name).from_section({}).fitted_on


def test_the_weights_of_composite_say_on_which_sets_they_were_fitted():
    # docs/composite.md, "How it was fitted"
    fitted_on = set(COMPOSITE.from_section({}).fitted_on)
    assert {'usr_topical', 'zhao_dailydialog', 'chanel_jsalt'} <= fitted_on
    assert not fitted_on & {'fed_turn', 'grade_convai2', 'topical_dstc10'}
    assert fitted_on <= set(card_names())


def test_weights_of_ones_own_say_it_themselves(tmp_path):
    def fitted_on(**given):
        terms = {
            name: {'centre': 0, 'spread': 1, 'weight': 1 / 3}
            for name in ('likelihood', 'relevance', 'length')
        }
        path = written(tmp_path, 'mine.yaml', {'terms': terms, **given})
        return COMPOSITE.from_section({'weights': str(path)}).fitted_on

    assert fitted_on() == ()
    assert fitted_on(fitted_on=['mine']) == ('mine',)
    with user_error('mine.yaml:1: fitted_on'):
        fitted_on(fitted_on='mine')
