"""
`convert_model` as a command: reading its options runs and fetches nothing.
"""

from pathlib import Path

import parlai.core.params
import pytest
from parlai.core.script import superscript_main

from parlai_ext.__main__ import main
from tests.support.forked import command_in_child
from tests.support.malicious_pickles import gadget
from tests.support.tiny_models import make_generator

WAYS = {'parlai': superscript_main, 'module': main}


def on_the_command_line(way, *args):
    """
    Return the exit code and the last line of an error.
    """
    code, _, errors = command_in_child(WAYS[way], *args)
    return code, errors.strip().split('\n')[-1]


@pytest.mark.parametrize('first', [(), ('--helpall',)])
@pytest.mark.parametrize('way', WAYS)
def test_options_that_are_a_malicious_pickle_do_not_run(way, first, tmp_path):
    marker = tmp_path / 'marker'
    path = make_generator(tmp_path)
    Path(f'{path}.opt').write_bytes(gadget('exec', marker))
    out = str(tmp_path / 'new.safetensors')
    args = (*first, 'convert_model', '--model-file', path, '--output', out)
    code, line = on_the_command_line(way, *args)
    assert not marker.exists()
    if not first:
        assert (code, line[:29]) == (1, f'error: model file {path}.opt'[:29])
        assert 'refused: ' in line and 'builtins.exec' in line


@pytest.mark.parametrize('way', WAYS)
def test_a_model_that_is_not_here_is_not_fetched(way, tmp_path):
    # the zoo's folder would be made first of all, by any download
    path = 'zoo:blender/blender_90M/model'
    out, data = str(tmp_path / 'new.safetensors'), str(tmp_path / 'data')
    args = ('--model-file', path, '--output', out, '--datapath', data)
    code, line = on_the_command_line(way, 'convert_model', *args)
    assert (code, line[:30]) == (1, f'error: --model-file: {path}'[:30])
    assert line.endswith(f'parlai check_roster --download --add-target it={path}')
    assert list(tmp_path.iterdir()) == []


def test_reading_the_command_line_asks_no_downloader(monkeypatch, tmp_path):
    asked = []
    monkeypatch.setattr(
        parlai.core.params, 'modelzoo_path', lambda *args: asked.append(args)
    )
    path = 'zoo:blender/blender_90M/model'
    with pytest.raises(SystemExit):
        superscript_main(
            ['convert_model', '--model-file', path, '--datapath', str(tmp_path)]
        )
    assert asked == []
