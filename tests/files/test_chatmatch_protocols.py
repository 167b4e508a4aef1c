"""
ChatMatch as protocols: the paper's, and a small tournament of the mini zoo.
"""

from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.store import RunFolder, pairings
from parlai_ext.systems.task_data import load_openers
from tests.support.small_run import small_config
from tests.support.user_error import user_error


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
