"""
Dialogues imported from files.
"""

from parlai_ext.data.imported_dialogues import ImportRules, find_files, read_imports

OPTIONS = ('skip_bad_rows', 'columns')


def imported(*paths, **given):
    """
    Return the imports of files, folders or patterns.

    :param given: rules, and options of `read_imports`.
    """
    options = {name: given.pop(name) for name in OPTIONS if name in given}
    files = find_files([*map(str, paths)])
    return read_imports(files, None, ImportRules(**given), **options)
