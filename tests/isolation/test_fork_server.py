"""
A limit that a scheduler has set lower is no error; a system without what is needed is
one line; what a kernel does not enforce is said.
"""

import sys
from unittest.mock import Mock

import pytest

from parlai_ext.isolation import fork_server
from tests.support.run_python import run_python
from tests.support.user_error import user_error

CODE = """
import resource
from parlai_ext.isolation.fork_server import lower_limit
resource.setrlimit(resource.RLIMIT_FSIZE, (10_000, 20_000))
lower_limit(resource.RLIMIT_FSIZE, 90_000)
print(*resource.getrlimit(resource.RLIMIT_FSIZE))
lower_limit(resource.RLIMIT_FSIZE, 500)
print(*resource.getrlimit(resource.RLIMIT_FSIZE))
"""


def test_a_limit_is_lowered_and_never_raised_beyond_what_is_allowed():
    assert run_python(CODE, check=True).stdout == '20000 20000\n500 20000\n'


def test_elsewhere_than_on_linux_it_is_one_line(monkeypatch):
    monkeypatch.setattr(sys, 'platform', 'darwin')
    with user_error('needs Linux; --trust-model-code'):
        fork_server._server.__wrapped__()


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
