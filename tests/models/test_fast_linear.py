"""
Linear layers that oneDNN computes give what torch's own give.
"""

import pytest
import torch
from torch import nn

from parlai_ext.models import fast_linear


@pytest.mark.skipif(not fast_linear.LINEAR, reason='torch was built without oneDNN')
@pytest.mark.parametrize('shape', [(2, 5, 300), (0, 300), (300,)])
def test_a_large_layer_gives_the_same_and_others_stay(shape, monkeypatch):
    monkeypatch.setattr(fast_linear, 'IS_AMD', True)
    large, small = nn.Linear(300, 300), nn.Linear(300, 8)
    layers = nn.ModuleList([large, small, nn.Linear(300, 300).half()])
    given = torch.randn(shape)
    expected = large(given).detach()
    fast_linear.quicken(layers)
    assert [one for one in layers if type(one) is not nn.Linear] == [large]
    with torch.inference_mode():
        torch.testing.assert_close(large(given), expected)
    large(given).sum().backward()  # who learns with it gets gradients
    assert large.weight.grad is not None
