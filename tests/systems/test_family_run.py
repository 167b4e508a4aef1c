"""
Every family of systems plays every other in one command, and is scored: a small model
of each class, chat models and remote systems, all as targets and all as partners. What
they say means nothing: their weights are random. `make families` shows the counts.
"""

import subprocess
import sys
from collections import Counter
from pathlib import Path

import pytest

from parlai_ext.commands import plugin
from parlai_ext.store import RunFolder
from tests.collect.test_preflight import protocol
from tests.support import families, family_fid, family_hf, remote_samples

PARLAI = Path(sys.executable).parent / 'parlai'
BUILDERS = families.FAMILIES | family_fid.FAMILIES | family_hf.FAMILIES


def options_by_name(folder, url):
    """
    Write one model of each family; return their options, and those of remote systems
    that the server at ``url`` plays.
    """
    plugin.register()
    systems = {}
    for name, build in BUILDERS.items():
        (folder / name).mkdir()
        systems[name] = build(folder / name)
    for form in ('openai', 'plain'):
        remote = remote_samples.make_remote(folder, url, remote_format=form)
        systems[f'remote_{form}'] = dict(remote.opt)
    return systems


@pytest.mark.slow
def test_all_families_play_as_targets_and_as_partners(tmp_path):
    with remote_samples.running_server() as url:
        systems = options_by_name(tmp_path, url)
        sides = [
            [{'name': f'{side}{name}', 'opt': opt} for name, opt in systems.items()]
            for side in ('', 'with ')
        ]
        ranking = {'bootstraps': 200}
        opt = protocol(tmp_path, *sides, num_dialogues=1, ranking=ranking)
        command = [PARLAI, 'evaluate_systems', '--preflight']
        places = ['--config', opt['config'], '--run-dir', opt['run_dir']]
        subprocess.run([*command, *places], check=True)
    folder = RunFolder.existing(opt['run_dir'])
    whole = [d for d in folder.iter_dialogues() if len(d.utterances) == 12]
    scores = folder.scores(
        folder.read_json('ranking.json')['signature'].split(' || ')[1]
    )
    counts = {
        'as target': Counter(d.utterances[2].speaker for d in whole),
        'as partner': Counter(d.utterances[3].speaker[5:] for d in whole),
        'scored': Counter(
            score.system
            for shard in folder.dialogue_shards()
            for scored in scores.read(shard)
            for score in scored.scores
            if score.dimension == 'Overall' and score.value is not None
        ),
    }
    for kind, by_name in counts.items():
        print(kind, dict(by_name))
    n = len(systems)
    assert n == 18
    # one dialogue with each partner, one for each target; 5 of 12 utterances are judged
    assert [counts[kind] for kind in counts] == [
        dict.fromkeys(systems, each) for each in (n, n, 5 * n)
    ]
