"""
Chats as ParlAI's model_chat writes them: by ParlAI's own methods, without Mephisto.
"""

from types import SimpleNamespace

from tests.support.parlai_crowdsourcing import parlai_method
from tests.support.written import written

WORLDS = 'model_chat/worlds.py'
SAID = ('Hello.', 'How are you?', 'Fine.')


def write_chat(
    folder, name, rating='4|5|3|4', *, system='sysA', worker='w1', **changed
):
    """
    Write the log of a chat that starts with "Hi!" and return its path.

    :param name: the id of its assignment.
    :param changed: keys of the record that are otherwise.
    """
    bot = SimpleNamespace(
        agent_id='some-model',
        worker_id=system,
        model_agent=SimpleNamespace(opt={'model_file': None}),
        observe=lambda act: None,
        act=lambda: {'text': SAID[0], 'id': 'some-model'},
    )
    about = {'task_run_id': '1', 'assignment_id': name}
    person = SimpleNamespace(
        agent_id='Worker',
        observe=lambda act: None,
        mephisto_agent=SimpleNamespace(**about),
    )
    world = SimpleNamespace(
        agent=person,
        bot=bot,
        dialog=[],
        personas=None,
        check_acceptability=False,
        opt={
            'include_persona': False,
            'conversation_start_mode': 'hi',
            'annotations_config': None,
        },
    )
    compatibility = SimpleNamespace(
        backward_compatible_force_set=lambda act, key, value: {**act, key: value}
    )
    begin = parlai_method(
        WORLDS,
        'ModelChatWorld',
        '_run_initial_turn',
        Compatibility=compatibility,
        validate=lambda act: act,
        print=lambda text: None,
    )
    begin(world)
    for place, text in enumerate(SAID[1:]):
        world.dialog.append({'agent_idx': place, 'text': text, 'id': 'x'})
    world.dialog[-1]['final_rating'] = rating
    record = parlai_method(
        WORLDS,
        'BaseModelChatWorld',
        'get_final_chat_data',
        get_mturk_id_from_mephisto_wrapper=lambda agent: worker,
    )(world)
    return written(folder, f'20260102_{name}_live.json', record | changed)
