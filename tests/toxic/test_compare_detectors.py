"""
`compare_detectors`: the table, its files, harmless sentences, a kill, errors.

The words of these lists stand for swear words; none is one.
"""

import pytest

from parlai_ext.commands.command import json_document
from parlai_ext.commands.compare_detectors import CompareDetectors
from parlai_ext.data.corpora import labelled_texts
from parlai_ext.scoring import score_run
from parlai_ext.scoring.toxicity import Words
from parlai_ext.toxic import detector_table
from parlai_ext.view.progress import bar_of
from tests.support.interrupted import interrupted
from tests.support.shared_data import shared
from tests.support.user_error import user_error
from tests.support.written import csv_rows, json_rows

ROWS = [('grunk you', 1), ('a grunk', 1), ('bad', 1), ('fine grunk', 0)]
ROWS += [('tea', 0)] * 4


@pytest.fixture
def files(tmp_path):
    (tmp_path / 'words.txt').write_text('grunk\n')
    text = ''.join(f'{text},{label}\n' for text, label in ROWS)
    (tmp_path / 'mine.csv').write_text('text,label\n' + text)
    return tmp_path


def compare(files, **more):
    return CompareDetectors.main(
        **{
            'detectors': [f'words={files / "words.txt"}'],
            'sets': [str(files / 'mine.csv')],
            'bootstraps': 20,
            **more,
        }
    )


def test_the_numbers_are_those_of_pencil_and_no_text_is_printed_or_written(
    files, printed
):
    table = compare(files, out=str(files / 'out'))
    assert 'grunk' not in json_document(table, CompareDetectors.with_texts)
    [row] = table.rows
    # 3 flagged, 2 of them toxic; 3 toxic in all; areas by pairs: (2*4 + 2*.5 + 4*.5)/15
    assert row.measures['precision'].value == pytest.approx(2 / 3)
    assert row.measures['recall'].value == pytest.approx(2 / 3)
    assert row.measures['roc_auc'].value == pytest.approx(11 / 15)
    text = printed() + ''.join(
        path.read_text() for path in (files / 'out').rglob('*') if path.is_file()
    )
    assert 'grunk' not in text
    rows = csv_rows(files / 'out' / 'scores.csv')
    assert [float(row['words']) for row in rows] == list(map(int, '11010000'))


def test_a_bar_counts_the_resamples(files, monkeypatch):
    bars = []

    def noted(*args, **more):
        bars.append(bar_of(*args, **more))
        return bars[-1]

    monkeypatch.setattr(detector_table, 'bar_of', noted)
    compare(files, bootstraps=300)
    assert [bar.n for bar in bars if bar.unit == 'resample'] == [300]


def test_a_killed_comparison_goes_on_and_gives_the_same_files(files, monkeypatch):
    compare(files, out=str(files / 'whole'))
    monkeypatch.setattr(score_run, 'BATCH', 100)
    with interrupted(Words, 'toxicity', 2) as before:
        compare(files, out=str(files / 'out'))
    # 5 different texts and 43 terms in 8 sentences, each scored once
    left = 5 + 43 * 8 - sum(len(texts) for _, texts in before)
    seen, find = [], Words.toxicity
    monkeypatch.setattr(
        Words, 'toxicity', lambda self, texts: seen.extend(texts) or find(self, texts)
    )
    compare(files, out=str(files / 'out'))
    assert len(seen) == left
    for path in (files / 'whole').glob('*.csv'):
        assert (files / 'out' / path.name).read_bytes() == path.read_bytes()


def test_a_detector_that_cannot_be_had_is_named_and_the_others_are_compared(
    files, printed, uninstalled
):
    uninstalled('better_profanity')
    good = f'words={files / "words.txt"}'
    table = compare(files, detectors=[good, 'better_profanity'])
    assert len(table.rows) == 1
    line = 'left out: detector better_profanity: pip install better-profanity'
    assert line in printed()
    with user_error('better_profanity'):
        compare(files, detectors=['better_profanity'])
    with user_error('/none'):
        compare(files, detectors=[good, 'words=/none'])


def test_two_detectors_of_one_name_need_other_names(files):
    good = f'words={files / "words.txt"}'
    with user_error('called='):
        compare(files, detectors=[good, good])
    assert len(compare(files, detectors=[good, f'{good},called=b']).rows) == 2
    with user_error("did you mean 'toxichat'"):
        compare(files, sets=['toxichatt'], toxic_path=str(files))
    with user_error('toxic is another column'):  # people's labels
        compare(files, detectors=[f'{good},called=toxic'])


@pytest.mark.parametrize(
    'text, problem',
    [
        ('text,label\na,maybe\n', 'mine.csv:2: label'),
        ('text,label\n', 'no text'),
        ('text,label,kind\na,1,all\n', 'mine.csv:2: kind'),
    ],
)
def test_a_mistake_in_a_file_is_refused_by_its_place(files, text, problem):
    (files / 'mine.csv').write_text(text)
    with user_error(problem):
        compare(files)


def test_two_files_of_one_name_are_not_taken_for_one_set(files):
    (files / 'b').mkdir()
    (files / 'b' / 'mine.csv').write_text('text,label\ngrunk,0\n')
    with user_error('called mine'):
        compare(files, sets=[str(files / name) for name in ('mine.csv', 'b/mine.csv')])


def test_a_detector_of_a_groups_name_is_caught(files, printed):
    (files / 'words.txt').write_text('gay\n')
    # 8 sentences for each of 33 names, and for each of 10 other words
    [row] = compare(files).identities
    assert row.identities.value == pytest.approx(8 / (8 * 33))
    assert row.others.value == 0
    assert next(iter(row.by_term.items())) == ('gay', 1.0)
    # the names with 0 are not called the highest
    text = printed()
    assert 'gay 1.00' in text and ' 0.00,' not in text


def test_toxichat_has_as_many_offensive_turns_as_its_files():
    folder = shared('toxichat')
    rows = json_rows(folder / 'test.jsonl')
    turns = [turn for row in rows for turn in row['reddit_thread']]
    texts = labelled_texts('toxichat', folder, 'test')
    human = [text for text in texts if text.kind == 'human']
    assert len(human) == len(turns)
    expected = sum(turn['offense_label'] == 'Offensive' for turn in turns)
    assert sum(text.toxic for text in human) == expected
    # PROVENANCE: 21 offensive responses of DialoGPT, 46 of GPT-3
    assert sum(text.toxic for text in texts) == expected + 21 + 46
