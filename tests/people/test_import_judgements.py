"""
The command `import_judgements`: answers, of pages and of crowdsourcing tasks, become
judgements and a ranking.
"""

import json
import random
import tracemalloc
from itertools import combinations

import numpy as np
import pytest

from parlai_ext.commands.import_dialogues import ImportDialogues
from parlai_ext.commands.import_judgements import ImportJudgements
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.rate_dialogues import RateDialogues
from parlai_ext.core import HumanJudgement
from parlai_ext.data.judged import read_card
from parlai_ext.files import read_human_scores
from parlai_ext.people.given_answers import (
    GivenAnswer,
    annotator_notes,
    judgements_of,
    read_crowd_answers,
)
from parlai_ext.people.ranking import (
    Comparison,
    Judgements,
    people_lines,
    rank_by_people,
    rating_draws,
    unit_means,
    win_shares,
)
from parlai_ext.people.rating_set import RatingKey, read_questionnaire
from parlai_ext.ranking.intervals import Sampling, draw_means
from parlai_ext.store import RunFolder
from parlai_ext.view.progress import bar_of
from tests.support.model_chats import SAID, write_chat
from tests.support.report_example import example_run
from tests.support.shared_data import shared
from tests.support.simulated_annotators import (
    answers_file,
    ranked_names,
    read_key,
    scores_by_system,
)
from tests.support.user_error import user_error
from tests.support.written import csv_rows, written

# the example run scores its second target above its first, and so on
STRENGTHS = {'quill': 1.0, 'raven': 2.5, 'tern': 4.0}
OPENERS = [f'opener {k}' for k in range(8)]


@pytest.fixture
def run(tmp_path):
    return example_run(tmp_path / 'run', tuple(STRENGTHS), openers=OPENERS).root


@pytest.fixture
def answers(tmp_path):
    (tmp_path / 'answers').mkdir()
    return tmp_path / 'answers'


def collect_answers(
    run, answers, annotators=6, questionnaire='overall_pair', **options
):
    RateDialogues.main(run_dir=run, questionnaire=questionnaire, **options)
    key = read_key(run)
    for k in range(annotators):
        answers_file(answers, key, f'annotator {k}', STRENGTHS)
    return key


def give(
    run, answers, answer, *, dimension='Overall', changed=(), who='Ann', **options
):
    """
    Make a rating set, and let somebody give the answer that a function of (number,
    shown dialogues) says about each item; return the key.
    """
    key = collect_answers(run, answers, 0, **{'num_items': 3, **options})
    rows = [
        {'item': item, 'dimension': dimension, **answer(number, shown)}
        for number, (item, shown) in enumerate(key['items'].items(), 1)
    ]
    answers_file(answers, key, who, STRENGTHS, **{'answers': rows, **dict(changed)})
    return key


LIKERT = {'questionnaire': 'likert_2022', 'ask': ('Overall',)}


def import_all(run, answers, **options):
    return ImportJudgements.main(
        run_dir=run, answers=[answers], bootstraps=200, **options
    )


@pytest.mark.parametrize('questionnaire', ['overall_pair', 'likert_2022'])
def test_simulated_annotators_recover_the_planted_order(run, answers, questionnaire):
    collect_answers(run, answers, questionnaire=questionnaire)
    for ranking in import_all(run, answers):
        assert ranked_names(ranking) == ['tern', 'raven', 'quill']
        assert len({standing.group for standing in ranking.standings}) > 1
        assert ranking.alpha.value > 0.2
        assert ranking.halves_systems.value > 0.8


def test_rank_systems_reads_what_is_written(run, answers):
    collect_answers(run, answers)
    import_all(run, answers)
    human = run / 'people' / 'judgements' / 'judgements.csv'
    ranking = RankSystems.main(run_dir=run, human_scores=human, max_failed_share=1.0)
    agreement = ranking.reference['Overall']
    assert (agreement.kind, agreement.spearman.value) == ('human', pytest.approx(1.0))


def test_a_pair_gives_one_to_the_winner_and_nothing_to_the_loser(run, answers):
    changed = {'annotator': '=1+1'}  # which a spreadsheet takes for a formula
    key = give(run, answers, lambda *_: {'answer': 'b'}, changed=changed)
    import_all(run, answers)
    path = run / 'people' / 'judgements' / 'judgements.csv'
    assert ",'=1+1," in path.read_text()
    won = {(r.system, r.dialogue_id): r.value for r in read_human_scores(path)}
    for shown in key['items'].values():
        ids = [(one['system'], one['dialogue_id']) for one in shown]
        assert [won[one] for one in ids] == [0.0, 1.0]


def test_flags_are_a_dimension_of_which_fewer_are_better(run, answers):
    def flag_raven(number, shown):
        flags = [s for s, d in zip('ab', shown, strict=True) if d['system'] == 'raven']
        return {'answer': ('unrelated', 'tie')[number % 2], 'flags': flags}

    options = {'questionnaire': 'answer_pair', 'num_items': 40}
    give(run, answers, flag_raven, dimension='Answer', **options)
    flagged, preferred = import_all(run, answers)
    shares = {s.system: s.score for s in flagged.standings}
    assert (flagged.dimension, flagged.higher_is_better) == ('Flagged', False)
    assert shares == {'quill': 0, 'raven': 1, 'tern': 0}
    # either is half a win for both
    assert [s.score for s in preferred.standings] == pytest.approx([0.5] * 3)


def test_of_two_answers_the_one_that_was_saved_later_counts(run, answers, printed):
    for saved, value in ((2.0, '5'), (1.0, '1')):
        changed = {'saved': saved}
        give(run, answers, lambda *_, v=value: {'answer': v}, changed=changed, **LIKERT)
        (answers / 'Ann.json').rename(answers / f'Ann at {saved}.json')
    (ranking,) = import_all(run, answers)
    assert [s.score for s in ranking.standings] == [5.0] * 3
    assert ranking.num_answers == 3
    assert 'note: given again, so that the last one counts: 3 answers' in printed()


def test_answers_about_a_run_of_other_texts_are_refused(run, answers, tmp_path):
    # the same systems and openers, so that all dialogues have the same ids
    other = example_run(tmp_path / 'b', (*STRENGTHS,), openers=OPENERS, lines=['Oh!'])
    key = collect_answers(other.root, answers, 1, num_items=3)
    RateDialogues.main(run_dir=run, questionnaire='overall_pair', num_items=3)
    assert read_key(run)['items'] == key['items']
    with user_error('rating_set'):
        import_all(run, answers)


def test_a_dimension_on_two_scales_is_refused():
    keys = {
        name: RatingKey(**vars(read_questionnaire(name)), rating_set=name, items={})
        for name in ('overall_pair', 'likert_2022', 'chatmatch_2022')
    }
    for one, other in combinations(keys, 2):  # 0 and 1, 1 to 5, 1 to 7
        given = [GivenAnswer('x', 'Overall', 'a', rating_set=s) for s in (one, other)]
        with user_error('Overall was asked on two scales'):
            judgements_of(given, keys, [])


def test_nothing_is_left_of_an_earlier_import(run, answers, printed):
    collect_answers(run, answers, 1)
    import_all(run, answers)
    rows = 'system,dimension,value,rater,dialogue_id\nquill,Overall,1,x,of_no_run\n'
    path = written(answers, 'other.csv', rows)
    ImportJudgements.main(run_dir=run, format='csv', answers=[path])
    names = {path.name for path in (run / 'people' / 'judgements').iterdir()}
    assert names == {'judgements.csv', 'people.json'}
    note = 'no whole dialogue of a target of the run: 1 of 1'
    assert note in printed()
    shown = read_key(run)['items'].values()
    known = next(one['dialogue_id'] for two in shown for one in two)
    path.write_text(rows.replace('quill', 'nobody').replace('of_no_run', known))
    ImportJudgements.main(run_dir=run, format='csv', answers=[path])
    assert note in printed()


def test_annotators_who_do_not_read_are_named():
    def given(name, answers):
        return [
            GivenAnswer(str(k), 'Overall', one, 'ab'[k % 2], annotator=name)
            for k, one in enumerate(answers)
        ]

    # ten of ten: 3 times 2 / 2**10, below 0.05; nine of ten: 3 times 22 / 2**10
    said = {'always\nfirst': 'ab' * 5, 'nine': 'ab' * 4 + 'aa', 'copy': 'ab' * 4 + 'aa'}
    every = [one for name, row in said.items() for one in given(name, row)]
    assert list(annotator_notes([*every, *given('tired', ['tie'] * 10)])) == [
        'the side that stood first was preferred in 28 of 30 answers for one side',
        'the side that stood first was preferred beyond chance, or avoided: '
        'always␊first 10 of 10',
        'one answer to all questions: tired',
        'the very same answers: copy, nine',
    ]


def test_dimensions_are_chosen_and_renamed(run, answers):
    collect_answers(run, answers, 2, questionnaire='acute', num_items=3)
    rankings = import_all(
        run, answers, dimensions=('Engaging',), rename=('Engaging=Overall',)
    )
    assert [ranking.dimension for ranking in rankings] == ['Overall']


def test_the_judged_set_is_one_that_the_bench_reads(run, answers):
    collect_answers(run, answers, 3, questionnaire='likert_2022', num_items=6)
    import_all(run, answers)
    folder = run / 'people' / 'judgements'
    judged = read_card(str(folder / 'judged.yaml')).read(folder / 'judged.jsonl')
    rows = csv_rows(folder / 'judgements.csv')
    counts = judged.counts()
    assert (counts['items'], counts['annotations']) == (6, len(rows))
    item = judged.items[0]
    assert item.speakers == (item.system, 'user') * 3
    about = {'dialogue_id': item.id, 'dimension': 'Fluency'}.items()
    values = [float(row['value']) for row in rows if about <= row.items()]
    assert item.human('Fluency') == pytest.approx(np.mean(values))


@pytest.mark.parametrize(
    'change, place',
    [
        ({'format': 'something'}, 'format'),
        ({'rating_set': '0123'}, 'rating_set'),
        ({'annotator': ' '}, 'annotator'),
        ({'answers': 3}, 'answers'),
        ({'item': 'x'}, r'answers\[0\].item'),
        ({'answer': 'tie '}, r'answers\[0\].answer'),
    ],
)
def test_a_mistake_in_a_file_is_refused_by_its_place(run, answers, change, place):
    said = {k: v for k, v in change.items() if k in ('item', 'answer')}
    changed = {} if said else change
    give(run, answers, lambda *_: {'answer': 'a', **said}, changed=changed)
    with user_error(rf'Ann\.json: .*{place}'):
        import_all(run, answers)


@pytest.mark.parametrize(
    'options, place',
    [
        ({'rename': ('Overal=Fluency',)}, '--rename'),
        ({'dimensions': ('Overal',)}, '--dimensions'),
        ({'questionnaire': 'acute'}, '--questionnaire'),
        ({'questionnaire': 'acute', 'format': 'csv'}, '--questionnaire'),
    ],
)
def test_a_wrong_option_and_no_answers_are_refused(run, answers, options, place):
    with user_error('--answers'):
        import_all(run, answers)
    collect_answers(run, answers, 1, num_items=3)
    with user_error(place):
        import_all(run, answers, **options)


def test_the_order_of_the_files_changes_nothing(run, answers):
    collect_answers(run, answers, 4, num_items=9)
    paths, contents = [*answers.glob('*.json')], set()
    for order in (1, -1):
        ImportJudgements.main(run_dir=run, answers=paths[::order], bootstraps=50)
        contents.add((run / 'people' / 'judgements' / 'people.json').read_text())
    [content] = contents
    assert json.loads(content)[0]['dimension'] == 'Overall'


# ----------------------------------------------------- answers faster than one reads


def test_fast_answers_are_named_by_annotator_and_left_out_where_that_is_asked_for(
    run, answers, printed
):
    times = {'Ann': (0.3, 0.3, 8), 'Bob': (5, 2, 1.9), 'Cem': (5, 6, None)}
    for who, took in times.items():

        def answer(k, _, took=took):
            return {'answer': 'a', 'seconds': took[k - 1]}

        give(run, answers, answer, who=who)
    (ranking,) = import_all(run, answers)
    told = printed()
    assert ranking.num_answers == 9
    assert '3 of 9 answers were given in less than 2 s' in told
    assert '(Ann 2 of 3, Bob 1 of 3); they are counted; --drop-fast true' in told
    assert 'Cem' not in told
    import_all(run, answers, min_seconds=0)
    # nothing is said of answers that took their time
    assert 'less than' not in printed()
    (ranking,) = import_all(run, answers, drop_fast=True, min_seconds=1.0)
    assert ranking.num_answers == 7
    (answers / 'Cem.json').unlink()
    with user_error(r'no answer .* 6 of 6 answers'):
        import_all(run, answers, drop_fast=True, min_seconds=9.0)


# --- chats with people, rated by others -----------------------------------------------


SYSTEMS = {'good': 4.0, 'fair': 2.0, 'poor': 0.0}


@pytest.fixture
def chats(tmp_path):
    folder = tmp_path / 'chats'
    folder.mkdir()
    for system in SYSTEMS:
        for k in range(6):
            name = f'{system}{k}'
            write_chat(folder, name, system=system, worker=f'worker {k}')
    return folder


def import_chats(tmp_path, chats, **options):
    run = tmp_path / 'run'
    ImportDialogues.main(dialogues=[chats], run_dir=run, scorer='length', **options)
    return run


def test_a_chat_becomes_a_dialogue_of_a_person_with_the_system(tmp_path, chats):
    run = RunFolder.existing(import_chats(tmp_path, chats))
    assert set(run.manifest.targets) == set(SYSTEMS)
    (dialogue,) = [one for one in run.iter_dialogues() if one.id == 'good0']
    assert dialogue.speakers == ('human', 'good') * 2
    assert dialogue.texts == ('Hi!', *SAID)
    assert [u.given for u in dialogue.utterances] == [True, False] * 2


def test_an_opening_that_parlai_put_into_the_systems_mouth_is_not_judged(tmp_path):
    # blended_skill_talk: both begin with an utterance of the data set
    said = [{'agent_idx': k, 'text': f'said {k}', 'id': 'x'} for k in (0, 1)]
    seeds = [{**turn, 'fake_start': True} for turn in said]
    personas = [['I like tea.'], ['I like dogs.']]
    path = write_chat(tmp_path, '7', dialog=seeds + said, personas=personas)
    run = RunFolder.existing(import_chats(tmp_path, path))
    (dialogue,) = run.iter_dialogues()
    assert [u.given for u in dialogue.utterances] == [True, True, True, False]


@pytest.mark.parametrize(
    'changed, place',
    [
        ({'bad_workers': ['w1']}, 'bad_live.json:1: a chat of annotators'),
        ({'acceptability_violations': ['safety']}, 'bad_live.json:1: a chat with a'),
        ({'task_description': {}}, "bad_live.json:1: task_description: 'model_nick"),
        ({'dialog': [{'text': 'Hi!'}]}, r'bad_live.json:1: dialog\[0\]: an agent_idx'),
    ],
)
def test_a_chat_of_no_use_is_refused_or_left_out(tmp_path, chats, changed, place):
    write_chat(chats, 'bad', **changed)
    with user_error(place):
        import_chats(tmp_path, chats)
    run = RunFolder.existing(import_chats(tmp_path, chats, skip_bad_rows=True))
    assert run.manifest.imported.left_out == 1


def test_others_rate_the_chats_and_nobody_their_own(tmp_path, chats):
    run = import_chats(tmp_path, chats)
    RateDialogues.main(
        run_dir=run, questionnaire='likert_2022', ask=('Overall',), num_items=18
    )
    key = read_key(run)
    answers = tmp_path / 'answers'
    answers.mkdir()
    for rater in ('worker 0', 'worker 1', 'somebody else'):
        answers_file(answers, key, rater, SYSTEMS)
    (ranking,) = ImportJudgements.main(
        run_dir=run, answers=[answers], chats=[chats], bootstraps=20
    )
    assert ranked_names(ranking) == list(SYSTEMS)
    # three chats of each of two raters are their own
    rows = csv_rows(run / 'people/judgements/judgements.csv')
    raters = [(row['rater'], row['dialogue_id']) for row in rows]
    assert len(raters) == 3 * 18 - 2 * 3
    assert ('worker 0', 'good0') not in raters
    assert ('worker 0', 'good1') in raters


# What crowdsourcing tasks record

LONG = 'Who would you prefer to talk to for a long conversation?'
HEADER = 'worker,question,correct,winner,loser,is_onboarding'


def read(format, path):
    return read_crowd_answers(format, [str(path)], None)


def test_acutes_own_output_gives_its_own_grid():
    folder = shared('parlai_acute_eval') / 'expected_test_outputs'
    judgements = read('acute_eval', folder / 'test_full_csv.csv')
    (row,) = csv_rows(folder / 'test_significance_csv.csv')
    wins = [c.winner for c in judgements.comparisons]
    for k in '12':
        assert wins.count(row[f'model{k}']) == int(row[f'numwins{k}'])
    assert judgements.dimensions == ('Engaging',)
    # rows of the file name dialogues 4 and 7 first
    first = judgements.comparisons[0]
    names = first.first_dialogue, first.second_dialogue
    assert [name[:8] for name in names] == ['model1 4', 'model2 7']


def acute_file(folder, *rows):
    return written(folder, 'run.full.csv', '\n'.join([HEADER, *rows]))


def test_annotators_who_failed_the_onboarding_are_dropped(tmp_path):
    rows = [f'1,{LONG},False,bad,good,True', f'1,{LONG},-1,a,b,False']
    rows += [f'2,{LONG},True,good,bad,True', f'2,{LONG},-1,b,a,False']
    judgements = read('acute_eval', acute_file(tmp_path, *rows))
    assert [(c.rater, c.winner) for c in judgements.comparisons] == [('2', 'b')]
    assert '1 annotator failed' in judgements.notes[0]


def test_an_analysis_that_was_run_again_counts_once(tmp_path):
    rows = [f'1,{LONG},-1,{n},c,False,{k}' for k, n in enumerate('aab')]
    text = '\n'.join([f'{HEADER},pairing_id', *rows])
    written(tmp_path, 'monday.full.csv', text)
    written(tmp_path, 'tuesday.full.csv', f'{text}\n1,{LONG},-1,a,c,False,3')
    judgements = read('acute_eval', tmp_path)
    assert [c.winner for c in judgements.comparisons] == ['a', 'a', 'b', 'a']
    assert '3 answers' in judgements.notes[0]


def test_dialogues_of_two_batches_are_not_joined(tmp_path):
    for batch in 'xy':
        text = f'{HEADER},pairing_id,run_id\n1,{LONG},-1,a,b,False,3,{batch}'
        written(tmp_path, f'{batch}.full.csv', text)
    one, other = read('acute_eval', tmp_path).comparisons
    assert not {one.first_dialogue, one.item} & {other.first_dialogue, other.item}


@pytest.mark.parametrize(
    'row, column',
    [
        (f'1,{LONG},-1,a,a,False', 'loser'),
        (f'1,{LONG},-1,,a,False', 'winner'),
        (f'1,{LONG},-1,b,a,no', 'is_onboarding'),
    ],
)
def test_a_mistake_in_a_row_is_refused_by_line_and_column(tmp_path, row, column):
    with user_error(f'run.full.csv:2: column {column}'):
        read('acute_eval', acute_file(tmp_path, row))


def test_ratings_of_a_chat_answer_the_questions_in_order(tmp_path):
    write_chat(tmp_path, '7')
    ratings = read('model_chat', tmp_path).ratings
    [about] = {(r.system, r.rater, r.dialogue_id) for r in ratings}
    assert about == ('sysA', 'w1', '7')
    values = {'Fluency': 4, 'Specificity': 5, 'Sensibleness': 3, 'Overall': 4}
    assert {r.dimension: r.value for r in ratings} == values


def test_a_chat_that_failed_quality_control_is_dropped(tmp_path):
    write_chat(tmp_path, '6', bad_workers=['w1'])
    write_chat(tmp_path, '7', acceptability_violations=['all_caps'])
    write_chat(tmp_path, '8', acceptability_violations=[''])
    judgements = read('model_chat', tmp_path)
    assert {r.dialogue_id for r in judgements.ratings} == {'8'}
    assert [note[:20] for note in judgements.notes] == ['dropped: 1 dialogue '] * 2


@pytest.mark.parametrize('rating', ['4|5', '4|5|x|4'])
def test_a_wrong_rating_is_refused_by_its_place(tmp_path, rating):
    path = write_chat(tmp_path, '7', rating)
    with user_error(r'7_live\.json: dialog\[3\]\.final_rating'):
        read('model_chat', path)


def test_problems_of_turns_are_better_the_fewer_they_are(tmp_path):
    good, bad = (
        {'agent_idx': 1, 'text': 'x', 'problem_data': {'bucket_0': mark}}
        for mark in (False, True)
    )
    for name, turns in (('good', [good, good]), ('poor', [bad, good])):
        about = {'model_nickname': name}
        write_chat(tmp_path, name, dialog=turns, task_description=about)
    options = {'answers': [tmp_path], 'out': tmp_path / 'out'}
    (ranking,) = ImportJudgements.main(format='model_chat', **options, bootstraps=20)
    scores = {s.system: (s.rank, s.score) for s in ranking.standings}
    assert scores == {'good': (1, 0.0), 'poor': (2, 0.5)}


def agent_data(folder, annotator, known, marks):
    folder = folder / 'run' / 'hit' / annotator
    folder.mkdir(parents=True)
    turns = [
        {'text': 'Hi', 'agent_idx': 0, 'do_annotate': False},
        {'text': 'Yes', 'agent_idx': 1, 'do_annotate': True, 'other_metadata': known},
    ]
    turns[1] |= marks
    data = {'outputs': {'final_data': [{'subtask_index': 0, 'data': turns}]}}
    written(folder, 'agent_data.json', data)


def test_annotated_turns_are_those_of_the_exported_dialogue(tmp_path):
    known = {'system': 'sysA', 'dialogue_id': 'd1', 'utterance_index': 3}
    marks = {'bucket_0': True, 'none_all_good': False}
    agent_data(tmp_path, '11', known, marks)
    ratings = read('turn_annotations', tmp_path).ratings
    assert {(r.rater, r.dimension, r.value, r.utterance_index) for r in ratings} == {
        ('11', 'bucket_0', 1.0, 3),
        ('11', 'none_all_good', 0.0, 3),
    }
    agent_data(tmp_path, '12', None, marks)
    with user_error(r'data\[1\]\.other_metadata'):
        read('turn_annotations', tmp_path)


# The ranking by people: win shares by pencil, intervals by their properties; and a
# great many answers: work and memory grow with their number, and with nothing else.


def comparison(first, second, value, annotator, item):
    return Comparison(
        annotator, 'Overall', first, second, value, f'{first}{item}', second, item
    )


def test_three_wins_of_four_with_half_a_prior_win_each():
    # (3 + 0.5) / (4 + 1) = 0.7
    shares = win_shares(np.array([[[0.0, 3.0], [1.0, 0.0]]]))
    assert shares[0] == pytest.approx([0.7, 0.3], abs=1e-4)


def test_ratings_far_from_the_others_of_their_dialogue_count_nowhere():
    ratings = [
        HumanJudgement(system, 'Overall', value, rater, f'{system}{k}')
        for k in range(3)
        for system, given in {'a': (1, 2, 1, 5), 'b': (3, 3, 4, 4)}.items()
        for rater, value in zip('ABCD', given, strict=True)
    ]
    judged = Judgements(tuple(ratings)).without_outliers(1)
    (ranking,) = rank_by_people(judged, bootstraps=20)
    assert scores_by_system(ranking) == pytest.approx({'a': 4 / 3, 'b': 3.5})
    assert judged.notes[0].startswith('3 of 24 ratings')


def test_a_score_is_the_mean_of_all_ratings():
    # two dialogues over one opener, one over another: (5 + 5 + 2) / 3, not (5 + 2) / 2
    said = {'d1': 5, 'd2': 5, 'd3': 2}
    ratings = [HumanJudgement('a', 'Overall', v, 'Ann', d) for d, v in said.items()]
    openers = {'d1': 'o', 'd2': 'o', 'd3': 'p'}
    (ranking,) = rank_by_people(Judgements(tuple(ratings), contexts=openers), 20)
    assert scores_by_system(ranking) == {'a': 4}


@pytest.mark.parametrize('annotators', ['A', 'ABC', 'ABCD'])
def test_fewer_than_four_annotators_do_not_speak_for_others(annotators):
    games = [
        comparison('a', 'b', float(k < 9), annotator, str(k))
        for k in range(10)
        for annotator in annotators
    ]
    judged = Judgements(tuple(games))
    (ranking,) = rank_by_people(judged, bootstraps=200)
    (best, _) = sorted(ranking.standings, key=lambda standing: standing.rank)
    assert (best.low is not None) == (len(annotators) == 4)
    assert 0.5 < best.low_fixed < best.score < best.high_fixed
    printed = ' '.join(' '.join(people_lines(ranking)).split())
    assert ('these annotators only' in printed) == (best.low is None)


@pytest.mark.slow
def test_equal_systems_are_rarely_told_apart():
    # the claims hold for all pairs together at 5 %; 200 worlds of four equal systems,
    # 20 contexts and 8 annotators with tastes of their own for contexts
    names, worlds, false_claims = list('abcd'), 200, 0
    for world in range(worlds):
        rng = random.Random(world)
        games = []
        for item in range(20):
            first, second = rng.sample(names, 2)
            lean = rng.gauss(0, 0.3)
            for annotator in 'ABCDEFGH':
                value = float(rng.random() < 0.5 + lean)
                games.append(comparison(first, second, value, annotator, str(item)))
        judged = Judgements(tuple(games))
        (ranking,) = rank_by_people(judged, bootstraps=200)
        false_claims += any(s.rank_low != 1 for s in ranking.standings)
    # 5 % of 200 is 10; 18 has a chance of less than 1 % at 5 %
    assert false_claims <= 18


def test_no_table_of_annotators_by_dialogues_is_filled_up():
    # 500 annotators by 2,000 dialogues by 5 systems are 40 MB in a full table
    ratings = (
        HumanJudgement(f's{k % 5}', 'Overall', k % 7 % 5, f'a{k % 500}', f'd{k}')
        for k in range(2000)
    )
    judgements = Judgements(tuple(ratings))
    tracemalloc.start()
    try:
        rank_by_people(judgements, bootstraps=50)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < 40e6


def test_resamples_are_those_of_the_full_table():
    rng = np.random.default_rng(0)
    table = rng.integers(1, 6, (3, 4, 9)).astype(float)
    table[rng.random(table.shape) < 0.4] = np.nan
    ratings = [
        HumanJudgement(f's{i}', 'Overall', table[i, j, k], f'a{j}', f'd{i}-{k}')
        for i, j, k in zip(*np.nonzero(~np.isnan(table)), strict=True)
    ]
    contexts = {r.dialogue_id: r.dialogue_id.split('-')[1] for r in ratings}
    with bar_of('', None, progress=False) as bar:
        draws = rating_draws(
            unit_means(ratings), contexts, Sampling(50, 3, count=bar.update)
        )
    expected = draw_means(table, Sampling(50, 3))
    for name, values in vars(draws).items():
        assert values == pytest.approx(getattr(expected, name), nan_ok=True), name
