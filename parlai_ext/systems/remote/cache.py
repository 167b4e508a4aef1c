"""
Every reply ever paid for, in one SQLite file.

The key is a hash of all that was sent but the secret, of the address, and of the name
that the model gives itself. Writing is a transaction: killed at any moment, the file
holds all earlier replies. Processes may share it; of two replies to one request
the first stays, so that the same conversation has one reply, sampled or not.
"""

from __future__ import annotations

import hashlib
import json
import os
import sqlite3
from dataclasses import asdict

from parlai_ext.core.errors import UserError
from parlai_ext.core.json_text import parse_own_json
from parlai_ext.systems.remote.replies import RemoteReply

TABLE = 'CREATE TABLE IF NOT EXISTS answers (key TEXT PRIMARY KEY, answer TEXT)'
PATIENCE = 60  # seconds to wait while another process writes


def cache_key(url: str, model: str, body: bytes) -> str:
    """
    Return the key of a request.

    :param model: the name that the endpoint's replies give for the model; it may be
        more exact than the name in the request.
    """
    head = f'{url}\n{model}\n'.encode()
    return hashlib.sha256(head + body).hexdigest()


class ReplyCache:
    """
    The replies of one file, opened in one thread and used in another.
    """

    def __init__(self, path: str):
        self.path = path
        try:
            os.makedirs(os.path.dirname(os.path.abspath(path)), exist_ok=True)
            self._file = sqlite3.connect(
                path, timeout=PATIENCE, isolation_level=None, check_same_thread=False
            )
        except (OSError, sqlite3.Error) as error:
            raise self._bad(error) from error
        self._run(TABLE)

    def get(self, key: str) -> RemoteReply | None:
        """
        Return the reply under ``key``, if there is one.
        """
        rows = self._run('SELECT answer FROM answers WHERE key = ?', key)
        try:
            return RemoteReply(**parse_own_json(rows[0][0])) if rows else None
        except (ValueError, TypeError) as error:
            raise self._bad(error) from None

    def put(self, key: str, reply: RemoteReply) -> RemoteReply:
        """
        Store a reply, and return the one that is stored: the first under ``key``.
        """
        answer = json.dumps(asdict(reply), sort_keys=True)
        self._run('INSERT OR IGNORE INTO answers VALUES (?, ?)', key, answer)
        return self.get(key) or reply

    def _run(self, statement: str, *values: str) -> list[tuple[str, ...]]:
        try:
            return self._file.execute(statement, values).fetchall()
        except sqlite3.Error as error:
            raise self._bad(error) from error

    def _bad(self, error: Exception) -> UserError:
        return UserError(
            f'remote_cache: {self.path} cannot be used: {error}; name another file, '
            'or none'
        )
