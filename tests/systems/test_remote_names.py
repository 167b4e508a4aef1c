"""
The name that a model gives itself: a run ends as it began, with one model.
"""

import pytest

from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import System
from parlai_ext.systems.families import FAMILIES
from parlai_ext.systems.remote.endpoint import UNTOLD
from tests.support.family_remote import control, make_remote, received
from tests.support.remote_samples import NAME, PINNED, hellos

pytest_plugins = ['tests.support.remote_samples']
pin = FAMILIES['remote'].pin


def identity_contents(opt):
    return FAMILIES['remote'].contents(System('x', opt), opt, None)


def test_a_model_without_a_pin_is_asked_for_its_name_once(url, endpoint):
    system = endpoint()
    system.replies(hellos(2))
    system.replies(hellos(3))
    assert system.dated_name() == NAME
    assert len(received(url)) == 1 + 3


def test_a_change_of_model_in_mid_run_is_refused(url, endpoint):
    system = endpoint()
    system.replies(hellos(2))
    control(url, model='tiny-2024-08-06')
    line = 'remote_model: the endpoint now answers as tiny-2024-08-06, this run began '
    with pytest.raises(UserError, match=f'{line}with {NAME}'):
        system.replies(hellos(3))


def test_a_model_that_stops_telling_its_name_is_refused(url, endpoint):
    control(url, model=None)
    with pytest.raises(UserError, match='now answers as .untold.'):
        endpoint(**PINNED).replies(hellos(1))


def test_answers_of_another_model_are_not_taken_from_the_cache(url, endpoint):
    endpoint().replies(hellos(1))
    control(url, model='tiny-2024-08-06')
    endpoint().replies(hellos(1))
    assert len(received(url)) == 2  # its name, and a reply of its own


def test_a_run_on_another_day_begins_with_the_name_of_that_day(tmp_path, url):
    opt = make_remote(tmp_path, url).opt
    assert pin(opt)['remote_dated_model'] == NAME
    assert identity_contents(opt) == {'remote_model': NAME}
    control(url, model='tiny-2024-08-06')
    assert identity_contents(opt) == {'remote_model': 'tiny-2024-08-06'}
    assert identity_contents(pin(opt)) == identity_contents(opt)


def test_a_service_without_a_name_is_its_address(tmp_path, url):
    control(url, model=None)
    opt = make_remote(tmp_path, url, remote_format='plain').opt
    assert pin(opt)['remote_dated_model'] == UNTOLD
    assert identity_contents(pin(opt)) == {'remote_url': f'{url}/reply'}


def test_a_name_that_is_pinned_is_not_asked_for(tmp_path, url):
    opt = make_remote(tmp_path, url, **PINNED).opt
    assert pin(opt) == opt and identity_contents(opt) == {'remote_model': NAME}
    assert received(url) == []
