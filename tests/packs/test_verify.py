"""
A pack that was tampered with: what is wrong is named, also where somebody made all
checksums anew; and what only a new score or a new dialogue shows.
"""

import fnmatch
import json
import re
import shutil
from dataclasses import replace
from functools import partial

import pytest

from parlai_ext.collect.not_run import write_problems
from parlai_ext.commands.verify_run import VerifyRun
from parlai_ext.judge_check.check import check_run
from parlai_ext.judge_check.record import check_to_json
from parlai_ext.packs.check_pack import (
    Checker,
    check_pack,
    dialogue_places,
    spread_over_targets,
)
from parlai_ext.packs.pack import INDEX, RegenerateOptions, open_pack
from parlai_ext.scoring.score_run import ChosenScorer, score_run
from parlai_ext.store import RunFolder
from parlai_ext.worlds.block_player import BlockPlayer
from tests.support.check_example import PASSES, example_check
from tests.support.on_cpu import CPU
from tests.support.published_runs import (
    checker_of,
    files_in,
    forge_json,
    forge_shard,
    publish,
    write_forged,
)
from tests.support.user_error import user_error

MANIFEST = 'manifest.json'


def states(checked):
    return {finding.about: finding.state for finding in checked.findings}


def text_about(checked, about):
    return next(one.text for one in checked.findings if one.about == about)


def first(files, start, kind='jsonl'):
    return min(name for name in files if name.startswith(start) and kind in name)


def problems(path):
    return check_pack(path).problems


@pytest.fixture
def files(packs):
    return files_in(packs['both'])


@pytest.fixture
def tampered(tmp_path):
    """
    Return a function that writes files as a pack and leaves the index as it is.
    """
    return partial(write_forged, tmp_path / 'p.zip', honest=True)


@pytest.fixture
def checker(tmp_path):
    """
    Somebody who has the systems and the scorer of the runs.
    """
    return checker_of(tmp_path, ['generic', 'talker'])


def test_an_honest_pack_is_proven_but_for_what_was_not_made_again(packs):
    told = ('played again', 'scored again', 'checked again', 'judge check')
    proven = ('files', 'partners', 'scorer', 'dialogues', 'scores', 'ranking')
    expected = dict.fromkeys(proven, 'proven') | dict.fromkeys(told, 'self-reported')
    assert states(check_pack(packs['both'])) == expected


def test_an_honest_pack_of_chats_with_a_person_is_proven(imported, checker):
    checked = check_pack(imported, RegenerateOptions(sample=3), checker)
    assert not checked.problems
    assert text_about(checked, 'dialogues').startswith('62 are of these pairs')
    assert 'of 2 of 2 targets' in text_about(checked, 'scored again')


@pytest.mark.parametrize('start', ['manifest', 'dialogues/', 'rankings/'])
def test_a_changed_byte_names_its_file(files, tampered, start):
    name = first(files, start, kind='')
    data = bytearray(files[name])
    data[-20] ^= 1
    files[name] = bytes(data)
    assert any(name in line for line in problems(tampered(files)))


def test_a_missing_file_and_one_too_many_are_named(files, tampered):
    name = first(files, 'dialogues/')
    del files[name]
    files['extra.txt'] = b'?'
    lines = problems(tampered(files))
    assert f'files: {name} is missing' in lines
    assert any("'extra.txt'" in line for line in lines)


def test_an_index_has_no_second_spelling(files, tampered):
    more = b'"schema": 1,\n "rank": "first"'
    files[INDEX] = files[INDEX].replace(b'"schema": 1', more)
    (line,) = problems(tampered(files))
    assert line.startswith(f'files: {INDEX}')


def other_dimension(scores):
    scores.append({**scores[0], 'dimension': 'Wit'})


@pytest.mark.parametrize(
    'target, change',
    [
        # the first target says which dimensions there are
        ('generic', lambda scores: scores.clear()),
        ('generic', other_dimension),
        ('talker', lambda scores: scores.pop()),
        ('talker', lambda scores: scores.clear()),
        ('talker', lambda scores: scores.append({**scores[0], 'value': 100})),
        ('talker', lambda scores: scores[0].update(utterance_index=0)),  # the opener
        ('talker', lambda scores: scores[0].update(value=True)),
        ('talker', other_dimension),
    ],
)
def test_scores_chosen_to_please_are_caught_though_the_ranking_follows_from_them(
    copy_of, published, target, change
):
    shard = f'scores/*/{target}*/00000.jsonl'
    run = copy_of('both', lambda records: change(records[0]['scores']), shard)
    lines = problems(published(run))
    assert lines
    assert all(line.startswith('scores: scores/') for line in lines)


def raise_score(records):
    records[0]['scores'][0]['value'] += 100


def swap_ranks(data):
    (rows,) = data['dimensions'].values()
    rows[0]['rank'], rows[1]['rank'] = rows[1]['rank'], rows[0]['rank']


def better_answer(records):
    records[0]['dialog'][1][0]['text'] = 'A much better answer.'


@pytest.mark.parametrize(
    'pattern, change, named',
    [
        (
            MANIFEST,
            lambda m: m.update(signature=m['signature'].replace('seed:0', 'seed:1')),
            ['signature: .*seed:0'],
        ),
        ('rankings/*', swap_ranks, [r'\.rank: ']),
        ('scores/*.jsonl', raise_score, [r'ranking: dimensions\..*\[generic\]']),
        (
            'dialogues/*',
            lambda records: records[0].update(digest='0' * 64),
            ['a digest stands for withheld texts'],
        ),
        ('dialogues/*', better_answer, ['scores of other dialogues']),
        (
            'dialogues/*',
            lambda records: records[0]['dialog'][0][0].update(text='An easier one.'),
            ['{name} line 1.*opener'],
        ),
        (
            MANIFEST,
            lambda manifest: manifest['openers'][0].update(utterances=['One.', 'Two.']),
            ['opener {opener}: its text was changed'],
        ),
        (
            MANIFEST,
            lambda manifest: manifest['partners']['calm'].update(identity='0' * 16),
            [
                'signature: .*partners:#',
                "pair 'generic' – 'calm'",
            ],
        ),
    ],
)
def test_what_has_new_checksums_is_caught_by_what_rests_on_it(
    files, forged, pattern, change, named
):
    opener = json.loads(files[MANIFEST])['openers'][0]['id']
    lines = problems(forged(pattern, change))
    for words in named:
        words = words.format(name=min(fnmatch.filter(files, pattern)), opener=opener)
        assert any(re.search(words, line) for line in lines), words


@pytest.mark.parametrize('draw', range(2))
def test_few_dialogues_are_of_as_many_targets_as_there_are(packs, checker, draw):
    # two targets: one dialogue of each before a second one, whatever is drawn
    options = RegenerateOptions(sample=5, regenerate=3, draw=draw)
    checked = check_pack(packs['both'], options, checker)
    assert sorted(checked.again.played.values()) == [1, 2]
    # a dialogue has two judged utterances: three dialogues are drawn for five
    assert sorted(checked.again.scored.values()) == [2, 4]
    for about in ('played again', 'scored again'):
        assert states(checked)[about] == 'proven'
        assert 'of 2 of 2 targets' in text_about(checked, about)
    one = check_pack(packs['both'], RegenerateOptions(regenerate=1, draw=draw), checker)
    assert 'of 1 of 2 targets (2 are at hand' in text_about(one, 'played again')


def test_what_is_drawn_is_drawn_anew_or_as_before(packs):
    with open_pack(packs['both']) as pack:
        places = dialogue_places(pack, pack.run.dialogue_shards())
        orders = [tuple(spread_over_targets(places, seed)) for seed in (1, 1, 2, 3)]
    assert orders[0] == orders[1] and len(set(orders)) == 3
    assert {frozenset(order) for order in orders} == {frozenset(places)}


def test_a_shard_is_not_read_for_each_dialogue_that_is_drawn(
    packs, checker, monkeypatch
):
    reads, real = [], RunFolder.read_bytes
    monkeypatch.setattr(
        RunFolder, 'read_bytes', lambda *given: reads.append(given[1]) or real(*given)
    )
    monkeypatch.setattr('parlai_ext.store.folder.MOST_HELD', 0)  # of any other run
    check_pack(packs['both'], RegenerateOptions(sample=1000), checker)
    # as records, and as dialogues
    assert max(map(reads.count, reads)) == 2


def test_a_dialogue_that_differs_alone_is_played_in_its_batch(
    packs, checker, monkeypatch
):
    batches = []
    real = BlockPlayer.play_block

    def near_tie(player, block):
        played = real(player, block)
        batches.append(block.n_dialogues)
        if len(batches) == 1:
            [(shard, [one])] = played.items()
            last = replace(one.utterances[-1], text='the other word')
            played[shard] = [replace(one, utterances=(*one.utterances[:-1], last))]
        return played

    monkeypatch.setattr(BlockPlayer, 'play_block', near_tie)
    checked = check_pack(packs['both'], RegenerateOptions(regenerate=1), checker)
    assert not checked.problems
    assert batches in ([1, 2], [1, 1])  # five openers, two in a batch
    assert checked.again.n_whole == 1


def test_a_score_and_its_ranking_made_anew_are_caught_by_scoring_again(
    copy_of, published, checker
):
    path = published(copy_of('both', raise_score))
    assert not check_pack(path).problems
    (problem,) = check_pack(path, RegenerateOptions(sample=1000), checker).problems
    assert re.match('scored again: dialogue .*of talker', problem)


@pytest.mark.parametrize(
    'withhold_text, named',
    [(False, 'A much better answer.'), (True, 'its digest is another one')],
)
def test_a_dialogue_and_all_that_follows_made_anew_are_caught_by_playing_again(
    copy_of, published, checker, withhold_text, named
):
    run = copy_of('both', better_answer, 'dialogues/talker*/00000.jsonl')
    shutil.rmtree(run.root / 'scores')
    chosen = ChosenScorer(run.manifest.protocol.scorer, named_by_user=False)
    score_run(run, chosen.build(), chosen)
    path = published(run, withhold_text=withhold_text)
    assert not check_pack(path).problems
    (problem,) = check_pack(path, RegenerateOptions(regenerate=100), checker).problems
    assert re.match(f'played again: dialogue .*{named}', problem)
    lenient = RegenerateOptions(regenerate=100, max_different=0.05)
    assert not check_pack(path, lenient, checker).problems  # 1 of 20


def test_withheld_dialogues_are_scored_as_they_were_played_again(
    runs, published, checker
):
    path = published(runs['both'], withhold_text=True)
    options = RegenerateOptions(sample=4, regenerate=100)
    checked = check_pack(path, options, checker)
    assert not checked.problems
    assert sum(checked.again.played.values()) == 20
    assert checked.again.n_scored >= 4


def test_a_pack_that_withholds_texts_shows_none(runs, published, tampered):
    files = files_in(published(runs['both'], withhold_text=True))
    name = first(files, 'dialogues/')
    files[name] = forge_shard(files[name], better_answer)
    [line, *_] = problems(tampered(files, honest=False))
    assert 'a digest stands for withheld texts' in line


@pytest.fixture(scope='module')
def judged(runs, module_folder):
    """
    The pack of a run whose judge was checked.
    """
    shutil.copytree(runs['both'].root, module_folder / 'run')
    run = RunFolder.existing(module_folder / 'run')
    check_run(run, ChosenScorer(run.manifest.protocol.scorer).build())
    return publish(run, module_folder / 'p.zip').path


def forge_check(pack, path, change):
    """
    Write a pack whose judge check was changed, in the ranking, too.
    """
    files = files_in(pack)
    (check,) = (name for name in files if name.endswith('judge_check.json'))
    (ranking,) = (name for name in files if name.startswith('rankings/'))
    files[check] = forge_json(files[check], change)
    files[ranking] = forge_json(
        files[ranking], lambda data: change(data['judge_check'])
    )
    return write_forged(path, files)


def test_a_judge_check_follows_from_its_counts_and_is_made_again(judged, checker):
    found = states(check_pack(judged))
    assert (found['judge check'], found['checked again']) == ('proven', 'self-reported')
    options = RegenerateOptions(judge_check=True)
    assert states(check_pack(judged, options, checker))['checked again'] == 'proven'


def test_a_better_judge_and_an_outcome_that_its_counts_do_not_give_are_named(
    judged, tmp_path
):
    def swap(check):
        check['signature'] = 'scorer:wise'

    for change, words in ((swap, '.*scorer:wise'), (passes, 'Overall.outcome')):
        lines = problems(forge_check(judged, tmp_path / 'p.zip', change))
        assert any(re.match(f'judge check: length: {words}', one) for one in lines)


def passes(check):
    check['dimensions']['Overall'].update(outcome='pass', reasons=[])


def passes_with_counts(check):
    made_up = check_to_json(example_check({'Overall': PASSES}))
    check['dimensions'] = made_up['dimensions']


def test_counts_made_up_are_caught_by_checking_again_only(judged, tmp_path, checker):
    path = forge_check(judged, tmp_path / 'p.zip', passes_with_counts)
    assert check_pack(path).problems == []
    checked = check_pack(path, RegenerateOptions(judge_check=True), checker)
    assert any('190 of 200 higher' in line for line in checked.problems)
    assert all(line.startswith('checked again: ') for line in checked.problems)


@pytest.mark.parametrize(
    'target, mine, options, about, words',
    [
        (
            'talker',
            {'systems': {'talker': {'model': 'tests.support.trial_agents:SlowStart'}}},
            {'regenerate': 1},
            'played again',
            'talker (yours is another one',
        ),
        (
            'generic',
            {'scorer': {'name': 'distinct'}},
            {'sample': 1},
            'scored again',
            'scorer: length → distinct',
        ),
    ],
)
def test_another_system_or_scorer_is_not_at_hand_and_named(
    packs, tmp_path, target, mine, options, about, words
):
    checker = checker_of(tmp_path, [target], **mine)
    checked = check_pack(packs[target], RegenerateOptions(**options), checker)
    assert states(checked)[about] == 'self-reported'
    assert words in text_about(checked, about)


def test_nothing_that_a_pack_names_is_imported(forged):
    named = {'model': 'tests.packs.never:Imported'}
    path = forged(MANIFEST, lambda m: m['systems'].update(generic=named))
    options = RegenerateOptions(sample=1, regenerate=1)
    checked = check_pack(path, options, Checker(CPU))
    assert states(checked)['played again'] == 'self-reported'


def test_the_command_ends_with_an_error_where_something_is_wrong(
    files, tampered, printed
):
    name = first(files, 'scores/')
    files[name] += b'\n'
    path = tampered(files)
    with user_error(name):
        VerifyRun.main(str(path))
    out = printed()
    assert 'wrong          files: 1 problem' in out and name in out


def test_a_run_in_which_a_system_did_not_run_is_consistent(copy_of, published):
    run = copy_of('both')
    for path in run.root.glob('*/**/talker*/*.jsonl'):
        path.unlink()
    write_problems(run, {'talker': 'system talker: no file /home/me/m/model'})
    path = published(run)
    assert check_pack(path).problems == []
    assert b'/home/me' not in b''.join(files_in(path).values())
