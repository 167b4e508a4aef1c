import pytest

from parlai_ext.store import atomic


@pytest.fixture(autouse=True)
def same_writer(monkeypatch):
    """
    Let what a test calls this process end with it.
    """
    monkeypatch.setattr(atomic, '_writer', '')
