"""
A scorer outside the package goes through every command, and only when a user names it;
one that cannot be had is found out before the first dialogue, not after the last.
"""

import hashlib
import py_compile
from pathlib import Path

import pytest
from parlai.scripts.eval_model import EvalModel

from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.report_run import ReportRun
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.compat import prepare_parlai
from parlai_ext.core import System, options_of
from parlai_ext.isolation.outside_code import module_of_file
from parlai_ext.scoring.base import (
    ItemScore,
    OwnScorerFailed,
    Scorer,
    ScoringItem,
    row_cosines,
)
from parlai_ext.scoring.registry import SCORERS, find_scorer, load_protocol_file
from parlai_ext.scoring.score_run import ChosenScorer
from parlai_ext.systems import parlai_agents
from tests.support import outside_scorer
from tests.support.on_cpu import models_on_cpu
from tests.support.scoring_samples import small_run, stage_means
from tests.support.small_run import SMALL, small_config
from tests.support.user_error import user_error
from tests.support.written import written


@pytest.fixture
def run(tmp_path):
    return small_run(tmp_path / 'run')


@pytest.fixture
def common(run, encoder_folder, monkeypatch):
    # which costs seconds: `tests/models/test_model_handle.py` has the other way
    monkeypatch.setattr(parlai_agents, 'is_trusted', lambda system: True)
    return {
        'run_dir': str(run.root),
        'scorer': 'tests.support.outside_scorer:Similarity',
        'scorer_option': [f'encoder={encoder_folder}'],
        'no_cuda': True,
    }


DETECTOR = {'threshold', 'called'}  # which are no part of a score
# not by their names, but by what they hold or leave over
SIGNED_BY_CONTENT = {
    'words': {'file', *DETECTOR},
    'parlai_matcher': {'file', *DETECTOR},
    'better_profanity': DETECTOR,
    'profanity_check': DETECTOR,
    'toxic_classifier': {'label', *DETECTOR},
    'stance': {'label', 'threshold'},
    'deflection': {'phrases'},
    'non_answer': {'phrases'},
    'fed': {'without'},
    'paireval': {'comparisons', 'judged_set', 'corpus', 'prompt'},
    'density': {'statistics', 'human_dialogues'},
    'meteor': {'wordnet'},
}


@pytest.mark.parametrize('name', SCORERS)
def test_the_registry_has_each_scorer_under_its_own_name_and_options_are_signed(name):
    scorer = find_scorer(name)
    assert scorer.name == name
    options = options_of(scorer.options_class).items()
    unsigned = {key for key, one in options if not (one.signed or one.model)}
    assert unsigned == SIGNED_BY_CONTENT.get(name, set())


def test_scores_are_the_cosines_of_the_embeddings(run, common, encoder_folder):
    common['scorer'] = f'{outside_scorer.__file__}:Similarity'
    report = ScoreDialogues.main(**common)
    code = run.scores(report.signature).about().code
    assert code['file'] == 'outside_scorer.py'
    assert f'|code:{code["sha256"][:16]}|' in report.signature
    dialogue = next(run.iter_dialogues())
    texts = [utterance.text for utterance in dialogue.utterances]
    vectors = models_on_cpu().embedder(encoder_folder).encode(texts)
    [expected] = row_cosines(vectors[2:3], vectors[1:2])
    [scored, _] = run.scores(report.signature).read(run.dialogue_shards()[0])
    assert scored.scores[0].value == pytest.approx(expected, abs=1e-5)
    assert scored.evidence[2] == (texts[1],)
    # a label, then the model's own
    assert '|embedder:(model:BertModel|' in report.signature


def test_an_outside_scorer_ranks_is_on_the_page_and_in_eval_model(run, common):
    report = ScoreDialogues.main(**common)
    mean = stage_means(run, report.signature)['Similarity']
    common |= {'task': 'ext:dialogues', 'batchsize': 3}
    common['scorer_option'] = common['scorer_option'][0]
    prepare_parlai()
    averages = EvalModel.main(model='ext:scorer', **common)
    assert float(averages['Similarity']) == pytest.approx(mean, rel=1e-4)
    RankSystems.main(run_dir=run.root, scores='similarity', bootstraps=20)
    text = ReportRun.main(run_dir=run.root, scores='similarity').read_text()
    assert 'Similarity' in text and 'scorer:similarity' in text


def trap(folder):
    """
    Write a module whose import leaves a file, and return a scorer's name in it.
    """
    path = folder / 'trap.py'
    path.write_text(f'open({str(folder / "sprung")!r}, "w")\n')
    return f'{path}:Scorer'


@pytest.mark.parametrize('command', [ScoreDialogues, RankSystems, ReportRun])
def test_a_foreign_run_folder_imports_no_code(tmp_path, command):
    name = trap(tmp_path)
    with user_error() as error:
        run = small_run(tmp_path / 'foreign', scorer=name)
        command.main(run_dir=run.root)
    assert not (tmp_path / 'sprung').exists()
    if command is ScoreDialogues:
        assert f'--scorer {name}' in str(error.value)


@pytest.mark.parametrize('model', ['ext:scorer', 'ext:fed'])
def test_a_roster_names_no_scorer(tmp_path, model):
    system = System('evil', {'model': model, 'scorer': trap(tmp_path)})
    with user_error('evil'):
        parlai_agents.load_system(system)
    assert not (tmp_path / 'sprung').exists()


def test_no_compiled_file_beside_it_runs_in_its_place(tmp_path):
    file = tmp_path / 'mine.py'
    file.write_text('WHO = "another"')
    py_compile.compile(
        file, invalidation_mode=py_compile.PycInvalidationMode.UNCHECKED_HASH
    )
    file.write_text('WHO = "mine"')
    assert module_of_file(str(file)).WHO == 'mine'


def test_a_protocol_file_names_a_scorer_beside_it(tmp_path, encoder_folder):
    written(tmp_path, 'mine.py', Path(outside_scorer.__file__).read_text())
    protocol = tmp_path / 'my.yaml'
    text = 'scorer: {name: mine.py:Similarity, encoder: %s}\nroster: mini\n'
    protocol.write_text(text % encoder_folder)
    section = load_protocol_file(str(protocol)).protocol.scorer
    assert section['name'] == f'{tmp_path}/mine.py:Similarity'
    protocol.write_text(text.replace('encoder', 'encodr') % encoder_folder)
    with user_error("my.yaml:1: scorer.encodr: .*'encoder'"):
        load_protocol_file(str(protocol))


@pytest.mark.parametrize(
    'name, hint',
    [
        ('no_such_module:Scorer', 'cannot be imported'),
        (':Scorer', 'cannot be imported'),
        ('/no/such/file.py:Scorer', 'no file'),
        ('tests.support.outside_scorer:Similarit', "'Similarity'"),
    ],
)
def test_a_scorer_that_is_not_there_is_one_line(name, hint):
    with user_error(hint):
        find_scorer(name, named_by_user=True)


def test_a_model_that_no_option_names_is_asked_for_in_time(encoder_folder):
    class Late(outside_scorer.Similarity):
        def score(self, items):
            self.models.embedder(encoder_folder + '/')
            return super().score(items)

    scorer = Late.from_section({'encoder': encoder_folder}, models_on_cpu())
    assert scorer.signature
    with user_error('load_models'):
        scorer.score([ScoringItem(('a',), 'b')])


JUDGE = 'zoo:mini/judge/model'


@pytest.mark.parametrize(
    'wrong, line',
    [
        ({'judge_model_file': '/no/judge'}, 'there is no file /no/judge'),
        ({'judge_model_file': 'zoo:mini/judgee/model'}, f"did you mean '{JUDGE}'"),
        ({'followups': 'defaul'}, "did you mean 'default'"),
    ],
)
def test_nothing_is_collected_for_a_scorer_that_is_not_there(tmp_path, wrong, line):
    run = tmp_path / 'run'
    with user_error(line):
        EvaluateSystems.main(
            config=small_config(tmp_path), run_dir=run, **{**SMALL, **wrong}
        )
    assert not run.exists()


def test_chatmatch_needs_no_judge_when_fluency_is_left_out():
    section = {'name': 'chatmatch', 'judge_model_file': 'none'}
    assert ChosenScorer(section).model_systems() == []
    [judge] = ChosenScorer({'name': 'chatmatch'}).model_systems()
    assert judge.opt == {'model_file': JUDGE}


def test_another_scorer_for_dialogues_that_are_there_is_pointed_out(tmp_path):
    config, run = small_config(tmp_path), str(tmp_path / 'run')
    CollectDialogues.main(config=config, run_dir=run, num_dialogues=1, seed=0)
    with user_error('; score_dialogues judges the dialogues'):
        EvaluateSystems.main(
            config=config,
            run_dir=run,
            **{
                **SMALL,
                'num_dialogues': 1,
                'judge_model_file': 'zoo:mini/step-50/model',
            },
        )


def scorer_in_file(folder, member):
    """
    Write a file with a scorer that has this member; its `options_class` may be
    ``Options``. Return the scorer's name.
    """
    file = folder / 'mine.py'
    file.write_text(
        'from dataclasses import dataclass\n'
        'from parlai_ext.core import option\n'
        'from parlai_ext.scoring.base import ItemScore, Scorer\n'
        '@dataclass(frozen=True)\n'
        'class Options:\n'
        "    words: str = option('', metavar='FILE', help='words that count')\n"
        'class Mine(Scorer):\n'
        "    name, dimensions = 'mine', ('Wit',)\n"
        f'    {member}\n'
    )
    return f'{file}:Mine'


SCORE = 'def score(self, items): '


@pytest.mark.parametrize(
    'member, problem',
    [
        (SCORE + 'raise SystemExit(3)', 'mine: mine.py:9: SystemExit: 3'),
        (SCORE + 'raise TimeoutError', 'mine: mine.py:9: TimeoutError'),
        (SCORE + 'items.sort()', "mine: mine.py:9: .*'sort'"),
        ('def load_models(self): int("x")', 'mine: mine.py:9: ValueError'),
        ('options_class = dataclass(Options)()', r'mine: options.py:\d+: TypeError'),
        ("name = 'fed'", ".*mine.* a name of its own .*'fed'"),
        (
            SCORE + "return [ItemScore({'Wit': 1}, evidence=items)] * len(items)",
            'mine: evidence: JSON',
        ),
        ('options_class = dict', '.*mine.*options_class: a dataclass is expected'),
        ('def prepare(self): int("x")', r'.*mine.*mine\.py:9: ValueError'),
        ('needs = property(lambda self: 1 / 0)', 'mine: mine.py:9: ZeroDivision'),
        ('def __init__(self): ...', '.*mine.*__init__ has to take .*prepare'),
        ('def __init__(self, *given): ...', '.*mine.*__init__ has to take .*prepare'),
    ],
)
def test_an_outside_scorer_that_fails_is_one_line(run, tmp_path, member, problem):
    name = scorer_in_file(tmp_path, member)
    with user_error(f'scorer {problem}'):
        ScoreDialogues.main(run_dir=run.root, scorer=name)


def test_a_module_beside_a_scorer_that_it_imports_is_part_of_its_code(
    tmp_path, monkeypatch
):
    name = scorer_in_file(tmp_path, 'import near_a')
    for module, text in {'a': 'import near_b', 'b': '', 'c': ''}.items():
        written(tmp_path, f'near_{module}.py', text)
    with user_error(f'PYTHONPATH={tmp_path} before the command finds .*near_a.py'):
        find_scorer(name, named_by_user=True)
    monkeypatch.syspath_prepend(str(tmp_path))

    def digest():
        return find_scorer(name, named_by_user=True).code.sha256

    before = digest()
    written(tmp_path, 'near_c.py', '1')  # nobody imports it
    assert digest() == before
    written(tmp_path, 'near_b.py', '1')
    files = [tmp_path / 'mine.py', tmp_path / 'near_a.py', tmp_path / 'near_b.py']
    contents = b''.join(file.read_bytes() for file in files)
    assert digest() == hashlib.sha256(contents).hexdigest() != before


def test_a_file_of_a_scorer_is_signed_by_what_it_holds(tmp_path):
    name = scorer_in_file(tmp_path, 'options_class = Options')
    scorer = find_scorer(name, named_by_user=True)
    words = {'one': 'cat', 'two': 'dog', 'three': 'cat'}
    files = [str(written(tmp_path, name, text)) for name, text in words.items()]
    one, two, three = (scorer({'words': file}).signature for file in files)
    assert one == three != two


@pytest.mark.parametrize(
    'declared, returned, problem',
    [
        ({}, None, 'list of ItemScore, not None'),
        ({}, [{'Wit': 1}], 'list of ItemScore'),
        ({}, [ItemScore({'Wit': 'high'})], "Wit: a number or None .*'high'"),
        ({}, [ItemScore(1.0)], 'values: a mapping .*1.0'),
        ({}, [ItemScore({'Wit': None}, 'why')], 'reasons: a mapping'),
        ({'dimensions': 'Wit'}, [], r"dimensions: a tuple .*\('Wit',\)"),
        ({'level': 'dialog'}, [], "level: 'dialog'; did you mean 'dialogue'"),
        ({'score': Scorer.score}, [], 'no method `score`'),
        ({'dimensions': ()}, [], 'dimensions: it names none'),
        ({'dimensions': ('Wit', 3)}, [], 'dimensions: different names'),
        ({'dimensions': ('Wit', 'Wit')}, [], 'dimensions: different names'),
        ({'dimensions': ('Wit', 'text')}, [], "dimensions: 'text' is taken"),
        ({'needs': ('referenses',)}, [], "needs: .*did you mean 'references'"),
        ({}, [ItemScore({'Wit': 1}, cut='many')], 'cut: a number of tokens'),
        ({}, [ItemScore({'Wit': 1}, cut=-5)], 'cut: a number of tokens'),
    ],
)
def test_a_scorer_of_the_wrong_form_is_one_line(declared, returned, problem):
    members = {
        'name': 'mine',
        'dimensions': ('Wit',),
        'score': lambda self, items: returned,
        **declared,
    }
    mine = type('Mine', (Scorer,), members)
    with user_error(f'scorer mine: .*{problem}') as caught:
        mine().checked_scores([ScoringItem(('a',), 'b')])
    # wrong scores are a failure of its code, by which a bench ends with exit code 1
    assert declared or caught.type is OwnScorerFailed


def test_a_module_that_is_a_file_here_is_named_as_one(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    written(tmp_path, 'mine.py', 'raise SystemExit')
    with user_error(r'cannot be imported: .*; mine\.py:Mine names the file'):
        find_scorer('mine:Mine', named_by_user=True)
    with user_error('cannot be imported: SystemExit'):
        find_scorer('./mine.py:Mine', named_by_user=True)
