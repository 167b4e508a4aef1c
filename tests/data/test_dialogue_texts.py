"""
The utterances of dialogues to train on.
"""

from parlai_ext.data.formats import read_dialogue_texts
from tests.support.shared_data import shared
from tests.support.user_error import user_error
from tests.support.written import written, zip_of

LINES = 'Hi ! __eou__ Hello . __eou__\nTea ? __eou__ No . __eou__ Why ? __eou__\n'


def test_an_archive_of_dailydialog_has_files_of_labels_too(tmp_path):
    labels = ('train/dialogues_act_train.txt', '3 4\n1 2 3\n')
    members = [labels, ('train/dialogues_train.txt', LINES)]
    path = written(tmp_path, 'train.zip', zip_of(members))
    assert read_dialogue_texts([str(path)]) == [
        ('Hi !', 'Hello .'),
        ('Tea ?', 'No .', 'Why ?'),
    ]


def test_files_that_can_be_imported(tmp_path):
    turns = [{'id': 'a', 'text': 'Hi!'}, {'id': 'b', 'text': 'Hello.'}]
    path = written(tmp_path, 'chats.jsonl', {'dialog': [turns]})
    assert read_dialogue_texts([str(path)]) == [('Hi!', 'Hello.')]


def test_a_file_without_a_dialogue_is_named(tmp_path):
    path = tmp_path / 'short.txt'
    path.write_text('alone __eou__\n')
    with user_error('short.txt'):
        read_dialogue_texts([str(path)])


def test_dailydialog_has_the_published_number_of_dialogues():
    # Li et al. 2017: 1,000 validation dialogues
    path = shared('dailydialog/validation.zip')
    assert len(read_dialogue_texts([str(path)])) == 1000
