"""
Every family of systems plays every other in one command, and is scored: a small model
of each class, chat models and remote systems, all as targets and all as partners. What
they say means nothing: their weights are random. `make families` shows the counts.
"""

import pytest

from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.store import RunFolder
from tests.collect.test_preflight import protocol
from tests.support import chat_server, families, family_fid, family_hf, remote_samples

BUILDERS = families.FAMILIES | family_fid.FAMILIES | family_hf.FAMILIES


@pytest.mark.slow
def test_all_families_play_as_targets_and_as_partners(registered, tmp_path):
    systems = {}
    for name, build in BUILDERS.items():
        (tmp_path / name).mkdir()
        systems[name] = build(tmp_path / name)
    with chat_server.running_server() as url:
        for form in ('openai', 'plain'):
            remote = remote_samples.make_remote(tmp_path, url, remote_format=form)
            systems[f'remote_{form}'] = dict(remote.opt)
        sides = [
            [{'name': f'{side}{name}', 'opt': opt} for name, opt in systems.items()]
            for side in ('', 'with ')
        ]
        ranking = {'bootstraps': 200}
        opt = protocol(tmp_path, *sides, num_dialogues=1, ranking=ranking)
        EvaluateSystems.main(**opt, preflight=True)
    rows = RunFolder.existing(opt['run_dir']).read_json('ranking.json')
    n = len(systems)
    assert n == 18
    counts = {
        row['system']: (row['n_dialogues'], row['n_partners'], row['n_unscored'])
        for row in rows['dimensions']['Overall']
    }
    print('dialogues, partners, dialogues without a score:', counts)
    # one dialogue with each partner; one that is broken off has no score
    assert counts == dict.fromkeys(systems, (n, n, 0))
