"""
Stored agreement: read as written, found by exactly its signature, shown on judge cards.
"""

import pytest

from benchmarks.support.agreement_text import agreement_text
from parlai_ext import zoo_configs
from parlai_ext.files.agreement_file import (
    MeasuredAgreement,
    measured_agreement,
    read_agreement,
)
from parlai_ext.report.judge import agreement_on_sets

SIGNATURE = "scorer:mine|question:it's|judge:(model:A|content:1)"
ROWS = (
    MeasuredAgreement('fed_turn', 'turn', 'Overall', 150, 375, 0.3, 0.1, 0.5),
    MeasuredAgreement('esl', 'turn', 'appropriateness', 90, 90, 0.1, -0.2, 0.0),
    MeasuredAgreement('usr_topical', 'turn', 'Overall', 9, 9, 0.9, fitted=True),
    MeasuredAgreement('dstc9', 'system', 'no word: in it', 11, 11, -0.25),
    MeasuredAgreement('esl', 'turn', 'Overall', 9, 9, 0.7, dimension='Fluency'),
)


@pytest.fixture
def home(tmp_path, monkeypatch):
    """
    A project whose stored agreement is that of one scorer.
    """
    folder = tmp_path / 'agreement'
    folder.mkdir()
    text = agreement_text('a test', [('mine', SIGNATURE, ROWS)])
    (folder / 'test.yaml').write_text(text, encoding='utf-8')
    monkeypatch.setattr(zoo_configs, 'HOME', tmp_path)
    return folder


def test_what_is_written_is_read(home):
    assert measured_agreement(SIGNATURE) == ROWS


def test_another_signature_has_nothing(home):
    assert measured_agreement(SIGNATURE.replace('content:1', 'content:2')) == ()
    assert agreement_on_sets('scorer:other') is None


def test_a_card_shows_the_sets_on_which_nothing_was_fitted(home):
    text = agreement_on_sets(SIGNATURE)
    assert 'over turns: 0.10 to 0.30, median 0.20 (2 sets)' in text
    assert 'over systems: −0.25 (1 set)' in text
    assert 'Fluency over turns: 0.70 (1 set)' in text  # of no main score


def test_given_utterances_do_not_change_the_judge(home):
    text = agreement_on_sets(SIGNATURE)
    assert agreement_on_sets(f'{SIGNATURE}|given:judged') == text


def test_the_shipped_files_can_be_read():
    for path in (zoo_configs.HOME / 'agreement').glob('*.yaml'):
        assert all(rows for rows in read_agreement(path).values())
