"""
A trial of a `tokenizer.json` in another process, before this one reads it.

Its patterns run in a library of Rust, which nothing in this process could stop. The
other process reads the file and splits a few monotonous texts, at which bad patterns
take the longest, with limits on time and memory.
"""

from pathlib import Path
from typing import IO

from parlai_ext.core.errors import UserError
from parlai_ext.systems.safe.unpickle import BadModelFile

TOKENIZER = 'tokenizer.json'
LENGTH = 2_000  # characters of a text
UNITS = ('a', ' ', '1', 'ab ', '\n')  # of which texts are made


def check_tokenizer_file(path: Path) -> None:
    """
    Refuse a file that takes too long or too much memory to read or to use. One that is
    damaged is for its reader to refuse.

    :raises UserError: naming the file and the limits.
    """
    from parlai_ext.systems.safe.reader import read_in_child

    if path.is_file():
        try:
            read_in_child(try_tokenizer, path)
        except BadModelFile as error:
            raise UserError(f'hf_model: {path}: {error.why}') from None


def try_tokenizer(file: IO[bytes]) -> None:
    """
    Read a tokenizer and use it; run in the other process.

    :raises BadModelFile: when it fails on a text.
    """
    from tokenizers import Tokenizer

    try:
        tokenizer = Tokenizer.from_buffer(file.read())
    except Exception:
        return
    try:
        for unit in UNITS:
            tokenizer.encode(unit * (LENGTH // len(unit)) + '!')
    except BaseException:  # what Rust calls a panic
        raise BadModelFile(file.name, 'its patterns fail on a plain text') from None
