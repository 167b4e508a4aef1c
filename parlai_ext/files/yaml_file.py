"""
YAML read strictly: every mistake is one line that names the file, the line and the key.

No duplicate keys, no tags, no merge keys; aliases are fine until they multiply.
"""

import math
import re
from collections.abc import Callable, Mapping
from dataclasses import field
from pathlib import Path
from typing import Any, TypeVar

import yaml

from parlai_ext.core import JsonObject, UserError, frozen, half_character, type_problem
from parlai_ext.core.records import Record, Where, WrongType, key_path, read_record
from parlai_ext.files.text_file import read_utf8

MAX_NODES = 100_000
MAX_DEPTH = 40
COLLECTIONS = ('tag:yaml.org,2002:map', 'tag:yaml.org,2002:seq')
R = TypeVar('R', bound=Record)


# what a word without quotes means: as in YAML 1.2 (core schema, 10.3.2), by which 1:30,
# 010, 1_000 and dates are text. PyYAML reads YAML 1.1, in which 1:30 means 90.
MEANINGS = {
    'null': r'~|null|Null|NULL|',
    'bool': r'true|True|TRUE|false|False|FALSE',
    'int': r'[-+]?(?:0|[1-9][0-9]*)|0x[0-9a-fA-F]+',
    'float': r'[-+]?(?:\.[0-9]+|[0-9]+\.[0-9]*)(?:[eE][-+]?[0-9]+)?'
    r'|[-+]?[0-9]+[eE][-+]?[0-9]+|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN)',
    'merge': '<<',
}
# truth values of YAML 1.1 and texts of YAML 1.2
TRUTH_OR_TEXT = re.compile('yes|no|on|off', re.IGNORECASE)


# seven times as fast where PyYAML was built with libyaml
SAFE_LOADER: Any = getattr(yaml, 'CSafeLoader', yaml.SafeLoader)


class _Loader(SAFE_LOADER):
    """
    PyYAML's safe loader, in which words mean what `MEANINGS` says.
    """

    yaml_implicit_resolvers = {
        None: [
            (f'tag:yaml.org,2002:{kind}', re.compile(f'^(?:{rule})$'))
            for kind, rule in MEANINGS.items()
        ]
    }


@frozen
class Document:
    """
    Plain data, where it came from, and the line of every key path in it.
    """

    data: Any
    source: str
    lines: Mapping[Where, int] = field(default_factory=dict)

    def error(self, where: str | Where, problem: str) -> UserError:
        """
        Return the error about the value at the key path ``where``, or of this key.
        """
        path: Where = (where,) if isinstance(where, str) else where
        parts = self._place(path), key_path(path), problem
        return UserError(': '.join(filter(None, parts)))

    def _place(self, path: Where) -> str:
        """
        Return file and line of the value at a key path, or of what it would be in.
        """
        for n in range(len(path), -1, -1):
            if path[:n] in self.lines:
                return f'{self.source}:{self.lines[path[:n]]}'
        return self.source

    def error_in(self, where: Where) -> Callable[[str, str], UserError]:
        """
        Return a function that makes the error about a key of the mapping at ``where``.
        """
        return lambda key, problem: self.error((*where, key), problem)

    def record(self, kind: type[R], where: Where = ()) -> R:
        """
        Return the value at ``where`` as a record; nothing is a mapping without keys.
        """
        value = self.data
        for key in where:
            value = value[key]
        try:
            return read_record(kind, {} if value is None else value)
        except WrongType as error:
            place = (*where, *error.place)
            raise self.error(place, error.problem) from None

    def typed(self, value: Any, where: str | Where, kind: type) -> Any:
        """
        Return the value at ``where`` if it is of this kind; a number as a float.
        """
        problem = type_problem(value, tuple if kind is list else kind)
        if problem:
            raise self.error(where, problem)
        if kind is not float:
            return value
        if not math.isfinite(value):
            raise self.error(where, f'a finite number is expected, not {value}')
        return float(value)


def read_file(path: str | Path) -> Document:
    """
    Return the document in a YAML or JSON file.

    :raises UserError: names file and line, if it is not one valid document.
    """
    return read_text(read_utf8(path), str(path))


def read_text(text: str, source: str) -> Document:
    """
    Return the one YAML document in a text; errors call it ``source``.
    """
    try:
        # JSON may indent with tabs, which YAML forbids
        node = yaml.compose(
            text.replace('\t', ' ') if source.endswith('.json') else text, _Loader
        )
        if node is None:
            return Document(None, source, {})
        lines: dict[Where, int] = {}
        data = _Builder(source, lines).build(node, ())
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        file_and_line = f'{source}:{mark.line + 1}' if mark else source
        raise UserError(
            f'{file_and_line}: not valid YAML: {e.problem or e.context}'
        ) from None
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        first = str(e).split('\n')[0]
        raise UserError(f'{source}: not valid YAML: {first}') from None
    return Document(data, source, lines)


class _Builder:
    """
    Turns YAML nodes into plain data and notes the line of every key.
    """

    def __init__(self, source: str, lines: dict[Where, int]):
        self.source = source
        self.lines = lines
        self.nodes = 0
        self.scalars = _Loader('')

    def build(self, node: yaml.Node, where: Where) -> Any:
        """
        Return the data of ``node``, which lies at the key path ``where``.
        """
        self.lines.setdefault(where, node.start_mark.line + 1)
        self.nodes += 1
        if self.nodes > MAX_NODES or len(where) > MAX_DEPTH:
            raise self.wrong(node, where, 'too large or too deep (aliases multiply?)')
        if not isinstance(node, yaml.ScalarNode) and node.tag not in COLLECTIONS:
            raise self.wrong(node, where, f'the tag {node.tag} is not allowed')
        if isinstance(node, yaml.MappingNode):
            return self._mapping(node, where)
        if isinstance(node, yaml.SequenceNode):
            return [self.build(n, (*where, i)) for i, n in enumerate(node.value)]
        return self._scalar(node, where)

    def _scalar(self, node: yaml.Node, where: Where) -> Any:
        """
        Return a text, number or truth value that every reader of YAML sees alike.
        """
        if _is_truth_or_text(node):
            truth = 'true' if node.value.lower() in ('yes', 'on') else 'false'
            problem = f'{node.value} is ambiguous: write {truth}, or put it in quotes'
            raise self.wrong(node, where, problem)
        value = self.scalars.construct_object(node)
        if isinstance(value, float) and not math.isfinite(value):
            problem = f'a finite number is expected, not {node.value}'
            raise self.wrong(node, where, problem)
        if isinstance(value, str) and half_character(value):
            raise self.wrong(node, where, f'half a character: {ascii(value[:40])}')
        return value

    def _mapping(self, node: yaml.MappingNode, where: Where) -> JsonObject:
        """
        Return a mapping; note the line of each key, and refuse keys that are no text or
        stand twice.
        """
        mapping: dict[str, Any] = {}
        for key_node, value in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            is_text = key_node.tag == 'tag:yaml.org,2002:str'
            if not is_text or not isinstance(key, str) or _is_truth_or_text(key_node):
                problem = f'a key must be text: put {key!r} in quotes'
                raise self.wrong(key_node, where, problem)
            if key in mapping:
                first = self.lines[(*where, key)]
                problem = f'given twice (first in line {first})'
                raise self.wrong(key_node, (*where, key), problem)
            self.lines[(*where, key)] = key_node.start_mark.line + 1
            mapping[key] = self.build(value, (*where, key))
        return mapping

    def wrong(self, node: yaml.Node, where: Where, problem: str) -> UserError:
        here = {where: node.start_mark.line + 1}
        return Document(None, self.source, here).error(where, problem)


def _is_truth_or_text(node: yaml.Node) -> bool:
    """
    True for a word without quotes of which readers of YAML make different things.
    """
    is_word = isinstance(node, yaml.ScalarNode) and not node.style
    return is_word and TRUTH_OR_TEXT.fullmatch(node.value) is not None
