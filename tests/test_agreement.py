"""
`validate_scorer`: Table 1's three variants of FED against what people said.
"""

import csv
import json

import pytest
from scipy import stats

from parlai_ext import plugin
from parlai_ext.config import load_protocol
from parlai_ext.errors import UserError
from parlai_ext.records import Dialogue, HumanJudgement, Utterance
from parlai_ext.scoring.fed import Fed
from parlai_ext.scoring.fed_options import FedOptions
from parlai_ext.scoring.followups import FollowUps, Sides
from parlai_ext.scripts.validate_scorer import ValidateScorer
from parlai_ext.stages.agreement import agreement, variant_scores
from parlai_ext.stages.agreement_table import agreement_csv, agreement_table
from parlai_ext.stages.dialogues_file import read_dialogues
from parlai_ext.stages.score import build_scorer
from parlai_ext.store import RunFolder
from tests.scoring_samples import KnownJudge
from tests.small_run import files_of, small_config
from tests.tiny_models import make_generator, sentences

SETS = FollowUps({'Wit': Sides(('nice',), ('dull',)), 'Sense': Sides((), ('what?',))})
# how likely 'nice', 'dull' and 'what?' are after a bot's word
LIKELY = {
    'a': (-1.0, -9.0, -2.0),
    'b': (-2.0, -7.0, -5.0),
    'c': (-5.0, -8.0, -6.0),
    'd': (-8.0, -3.0, -7.0),
}
ORDER = ('nice', 'dull', 'what?')


@pytest.fixture(autouse=True)
def registered():
    plugin.register()


def chat(name, words, bot='bot'):
    """
    Return a dialogue in which people say hm and the bot one word at a time.
    """
    said = [u for w in words for u in (Utterance('human', 'hm'), Utterance(bot, w))]
    return Dialogue(name, 'p', 'o', tuple(said))


def tell(context, followup):
    return (LIKELY[context[-1]][ORDER.index(followup)],)


def scores_of(chats, followups=SETS):
    fed = Fed(KnownJudge(tell), followups, FedOptions(polarity='both'))
    indices = [range(1, len(one.utterances), 2) for one in chats]
    return variant_scores(zip(chats, fed.score(chats, indices), strict=True), fed)


def said(values, dimension='Wit', bot='bot', rater=None):
    return [HumanJudgement(bot, dimension, v, rater, d) for d, v in values.items()]


def found(chats, human, level='dialogue', **options):
    rows = agreement(
        scores_of(chats), human, source='people.csv', bootstraps=200, **options
    )['rows']
    return {
        (row['dimension'], row['variant']): row for row in rows if row['level'] == level
    }


CHATS = [chat('1', 'ab'), chat('2', 'c'), chat('3', 'd'), chat('4', 'b')]


def test_variants_are_praise_less_complaints_praise_and_complaints():
    scores = scores_of(CHATS)
    # dialogue 1: praise -1 and -2, complaints -9 and -7; means -1.5 and -8
    assert scores.of('FED', 'Wit')['bot', '1'] == pytest.approx(6.5)
    assert scores.of('w/o neg', 'Wit')['bot', '1'] == pytest.approx(-1.5)
    assert scores.of('w/o pos', 'Wit')['bot', '1'] == pytest.approx(8.0)


@pytest.mark.parametrize('variant', ['FED', 'w/o neg', 'w/o pos'])
def test_coefficients_are_those_of_scipy(variant):
    human = {'1': 3.0, '2': 1.0, '3': 2.0, '4': 5.0}
    row = found(CHATS, said(human))['Wit', variant]
    own = [scores_of(CHATS).of(variant, 'Wit')['bot', d] for d in human]
    people = list(human.values())
    assert row['spearman']['value'] == pytest.approx(
        stats.spearmanr(own, people).statistic
    )
    assert row['pearson']['value'] == pytest.approx(
        stats.pearsonr(own, people).statistic
    )


def test_without_praise_there_is_no_value_and_fed_is_the_complaints():
    # as Sensibleness in Table 1 of the paper
    rows = found(CHATS, said({'1': 1, '2': 2, '3': 4}, 'Sense'))
    assert rows['Sense', 'w/o neg']['spearman']['value'] is None
    assert rows['Sense', 'w/o neg']['reason'] == 'no positive follow-ups'
    whole, negative = rows['Sense', 'FED'], rows['Sense', 'w/o pos']
    assert whole['spearman'] == negative['spearman']


def test_raters_are_averaged_first():
    one = said({'1': 1, '2': 1, '3': 5, '4': 2}, rater='x')
    other = said({'1': 5, '2': 1, '3': 1, '4': 2}, rater='y')
    mean = said({'1': 3, '2': 1, '3': 3, '4': 2})
    assert found(CHATS, one + other) == found(CHATS, mean)


def test_a_system_is_the_mean_of_its_dialogues():
    chats = [chat('1', 'a'), chat('2', 'd')]
    chats += [chat(n, w, bot) for n, w, bot in (('3', 'b', 'B'), ('4', 'c', 'C'))]
    human = said({'1': 5, '2': 1}) + said({'3': 4}, bot='B') + said({'4': 9}, bot='C')
    row = found(chats, human, 'system')['Wit', 'w/o pos']
    # complaints: bot (9 + 3) / 2, B 7, C 8; people: 3, 4, 9
    expected = stats.pearsonr([6, 7, 8], [3, 4, 9]).statistic
    assert (row['n'], row['pearson']['value']) == (3, pytest.approx(expected))


def test_judgements_of_systems_have_no_dialogue_level():
    chats = [chat(w, w, w) for w in 'abc']
    human = [HumanJudgement(w, 'Wit', v) for w, v in zip('abc', (1, 3, 2), strict=True)]
    assert found(chats, human) == {}
    assert found(chats, human, 'system')['Wit', 'FED']['n'] == 3


def test_floors_are_no_part_of_it():
    chats = [*CHATS, chat('5', 'a', 'floor-x')]
    human = said({'1': 1, '2': 2, '3': 4})
    floor = said({'5': 5}, bot='floor-x')
    assert found(chats, human + floor) == found(chats, human)


def test_a_dialogue_without_a_score_is_dropped_and_counted():
    broken = Dialogue('5', 'p', 'o', CHATS[0].utterances, 'bot', 'empty reply')
    row = found([*CHATS, broken], said({'1': 1, '2': 2, '3': 4, '5': 5}))['Wit', 'FED']
    assert (row['n'], row['dropped']) == (3, 1)


@pytest.mark.parametrize(
    ('human', 'problem'),
    [
        (said({'1': 1}, 'Wits'), "column dimension: no 'Wits'; did you mean 'Wit'"),
        (said({'1': 1}, bot='bott'), "column system: no 'bott'; did you mean 'bot'"),
        (said({'9': 1}), "column dialogue_id: Wit: no such dialogue .*'9' of 'bot'"),
        (said({'1': 1, None: 2}), 'column dialogue_id: Wit: every row needs one'),
    ],
)
def test_judgements_that_fit_nothing_are_one_line(human, problem):
    with pytest.raises(UserError, match=f'people.csv: {problem}') as e:
        found(CHATS, human)
    assert '\n' not in str(e.value)


def test_some_judgements_that_fit_nothing_are_counted():
    human = said({'1': 1, '2': 2, '3': 3, '9': 3, '8': 3})
    result = agreement(scores_of(CHATS), human, source='', bootstraps=9)
    assert '2 judgements are of no scored dialogue or system' in result['notes']
    assert 'nobody judged: Sense' in result['notes']


def example():
    human = said({'1': 3, '2': 1, '3': 2, '4': 5})
    human += said({'1': 1, '2': 2, '3': 4}, 'Sense')
    return agreement(scores_of(CHATS), human, source='', bootstraps=50)


def test_table_is_narrow_and_says_what_is_missing():
    text = agreement_table(example())
    assert max(map(len, text.split('\n'))) <= 88
    assert 'w/o neg: no positive follow-ups' in text
    assert text.count('dialogue by dialogue') == 1


def test_csv_has_the_rows():
    rows = list(csv.DictReader(agreement_csv(example()).split('\n')))
    own = {(r['dimension'], r['variant']): r for r in rows if r['level'] == 'dialogue'}
    assert len(own) == 6
    assert own['Sense', 'w/o neg']['spearman'] == ''
    assert float(own['Wit', 'FED']['pearson']) == pytest.approx(
        found(CHATS, said({'1': 3, '2': 1, '3': 2, '4': 5}))['Wit', 'FED']['pearson'][
            'value'
        ],
        abs=1e-9,
    )


def lines(path, *records):
    path.write_text(''.join(json.dumps(one) + '\n' for one in records))
    return str(path)


def acts(*said):
    return [[{'id': who, 'text': text}] for who, text in said]


def test_dialogues_are_named_by_id_or_line(tmp_path):
    path = lines(
        tmp_path / 'd.jsonl',
        {'dialog': acts(('human', 'Hi\u2028!'), ('bot', 'Oh'))},
        {'dialog': [], 'dialogue_id': 'x'},
    )
    one, other = read_dialogues(path)
    assert (one.id, other.id) == ('1', 'x')
    assert one.utterances == (Utterance('human', 'Hi\u2028!'), Utterance('bot', 'Oh'))


@pytest.mark.parametrize(
    ('text', 'problem'),
    [
        ('', 'no dialogue in it'),
        ('{', ':1: not JSON'),
        ('\n[]', ':2: an object is expected'),
        ('{"dialog": 3}', ':1: key dialog: a list of lists'),
        ('{"dialog": [[3]]}', ':1: key dialog: an act is expected, not 3'),
        ('{"dialog": [[{"id": "a"}]]}', ":1: key dialog: an act without a text 'text'"),
        (
            '{"dialog": [], "dialogue_id": "2"}\n{"dialog": []}',
            ":2: key dialogue_id: '2' is there already",
        ),
    ],
)
def test_a_wrong_dialogues_file_is_one_line(tmp_path, text, problem):
    path = tmp_path / 'd.jsonl'
    path.write_text(text)
    with pytest.raises(UserError, match=problem) as e:
        read_dialogues(path)
    assert '\n' not in str(e.value) and str(path) in str(e.value)


@pytest.fixture(scope='module')
def model_file(tmp_path_factory):
    return make_generator(tmp_path_factory.mktemp('judge'), label_truncate=64)


def judged_chats(folder):
    """
    Write people's chats with two bots, and what they said of them.
    """
    words = iter(sentences(60))
    records, rows = [], ['system,dimension,value,rater,dialogue_id']
    for i in range(8):
        bot = ('step-x', 'step-y')[i % 2]
        said = [(('human', bot)[k % 2], next(words)) for k in range(6)]
        records.append({'dialogue_id': f'c{i}', 'dialog': acts(*said)})
        rows += [f'{bot},Overall,{1 + (i + r) % 5},r{r},c{i}' for r in range(3)]
    people = folder / 'people.csv'
    people.write_text('\n'.join(rows))
    return lines(folder / 'chats.jsonl', *records), str(people)


def test_command_reads_a_file_of_chats(tmp_path, capsys, model_file):
    chats, people = judged_chats(tmp_path)
    out = tmp_path / 'table.csv'
    result = ValidateScorer.main(
        config='fed_table1_demo',
        dialogues_file=chats,
        human_scores=people,
        judge_model_file=model_file,
        bootstraps=100,
        out=str(out),
    )
    rows = {(r['level'], r['variant']): r for r in result['rows']}
    assert [rows['dialogue', v]['n'] for v in ('FED', 'w/o neg', 'w/o pos')] == [8] * 3
    assert rows['system', 'FED']['reason'].startswith('2 items have a score')
    assert 'polarity:both' in result['signature']
    assert 'Overall (n 8)' in capsys.readouterr().out
    assert out.read_text() == agreement_csv(result)


def test_command_gives_what_each_polarity_gives_alone(tmp_path, model_file):
    chats, people = judged_chats(tmp_path)
    common = {'dialogues_file': chats, 'judge_model_file': model_file}
    result = ValidateScorer.main(**common, human_scores=people, bootstraps=9)
    dialogues = read_dialogues(chats)
    people_mean = {
        f'c{i}': sum(1 + (i + r) % 5 for r in range(3)) / 3 for i in range(8)
    }
    for variant, polarity in {'w/o neg': 'positive', 'w/o pos': 'negative'}.items():
        config = {'judge_model_file': model_file, 'polarity': polarity}
        alone = build_scorer(config).score(dialogues, [[1, 3, 5]] * 8)
        means = [
            sum(s.value for s in one.scores if s.dimension == 'Overall') / 3
            for one in alone
        ]
        expected = stats.pearsonr(means, list(people_mean.values())).statistic
        [row] = [
            r
            for r in result['rows']
            if (r['level'], r['variant']) == ('dialogue', variant)
        ]
        assert row['pearson']['value'] == pytest.approx(expected, abs=1e-6)


def test_command_without_human_scores_is_one_line():
    with pytest.raises(UserError, match='--human-scores is needed'):
        ValidateScorer.main(config='fed_table1_demo')


def test_command_names_the_speakers_when_no_judged_system_speaks(tmp_path, model_file):
    chats, people = judged_chats(tmp_path)
    other = tmp_path / 'other.csv'
    other.write_text('system,dimension,value\nstep-z,Overall,1')
    with pytest.raises(UserError, match='column system: .* human, step-x, step-y'):
        ValidateScorer.main(
            dialogues_file=chats, human_scores=str(other), judge_model_file=model_file
        )


@pytest.mark.parametrize('name', ['fed_table1_2022', 'fed_table1_demo'])
def test_shipped_protocols_ask_both_kinds_of_followups(name):
    assert load_protocol(name).scorer['polarity'] == 'both'


def test_command_collects_scores_and_goes_on(tmp_path):
    run_dir = str(tmp_path / 'run')
    whole = tmp_path / 'systems.csv'
    whole.write_text('system,dimension,value\nstep-50,Overall,1\nstep-150,Overall,2\n')
    first = ValidateScorer.main(
        config=small_config(tmp_path, partners=1),
        run_dir=run_dir,
        num_dialogues=2,
        human_scores=str(whole),
        bootstraps=9,
    )
    assert {row['level'] for row in first['rows']} == {'system'}
    run = RunFolder.existing(run_dir)
    people = tmp_path / 'people.csv'
    rows = [
        f'{d.utterances[0].speaker},Overall,{i % 3},{d.id}'
        for i, d in enumerate(run.iter_dialogues())
    ]
    people.write_text('\n'.join(['system,dimension,value,dialogue_id', *rows]))
    before = files_of(run.root / 'dialogues') | files_of(run.root / 'scores')
    again = ValidateScorer.main(run_dir=run_dir, human_scores=str(people), bootstraps=9)
    assert files_of(run.root / 'dialogues') | files_of(run.root / 'scores') == before
    counts = {r['variant']: r['n'] for r in again['rows'] if r['level'] == 'dialogue'}
    assert counts == {'FED': 4, 'w/o neg': 4, 'w/o pos': 4}
    assert json.loads((run.root / 'agreement.json').read_text()) == again
