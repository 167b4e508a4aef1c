"""
`compare_safety`: recorded answers and systems that are asked, tables and the page.
"""

import pytest

from parlai_ext.commands.command import json_document
from parlai_ext.commands.compare_safety import CompareSafety
from parlai_ext.data.corpora import recorded_answers
from parlai_ext.toxic.comparison import PAGE
from tests.support.shared_data import shared
from tests.support.user_error import user_error
from tests.support.written import json_in, written

FIXED = 'agent:fixed_response,fixed_response={}'
TWO = [f'polite={FIXED.format("kind answer 0")}', f'fan={FIXED.format("i agree")}']
FAILING = ['bad=agent:tests.support.trial_agents:Raises']


@pytest.fixture
def files(tmp_path):
    written(tmp_path, 'words.txt', 'grunk\n')
    rows = ''.join(f'{i},train,MARKED prompt {i},kind answer {i}\n' for i in range(4))
    written(tmp_path, 'pairs.csv', 'id,split,toxic,answer\n' + rows)
    rows = ''.join(f'old,{i},a MARKED grunk\nold,{i},tea\n' for i in range(4))
    written(tmp_path, 'old.csv', 'system,id,answer\n' + rows)
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


def first_value(result, name):
    """
    Return the value of a measure's first system.
    """
    [row] = [row for row in result.rows if row.name == name]
    return row.values[0].value


def test_systems_that_are_asked_stand_beside_recorded_ones(files, printed):
    result = compare(files, systems=TWO)
    names = [system.name for system in result.systems]
    assert names == ['polite', 'fan', 'old']
    rows = {row.name: [one.value for one in row.values] for row in result.rows}
    assert (rows['toxic (words)'], rows['agrees']) == ([0, 0, 0.5], [0, 1, 0])
    # one answer to a prompt, and two
    assert any('distinct_2' in note for note in result.notes)
    assert 'MARKED' not in printed()
    assert 'MARKED' not in json_document(result, CompareSafety.with_texts)
    old = json_in(files / 'out' / 'comparison.json')['systems'][2]
    assert (old['name'], old['prompts'], old['answers']) == ('old', 4, 8)
    # `export_annotation` reads these, people's answers beside those of systems
    out = files / 'out'
    asked, human = (
        {(a.system, a.prompt) for a in recorded_answers(str(out / f'{name}.jsonl'))}
        for name in ('answers', 'references')
    )
    prompts = [f'MARKED prompt {i}' for i in range(4)]
    assert asked == {(name, prompt) for name in names for prompt in prompts}
    assert human == {('human', prompt) for prompt in prompts}


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


def test_recorded_answers_need_no_prompts_and_leave_no_older_references(files):
    references = files / 'out' / 'references.jsonl'
    compare(files)
    assert references.exists()
    rows = [
        {'prompt': f'Tea {i}?', 'answer': 'no', 'safety': check}
        for i, check in enumerate(['prompt', 'answer', 'none', 'none'])
    ]
    answers = [f'new={written(files, "new.jsonl", rows)}']
    result = compare(files, toxic_data=None, answers=answers)
    assert not references.exists()
    assert first_value(result, 'deflection') == pytest.approx(2 / 4)
    with user_error('--toxic-data'):
        compare(files, toxic_data=None)  # old.csv has ids only


def test_answers_that_are_read_again_give_the_same_measures(files):
    # to prompts 0 to 4: itself, what a layer says, nothing, a failure, itself
    rows = ''.join(f'{i},train,prompt {i},kind\n' for i in range(5))
    written(files, 'pairs.csv', 'id,split,toxic,answer\n' + rows)
    echo = ['echo=agent:tests.toxic.test_collect_answers:Echo']
    first = compare(files, systems=echo, answers=[])
    [system] = first.systems
    assert (system.prompts, system.answers, system.failed) == (4, 4, 1)
    texts = files / 'out' / 'answers.jsonl'
    written(files, 'again.jsonl', texts.read_text())
    again = compare(files, answers=[str(files / 'again.jsonl')])
    found = [
        {row.name: (row.n, row.values) for row in one.rows} for one in (first, again)
    ]
    assert found[0]['deflection'][1][0].value == 1 / 4
    assert found[0] == found[1]


def test_an_id_of_any_pair_with_a_prompt_names_it(files):
    rows = 'a,MARKED 1,kind\nb,marked 1!,good\nc,MARKED 2,fine\n'
    written(files, 'pairs.csv', 'id,toxic,answer\n' + rows)
    written(files, 'new.csv', 'system,id,answer\nx,b,tea\nx,c,one grunk\n')
    result = compare(files, answers=[str(files / 'new.csv')])
    found = [prompt.references for prompt in result.prompts]
    assert found == [('kind', 'good'), ('fine',)]
    assert first_value(result, 'toxic (words)') == pytest.approx(1 / 2)
    assert result.notes == []


@pytest.mark.parametrize(
    'given, words',
    [
        ({'out': None}, '--out'),
        ({'answers': []}, '--answers'),
        ({'systems': [f'old={FIXED.format("x")}']}, 'old'),
        ({'systems': FAILING, 'answers': []}, 'no system gave an answer.*RuntimeError'),
    ],
)
def test_what_does_not_fit_is_named(files, given, words):
    with user_error(words):
        compare(files, **given)
    with user_error('two systems are called old'):
        compare(files, answers=[str(files / 'old.csv')] * 2)


@pytest.mark.parametrize(
    'row, words', [('a,,x', 'old.csv:2: prompt'), ('a,other,x', '^a: ')]
)
def test_an_answer_that_does_not_fit_is_named(files, row, words):
    written(files, 'old.csv', f'system,prompt,answer\n{row}\n')
    with user_error(words):
        compare(files)


def test_the_bots_of_diasafety_have_ten_answers_to_each_of_1107_contexts():
    folder = shared('diasafety') / 'generations'
    answers = recorded_answers(f'plato={folder / "plato_base_test.json"}')
    assert len(answers) == 11_070 and {a.system for a in answers} == {'plato'}
