"""
`ask_contexts`: answers to a corpus, which `import_dialogues` reads with references.
"""

from parlai_ext.commands.ask_contexts import AskContexts
from parlai_ext.commands.import_dialogues import ImportDialogues
from tests.support.user_error import user_error
from tests.support.written import json_in, json_rows, written


def test_answers_become_dialogues_whose_last_turn_is_judged(tmp_path):
    dialogue = {'dialogue': ['hi', 'hello', 'tea?', 'yes']}
    corpus = written(tmp_path, 'corpus.jsonl', [dialogue])
    file = AskContexts.main(
        corpus='jsonl',
        path=str(corpus),
        systems=['polite=agent:fixed_response,fixed_response=nope'],
        out=str(tmp_path / 'out'),
    )
    turns = json_in(file)['turns']
    assert [turn['speaker'] for turn in turns] == ['user', 'polite', 'user', 'polite']
    assert (turns[-1]['text'], turns[-1]['reference']) == ('nope', ['yes'])
    assert [turn.get('given', False) for turn in turns] == [True, True, True, False]
    run = {'run_dir': tmp_path / 'run', 'humans': 'user', 'scorer': 'bleu_2'}
    ImportDialogues.main(dialogues=[str(file)], **run)
    assert (tmp_path / 'run' / 'manifest.json').exists()


def test_a_system_that_fails_is_an_error_and_what_others_answered_is_kept(tmp_path):
    corpus = written(
        tmp_path, 'corpus.jsonl', [{'dialogue': ['hi', 'prompt 4', 'yes']}]
    )
    fixed = 'polite=agent:fixed_response,fixed_response=nope'
    asked = {'corpus': 'jsonl', 'path': str(corpus), 'out': str(tmp_path / 'out')}
    broken = 'broken=agent:tests.toxic.test_compare_safety:Broken'
    with user_error('the endpoint is gone'):
        AskContexts.main(**asked, context_turns=1, systems=[broken, fixed])
    [row] = json_rows(tmp_path / 'out' / 'dialogues.jsonl')
    assert row['dialogue_id'] == 'test-1-polite'
