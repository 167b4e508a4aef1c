"""
Options that are declared once: fields of a frozen dataclass, made with `option`.

    @frozen
    class RelevanceOptions:
        encoder: str = option('minilm', help='sentence encoder', model='embedder')
        against: str = option('context', help='…', choices=('context', 'last_turn'))

From such a class come the keys of a YAML section (`read_options`), the flags of a
command or of a ParlAI agent (`Flags`, `add_declared`, `flag_values`) and the part of a
signature (`signature_values`).

A class may have a ``title``, under which ``--help`` shows its flags; a ``prefix``, with
which the names of its flags begin; and ``presets``: by option and value given, the
defaults of other options that follow from it (those of a variant).
"""

import argparse
import ast
import dataclasses
import json
import math
import numbers
import operator
import os
import re
import types
import typing
from collections.abc import Callable, Collection, Iterable, Mapping
from functools import partial
from typing import Any, ClassVar, Literal, TypeVar

from parlai_ext.core.errors import UserError, nearest, require_known, shortened
from parlai_ext.core.json_text import JsonDict, JsonObject, parse_json
from parlai_ext.core.nouns import frozen, known_values

T = TypeVar('T')
MISSING = dataclasses.MISSING
METADATA = 'option'
KINDS: dict[type, str] = {
    str: 'text',
    int: 'a whole number',
    float: 'a number',
    bool: 'true or false',
    tuple: 'a list',
    dict: 'a mapping (key: value)',
}
METAVARS: dict[type, str] = {int: 'N', float: 'X'}
# of anything that is counted; more is a slip of the keyboard, and too much for loops
MOST_COUNTED = 1_000_000_000
MOST_RESAMPLES = 100_000  # an interval gains nothing from more, but memory is asked for


def option(default: Any = MISSING, *, help: str, **info: Any) -> Any:
    """
    Declare an option: a dataclass field with what is to be known about it.

    :param default: the value that holds when none is given. Without one, or with an
        empty list or mapping, give a ``tuple`` or ``None``.
    :param choices: the only values allowed, or a registry whose names they are.
    :param signed: the value is part of the signature, the line of text that says how
        scores came about: scores with different signatures are never mixed.
        ``'if changed'`` leaves out a value that equals the default.
    :param flag: the name on the command line, where it is not ``--<prefix>-<name>``.
    :param also: another name on the command line.
    :param metavar: what ``--help`` shows for the value (N for a whole number, X for
        a number).
    :param low, high: the range of a number, ends included. A whole number from
        ``low`` on that is no seed is at most `MOST_COUNTED`.
    :param above: a number that the value must exceed.
    :param read: reads the text of the command line; raises `ArgumentTypeError` or
        `ValueError`. The type's own reader is the default.
    :param path: the value may be a file; ``~`` is expanded, and in a YAML file it may
        lie beside that file. So is each text whose `metavar` names a FILE or FOLDER.
    :param model: the value names a model of this kind (likelihood, embedder,
        classifier, chat; others are in docs/models.md). The model's identity is part of
        the signature, not its name.
    :param group: the title under which ``--help`` shows the flag.
    :param nargs: a list whose flag takes several values, ``+``: one at least. Without
        it, the values of a list are joined by commas, or as `read` says. 0: a switch
        after which no BOOL may stand, but a positional argument may.
    :param positional: the value is named by its place on the command line, which may
        stay empty; a list needs `nargs`.
    """
    if info.get('model'):
        info.setdefault('signed', False)
    if info.get('nargs'):
        info.setdefault('read', one_value)
    if re.search('FILE|FOLDER', info.get('metavar') or ''):
        info.setdefault('path', True)
    declared = {'help': help, **info}
    return dataclasses.field(default=default, metadata={METADATA: declared})


# an option that may be left out: its value is `None` then
optional = partial(option, None)


@frozen(kw_only=True)
class Option:
    """
    One declared option: its field's name, type without ``| None``, and default, the
    prefix of its class, and what `option` says of it.
    """

    name: str
    type: type
    default: Any
    help: str
    choices: Collection[Any] | None = None
    signed: bool | Literal['if changed'] = True
    flag: str | None = None
    also: str | None = None
    metavar: str | None = None
    low: float | None = None
    high: float | None = None
    above: float | None = None
    read: Callable[[str], Any] | None = None
    path: bool = False
    model: str | None = None
    group: str | None = None
    nargs: Literal['+', '*', 0] | None = None
    positional: bool = False
    prefix: str = ''

    @property
    def most(self) -> float | None:
        """
        The largest number allowed; `None`: any.
        """
        if self.high is not None or self.low is None or self.type is not int:
            return self.high
        return None if 'seed' in self.name else MOST_COUNTED

    def flag_name(self, prefix: str = '') -> str:
        """
        Return the flag on the command line, or the name of a positional argument.
        """
        if self.positional:
            return self.name
        words = f'{prefix or self.prefix} {self.name}'.replace('_', ' ')
        kebab = '-'.join(words.split())
        return self.flag or f'--{kebab}'

    def dest(self, prefix: str = '') -> str:
        """
        Return the name under which argparse stores the value.
        """
        return self.flag_name(prefix).lstrip('-').replace('-', '_')

    @property
    def bounds(self) -> list[tuple[str, float, Callable[[Any, Any], bool]]]:
        """
        The ends of the range of a number, each with a word and what must hold.
        """
        ends = (
            ('from', self.low, operator.ge),
            ('above', self.above, operator.gt),
            ('to', self.most, operator.le),
        )
        return [(word, end, holds) for word, end, holds in ends if end is not None]

    def problem(self, value: Any) -> str | None:
        """
        Return what is wrong with a value, and what would be right; `None` if nothing.
        """
        if (problem := type_problem(value, self.type)) is not None:
            return problem
        if self.choices is not None and value not in self.choices:
            return f'{value!r}; {nearest(str(value), map(str, self.choices))}'
        if isinstance(value, int | float):
            # a whole number may be too large for a float, and is compared as it is
            whole = isinstance(value, int)
            fits = all(holds(value, bound) for _, bound, holds in self.bounds)
            if not (whole or math.isfinite(value)) or not fits:
                shown = _shown(value) if whole else f'{value:g}'
                limits = (f'{word} {bound:,}' for word, bound, _ in self.bounds)
                return f'{shown}: {" ".join([KINDS[self.type], *limits])} is expected'
        return None

    def from_text(self, text: str) -> Any:
        """
        Return the value that a text of the command line spells.

        :raises argparse.ArgumentTypeError: when it spells none.
        """
        if self.read is not None:
            try:
                return self.read(text)
            except ValueError as error:
                raise argparse.ArgumentTypeError(str(error)) from None
        try:
            value = _READERS[self.type](text)
        except ValueError:
            raise argparse.ArgumentTypeError(
                f'{KINDS[self.type]} is expected, not {text!r}'
            ) from None
        if self.path and isinstance(value, str):
            value = os.path.expanduser(value)
        if (problem := self.problem(value)) is not None:
            raise argparse.ArgumentTypeError(problem)
        return value


def options_of(cls: type) -> Mapping[str, Option]:
    """
    Return the declared options of a dataclass by name, in order.
    """
    hints = typing.get_type_hints(cls)
    options = {}
    for field in dataclasses.fields(cls):
        if METADATA in field.metadata:
            options[field.name] = Option(
                name=field.name,
                type=_plain_type(hints[field.name]),
                default=field.default,
                prefix=getattr(cls, 'prefix', ''),
                **field.metadata[METADATA],
            )
    return options


Fail = Callable[[str, str], Exception]


def read_options(
    cls: type[T], given: JsonObject, where: str = '', error: Fail | None = None
) -> T:
    """
    Return the options that a mapping gives; `None` means that a key is not given.

    :param where: stands before the key in an error, such as ``scorer: ``.
    :param error: makes the exception from key and problem, for a file that knows lines.
    :raises UserError: for an unknown key, a wrong type, or a value that is no choice.
    """
    error = error or (lambda key, problem: UserError(f'{where}{key}: {problem}'))
    known = options_of(cls)
    values = {
        name: value
        for name, value in given_options(cls, given, error).items()
        if value != '' or known[name].default is not MISSING
    }
    for name, option in known.items():
        if option.default is MISSING and name not in values:
            raise error(name, f'is needed: {option.help}')
    presets: dict[str, Any] = {}
    for name, by_value in getattr(cls, 'presets', {}).items():
        presets |= by_value.get(values.get(name), {})
    return cls(**{**presets, **values})


def given_options(
    cls: type,
    given: JsonObject,
    error: Fail,
    also: Collection[str] = (),
) -> JsonDict:
    """
    Return the values that a mapping gives, checked, without those that are `None`.

    :param error: as of `read_options`.
    :param also: keys that are allowed besides the options; they are left out.
    :raises UserError: as `read_options` does.
    """
    known = options_of(cls)
    values: JsonDict = {}
    for key, value in given.items():
        if key not in known and key not in also:
            raise error(key, f'unknown key; {nearest(key, [*known, *also])}')
        if value is None or key not in known:
            continue
        if (problem := known[key].problem(value)) is not None:
            raise error(key, problem)
        kind: Any = known[key].type
        values[key] = kind(value) if kind in (float, tuple) else value
    return values


@frozen
class Flags:
    """
    The flags of an option class, all or some, as a command or an agent declares them.

    :param title: the group of options that name none; the class may have its own.
    :param skip: flags that are not added.
    :param only: the flags to add (`None`: all).
    :param prefix: stands before the names of options that do not name their flag; the
        class may have its own.
    :param not_given: the default of every flag is `None`, since a file's value holds
        where a flag is not given.
    :param overrides: the flags replace keys of a file, whose reader checks the values;
        the default of every flag is `None`.
    """

    cls: type
    title: str | None = None
    skip: Collection[str] = ()
    only: Collection[str] | None = None
    prefix: str = ''
    not_given: bool = False
    overrides: bool = False

    def add_to(self, parser: Any) -> None:
        """
        Add a flag for each option, in its group, to an argparse or a ParlAI parser.
        """
        groups = {group.title: group for group in getattr(parser, '_action_groups', ())}
        for option in options_of(self.cls).values():
            flag = option.flag_name(self.prefix)
            if flag in self.skip or (self.only is not None and flag not in self.only):
                continue
            name = option.group or self.title or getattr(self.cls, 'title', None)
            if name is not None and name not in groups:
                groups[name] = parser.add_argument_group(name)
            place = parser if name is None else groups[name]
            names = [flag, option.also] if option.also else [flag]
            place.add_argument(
                *names, **_argument(option, self.not_given, self.overrides)
            )


def add_declared(parser: Any, declares: Iterable[type | Flags]) -> None:
    """
    Add the flags that a command or an agent declares to its parser.
    """
    for one in declares:
        (Flags(one) if isinstance(one, type) else one).add_to(parser)


class DeclaresOptions:
    """
    An agent or a teacher of ParlAI whose flags come from option classes.

    :cvar declares: option classes, or `Flags` of them.
    """

    declares: ClassVar[Iterable[type | Flags]] = ()

    @classmethod
    def add_cmdline_args(cls, parser: Any, partial_opt: Any = None) -> Any:
        """
        Add the flags of the options, after those of the class that ParlAI has.
        """
        inherited = getattr(super(), 'add_cmdline_args', None)
        if inherited is not None:
            inherited(parser, partial_opt)
        add_declared(parser, cls.declares)
        return parser


def flag_values(cls: type, opt: JsonObject, prefix: str = '') -> JsonDict:
    """
    Return the values that flags gave, by option; options that were not given are left
    out.
    """
    values = {
        option.name: opt.get(option.dest(prefix)) for option in options_of(cls).values()
    }
    return known_values(values)


def text_option(opt: JsonObject, name: str) -> str | None:
    """
    Return the value of an option as text; `None` if it is not given.
    """
    value = opt.get(name)
    return None if value is None else str(value)


def plain_value(value: Any) -> Any:
    """
    Return a value given in Python as a command line would: a path as text, a number of
    numpy as Python's own, and a list of values so.
    """
    if isinstance(value, list | tuple):
        return [plain_value(part) for part in value]
    if isinstance(value, numbers.Number) and hasattr(value, 'item'):
        return value.item()
    return os.fspath(value) if isinstance(value, os.PathLike) else value


def options_from_opt(cls: type[T], opt: JsonObject) -> T:
    """
    Return the options that an agent's ``opt`` holds under the names of their flags.

    A text is read as on the command line, so that a roster's value, which no parser
    has seen, means the same as a parsed one.

    :raises UserError: ``option: what is wrong``.
    """
    known = options_of(cls)

    def error_about(name: str, problem: str) -> UserError:
        return UserError(f'{known[name].dest()}: {problem}')

    values = flag_values(cls, opt)
    for name, value in values.items():
        if isinstance(value, str):
            try:
                values[name] = known[name].from_text(value)
            except argparse.ArgumentTypeError as error:
                raise error_about(name, str(error)) from None
    return read_options(cls, values, error=error_about)


def read_key_values(cls: type, pairs: typing.Iterable[str], where: str) -> JsonDict:
    """
    Return the option values that texts ``key=value`` give.

    :param cls: the dataclass that declares the options.
    :param where: the flag that errors name.

    :raises UserError: for a text without ``=``, an unknown key, or a wrong value.
    """
    known = options_of(cls)
    values = {}
    for pair in pairs:
        key, equals, text = pair.partition('=')
        key = key.strip().replace('-', '_')
        if not equals:
            raise UserError(f'{where} {pair}: KEY=VALUE is expected')
        require_known(key, known, f'{where} {pair}: unknown key')
        try:
            values[key] = known[key].from_text(text)
        except argparse.ArgumentTypeError as error:
            raise UserError(f'{where} {pair}: {error}') from None
    return values


def option_values(options: Any) -> JsonDict:
    """
    Return the options as a plain dictionary.
    """
    return {name: getattr(options, name) for name in options_of(type(options))}


def signature_values(options: Any) -> JsonDict:
    """
    Return the options that are part of the signature, by name, in the order of their
    declaration.
    """
    values = {}
    for name, option in options_of(type(options)).items():
        value = getattr(options, name)
        changed = option.signed == 'if changed' and value != option.default
        if option.signed is True or changed:
            values[name] = value
    return values


def type_problem(value: Any, kind: type) -> str | None:
    """
    Return why a value is not of a kind (text, number, list, …); `None` if it is. A
    whole number is a number too.
    """
    wider = {float: int | float, tuple: list | tuple}
    right = isinstance(value, wider.get(kind, kind))
    if not right or (isinstance(value, bool) and kind is not bool):
        quotes = kind is str and isinstance(value, bool | int | float)
        hint = '; put it in quotes' if quotes else ''
        return f'{KINDS[kind]} is expected, not {_shown(value)}{hint}'
    return None


def one_value(text: str) -> tuple[str]:
    """
    Read a list of one value, commas included, for a flag that may be given several
    times.
    """
    return (text,)


def named_pairs(flag: str, pairs: Iterable[str], expected: str) -> dict[str, str]:
    """
    Return the second name of each ``FIRST=SECOND``, by the first.

    :param expected: what a pair is, for the message.
    """
    names: dict[str, str] = {}
    for pair in pairs:
        first, _, second = (part.strip() for part in pair.partition('='))
        if not (first and second):
            raise UserError(f'{flag} {pair}: {expected} is expected')
        if names.setdefault(first, second) != second:
            raise UserError(f'{flag}: {first!r} is given two names')
    return names


def json_object(text: str) -> JsonDict:
    """
    Read a JSON object; ParlAI hands a mapping of a file over as Python writes it.
    """
    try:
        value = parse_json(text)
    except json.JSONDecodeError:
        try:
            value = ast.literal_eval(text)
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            value = None
    except ValueError as error:  # a key twice, a number that is not finite
        raise argparse.ArgumentTypeError(str(error)) from None
    if isinstance(value, dict):
        return value
    # the text is not repeated: it may hold a secret
    raise argparse.ArgumentTypeError('a JSON object is expected, like {"top_k": 5}')


YES = ('yes', 'true', 't', '1', 'y')


def read_truth(text: str) -> bool:
    """
    Read a truth value as ParlAI does.
    """
    if text.lower() in YES:
        return True
    if text.lower() in ('no', 'false', 'f', 'n', '0'):
        return False
    raise argparse.ArgumentTypeError(f'true or false expected, not {text!r}')


class Switch(argparse._StoreTrueAction):
    """
    An option that is on when it is named; ParlAI's users write ``--pilot true``, too.

    A `store_true`, since nothing else of the kind may be given to ParlAI's commands
    as a keyword (core/params.py:1224).
    """

    def __init__(self, option_strings: list[str], dest: str, **options: Any):
        super().__init__(option_strings, dest, **options)
        self.nargs, self.type, self.metavar = '?', read_truth, 'BOOL'

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: Any = None
    ) -> None:
        """
        Set the value that was read, or `True` where none was given.
        """
        setattr(namespace, self.dest, True if values is None else values)


class Extend(argparse._StoreAction):
    """
    An option whose lists are joined when it is given several times.

    ParlAI's `parse_kwargs` knows what to do with kinds of "store" only.
    """

    def __call__(
        self, parser: Any, namespace: Any, values: Any, option_string: Any = None
    ) -> None:
        """
        Add the values that were read to those that were given before.
        """
        before = getattr(namespace, self.dest, None)
        given = () if before is None or before == self.default else before
        setattr(namespace, self.dest, (*given, *values))


def _argument(option: Option, not_given: bool, overrides: bool) -> dict[str, Any]:
    """
    Return what argparse's ``add_argument`` is told about an option.
    """
    help, metavar = option.help, option.metavar or METAVARS.get(option.type)
    if overrides:
        told = {'type': option.type, 'metavar': metavar or 'NAME'}
        return {'help': help.replace('%', '%%'), **told}
    default = None if not_given or option.default is MISSING else option.default
    if not_given and option.default not in (None, MISSING, ()):
        help = f'{help} (default: {option.default})'
    told = {'default': default, 'help': help.replace('%', '%%')}
    if option.type is bool and option.read is None:
        return {'action': Switch if option.nargs is None else 'store_true', **told}
    if option.nargs or option.positional:
        told['nargs'] = option.nargs or '?'
    elif option.type is tuple:
        told['action'] = Extend
    if option.nargs:
        told['type'] = str
    elif option.choices is not None and option.type is str:
        told['choices'] = option.choices
    else:
        told['type'] = option.from_text
    told['metavar'] = metavar
    return told


def _plain_type(hint: Any) -> type:
    """
    Return a type without parameters and without ``| None``.
    """
    origin = typing.get_origin(hint)
    if origin in (typing.Union, types.UnionType):
        inner = [kind for kind in typing.get_args(hint) if kind is not type(None)]
        return _plain_type(inner[0]) if len(inner) == 1 else object
    if origin is Literal:
        return type(typing.get_args(hint)[0])
    plain = origin or hint
    return dict if plain is not Any and issubclass(plain, Mapping) else plain


def _shown(value: Any) -> str:
    if value is None:
        return 'nothing'
    if isinstance(value, Mapping):
        return KINDS[dict]
    if isinstance(value, list | tuple):
        return KINDS[tuple]
    return shortened(json.dumps(value, ensure_ascii=False, default=str), 60)


def _read_int(text: str) -> int:
    """
    Read a whole number, without the spaces and underscores that `int` accepts.
    """
    if not text.removeprefix('-').isdecimal():
        raise ValueError(text)
    return int(text)


_READERS: dict[type, Callable[[str], Any]] = {
    str: str,
    int: _read_int,
    float: float,
    bool: read_truth,
    tuple: lambda text: tuple(part for part in text.split(',') if part),
}
