"""
What the guard changes in the process, for whom, and until when.
"""

import pickle
import threading
from collections import OrderedDict

import numpy
import parlai.core.agents
import parlai.core.opt
import parlai.utils.pickle
import pytest
import torch
from parlai.core.tod import tod_agents

from parlai_ext.systems.safe.load import Refused, guarded
from parlai_ext.systems.safe.unpickle import SafeUnpickler
from tests.support.malicious_pickles import gadget, in_zip

PLACES = [
    (torch, 'load'),
    (torch.jit, 'load'),
    (numpy, 'load'),
    (parlai.utils.pickle, 'load'),
    (tod_agents, 'pickle'),
    (parlai.core.opt.Opt, 'load'),
    (parlai.core.agents, 'load_agent_module'),
]


def now():
    return [vars(owner)[name] for owner, name in PLACES]


def test_everything_is_as_before_after_the_last_guard():
    before = now()
    with guarded():
        inside = now()
        with pytest.raises(ZeroDivisionError), guarded():
            raise ZeroDivisionError
        assert now() == inside
    assert not any(a is b for a, b in zip(before, inside, strict=True))
    assert all(a is b for a, b in zip(before, now(), strict=True))


def test_guards_of_two_threads_overlap(tmp_path):
    before, path = now(), tmp_path / 'model'
    path.write_bytes(in_zip(gadget('exec', tmp_path / 'marker')))
    entered, left = threading.Event(), threading.Event()
    refused = []

    def other():
        with guarded():
            entered.set()
            left.wait(20)
            try:
                torch.load(path)
            except Refused as error:
                refused.append(error)
                raise

    thread = threading.Thread(target=pytest.raises, args=(Refused, other))
    with guarded():
        thread.start()
        assert entered.wait(20)
    left.set()  # the first guard is gone, the other still there
    thread.join()
    assert len(refused) == 1 and not (tmp_path / 'marker').exists()
    assert all(a is b for a, b in zip(before, now(), strict=True))


def test_a_thread_without_guard_trusts_nothing_meanwhile(tmp_path):
    path, marker = tmp_path / 'model', tmp_path / 'marker'
    path.write_bytes(in_zip(gadget('exec', marker)))
    caught = []

    def other():
        caught.append(pytest.raises(Refused, torch.load, path))

    with guarded(trusted=[str(path)]):
        thread = threading.Thread(target=other)
        thread.start()
        thread.join()
    assert len(caught) == 1 and not marker.exists()


def test_pickles_that_are_not_parlais_are_left_alone(tmp_path):
    path = tmp_path / 'own.pickle'
    path.write_bytes(pickle.dumps(threading.Thread))
    with guarded(), open(path, 'rb') as file:
        assert pickle.load(file) is threading.Thread


def test_pickles_that_parlai_reads_are_guarded(tmp_path):
    path = tmp_path / 'api.pickle'
    path.write_bytes(pickle.dumps(threading.Thread))
    agent = tod_agents.StandaloneApiAgent
    opt = {'standalone_api_file': str(path), 'exact_api_call': True, 'datatype': 'x'}
    with pytest.raises(Refused, match=r'threading\.Thread'), guarded():
        agent(opt)


def refusal(pickled, tmp_path):
    path = tmp_path / 'model'
    path.write_bytes(pickled)
    with open(path, 'rb') as file:
        return pytest.raises(Refused, SafeUnpickler(file).load).value.what


DOTTED = b'\x80\x04\x8c\x0bcollections\x8c'


@pytest.mark.parametrize(
    'pickled, what',
    [
        # a way into a class that is allowed
        (DOTTED + b'\x14OrderedDict.__init__\x93.', 'collections.OrderedDict.__init__'),
        (DOTTED + b'\x0babc.Mapping\x93.', 'collections.abc.Mapping'),
        # neighbours of what is allowed
        (b'cbuiltins\ngetattr\n.', 'builtins.getattr'),
        (b'cbuiltins\ntype\n.', 'builtins.type'),
        (b'cargparse\nArgumentParser\n.', 'argparse.ArgumentParser'),
        (b'ctorch\nload\n.', 'torch.load'),
        (b'cparlai.core.agents\ncreate_agent\n.', 'parlai.core.agents.create_agent'),
        (b'capex.amp\nscaler.os\n.', 'apex.amp.scaler.os'),
        # a class or a function is changed
        (b'ccollections\nOrderedDict\n}X\x01\x00\x00\x00aK\x01sb.', 'OrderedDict'),
        (
            b'c_codecs\nencode\n}X\x01\x00\x00\x00aK\x01sb.',
            'a change to _codecs.encode',
        ),
        (b'ctorch\nUntypedStorage\n}b.', 'a change to type'),
        (b'ccollections\nOrderedDict\nK\x01a.', 'a change to collections.OrderedDict'),
        (b'ccollections\nOrderedDict\nK\x01K\x01s.', 'a change to collections.Ord'),
        # a call of what is no function
        (b'K\x01)R.', 'no type of data (int)'),
        (b'ctorch\nUntypedStorage\n)R.', 'no type of data (type)'),
        (b'ccollections\nOrderedDict\n]R.', 'collections.OrderedDict'),
        (b'\x80\x04ccollections\nOrderedDict\n)}K\x01K\x01s\x92.', 'named arguments'),
        # ids of something else than tensors
        (b'K\x01Q.', 'persistent id'),
        (b'P1\n.', 'persistent id'),
    ],
)
def test_what_the_unpickler_refuses(pickled, what, tmp_path):
    assert what in refusal(pickled, tmp_path)


@pytest.mark.parametrize(
    'pid',
    [
        ('module', OrderedDict, 'source.py', 'class OrderedDict: pass'),
        ('storage', 'FloatStorage', '0', 'cpu', 1),
        ('storage',),
        ['storage'],
        'x',
    ],
)
def test_a_persistent_id_is_a_tensors_or_refused(pid, tmp_path):
    path = tmp_path / 'model'
    path.write_bytes(in_zip(pickle.dumps(pid, 2)[:-1] + b'Q.'))
    with pytest.raises(Refused, match='persistent id'), guarded():
        torch.load(path)


@pytest.mark.parametrize(
    'code, words',
    [
        # numbers that hide objects, or memory that is too short
        (b'cnumpy\ndtype\n(X\x02\x00\x00\x00V8I00\nI01\ntR', 'of type V8'),
        (b'cnumpy\ndtype\n(](X\x01\x00\x00\x00aX\x01\x00\x00\x00OetR', ''),
        # an encoding is a module that Python imports
        (b'c_codecs\nencode\n(X\x01\x00\x00\x00aX\x04\x00\x00\x00thistR', "'this'"),
        # an object's methods
        (b'cargparse\nNamespace\n)\x81}X\x08\x00\x00\x00__dict__}sb', '__dict__'),
        (b'ccollections\nOrderedDict\n)R}X\x05\x00\x00\x00itemsK\x01sb', 'items'),
        (b'cbuiltins\nset\n(cargparse\nNamespace\n)\x81tR', 'not plain'),
    ],
)
def test_what_cannot_be_read_is_one_line(code, words, tmp_path):
    path = tmp_path / 'model'
    path.write_bytes(in_zip(code + b'.'))
    with pytest.raises(Exception, match=words) as caught, guarded():
        torch.load(path)
    assert str(caught.value).startswith(f'model file {path}: it cannot be read: ')
    assert '\n' not in str(caught.value)
