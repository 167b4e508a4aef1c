"""
Text and numbers as a reader may see them: nothing hidden, nothing that acts.

Names and bot utterances may hold terminal escapes, bidirectional overrides, zero-width
characters or half a surrogate pair; each becomes a visible stand-in. A place on one
machine says nothing to a reader elsewhere and may name a user: folders are left out.
"""

import csv
import io
import json
import math
import re
import unicodedata
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, TextIO

from parlai_ext.core import ChangedStream

# joiners that emoji and several scripts need, and the two harmless blanks
# and Arabic number signs, format characters with a shape of their own
KEPT = frozenset(
    '\n\t\u200c\u200d\u0600\u0601\u0602\u0603\u0604\u0605\u06dd\u070f\u08e2'
)
HIDDEN = frozenset({'Cc', 'Cf', 'Cs', 'Zl', 'Zp'})
DASH = '–'
# scripts without blanks between words
UNPARTED = ('CJK', 'HIRAGANA', 'KATAKANA', 'THAI', 'LAO', 'KHMER', 'MYANMAR')
SIGNS = '@#%*!'  # that stand for letters, as symbols such as $ do
SHAPES = '\ufe0e\ufe0f'  # say how an emoji is drawn
# no page has to carry more of one utterance than this
MAX_CHARACTERS = 4000
WIDTH = 88  # columns of every table for the terminal
# a spreadsheet takes a cell that starts so for a formula
FORMULA_STARTS = ('=', '+', '-', '@', '\t', '\r', '＝', '＋', '－', '＠')


def visible(text: str, limit: int = MAX_CHARACTERS) -> str:
    """
    Return ``text`` with every hidden character replaced and its length bounded.
    """
    shown = text[:limit]
    if not shown.isascii() or not shown.isprintable():
        shown = ''.join(map(_visible_character, shown))
    num_hidden = len(text) - limit
    return shown + (f' … ({num_hidden} more characters)' if num_hidden > 0 else '')


def single_spaced(text: str) -> str:
    """
    Return a text in one line, its white space single blanks: it can look like no line
    around it.
    """
    return ' '.join(text.split())


class _WordParts(dict[int, str]):
    """
    What each character is among the words of a text, worked out when it is met: a part
    of a word, a word of its own, or a blank.
    """

    def __init__(self, with_signs: bool):
        super().__init__()
        self.with_signs = with_signs

    def __missing__(self, code: int) -> str:
        char = chr(code)
        kind = unicodedata.category(char)
        is_sign = self.with_signs and (char in SIGNS or kind[0] == 'S')
        is_mark = kind in ('Mn', 'Mc') and char not in SHAPES
        is_word = kind == 'So' or unicodedata.name(char, '').startswith(UNPARTED)
        part = char if char.isalnum() or is_mark or is_sign else ' '
        self[code] = f' {char} ' if part != ' ' and is_word else part
        return self[code]


WORD_PARTS = _WordParts(with_signs=False), _WordParts(with_signs=True)


def split_words(text: str, with_signs: bool = False) -> list[str]:
    """
    Return the words of a text, in small letters; an apostrophe is part of none.

    A letter keeps its accents and vowel signs, in whatever way they are encoded. Of
    scripts that part words by no blank each letter is a word.

    :param with_signs: signs that may stand for letters are parts of words, too, and an
        emoji is a word.

    >>> split_words("It's a first-class day.")
    ['it', 's', 'a', 'first', 'class', 'day']
    >>> split_words('天気')
    ['天', '気']
    """
    folded = unicodedata.normalize('NFC', text.casefold())
    return folded.translate(WORD_PARTS[with_signs]).split()


def one_line(text: str, limit: int = MAX_CHARACTERS) -> str:
    """
    Return ``text`` as `visible` does, its line breaks and tabs shown too.
    """
    return visible(text, limit).replace('\n', '␊').replace('\t', '␉')


def visible_data(data: Any) -> Any:
    """
    Return plain JSON data with every string made visible and no NaN left.
    """
    if isinstance(data, str):
        return visible(data)
    if isinstance(data, float):
        return data if math.isfinite(data) else None
    if isinstance(data, Mapping):
        return {one_line(str(k)): visible_data(v) for k, v in data.items()}
    if isinstance(data, list | tuple):
        return [visible_data(v) for v in data]
    return data


# names of a list that a sentence has; it counts the others
MOST_NAMES = 4
# ten and more, a hundred and more, …
MAGNITUDES = (
    'tens',
    'hundreds',
    'thousands',
    'tens of thousands',
    'hundreds of thousands',
    'millions',
)


def number(value: float | None, digits: int = 2) -> str:
    """
    Return a number for a table: a real minus sign, a dash for "none".
    """
    if value is None or not math.isfinite(value):
        return DASH
    if abs(value) >= 1e6:
        return f'{value:.3g}'.replace('-', '\u2212')
    text = f'{value:.{digits}f}'
    if float(text) == 0:
        text = text.lstrip('-')
    return text.replace('-', '\u2212')


def signed(value: float | None, digits: int = 2) -> str:
    """
    Return a difference with its sign, also where it is positive.
    """
    text = number(value, digits)
    return f'+{text}' if value is not None and value > 0 else text


def p_value(p: float | None) -> str:
    """
    Return a p-value with four decimals; one nearer to 0 or 1 as a bound.

    >>> p_value(0.312), p_value(1e-9), p_value(1)
    ('0.3120', '< 0.0001', '> 0.9999')
    """
    text = number(p, 4)
    return {'0.0000': '< 0.0001', '1.0000': '> 0.9999'}.get(text, text)


def interval(low: float | None, high: float | None, digits: int = 2) -> str:
    """
    Return ``low to high``, or a dash when there is none.
    """
    if low is None or high is None:
        return DASH
    return f'{number(low, digits)} to {number(high, digits)}'


def percent(share: float | None) -> str:
    """
    Return a share as a percentage.
    """
    if share is None or not math.isfinite(share):
        return DASH
    digits = 1 if 0 < share < 0.1 else 0
    return f'{100 * share:.{digits}f} %'


def count_of(n: int, noun: str) -> str:
    """
    Return a number with its noun, whose plural has an s.

    >>> count_of(1, 'dialogue'), count_of(2000, 'bad row')
    ('1 dialogue', '2,000 bad rows')
    """
    return f'{n:,} {noun}{"" if n == 1 else "s"}'


def rough_count(n: int, is_order_only: bool = False) -> str:
    """
    Return an estimated number as far as it is known: two figures of it, or its order of
    magnitude, as text that a noun can follow.

    >>> rough_count(27_993)
    'about 28,000'
    >>> rough_count(27_993, is_order_only=True)
    'tens of thousands of'
    """
    magnitude = len(str(n)) - 1
    if is_order_only and magnitude:
        return f'{MAGNITUDES[min(magnitude, len(MAGNITUDES)) - 1]} of'
    return f'about {round(n, 1 - magnitude) if magnitude > 1 else n:,}'


def digits_for(values: list[float | None]) -> int:
    """
    Return how many decimals tell these values apart: three figures of their spread.
    """
    finite_values = [v for v in values if v is not None and math.isfinite(v)]
    spread = max(finite_values) - min(finite_values) if finite_values else 0.0
    if spread <= 0:
        return 2
    return min(6, max(0, 2 - math.floor(math.log10(spread))))


def cut_line(count: str) -> str:
    """
    Return the line about texts that were too long for a judge.

    :param count: of the responses whose context, or which themselves, were cut.
    """
    return f'too long for the judge with its context, read in part: {count}'


def join_names(names: Sequence[str], word: str = 'and') -> str:
    """
    Return names as an English list.

    >>> join_names(['a', 'b', 'c'])
    'a, b and c'
    """
    if len(names) < 2:
        return ''.join(names)
    return f'{", ".join(names[:-1])} {word} {names[-1]}'


def few_names(names: Sequence[str], word: str) -> str:
    """
    Return names as an English list, long lists cut.
    """
    if len(names) <= MOST_NAMES:
        return join_names(names, word)
    others = len(names) - MOST_NAMES + 1
    return join_names([*names[: MOST_NAMES - 1], f'{others} others'], word)


def spreadsheet_text(text: str) -> str:
    """
    Return the text of a CSV cell so that no spreadsheet takes it for a formula.
    """
    shown = one_line(text)
    return f"'{shown}" if text.lstrip(' ').startswith(FORMULA_STARTS) else shown


def csv_text(rows: Iterable[Iterable[object]]) -> str:
    """
    Return rows as CSV; `None` is an empty cell.
    """
    out = io.StringIO()
    csv.writer(out, lineterminator='\n').writerows(rows)
    return out.getvalue()


def spreadsheet_csv(rows: Iterable[Iterable[object]]) -> str:
    """
    Return rows as CSV in which no spreadsheet takes a text for a formula.
    """
    return csv_text(
        [spreadsheet_text(cell) if isinstance(cell, str) else cell for cell in row]
        for row in rows
    )


def wrap_lines(
    text: str,
    indent: str = '',
    width: int = WIDTH,
    hanging: str = '  ',
    limit: int = 2000,
) -> list[str]:
    """
    Return ``text`` as lines of at most ``width`` columns, hidden characters made
    visible.

    :param hanging: what further lines are indented by, beyond ``indent``.
    :param limit: characters; what is beyond is counted only.
    """
    from wcwidth import wrap

    lines = wrap(
        one_line(text, limit),
        width,
        initial_indent=indent,
        subsequent_indent=indent + hanging,
        break_on_hyphens=False,
    )
    return lines or [indent]


def pad_cell(text: str, width: int) -> str:
    """
    Return ``text`` cut or filled to ``width`` columns of a terminal.
    """
    from wcwidth import clip, ljust

    if terminal_width(text) > width:
        text = clip(text, 0, width - 1) + '…'
    return ljust(text, width)


def terminal_width(text: str) -> int:
    """
    Return how many columns a terminal needs for ``text``.
    """
    from wcwidth import width

    return width(text)


def duration(seconds: float) -> str:
    """
    Return a time with about two digits.

    >>> duration(7.42), duration(150), duration(7560), duration(400_000)
    ('7.4 s', '2.5 min', '2.1 h', '4.6 days')
    """
    for unit, name in ((86400, 'days'), (3600, 'h'), (60, 'min')):
        if seconds >= 1.5 * unit:
            return f'{seconds / unit:.1f} {name}'
    return f'{seconds:.0f} s' if seconds >= 10 else f'{seconds:.2g} s'


def data_size(n_bytes: float) -> str:
    """
    Return a size in MB or GB with one decimal.

    >>> data_size(900), data_size(2_340_000), data_size(18.9e9)
    ('0.0 MB', '2.3 MB', '18.9 GB')
    """
    if n_bytes >= 1e9:
        return f'{n_bytes / 1e9:.1f} GB'
    return f'{n_bytes / 1e6:.1f} MB'


def money(dollars: float) -> str:
    """
    Return an amount to the cent, smaller ones to two digits.

    >>> money(12.3), money(0.00123), money(0)
    ('$12.30', '$0.0012', '$0.00')
    """
    return f'${dollars:.2g}' if 0 < dollars < 0.01 else f'${dollars:,.2f}'


def _visible_character(char: str) -> str:
    """
    Return a character as it is if it can be shown, else a text in its place.
    """
    if char in KEPT or unicodedata.category(char) not in HIDDEN:
        return char
    code = ord(char)
    if code < 0x20:
        return chr(0x2400 + code)
    if code == 0x7F:
        return '␡'
    return f'⟨U+{code:04X}⟩'


class VisibleOutput(ChangedStream):
    """
    Passes text on to a stream, hidden characters made visible.

    :param progress: let carriage returns pass, which a progress bar needs.
    """

    def __init__(self, stream: TextIO, progress: bool = False):
        def made_visible(text: str) -> str:
            parts = text.split('\r') if progress else [text]
            return '\r'.join(visible(part, len(part)) for part in parts)

        super().__init__(stream, made_visible)


ABSOLUTE = re.compile(r'^((?:[^/=]*=)?)(?:/|~|[A-Za-z]:[\\/]).*[\\/]')


def without_folders(text: str) -> str:
    """
    Return a path without its folders; any other text as it is.
    """
    return ABSOLUTE.sub(r'\1…/', text)


def value_text(value: Any) -> str:
    """
    Return an option's value as one line, folders of this machine left out.
    """
    if isinstance(value, str):
        return without_folders(value)
    if isinstance(value, Mapping):
        return ', '.join(f'{k}: {value_text(v)}' for k, v in value.items())
    if isinstance(value, list | tuple):
        return ', '.join(map(value_text, value))
    return json.dumps(value, ensure_ascii=False, default=str)
