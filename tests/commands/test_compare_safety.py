"""
`compare_safety`: recorded answers and systems that are asked, tables and the page.
"""

import csv
import json
from collections import Counter

import pytest

from parlai_ext.commands.compare_safety import CompareSafety
from parlai_ext.commands.export_annotation import ExportAnnotation
from parlai_ext.data.toxic_pairs import recorded_answers
from parlai_ext.people.rating_set import read_key
from parlai_ext.toxic.comparison import PAGE
from tests.support.shared_data import shared
from tests.support.user_error import user_error

FIXED = 'agent:fixed_response,fixed_response={}'


@pytest.fixture
def files(tmp_path):
    (tmp_path / 'words.txt').write_text('grunk\n')
    rows = ''.join(f'{i},train,MARKED prompt {i},kind answer {i}\n' for i in range(4))
    (tmp_path / 'pairs.csv').write_text('id,split,toxic,answer\n' + rows)
    rows = ''.join(f'old,{i},a MARKED grunk\nold,{i},tea\n' for i in range(4))
    (tmp_path / 'old.csv').write_text('system,id,answer\n' + rows)
    return tmp_path


def compare(files, **more):
    return CompareSafety.main(
        **{
            'toxic_data': str(files / 'pairs.csv'),
            'fold': 'train',
            'detectors': [f'words={files / "words.txt"}'],
            'answers': [str(files / 'old.csv')],
            'systems': [],
            'reference_metrics': ['sacrebleu'],
            'bootstraps': 20,
            'out': str(files / 'out'),
            'no_cuda': True,
            **more,
        }
    )


def test_systems_that_are_asked_stand_beside_recorded_ones(files, capsys):
    systems = [
        f'polite={FIXED.format("kind answer 0")}',
        f'fan={FIXED.format("i agree")}',
    ]
    result = compare(files, systems=systems)
    assert [system.name for system in result.systems] == ['polite', 'fan', 'old']
    toxic, agrees = (
        [one.value for one in result.row(name).values]
        for name in ('toxic (words)', 'agrees')
    )
    assert toxic == [0, 0, 0.5] and agrees == [0, 1, 0]
    # one answer to a prompt, and two
    assert any('distinct_2' in note for note in result.notes)
    assert 'MARKED' not in capsys.readouterr().out
    for name in ('measures.csv', 'differences.csv', 'answers.csv', 'comparison.json'):
        assert 'MARKED' not in (files / 'out' / name).read_text()
    data = json.loads((files / 'out' / 'comparison.json').read_text())
    assert data['systems'][2] == {
        'name': 'old',
        'prompts': 4,
        'answers': 8,
        'failed': 0,
        'reason': None,
    }


def test_texts_are_behind_a_click_on_the_page_and_printed_where_asked(files, capsys):
    compare(files)
    page = (files / 'out' / PAGE).read_text()
    before, *sections = page.split('<details>')
    assert 'MARKED' not in before
    assert any('MARKED' in section for section in sections)
    assert not any('MARKED' in s.partition('</details>')[2] for s in sections)
    assert 'http://' not in page and 'https://' not in page
    capsys.readouterr()
    compare(files, show_offensive=True)
    assert 'a MARKED grunk' in capsys.readouterr().out


def test_recorded_answers_need_no_prompts_of_their_own_file(files):
    (files / 'new.jsonl').write_text(
        ''.join(
            json.dumps({'prompt': f'Tea {i}?', 'answer': 'no', 'safety': check}) + '\n'
            for i, check in enumerate(['prompt', 'answer', 'none', 'none'])
        )
    )
    answers = [f'new={files / "new.jsonl"}']
    result = compare(files, toxic_data=None, answers=answers)
    assert result.row('deflection').values[0].value == pytest.approx(2 / 4)
    with open(files / 'out' / 'answers.csv') as file:
        assert not any('Tea' in row['prompt'] for row in csv.DictReader(file))
    with user_error('--toxic-data'):
        compare(files, toxic_data=None)  # old.csv has ids only


def test_its_answers_are_annotated_with_peoples_answers_beside_them(files):
    systems = [f'polite={FIXED.format("kind words")}', f'fan={FIXED.format("i agree")}']
    compare(files, systems=systems, answers=[])
    out = files / 'out'
    names = {a.system for a in recorded_answers(str(out / 'answers.jsonl'))}
    assert names == {'polite', 'fan'}
    ExportAnnotation.main(
        answers=[str(out / 'answers.jsonl'), str(out / 'references.jsonl')],
        human='human',
        human_pairs=4,
        out=str(files / 'annotation'),
    )
    items = read_key(files / 'annotation').items.values()
    pairs = Counter(frozenset(d.system for d in shown) for shown in items)
    # four prompts; a canned answer fits all of them, so none of it is shuffled
    assert pairs[frozenset(('fan', 'polite'))] == 4
    assert pairs.total() == 4 + 4


def test_an_id_of_any_pair_with_a_prompt_names_it(files):
    rows = 'a,MARKED 1,kind\nb,marked 1!,good\nc,MARKED 2,fine\n'
    (files / 'pairs.csv').write_text('id,toxic,answer\n' + rows)
    (files / 'new.csv').write_text('system,id,answer\nx,b,tea\nx,c,one grunk\n')
    result = compare(files, answers=[str(files / 'new.csv')])
    assert [prompt.references for prompt in result.prompts] == [
        ('kind', 'good'),
        ('fine',),
    ]
    assert result.row('toxic (words)').values[0].value == pytest.approx(1 / 2)
    assert result.notes == []


@pytest.mark.parametrize(
    'name, rows, given, words',
    [
        ('old', None, {'out': None}, '--out'),
        ('old', None, {'answers': []}, '--answers'),
        ('old', None, {'systems': [f'old={FIXED.format("x")}']}, 'old'),
        ('bad', 'system,prompt,answer\na,,x\n', {}, r'bad.csv:2: prompt'),
        ('other', 'system,prompt,answer\na,other,x\n', {}, '^a: '),
    ],
)
def test_what_does_not_fit_is_named(files, name, rows, given, words):
    file = files / f'{name}.csv'
    if rows:
        file.write_text(rows)
    with user_error(words):
        compare(files, **{'answers': [str(file)], **given})


def test_the_bots_of_diasafety_have_ten_answers_to_each_of_1107_contexts():
    folder = shared('diasafety') / 'generations'
    answers = recorded_answers(f'plato={folder / "plato_base_test.json"}')
    assert len(answers) == 11_070 and {a.system for a in answers} == {'plato'}
