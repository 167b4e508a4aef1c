"""
`validate_scorer`: FED against people's judgements, of chats in a file or of a run.
"""

import pytest

from parlai_ext.bench.agreement import VariantAgreement, agreement_table
from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.commands.validate_scorer import ValidateScorer
from parlai_ext.core.records import record_from_json
from parlai_ext.data.chat_logs import read_dialogues
from parlai_ext.store import RunFolder
from tests.support.small_run import files_of, small_config
from tests.support.tiny_models import sentences
from tests.support.user_error import user_error
from tests.support.written import written

pytestmark = pytest.mark.usefixtures('registered')
JUDGE = {'judge_model_file': 'zoo:mini/judge/model'}


def acts(*said):
    return [[{'id': who, 'text': text}] for who, text in said]


@pytest.mark.parametrize(
    'text, problem',
    [
        ('', 'no dialogue in it'),
        ('{', ':1: not JSON'),
        ('\n[]', ': no dialogue in it'),
        ('{"dialog": []}\n3', ':2: a JSON object is expected'),
        (
            '{"dialog": [], "dialogue_id": "2"}\n{"dialog": []}',
            ":2: 'dialogue_id': '2' is there already",
        ),
    ],
)
def test_a_wrong_dialogues_file_is_one_line(tmp_path, text, problem):
    path = written(tmp_path, 'd.jsonl', text)
    with user_error(f'{path}.*{problem}'):
        read_dialogues(path)


def judged_chats(folder):
    """
    Write people's chats with two bots, and what they said of them.
    """
    words = iter(sentences(60))
    records, rows = [], ['system,dimension,value,rater,dialogue_id']
    for i in range(8):
        bot = ('step-x', 'step-y')[i % 2]
        said = [(('human', bot)[k % 2], next(words)) for k in range(6)]
        dialog = acts(*said)
        dialog[1][0]['given'] = True
        records.append({'dialogue_id': f'c{i}', 'dialog': dialog})
        rows += [f'{bot},Overall,{1 + (i + r) % 5},r{r},c{i}' for r in range(3)]
    people = written(folder, 'people.csv', '\n'.join(rows))
    return str(written(folder, 'chats.jsonl', records)), str(people)


def test_command_reads_a_file_of_chats(tmp_path, printed):
    chats, people = judged_chats(tmp_path)
    out = tmp_path / 'table.csv'
    given = {'dialogues_file': chats, 'human_scores': people, 'out': str(out)}
    result = ValidateScorer.main(config='fed_table1_demo', **given, **JUDGE)
    agreed = [record_from_json(VariantAgreement, row) for row in result['rows']]
    rows = {(row.level, row.variant): row for row in agreed}
    assert [rows['dialogue', v].n for v in ('FED', 'w/o neg', 'w/o pos')] == [8] * 3
    assert rows['system', 'FED'].reason.startswith('2 items have a score')
    assert 'polarity:both' in result['signature']
    [line, *_] = [x for x in printed().split('\n') if 'FED' in x]
    assert line.split()[:4] == ['Overall', 'FED', '8', '0']
    assert out.read_text() == agreement_table(agreed).csv()


@pytest.mark.parametrize(
    'given, words',
    [
        # a judge that is not there is not even looked for
        (
            {'judge_model_file': 'none', 'out': 'no/t.csv'},
            '^--out .*: there is no such folder$',
        ),
        ({'run_dir': 'r'}, '--run-dir: with --dialogues-file nothing'),
        ({'human_scores': None}, '--human-scores is needed'),
        # its judge is not reached
        (
            {'scorer': 'llm_pair'},
            'scorer llm_pair needs two responses',
        ),
        # the default judge reads with the encoder that it was learned with
        ({'scorer_option': ['encoder=./encoder']}, 'encoder: .* learned with mpnet'),
        (
            {'human_scores': 'other.csv'},
            'column system: .* human, step-x, step-y',
        ),
    ],
)
def test_what_cannot_be_validated_is_one_line(tmp_path, monkeypatch, given, words):
    monkeypatch.chdir(tmp_path)
    chats, people = judged_chats(tmp_path)
    written(tmp_path, 'other.csv', 'system,dimension,value\nstep-z,Overall,1')
    with user_error(words):
        ValidateScorer.main(
            **{'dialogues_file': chats, 'human_scores': people, **given}
        )


@pytest.mark.parametrize('of_file', [True, False])
def test_a_dimension_that_is_not_asked_is_told_before_the_work(tmp_path, of_file):
    run_dir = tmp_path / 'run'
    # a judge that is not there is not reached, and nothing is collected
    where = (
        {'dialogues_file': judged_chats(tmp_path)[0]}
        if of_file
        else {'run_dir': str(run_dir), 'config': small_config(tmp_path, partners=1)}
    )
    rows = 'system,dimension,value\nstep-50,Overal,1'
    people = written(tmp_path, 'people.csv', rows)
    with user_error("no 'Overal'; did you mean 'Overall'"):
        ValidateScorer.main(human_scores=str(people), **where)
    assert not list((run_dir / 'dialogues').glob('*/*'))


def test_command_collects_scores_and_goes_on(tmp_path):
    rows = ['system,dimension,value', 'step-50,Overall,1', 'step-150,Overall,2']
    people, run = written(tmp_path, 'people.csv', '\n'.join(rows)), tmp_path / 'run'
    given = {'run_dir': str(run), 'human_scores': str(people), 'check_sample': 4}
    config = small_config(tmp_path, partners=1)
    first = ValidateScorer.main(**given, config=config, num_dialogues=2)
    assert {row['level'] for row in first['rows']} == {'system'}
    before = files_of(run)
    again = ValidateScorer.main(**given)
    assert again == first == RunFolder.existing(run).read_json('agreement.json')
    assert files_of(run) == before


def test_imported_dialogues_agree_as_the_same_dialogues_of_a_file_do(tmp_path):
    chats, people = judged_chats(tmp_path)
    run = str(tmp_path / 'run')
    scorer = {'scorer': 'fed', **JUDGE}
    ImportDialogues.main(dialogues=[chats], humans='human', run_dir=run, **scorer)
    options = {'human_scores': people, 'bootstraps': 20, 'check_sample': 4}
    there = ValidateScorer.main(run_dir=run, **options)
    beside = ValidateScorer.main(dialogues_file=chats, **options, **scorer)
    assert there['rows'] == beside['rows']
    variants = {row['variant'] for row in there['rows'] if row['level'] == 'dialogue'}
    assert variants == {'FED', 'w/o neg', 'w/o pos'}
    assert RunFolder.existing(run).manifest.imported
