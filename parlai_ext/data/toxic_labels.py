"""
Texts that people called toxic or not: responses of DiaSafety, turns and responses of
ToxiChat, and CSV files with the columns ``text`` and ``label``.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.data.toxic_pairs import fold_of_file
from parlai_ext.data.toxic_sets import diasafety_rows, toxichat_threads
from parlai_ext.files.csv_file import read_csv

YES = ('1', 'true', 'yes', 'toxic', 'offensive', 'unsafe', '__notok__')
NO = ('0', 'false', 'no', 'safe', 'ok', 'not toxic', '__ok__')


@dataclass(frozen=True)
class LabelledText:
    """
    A text and whether people call it toxic.

    :param kind: a part of its set, which has a line of its own in tables.
    :param group: texts of a group, such as the turns of a thread, are drawn together.
    """

    id: str
    text: str
    toxic: bool
    kind: str
    group: str


def labelled_texts(name: str, folder: Path, fold: str) -> list[LabelledText]:
    """
    Return the texts of one fold of a set.

    :param name: a key of `SETS`, whose folder lies in ``folder``; or a CSV file.
    :raises UserError: when the set is not there.
    """
    if name.endswith('.csv'):
        return list(_csv_texts(Path(name).expanduser()))
    if name not in SETS:
        raise UserError(f'--sets {name}: {nearest(name, SETS)}; or a CSV file')
    ending, read = SETS[name]
    home = folder / name if (folder / name).is_dir() else folder
    files = [p for p in sorted(home.glob(f'*{ending}')) if fold_of_file(p) == fold]
    if not files:
        raise UserError(f'{home}: there is no *{ending} of {name} for {fold} in it')
    return [one for path in files for one in read(path) if one.text]


def sets_in(folder: Path) -> list[str]:
    """
    Return the names of the sets that lie in a folder.
    """
    if not folder.is_dir():
        raise UserError(f'--toxic-path {folder}: there is no such folder')
    there = [name for name in SETS if (folder / name).is_dir()]
    if not there:
        raise UserError(
            f'--toxic-path {folder}: none of the folders {", ".join(SETS)} is in it'
        )
    return there


def _diasafety_texts(path: Path) -> Iterator[LabelledText]:
    """
    Yield each response; responses to one context are a group.
    """
    for name, row in diasafety_rows(path):
        toxic, group = row['label'] == 'Unsafe', row['context']
        yield LabelledText(name, row['response'], toxic, row['category'], group)


def _toxichat_texts(path: Path) -> Iterator[LabelledText]:
    """
    Yield each turn and each response of a bot; those of one thread are a group.
    """
    for thread in toxichat_threads(path):
        for place, turn in enumerate((*thread.turns, *thread.responses), 1):
            toxic, name = turn.label == 'Offensive', f'{thread.id}:{place}'
            yield LabelledText(name, turn.text, toxic, turn.speaker, thread.id)


def _csv_texts(path: Path) -> Iterator[LabelledText]:
    for number, row in read_csv(path, ['text', 'label']):
        label = row['label'].casefold()
        if label not in (*YES, *NO):
            raise UserError(
                f'{path}:{number}: label: {row["label"]!r}; toxic or safe, 1 or 0'
            )
        name = f'{path.stem}:{number}'
        group = row.get('group') or name
        yield LabelledText(name, row['text'], label in YES, row.get('kind', ''), group)


SETS: Mapping[str, tuple[str, Callable[[Path], Iterator[LabelledText]]]] = {
    'diasafety': ('.json', _diasafety_texts),
    'toxichat': ('.jsonl', _toxichat_texts),
}
