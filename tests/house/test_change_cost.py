"""
What the smallest change of each kind costs: it is made over a copy of the tree that
links to the real files, and must work with no more files touched than `CHANGES` says.
"""

import io
import json
import traceback
from contextlib import redirect_stdout
from pathlib import Path

import pytest
import yaml

from tests.house.measures import BESIDE, ROOT
from tests.support.forked import command_in_child
from tests.support.linked_package import linked_package

CHANGES = yaml.safe_load(Path(__file__).with_name('changes.yaml').read_text('utf-8'))


def changed_tree(folder, changes):
    """
    Make a copy of the house in which some files are changed or new.
    """
    package = linked_package(folder)
    for top in ('parlai_internal', 'tests'):
        (folder / top).symlink_to(ROOT / top)
    for name, change in changes.items():
        real, place = ROOT / name, folder / name
        if Path(name).parts[0] in BESIDE:
            place = package / name
        if isinstance(change, dict):
            text = real.read_text('utf-8')
            assert text.count(change['before']) == 1, change
            change = text.replace(change['before'], change['after'])
        else:
            assert not real.exists()
        place.parent.mkdir(exist_ok=True)
        place.unlink(missing_ok=True)
        place.write_text(change, encoding='utf-8')


@pytest.fixture(scope='module')
def outputs(module_folder):
    """
    By its kind, what the program of each change prints; no two changes touch the same
    file, so one tree has them all.
    """
    changes = [file for one in CHANGES.values() for file in one['files'].items()]
    assert len(dict(changes)) == len(changes)
    changed_tree(module_folder, dict(changes))
    done = command_in_child(
        run_all, path=[module_folder], forget=['parlai_ext', 'tests']
    )
    assert done.code == 0, done.errors
    return json.loads(done.out.rstrip('\n').split('\n')[-1])


def run_all(_):
    printed = {}
    for kind, change in CHANGES.items():
        with redirect_stdout(io.StringIO()) as out:
            try:
                exec(change['program'], {})
            except Exception:
                print(traceback.format_exc())
        printed[kind] = out.getvalue()
    print(json.dumps(printed))


@pytest.mark.parametrize('kind', CHANGES)
def test_the_smallest_change_touches_few_files_and_works(outputs, kind):
    change = CHANGES[kind]
    assert len(change['files']) <= change['most']
    last_line = outputs[kind].rstrip('\n').split('\n')[-1]
    assert last_line == change['printed'], outputs[kind]
