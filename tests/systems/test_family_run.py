"""
Every family of systems plays every other in one command, and is scored.
"""

import pytest

from tests.support import family_remote
from tests.support.family_run import build, evaluate, table, write_protocol


@pytest.mark.slow
def test_all_families_play_as_targets_and_as_partners(tmp_path):
    with family_remote.running_server() as url:
        systems = build(tmp_path / 'models', url)
        protocol = write_protocol(tmp_path, systems, num_dialogues=1)
        evaluate(protocol, tmp_path / 'run', '--preflight')
    n = len(systems)
    assert n == 18
    # one dialogue with each partner, one for each target; 5 of 12 utterances are judged
    assert table(tmp_path / 'run') == dict.fromkeys(systems, (n, n, 5 * n))
