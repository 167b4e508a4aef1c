"""
What a kernel does not enforce is said.
"""

from unittest.mock import Mock

import pytest

from parlai_ext.isolation import fork_server

KEYS = "no reading of other processes' keys"
SIGNALS = 'no signals to other processes'


# man 7 landlock: memory of others since 1, truncating 3, ports 4, signals 6
@pytest.mark.parametrize(
    'version, missing',
    [
        (-1, [KEYS, 'no writing', SIGNALS, 'no network']),
        (2, ['no writing', SIGNALS, 'no network']),
        (3, [SIGNALS, 'no network']),
        (4, [SIGNALS]),
        (6, []),
    ],
)
def test_what_a_kernel_lacks_is_told(version, missing, monkeypatch):
    def syscall(number, *given):
        return version if given[-1] == fork_server.VERSION else 0

    kernel = Mock(
        syscall=syscall, **{'prctl.return_value': 0, 'capset.return_value': 0}
    )
    monkeypatch.setattr(fork_server, 'C_LIBRARY', kernel)
    monkeypatch.setattr(fork_server, '_is_confined', False)
    task = fork_server.ForkedTask('', {}, 0, ports=(8000,))
    assert fork_server.confine(task) == missing
