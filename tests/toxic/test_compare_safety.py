"""
`compare_safety`: systems are asked prompts, what is measured of an answer, and the
tables and the page.
"""

import pandas as pd
import pytest
import sacrebleu
from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.commands.command import json_document
from parlai_ext.commands.compare_safety import CompareSafety
from parlai_ext.compat import prepare_parlai
from parlai_ext.core import System, UserError
from parlai_ext.data.corpora import Prompt, RecordedAnswer, ToxicPair, recorded_answers
from parlai_ext.models.handle import ModelHandle
from parlai_ext.systems import hub
from parlai_ext.toxic import collect_answers as collecting
from parlai_ext.toxic.collect_answers import collect_answers
from parlai_ext.toxic.comparison import (
    PAGE,
    bleu_values,
    compare_answers,
    comparison_files,
    distinct_values,
    prompts_of_pairs,
    safety_comparison_lines,
)
from parlai_ext.toxic.measures import (
    BLEU,
    MeasureOptions,
    corpus_bleu,
    load_measures,
)
from tests.support.interrupted import interrupted
from tests.support.on_cpu import CPU
from tests.support.shared_data import shared
from tests.support.user_error import user_error
from tests.support.written import json_in, rows_of_csv, written

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
    echo = [f'echo=agent:{HERE.format("Echo")}']
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


# Systems are asked prompts; what is there is not asked again.

HEARD = []
PROMPTS = [Prompt(f'id{i}', f'prompt {i}') for i in range(5)]
HERE = f'{__name__}:{{}}'


class Echo(Agent):
    """
    Answers what it heard; to prompt 1 as a safety layer, to prompt 2 nothing, and at
    prompt 3 it raises.
    """

    def observe(self, observation):
        self.observation = observation
        HEARD.append(observation['text'])
        return observation

    def act(self):
        text = self.observation['text']
        if text == 'prompt 3':
            raise ValueError('no')
        if text == 'prompt 2':
            text = ''
        check = 'prompt' if text == 'prompt 1' else 'none'
        return Message(id='Echo', text=text, safety=check)


class Broken(Echo):
    """
    Cannot go on at prompt 4.
    """

    def act(self):
        if self.observation['text'] == 'prompt 4':
            raise UserError('the endpoint is gone')
        return super().act()


@pytest.fixture(autouse=True)
def small_blocks(monkeypatch):
    prepare_parlai()
    monkeypatch.setattr(collecting, 'BLOCK', 2)
    HEARD.clear()


def ask(folder, *names, prompts=PROMPTS, **more):
    systems = [System(name, {'model': HERE.format(name)}) for name in names]
    return collect_answers(systems, prompts, folder, CPU, **more)


def test_an_answer_keeps_the_check_that_fired_and_why_there_is_no_text(tmp_path):
    answers, problems = ask(tmp_path, 'Echo')
    assert problems == []
    assert [(a.prompt_id, a.text, a.deflected) for a in answers] == [
        ('id0', 'prompt 0', None),
        ('id1', 'prompt 1', 'prompt'),
        ('id2', '', None),
        ('id3', None, None),
        ('id4', 'prompt 4', None),
    ]
    assert 'ValueError' in answers[3].reason


def test_a_killed_command_goes_on_after_the_last_whole_block(tmp_path):
    with interrupted(Echo, 'observe', 4):
        ask(tmp_path, 'Echo')
    HEARD.clear()
    ask(tmp_path, 'Echo')
    assert HEARD == ['prompt 4']
    ask(tmp_path, 'Echo')
    assert HEARD == ['prompt 4']
    # other prompts are asked anew
    ask(tmp_path, 'Echo', prompts=PROMPTS[:1])
    assert HEARD == ['prompt 4', 'prompt 0']


def test_a_system_that_is_not_there_or_cannot_go_on_is_named(tmp_path):
    with user_error('Nobody'):
        ask(tmp_path, 'Nobody', 'Echo')
    answers, problems = ask(tmp_path, 'Nobody', 'Broken', 'Echo', skip_missing=True)
    assert {answer.system for answer in answers} == {'Echo'} and len(answers) == 5
    nobody, broken = problems
    assert nobody.startswith('Nobody')
    assert 'Broken' in broken and 'the endpoint is gone' in broken


# What is measured of an answer.
#
# Systems compared: numbers by pencil, and no text in any table.


def load(tmp_path, metrics=(), **options):
    (tmp_path / 'words.txt').write_text('grunk\n')
    words = f'words={tmp_path / "words.txt"}'
    given = MeasureOptions((words,), metrics, **options)
    return load_measures(given, ModelHandle())


def values(measures, text, check=None, references=()):
    prompt = Prompt('1', 'cold soup', references)
    frame = measures.measure([(prompt, RecordedAnswer('a', '', text, check))])
    return frame.iloc[0].dropna()


@pytest.mark.parametrize(
    'text, name',
    [
        ('', 'non_answer'),
        ('?! …', 'non_answer'),
        ("I don't know.", 'non_answer'),
        ('i don’t know', 'non_answer'),
        ('You GRUNK!', 'toxic (words)'),
        ('Yes, soup is cold.', 'agrees'),
        ("Sorry, I'd rather not talk about that.", 'deflection'),
        ('Let’s change the subject, shall we?', 'deflection'),
        ("I don't know how she makes it.", None),
        ('We talk about soup.', None),
    ],
)
def test_an_answer_is_what_its_words_say(tmp_path, text, name):
    measures = load(tmp_path)
    of_answer = values(measures, text)
    counted = [key for key in measures.shares if of_answer[key]]
    assert counted == ([name] if name else [])
    assert of_answer['words'] == len(text.split())


def test_a_safety_layers_answer_is_a_deflection_and_a_failure_has_no_values(tmp_path):
    measures = load(tmp_path)
    assert values(measures, 'Nice day.', 'prompt')['deflection'] == 1
    assert values(measures, 'Nice day.')['deflection'] == 0
    assert values(measures, None).empty


def test_phrases_of_ones_own_replace_the_shipped_ones(tmp_path):
    (tmp_path / 'mine.yaml').write_text('- nice day\n')
    measures = load(tmp_path, deflections=str(tmp_path / 'mine.yaml'), stance='none')
    assert values(measures, 'Nice day.')['deflection'] == 1
    assert values(measures, "I'd rather not talk about that.")['deflection'] == 0
    assert 'agrees' not in values(measures, 'Yes.')


@pytest.mark.parametrize(
    'name, text, place',
    [
        ('mine.yaml', '- tea\n- 7\n', 'entry 2'),
        ('mine.txt', 'tea\n...\n', 'entry 2'),
        ('mine.json', '["tea", ""]', 'entry 2'),
        ('mine.json', '["tea", 7]', 'entry 2'),
        ('mine.txt', '\n', 'no entry'),
    ],
)
def test_a_phrase_that_no_answer_could_hold_is_refused(tmp_path, name, text, place):
    (tmp_path / name).write_text(text)
    with user_error(f'{name}.*{place}'):
        load(tmp_path, deflections=str(tmp_path / name), stance='none')


def test_bleu_of_all_answers_is_the_librarys(tmp_path):
    texts = ['The soup is cold today, my friend.', 'I like tea very much indeed', 'no']
    references = [
        ('The soup is cold, my friend.', 'It is cold today, my friend.'),
        ('I like coffee very much indeed',),
        ('yes it is',),
    ]
    rows = [
        (Prompt(text, 'x', given), RecordedAnswer('a', '', text))
        for text, given in zip(texts, references, strict=True)
    ]
    counts = load(tmp_path, ['sacrebleu']).measure(rows)['sacrebleu']
    columns = [[r[0] for r in references], [r[-1] for r in references]]
    wanted = pytest.approx(sacrebleu.corpus_bleu(texts, columns).score)
    assert corpus_bleu([*map(sum, zip(*counts, strict=True))]) == wanted
    assert bleu_values(counts).mean() == wanted


def test_metrics_with_references_have_no_value_without_one(tmp_path):
    measures = load(tmp_path, ['bleu_2,setting=words'])
    one = values(measures, 'cold tea', references=('cold tea', 'hot'))
    assert one['bleu_2'] == pytest.approx(100)
    assert 'bleu_2' not in values(measures, 'cold tea')


def test_a_metric_whose_library_is_not_there_is_a_line_and_no_number(
    tmp_path, uninstalled
):
    uninstalled('rouge_score.rouge_scorer')
    measures = load(tmp_path, ['rouge_l'])
    assert 'rouge_l' not in values(measures, 'tea', references=('tea',))
    [line] = measures.missing
    assert line.startswith('rouge_l')


def test_metrics_that_nobody_asked_for_download_nothing(monkeypatch):
    def ask(*args):
        raise AssertionError(f'asked for {args}')

    monkeypatch.setattr(hub, 'fetch_weights', ask)
    monkeypatch.setattr(hub, 'is_reachable', ask)
    monkeypatch.setattr(hub, 'cached_weights', lambda *args: None)
    options, metrics = MeasureOptions(stance='none'), ['sacrebleu', 'bleurt']
    measures = load_measures(options, ModelHandle(), default_metrics=metrics)
    assert measures.bleu is not None
    [line] = measures.missing
    assert line.startswith('bleurt: hf:') and '--reference-metrics bleurt' in line


@pytest.mark.parametrize(
    'metric', ['rouge_x', 'fed', 'rouge_l,steemer=true', 'sacrebleu,lowercase=true']
)
def test_a_name_that_means_nothing_is_an_error(tmp_path, metric):
    with user_error(metric.partition(',')[0]):
        load(tmp_path, [metric])


# --- systems compared -----------------------------------------------------------------


SHARES = ['toxic (words)', 'deflection']


@pytest.fixture
def comparison():
    prompts = [Prompt(str(i), f'MARKED {i}') for i in range(4)]
    # of each system and prompt an answer for each digit, 1 for a toxic one
    flags = {'a': ('11', '10', '00', '11'), 'b': ('00', '00', '00', '')}
    rows = [
        (name, str(i), f'MARKED {i}', 'MARKED text', *[None] * 3, float(flag), 0.0, 2.0)
        for name, of_system in flags.items()
        for i, of_prompt in enumerate(of_system)
        for flag in of_prompt
    ]
    about = ('system', 'prompt', 'asked', 'text', 'reason', 'safety', BLEU)
    answers = pd.DataFrame(rows, columns=[*about, *SHARES, 'words'])
    return compare_answers(prompts, answers, SHARES, bootstraps=50)


def test_a_share_is_the_mean_over_prompts_of_the_share_of_answers(comparison):
    rows = {row.name: row for row in comparison.rows}
    row = rows['toxic (words)']
    a, b = row.values
    assert (a.value, b.value) == (pytest.approx(2.5 / 4), 0)
    assert row.n == [4, 3]
    assert rows['any toxic (words)'].values[0].value == pytest.approx(3 / 4)
    [one] = row.differences  # which are paired
    assert one.n == 3 and one.difference == pytest.approx(1.5 / 3)


def test_tables_hold_every_number_and_no_text(comparison):
    files = comparison_files(comparison, [])
    names = ('measures.csv', 'differences.csv', 'answers.csv', 'comparison.json')
    texts = [files[name] for name in names] + safety_comparison_lines(comparison)
    assert not any('MARKED' in text for text in texts)
    measures, differences, answers = map(rows_of_csv, texts[:3])
    assert float(measures[0]['value']) == 0.625 and measures[0]['answers'] == '8'
    assert float(differences[0]['difference']) == 0.5
    assert len(answers) == 14


def test_prompts_of_two_files_with_the_same_ids_stay_apart():
    pairs = [
        ToxicPair('1', 'a', 'x'),
        ToxicPair('1', 'b', 'y'),
        ToxicPair('2', 'a', 'z'),
    ]
    a, b = prompts_of_pairs(pairs)
    assert (a.id, a.references, b.references) == ('2', ('x', 'z'), ('y',))
    assert '1' not in (b.id, *a.other_ids)


def test_distinct_2_is_the_share_of_different_word_pairs():
    # pairs: a b, b c; a b; b c, c d; 3 different ones of 5
    values = distinct_values(pd.Series(['a b c', 'A, b!', 'b c d'], list('123')))
    assert values.mean() == pytest.approx(3 / 5)
    assert 'a failure' not in distinct_values(
        pd.Series(['a b c', 'b c d', None], ['1', '2', 'a failure'])
    )
    same = distinct_values(pd.Series(['a b c'] * 4, list('1234')))
    # whatever prompt is left out, 2 of 6 are different: no variance
    assert same.to_list() == pytest.approx([2 / 8] * 4)
