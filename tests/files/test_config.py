"""
Rosters and protocols: files read strictly, what the command line puts over them, what
is refused; the shipped files say what their papers say; the cards that rosters name.
"""

import re

import pytest

from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.core import Protocol, System
from parlai_ext.files import (
    load_roster,
    model_card,
    model_names,
    parse_target,
    read_file,
)
from parlai_ext.files.yaml_file import read_text
from parlai_ext.models.handle import Models
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.store import RunFolder, pairings
from parlai_ext.systems.task_data import load_openers
from tests.support.repository import docs_page
from tests.support.small_run import small_config
from tests.support.user_error import error_line, user_error
from tests.support.written import written

pytest_plugins = ['tests.support.model_catalogue']

# YAML: every mistake names its line.


def mistake(text):
    return error_line(read_text, text, 'my.yaml')


OLD_NUMBERS = ('1:30:00', '16:9', '010', '09', '0b11', '1_000', '1_0.5')
WORDS = {
    # PyYAML reads YAML 1.1, where 1e-4 is text and the next ones are numbers or dates
    '1e-4': 0.0001,
    # YAML 1.2.2, 10.3.2 (core schema): none of these is a number there
    **{word: word for word in [*OLD_NUMBERS, '=', 'y', 'n', '2022-01-31']},
    **{'-.5': -0.5, '1.': 1.0, '+12': 12, '0x1F': 31, '~': None, '1E3': 1e3},
    '[1, 2.5, true]': [1, 2.5, True],
    '{c: text}': {'c': 'text'},
}


@pytest.mark.parametrize('word', WORDS)
def test_words_mean_what_yaml_1_2_says(word):
    assert read_text(f'a: {word}', 'f').data == {'a': WORDS[word]}


@pytest.mark.parametrize('word', ['yes', 'No', 'on', 'OFF'])
def test_a_truth_value_of_yaml_1_1_is_ambiguous(word):
    assert mistake(f'a: 1\nb: {word}').startswith('my.yaml:2: b: ')
    assert read_text(f"a: '{word}'", 'f').data == {'a': word}


@pytest.mark.parametrize('word', ['.inf', '-.INF', '.nan', '1e400'])
def test_a_number_that_is_not_finite_is_refused(word):
    assert mistake(f'a: {word}').startswith('my.yaml:1: a: ')


@pytest.mark.parametrize('text', ['a: "\\ud83d"', 'a: [x, "y \\udc00"]'])
def test_half_a_character_is_refused(text):
    # libyaml refuses it before this reader does
    assert re.search('half a character|Unicode character escape', mistake(text))


@pytest.mark.parametrize(
    'name, data',
    [
        ('a.yaml', b'\xef\xbb\xbfseed: {x: 1}\n'),  # a byte order mark
        ('a.json', b'{\n\t"seed": {\n\t\t"x": 1}\n}'),  # tabs
    ],
)
def test_marks_and_tabs_are_no_data(tmp_path, name, data):
    (tmp_path / name).write_bytes(data)
    assert read_file(tmp_path / name).data == {'seed': {'x': 1}}


def test_a_repeated_key_is_refused_with_both_lines():
    line = mistake('a: 1\nb: 2\na: 3\n')
    assert line == 'my.yaml:3: a: given twice (first in line 1)'


LINES = ['a0: &a0 [x, x, x, x, x, x, x, x, x]']
LINES += [f'a{i}: &a{i} [{", ".join([f"*a{i - 1}"] * 9)}]' for i in range(1, 9)]


@pytest.mark.parametrize('text', ['\n'.join(LINES), 'a: &a [*a]'])
def test_multiplying_aliases_are_refused(text):
    assert 'aliases multiply' in mistake(text)


def test_one_alias_is_fine():
    text = 'a: &beam {beam_size: 3}\nb: *beam\n'
    assert read_text(text, 'f').data['b'] == {'beam_size': 3}


@pytest.mark.parametrize(
    'text, line',
    [
        ('a: 1\nb: !!python/object/apply:os.system ["true"]\n', 2),
        ('a: 1\n  b: 2\n', 2),
        ('a: 1\n\tb: 2\n', 2),
        ('a: 1\n---\nb: 2\n', 2),
        ('<<: {a: 1}\n', 1),
        ('a: 1\n? [1, 2]\n: 3\n', 2),
    ],
)
def test_what_is_not_plain_yaml_is_refused_by_line(text, line):
    assert mistake(text).startswith(f'my.yaml:{line}: ')


def test_other_encodings_are_refused_by_line(tmp_path):
    (tmp_path / 'a.yaml').write_bytes(b'a: 1\nb: caf\xe9\n')
    with user_error(r'a\.yaml:2: not UTF-8'):
        read_file(tmp_path / 'a.yaml')


# Rosters and ``--add-target``: systems from files, names and one line of text.

ONE = {'name': 'one', 'opt': {'model': 'repeat_query'}}
TWO = {**ONE, 'name': 'two'}


def test_an_inline_roster_and_what_it_tells_of_a_system():
    info = {'params': 5, 'guess': True, 'alternatives': ('a', 'b')}
    found = load_roster({'targets': [{**ONE, **info}]})
    assert found.roster.targets == (System('one', {'model': 'repeat_query'}),)
    assert info.items() <= vars(found.info['one']).items()


def test_a_shipped_system_is_named_and_may_get_another_family():
    name = 'Trm-88M-Rdt-Bst'
    entry = {'name': name, 'family': 'small ones'}
    found = load_roster({'targets': [entry], 'partners': [ONE]})
    assert found.roster.targets[0].opt['model_file'] == 'zoo:blender/blender_90M/model'
    assert found.info[name].family == 'small ones'


@pytest.mark.parametrize(
    'roster, words',
    [
        ({'targets': ['Trm-88M-Rdt-Bts']}, "did you mean 'Trm-88M-Rdt-Bst'?"),
        ({'targets': [ONE], 'partners': [ONE]}, 'partners[0]'),
        ({'targets': [ONE], 'partner': [ONE]}, "did you mean 'partners'?"),
    ],
)
def test_a_wrong_roster_is_named_by_its_place(roster, words):
    assert words in error_line(load_roster, roster)


@pytest.mark.parametrize(
    'entry, words',
    [
        ({'opt': {'model': 'x'}}, 'targets[1].name: '),
        ({'name': 'x'}, 'targets[1].opt: '),
        ({**TWO, 'opt': {}}, "needs 'model_file' or 'model'"),
        ({'name': 'x', 'model_file': 'y'}, 'belongs under opt'),
        ({'name': 'x', 'opts': {}}, "did you mean 'opt'?"),
        ({**TWO, 'name': 'a\nb'}, 'a name is one line'),
        ({**TWO, 'params': 'many'}, 'params: a whole number expected'),
        ({**TWO, 'opt': {'model': 'y', 'p': float('nan')}}, 'finite'),
        (7, 'a mapping expected, not 7'),
    ],
)
def test_a_wrong_entry_is_named_by_its_place(entry, words):
    found = error_line(load_roster, {'targets': [ONE, entry]})
    assert 'targets[1]' in found and words in found


@pytest.mark.parametrize('ending', ['yaml', 'json'])
def test_a_system_may_be_a_file_whose_paths_are_beside_it(ending, tmp_path):
    folder = tmp_path / 'systems'
    folder.mkdir()
    (folder / 'model').touch()
    # what is not there stays as it is
    opt = {'model_file': 'model', 'dict_file': 'a/b'}
    mine = written(folder, f'mine.{ending}', {'name': 'x', 'opt': opt})
    roster = written(tmp_path, 'r.yaml', f'targets: [systems/mine.{ending}]')
    system = System('x', {**opt, 'model_file': str(folder / 'model')})
    assert load_roster(str(roster)).roster.targets == (system,)
    assert parse_target(str(mine))[0] == system


def test_a_file_in_a_roster_is_one_system_and_no_further_file(tmp_path):
    roster = str(written(tmp_path, 'r.yaml', 'targets: [mine.yaml]'))
    said = error_line(load_roster, roster)
    assert said.startswith(f'{roster}:1: targets[0]: there is no file mine')
    mine = written(tmp_path, 'mine.yaml', 'mine.yaml')
    assert error_line(load_roster, roster).startswith(str(mine))


@pytest.mark.parametrize(
    'spec, name, opt',
    [
        ('A=/m/model', 'A', {'model_file': '/m/model'}),
        ('A=agent:my.one:Agent,x=true', 'A', {'model': 'my.one:Agent', 'x': True}),
        (
            'A=m,model=bart,beam-size=3,x=1e-4',
            'A',
            {'model_file': 'm', 'model': 'bart', 'beam_size': 3, 'x': 0.0001},
        ),
        ('zoo:blender/blender_90M/model', 'blender_90M', {}),
        ('/a/my_bot/model', 'my_bot', {}),
        ('Trm-88M-Rdt-Bst', 'Trm-88M-Rdt-Bst', {'beam_size': 10}),
        (
            'a=http://host/v1,remote_model=m',
            'a',
            {
                'model': 'ext:remote',
                'remote_url': 'http://host/v1',
                'remote_model': 'm',
            },
        ),
    ],
)
def test_a_target_on_the_command_line(spec, name, opt):
    found = parse_target(spec)[0]
    assert found.name == name
    assert opt.items() <= found.opt.items()


def test_a_folder_with_a_config_is_a_hugging_face_model(tmp_path):
    folder = tmp_path / 'smol'
    folder.mkdir()
    assert parse_target(f'A={folder}')[0].opt == {'model_file': str(folder)}
    written(folder, 'config.json', '{}')
    for spec, name, opt in (
        (f'{folder}/', 'smol', {'hf_model': f'{folder}/'}),
        (f'A={folder},x=0.5', 'A', {'hf_model': str(folder), 'x': 0.5}),
    ):
        assert parse_target(spec)[0] == System(name, {'model': 'ext:hf', **opt})
    # an agent that is named reads the folder itself
    own = parse_target(f'A={folder},model=my:Agent')[0].opt
    assert own == {'model_file': str(folder), 'model': 'my:Agent'}


@pytest.mark.parametrize(
    'spec',
    # the last two are agents without their prefix
    ['', '=m', 'A=', 'A=agent:', 'A=m,beam_size', 'A=m,=3', 'none.yaml', ' =m']
    + ['A=my_agent:Mine', 'my_agent.py'],
)
def test_a_target_that_cannot_be_meant_is_one_line(spec):
    with user_error():
        parse_target(spec)


def test_a_roster_taken_for_a_protocol_is_pointed_to():
    with user_error('--roster cheating_blender'):
        load_protocol_file('cheating_blender')


def test_the_home_folder_is_found_in_a_roster_and_in_add_target(monkeypatch):
    monkeypatch.setenv('HOME', '/home/me')
    found = load_roster({'targets': [{'name': 'one', 'opt': {'model_file': '~/m'}}]})
    expected = System('one', {'model_file': '/home/me/m'})
    assert found.roster.targets[0] == parse_target('one=~/m')[0] == expected


# Protocols

PLAIN = """\
pairing: bipartite
openers: ext:smalltalk
num_dialogues: 7
num_turns: 8
score: target
seed: 3
scorer: {name: fed, judge_model_file: zoo:mini/judge/model}
ranking: {bootstraps: 20, max_failed_share: 0.1}
roster:
  targets:
    - {name: one, opt: {model: repeat_query}}
    - {name: two, opt: {model: repeat_label}}
  partners:
    - {name: three, opt: {model: fixed_response}}
reference:
  kind: planted
  Overall: {one: 1, two: 2.5}
"""


@pytest.fixture
def write(tmp_path):
    return lambda text: str(written(tmp_path, 'my.yaml', text))


def load_protocol(path, given=None):
    return load_protocol_file(path, given).protocol


def protocol_mistake(path, **given):
    return error_line(load_protocol, path, given).removeprefix(path)


OWN_OPENERS = PLAIN.replace('openers: ext:smalltalk', 'openers_file: mine.csv')


def test_a_file_of_openers_lies_beside_the_protocol(write, tmp_path):
    path = write(OWN_OPENERS)
    assert protocol_mistake(path).startswith(
        ':2: openers_file: there is no file mine.csv'
    )
    (tmp_path / 'mine.csv').touch()
    found = load_protocol_file(path)
    assert found.openers_file == str(tmp_path / 'mine.csv')
    # it is read by the task of openers that is the default
    assert found.protocol.openers == Protocol.openers
    assert load_protocol_file(path, {'openers': 'ext:smalltalk'}).openers_file is None
    two = write(f'{OWN_OPENERS}openers: ext:smalltalk\n')
    assert protocol_mistake(two).startswith(':2: openers_file: ')


def test_every_key_of_a_protocol_file_is_read(write):
    found = load_protocol(write(PLAIN))
    judge = 'zoo:mini/judge/model'
    expected = {
        **{'name': 'my', 'pairing': 'bipartite', 'openers': 'ext:smalltalk'},
        **{'num_dialogues': 7, 'num_turns': 8, 'score': 'target', 'seed': 3},
        'scorer': {'name': 'fed', 'judge_model_file': judge},
        'ranking': {'bootstraps': 20, 'max_failed_share': 0.1},
        'reference_kind': 'planted',
        'reference': {'Overall': {'one': 1.0, 'two': 2.5}},
    }
    assert {key: getattr(found, key) for key in expected} == expected
    assert [s.name for s in found.roster.systems] == ['one', 'two', 'three']


def test_the_command_line_wins_and_none_is_not_given(write):
    plain = {'num_dialogues': 2, 'seed': 0}
    scorer = {'judge_model_file': 'zoo:x/model', 'followups': 'fed_2020'}
    ranking = {'bootstraps': 25, 'max_failed_share': 0.0}
    given = {**plain, **scorer, **ranking, 'num_turns': None}
    found = load_protocol(write(PLAIN), given)
    assert (found.num_dialogues, found.num_turns, found.seed) == (2, 8, 0)
    assert found.scorer == {'name': 'fed', **scorer}
    assert found.ranking == ranking


def test_partners_take_no_part_outside_bipartite_play(write):
    found = load_protocol(write(PLAIN), {'pairing': 'all_play_all'})
    assert found.roster.partners == () and len(found.roster.targets) == 2


@pytest.mark.parametrize(
    'old, new, line, key, right',
    [
        ('num_dialogues', 'num_dialogs', 3, 'num_dialogs', "'num_dialogues'"),
        ('bootstraps', 'bootstrap', 8, 'ranking.bootstrap', "'bootstraps'"),
        ('judge_model_file', 'judge', 7, 'scorer.judge', 'judge_model_file'),
        ('dialogues: 7', 'dialogues: x', 3, 'num_dialogues', 'whole number'),
        ('score: target', 'score: targets', 5, 'score', "'target'"),
        ('seed: 3', 'seed: -3', 6, 'seed', 'from 0'),
        ('openers: ext:smalltalk', 'openers: 3', 2, 'openers', 'quotes'),
        ('share: 0.1', 'share: 5', 8, 'ranking.max_failed_share', 'from 0 to 1'),
        ('scorer: {', 'scorer: fed #{', 7, 'scorer', 'a mapping'),
        ('kind: planted', 'kind: guessed', 15, 'reference', "'kind: human'"),
        ('two: 2.5}', 'too: 2.5}', 17, 'reference.Overall.too', "'two'"),
        ('two: 2.5}', 'two: high}', 17, 'reference.Overall.two', 'a number'),
    ],
)
def test_a_mistake_names_line_and_key_and_what_is_right(
    write, old, new, line, key, right
):
    assert old in PLAIN
    message = protocol_mistake(write(PLAIN.replace(old, new)))
    assert message.startswith(f':{line}: {key}: ')
    assert right in message


@pytest.mark.parametrize(
    'option, value, words',
    [
        ('num_turns', 2, '--num-turns'),
        ('pairing', 'pairs', '--pairing'),
        ('bootstraps', 19, '--bootstraps'),
    ],
)
def test_a_mistake_on_the_command_line_names_the_option(write, option, value, words):
    assert protocol_mistake(write(PLAIN), **{option: value}).startswith(words)


def test_a_protocol_needs_a_roster_and_bipartite_play_partners(write):
    text = PLAIN.partition('  partners:\n')[0]
    assert protocol_mistake(write(text)).startswith(':9: roster: ')
    assert "needs the key 'roster'" in protocol_mistake(write(''))


def test_a_roster_may_be_a_file_and_replaces_that_of_the_reference(write, tmp_path):
    path = tmp_path / 'mine.yaml'
    path.write_text(
        'targets: [{name: one, opt: {model: repeat_query}}]\n'
        'partners: [{name: y, opt: {model: repeat_label}}]\n'
    )
    beside = write(PLAIN.split('roster:')[0] + 'roster: mine.yaml\n')
    assert load_protocol(beside).roster.targets[0].name == 'one'
    found = load_protocol(write(PLAIN), {'roster': str(path)})
    assert found.reference == {'Overall': {'one': 1.0}}


# The shipped files of the bipartite-play paper say what the paper says.

# Table 2, typed from the paper
TARGETS = """
Tfm-3B-Rdt-Bsm Tfm-3B-Rdt-Msc Tfm-3B-R2c-Bsm Tfm-3B-Rdt-Lgu GPT-345M-Wtx-Rdt
Tfm-89M-Ddc-Nft Tfm-89M-Ddc-Crm Tfm-89M-Ddc-Ddg Tfm-89M-Ddc-Rdt Tfm-89M-Ddc-Twt
PEn-256M-Rdt-Bst
"""
PARTNERS = """
Tfm-3B-Rdt-Slf Tfm-3B-Rdt-Lgt Tfm-3B-Rdt-Img Tfm-3B-Rdt-Sfr Tfm-1B-Rdt-Bsm
GPT-117M-Wtx-Rdt GPT-762M-Wtx-Rdt Tfm-406M-Rdt-Bsm Tfm-406M-R2c-Bsm Brt-406M-Rbt-Woi
Trm-89M-Ddc-Wow Trm-89M-Ddc-Lgt Trm-89M-Ddc-Emp Trm-89M-Ddc-Cv2 Trm-89M-Rdt-Wow
Trm-89M-Rdt-Cv2 Trm-88M-Rdt-Bst Trm-88M-Rdt-Cv2 PEn-256M-Rdt-Cv2 PEn-256M-Rdt-Emp
PEn-256M-Rdt-Wow PEn-256M-Rdt-All PEn-256M-Rdt-Bsm B+F-256M-Rbt-Wow
"""


def test_the_roster_is_table_2():
    roster = load_roster('bipartite_2022').roster
    assert [s.name for s in roster.targets] == TARGETS.split()
    assert [s.name for s in roster.partners] == PARTNERS.split()


@pytest.mark.parametrize(
    'name, pairing, num_dialogues, pairs',
    [
        # section 6.1: 11 x 1, 11 x 10 and 11 x 24 pairs; 1,000, 600 and 600 dialogues
        ('self_play_2022', 'self_play', 1000, 11),
        ('all_play_all_2022', 'all_play_all', 600, 110),
        ('bipartite_2022', 'bipartite', 600, 264),
    ],
)
def test_the_protocols_have_the_numbers_of_section_6(
    name, pairing, num_dialogues, pairs
):
    found = load_protocol_file(name).protocol
    names = {system.name: system.name for system in found.roster.systems}
    assert (found.name, found.pairing) == (name, pairing)
    assert found.num_dialogues == num_dialogues
    assert len(pairings(found.roster, pairing, names)) == pairs
    # two given utterances and five exchanges
    assert found.num_turns == 2 + 5 * 2
    assert found.openers == 'ext:empathetic_openers'
    assert found.scorer['judge_model_file'] == 'zoo:blender/blender_9B/model'
    assert found.scorer['polarity'] == 'negative'


def test_parameters_agree_with_the_names_where_the_name_is_right():
    # the paper's own slips: Blender 400M has 365M, GPT-2's names say 117M and 762M, no
    # zoo FiD has 256M
    slips = {'Tfm-406M-Rdt-Bsm', 'GPT-117M-Wtx-Rdt', 'GPT-762M-Wtx-Rdt'}
    slips |= {'B+F-256M-Rbt-Wow', 'GPT-345M-Wtx-Rdt'}
    units = {'B': 1e9, 'M': 1e6}
    for name, info in load_roster('bipartite_2022').info.items():
        size = name.split('-')[1]
        stated = float(size[:-1]) * units[size[-1]]
        off = abs(info.params / stated - 1)
        # '3B' and '1B' are rounded to one digit
        assert name in slips or off < (0.5 if size[-1] == 'B' else 0.01), name


def test_table_six_has_one_roster_of_the_eleven_and_their_variants():
    file = load_roster('cheating_2022')
    names = [system.name for system in file.roster.targets]
    assert set(names[:11]) == set(TARGETS.split())
    series = [
        [n for n in names if file.info[n].family == kin]
        for kin in ('DialoGPT series', 'Blender series')
    ]
    assert [len(kin) for kin in series] == [3, 3]
    assert {*series[0], *series[1]} - {*names[:11]} == {*names[11:]}


@pytest.mark.parametrize(
    'series, unfavored, similar',
    [
        # section 7.2
        ('dialogpt', 'GPT-345M-Wtx-Rdt', ['GPT-124M-Wtx-Rdt', 'GPT-774M-Wtx-Rdt']),
        ('blender', 'Tfm-3B-Rdt-Bsm', ['Tfm-406M-Rdt-Bsm', 'Tfm-1B-Rdt-Bsm']),
    ],
)
def test_an_unfair_set_is_a_series_and_one_favored_system(series, unfavored, similar):
    found = load_protocol_file(f'cheating_{series}_2022').protocol
    assert [s.name for s in found.roster.targets] == [unfavored, *similar]
    assert (found.pairing, found.num_dialogues) == ('all_play_all', 600)
    # the favored one is any other target of Table 2, by its name alone
    favored = set(TARGETS.split()) - {unfavored}
    assert len(favored) == 10
    assert {parse_target(name)[0].name for name in favored} == favored


# ChatMatch as protocols: the paper's, and a small tournament of the mini zoo.


def test_the_paper_s_tournament_is_42_games_of_100_exchanges():
    protocol = load_protocol_file('chatmatch_2022').protocol
    names = {s.name: s.name for s in protocol.roster.targets}
    pairs = pairings(protocol.roster, protocol.pairing, names)
    assert len({pair.speakers for pair in pairs}) == 42
    assert (protocol.num_dialogues, protocol.num_turns) == (1, 200)
    assert protocol.score == 'both'
    assert protocol.ranking['rule'] == 'tournament'


def test_the_only_given_utterance_is_a_question():
    (opener,) = load_openers(load_protocol_file('chatmatch_2022').protocol.openers)
    (text,) = opener.utterances
    assert text.endswith('?')


def test_nothing_to_say_is_one_line():
    with user_error("openers: .* behind 'say:'"):
        load_openers('say: ')


def test_bots_without_an_endpoint_are_named(tmp_path):
    options = {'run_dir': tmp_path / 'run', 'datapath': tmp_path / 'data'}
    with user_error("system 'PL': remote_url: not given.*CS, CR"):
        EvaluateSystems.main(config='chatmatch_2022_offline', **options)
    assert not (tmp_path / 'run').exists()


def test_whole_way_from_games_to_page(tmp_path, printed):
    config = small_config(tmp_path, targets=3, name='chatmatch_demo')
    run = tmp_path / 'run'
    options = {'config': config, 'num_turns': 8, 'bootstraps': 20, 'check_sample': 4}
    ranking = EvaluateSystems.main(**options, run_dir=run)
    assert 'Tournament of 6 games' in printed()
    assert set(ranking.tournament.systems) == {'step-50', 'step-150', 'step-450'}
    dialogues = list(RunFolder.existing(run).iter_dialogues())
    # one given utterance, then eight in all
    given = [[one.given for one in dialogue.utterances] for dialogue in dialogues]
    assert given == [[True, *[False] * 7]] * 6


# Cards of the model catalogue: what they pin, and what is wrong with one.

HUB = {'repository': 'owner/tiny', 'revision': 'a' * 40}


@pytest.mark.parametrize('name', model_names())
def test_every_source_of_a_shipped_card_is_pinned(name):
    card = model_card(name)
    assert all(len(file.sha256) == 64 for file in (*card.files, *card.wheels))
    assert card.revision is None or len(card.revision) == 40  # a commit, no branch
    assert card.licence and card.kinds and {*card.kinds} <= {*Models.__annotations__}


def test_the_page_has_the_table_that_the_cards_give():
    rows = [
        f'| `{name}` | {card.title} | {", ".join(card.kinds)} | {card.licence} | '
        f'{card.download_bytes / 1e6:.0f} MB | {card.disk_bytes / 1e6:.0f} MB | '
        f'{card.good_for} |'
        for name in model_names()
        for card in [model_card(name)]
    ]
    assert '\n'.join(rows) in docs_page('models')


FILE = {'name': 'x', 'size': 1, 'sha256': 'f' * 64}


@pytest.mark.parametrize(
    'changes, key',
    [
        ({'title': None}, 'title'),
        ({'files': [{**FILE, 'sha256': 'abc'}]}, r'files\[0\].sha256: a text of the'),
        ({'repository': None, 'revision': None}, 'wheels'),
        ({'revision': None}, 'revision'),
        ({'gguf': 'other'}, 'gguf'),
        ({'titel': 'x'}, "titel.*'title'"),
    ],
)
def test_a_wrong_card_is_refused_by_its_key(catalogue, changes, key):
    catalogue.add('tiny', **{**HUB, **changes})
    with user_error(rf'tiny.yaml:\d+: .*{key}'):
        model_card('tiny')


# ---- names in rosters and on the command line

CHAT = {'model': 'ext:hf', 'hf_model': 'smollm2-135m-q4'}


def test_a_chat_model_is_a_target_by_its_name():
    system, _ = parse_target('mine=smollm2-135m-q4,x=y')
    assert (system.name, system.opt) == ('mine', {**CHAT, 'x': 'y'})
    assert parse_target('smollm2-135m-q4')[0].name == 'smollm2-135m-q4'


def test_a_roster_may_list_it_and_a_folder_of_its_name_is_not_meant(tmp_path):
    (tmp_path / 'smollm2-135m-q4').mkdir()
    both = {'targets': ['smollm2-135m-q4'], 'partners': [{'name': 'x', 'opt': CHAT}]}
    roster = load_roster(str(written(tmp_path, 'r.yaml', both))).roster
    assert [system.opt for system in roster.systems] == [CHAT, CHAT]


def test_an_embedder_is_no_target():
    with user_error('minilm'):
        parse_target('mine=minilm')
