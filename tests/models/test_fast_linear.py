"""
Linear layers that oneDNN computes give what torch's own give.
"""

import pytest
import torch
from torch import nn

from parlai_ext.models import fast_linear

SIZES = (300, 300), (300, 8)


@pytest.mark.skipif(not fast_linear.LINEAR, reason='torch was built without oneDNN')
@pytest.mark.parametrize('shape', [(3, 300), (2, 5, 300), (0, 300), (300,)])
def test_large_layers_give_the_same_and_others_stay(shape, monkeypatch):
    network = nn.Sequential(*(nn.Linear(*size) for size in SIZES))
    layers = *network, nn.Linear(*SIZES[0]).half()
    given = torch.randn(shape)
    expected = network(given).detach()
    for is_amd, fast in ((False, []), (True, layers[:1])):
        monkeypatch.setattr(fast_linear, 'IS_AMD', is_amd)
        fast_linear.quicken(nn.ModuleList(layers))
        assert [one for one in layers if type(one) is not nn.Linear] == [*fast]
    with torch.inference_mode():
        torch.testing.assert_close(network(given), expected)
    network(given).sum().backward()  # who learns with it gets gradients
    assert layers[0].weight.grad is not None
