"""
A YAML file that an option of a scorer names: one that is shipped, or the user's own.
"""

from collections.abc import Collection

from parlai_ext import zoo_configs
from parlai_ext.core.errors import UserError, nearest
from parlai_ext.files.yaml_file import Document, read_file

OWN_ENDINGS = ('.yaml', '.yml', '.json')


def read_shipped_file(
    folder: str, name: str, option: str, also: Collection[str] = ()
) -> Document:
    """
    Return the file called ``name`` in a folder of `zoo_configs`, or a user's own file,
    whose name has a path separator or an ending.

    :param option: what messages call the name.
    :param also: further names that would be right.
    :raises UserError: when there is none, with the nearest name.
    """
    if '/' in name or name.endswith(OWN_ENDINGS):
        return read_file(name)
    known = zoo_configs.names(folder)
    if name not in known:
        hint = nearest(name, [*known, *also])
        raise UserError(f'scorer: {option}: no file {name!r}; {hint}')
    return read_file(zoo_configs.HOME / folder / f'{name}.yaml')
