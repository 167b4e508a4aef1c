"""
The long context of MSC: nothing changes within the pre-trained positions, and what lies
beyond them is heard.
"""

import shutil

import pytest
import torch

from parlai_ext.agents.long_context.long_context import recent_first
from parlai_ext.core import System
from parlai_ext.systems.identity import resolve
from parlai_ext.systems.parlai_agents import load_system
from tests.support.talk import loaded
from tests.support.tiny_models import SIZES, WORDS, in_float64, make_model, with_options
from tests.support.user_error import error_line

KNOWN, SIZE = 12, 1024
THEIRS = 'projects.msc.agents.long_tga:TransformerVariantAgent'


@pytest.fixture(scope='module')
def model_file(module_folder):
    size = {'n_positions': SIZE, 'truncate': SIZE, 'n_positions_init': KNOWN}
    opt = {**SIZES, **size, 'model': 'ext:long_context', 'label_truncate': 8}
    return make_model(module_folder, 'long', 3, opt)


@pytest.fixture(scope='module')
def long(model_file):
    return agent_of(model_file)


@pytest.fixture(scope='module')
def plain(module_folder, model_file):
    """
    ParlAI's generator with the same weights.
    """
    copy = copied(model_file, module_folder / 'plain', n_positions_init=None)
    return agent_of(copy, model='transformer/generator')


def copied(model_file, copy, **changes):
    """
    Copy a model with some of its stored options changed.
    """
    for end in ('', '.opt', '.dict'):
        shutil.copy(model_file + end, f'{copy}{end}')
    return with_options(copy, **changes)


def agent_of(model_file, **opt):
    return in_float64(loaded(model_file=str(model_file), **opt).agent)


def tokens(n, start=0):
    """
    Return ``n`` words of the dictionary as a row.
    """
    return torch.tensor([[4 + (start + i) % len(WORDS) for i in range(n)]])


def encoded(agent, rows):
    with torch.no_grad():
        return agent.model.eval().encoder(rows)[0]


@pytest.mark.parametrize(
    'expected',
    [
        # a table of 8 positions, 3 of them pre-trained
        [5, 6, 7, 0, 1, 2],
        [3, 4, 5, 6, 7, 0, 1, 2],
    ],
)
def test_the_last_tokens_have_the_pretrained_positions(expected):
    row = torch.arange(len(expected))[None]
    assert recent_first(row, n_pretrained=3, size=8).tolist() == [expected]


@pytest.mark.parametrize('length', [1, KNOWN, KNOWN + 1])
def test_a_context_that_fits_is_read_as_the_plain_generator_reads_it(
    long, plain, length
):
    rows = tokens(length)
    same = torch.equal(encoded(long, rows), encoded(plain, rows))
    assert same == (length <= KNOWN)


@pytest.mark.parametrize('length', [KNOWN + 1, SIZE])
def test_the_first_token_of_a_long_context_is_heard(long, length):
    rows, other = tokens(length), tokens(length)
    other[0, 0] += 1
    last, changed = encoded(long, rows)[0, -1], encoded(long, other)[0, -1]
    assert float((last - changed).abs().max()) > 1e-6


def test_a_published_model_file_loads(module_folder, model_file):
    # their `.opt` names a class that is not in ParlAI's wheel; the roster names ours
    copy = copied(model_file, module_folder / 'published', model=THEIRS)
    agent = agent_of(copy, model='ext:long_context')
    assert agent.model.encoder.opt['n_positions_init'] == KNOWN


@pytest.mark.parametrize(
    'model, words',
    [
        ('transformer/generator', 'n_positions_init is 12, n_positions 1024'),
        (THEIRS, 'not in ParlAI'),
    ],
)
@pytest.mark.parametrize('named', ['by the roster', 'by its own options'])
def test_another_agent_is_refused(tmp_path, model_file, model, words, named):
    stored = {'model': model} if named == 'by its own options' else {}
    more = {'model': model} if named == 'by the roster' else {}
    path = copied(model_file, tmp_path / 'msc', **stored)
    system = System('x', {'model_file': str(path), **more})
    found = resolve(system)
    assert found.status == 'missing' and found.reason.startswith(f'model: {model} ')
    assert words in found.reason and 'ext:long_context' in found.reason
    assert error_line(load_system, system) == f"system 'x': {found.reason}"
