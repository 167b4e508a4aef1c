"""
Openers from a file that a protocol names: what the plan has of it.
"""

import json

from parlai_ext.collect.options import PlanOptions
from parlai_ext.collect.plan import make_plan
from tests.support.on_cpu import CPU

PROTOCOL = """\
name: own
openers_file: mine.csv
num_dialogues: 2
num_turns: 4
roster:
  targets: [{name: one, opt: {model: repeat_query}}]
  partners: [{name: two, opt: {model: fixed_response}}]
"""
ROWS = 'conv_id,utterance_idx,utterance\na,1,Hi!\na,2,Hello.\nb,1,Tea?\nb,2,Please.\n'


def planned(folder, rows):
    folder.mkdir()
    (folder / 'own.yaml').write_text(PROTOCOL)
    (folder / 'mine.csv').write_text(rows)
    options = PlanOptions.from_options({'config': str(folder / 'own.yaml')})
    return make_plan(options, CPU)


def test_a_run_is_told_by_what_the_file_of_its_openers_holds(tmp_path):
    one, other = planned(tmp_path / 'a', ROWS), planned(tmp_path / 'b', ROWS)
    said = {opener.utterances for opener in one.openers}
    assert said == {('Hi!', 'Hello.'), ('Tea?', 'Please.')}
    assert one.manifest.signature == other.manifest.signature
    assert 'mine.csv' not in json.dumps(one.manifest.to_json())
    changed = planned(tmp_path / 'c', ROWS.replace('Tea', 'Coffee'))
    assert changed.manifest.signature != one.manifest.signature
