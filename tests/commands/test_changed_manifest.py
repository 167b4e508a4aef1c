"""
Whatever somebody wrote into a manifest, with a checksum that fits, the commands that
read a run either do their work or refuse it in one line.
"""

import contextlib
import io
import shutil

import pytest

from parlai_ext.commands.collect_dialogues import CollectDialogues
from parlai_ext.commands.evaluate_systems import EvaluateSystems
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.commands.report_run import ReportRun
from parlai_ext.commands.score_dialogues import ScoreDialogues
from parlai_ext.core import UserError
from parlai_ext.store import RunFolder
from tests.support.mutations import MORE_OTHERS, mutations
from tests.support.small_run import SMALL, small_config
from tests.support.store_samples import save, whole_run

READERS = {
    'open': RunFolder.existing,
    'rank': lambda run: RankSystems.main(run_dir=run, bootstraps=25),
    'report': lambda run: ReportRun.main(run_dir=run),
    'go on': lambda run: CollectDialogues.main(run_dir=run, dry_run=True),
    'score': lambda run: ScoreDialogues.main(run_dir=run, check_sample=4),
    'evaluate': lambda run: EvaluateSystems.main(run_dir=run, dry_run=True),
}


@pytest.fixture(scope='module')
def run(module_folder):
    config = small_config(module_folder, partners=1)
    EvaluateSystems.main(config=config, run_dir=module_folder / 'run', **SMALL)
    return module_folder / 'run'


def problems(run, work, changes, readers=READERS):
    """
    Return what commands raise, but for `UserError`, over each change of the manifest.
    """
    found = {}
    for change, manifest in changes:
        shutil.rmtree(work, ignore_errors=True)
        shutil.copytree(run, work)
        try:
            save(work, manifest)
        except ValueError:  # nothing that JSON could hold
            continue
        for name in ('open', *readers):
            try:
                with contextlib.redirect_stdout(io.StringIO()):
                    READERS[name](str(work))
            except UserError as error:
                assert '\n' not in str(error), change
                if name == 'open':
                    break  # as each command does, with the same line
            except Exception as error:
                found[f'{name}: {change}'] = f'{type(error).__name__}: {error!s:.200}'
    return found


def changes_of(run):
    return list(mutations(RunFolder.existing(run).manifest.to_json(), MORE_OTHERS))


def test_some_changes_of_a_manifest_are_read_or_refused(tmp_path):
    run = tmp_path / 'run'
    whole_run(run)  # without models
    changes = changes_of(run)
    some = changes[:: len(changes) // 25]
    assert problems(run, tmp_path / 'work', some, ('rank', 'go on')) == {}


@pytest.mark.slow
@pytest.mark.parametrize('part', range(8))
def test_no_change_of_a_manifest_ends_in_a_traceback(part, run, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # some changes are relative paths
    assert problems(run, tmp_path / 'work', changes_of(run)[part::8]) == {}
