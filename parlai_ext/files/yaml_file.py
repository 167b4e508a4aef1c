"""
YAML read strictly: every mistake is one line that names the file, the line and the key.

No duplicate keys, no tags, no merge keys; aliases are fine until they multiply.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import yaml

from parlai_ext.core.errors import UserError, nearest
from parlai_ext.files.text_file import read_utf8

MAX_NODES = 100_000
MAX_DEPTH = 40
COLLECTIONS = ('tag:yaml.org,2002:map', 'tag:yaml.org,2002:seq')
Key = str | int
KINDS: dict[type, str] = {
    str: 'text',
    int: 'a whole number',
    float: 'a number',
    bool: 'true or false',
    dict: 'a mapping (key: value)',
    list: 'a list',
}


class _Loader(yaml.SafeLoader):
    """
    PyYAML's safe loader, in which dates are text and ``1e-4`` is a number.
    """

    yaml_implicit_resolvers = {
        first: [(tag, rule) for tag, rule in rules if not tag.endswith(':timestamp')]
        for first, rules in yaml.SafeLoader.yaml_implicit_resolvers.items()
    }


_Loader.add_implicit_resolver(
    'tag:yaml.org,2002:float',
    re.compile(r'^[-+]?[0-9]+(\.[0-9]*)?[eE][-+]?[0-9]+$'),
    list('-+0123456789'),
)


@dataclass(frozen=True)
class Document:
    """
    Plain data, where it came from, and the line of every key path in it.
    """

    data: Any
    source: str
    lines: Mapping[tuple[Key, ...], int] = field(default_factory=dict)

    def error(self, where: tuple[Key, ...], problem: str) -> UserError:
        """
        Return the error that says what is wrong at the key path ``where``.
        """
        key = ''.join(f'[{k}]' if isinstance(k, int) else f'.{k}' for k in where)
        line = next(
            (
                self.lines[where[:n]]
                for n in range(len(where), -1, -1)
                if where[:n] in self.lines
            ),
            None,
        )
        place = self.source if line is None else f'{self.source}:{line}'
        return UserError(': '.join(p for p in (place, key.lstrip('.'), problem) if p))

    def typed(self, value: Any, where: tuple[Key, ...], kind: type) -> Any:
        """
        Return ``value`` when it is of this kind (a whole number is a number too).
        """
        good = isinstance(value, kind)
        if kind in (int, float) and isinstance(value, bool):
            good = False
        elif kind is float and isinstance(value, int):
            return float(value)
        if not good:
            problem = f'{KINDS[kind]} is expected, not {shown(value)}'
            if kind is str and isinstance(value, int | float):  # as `no` and 1e4 are
                problem += '; put it in quotes'
            raise self.error(where, problem)
        if kind is float and not math.isfinite(value):
            raise self.error(where, f'a finite number is expected, not {value}')
        return value

    def mapping(
        self, value: Any, where: tuple[Key, ...], keys: Collection[str], what: str
    ) -> dict[str, Any]:
        """
        Return ``value`` when it is a mapping with no other keys than ``keys``.
        """
        found: dict[str, Any] = self.typed(value, where, dict)
        for key in found:
            if key not in keys:
                raise self.error(
                    (*where, key), f'unknown key of {what}; {nearest(key, keys)}'
                )
        return found


def shown(value: Any) -> str:
    """
    Return a value as an error message shows it: its kind and a short form.
    """
    if value is None:
        return 'nothing'
    if isinstance(value, dict | list):
        return KINDS[type(value)]
    text = json.dumps(value, ensure_ascii=False)
    return text if len(text) <= 60 else text[:57] + '…'


def read_file(path: str | Path) -> Document:
    """
    Read a YAML or JSON file.

    :raises UserError: naming file and line, when it cannot be read as one document.
    """
    return read_text(read_utf8(path), str(path))


def read_text(text: str, source: str) -> Document:
    """
    Read one YAML document; ``source`` is what errors call it.
    """
    try:
        # JSON may indent with tabs, which YAML forbids
        node = yaml.compose(text.replace('\t', ' ') if _json(source) else text, _Loader)
        if node is None:
            return Document(None, source, {})
        lines: dict[tuple[Key, ...], int] = {}
        data = _Builder(source, lines).build(node, ())
    except yaml.MarkedYAMLError as e:
        mark = e.problem_mark or e.context_mark
        place = f'{source}:{mark.line + 1}' if mark else source
        raise UserError(f'{place}: not valid YAML: {e.problem or e.context}') from None
    except (yaml.YAMLError, ValueError, RecursionError) as e:
        first = str(e).split('\n')[0]
        raise UserError(f'{source}: not valid YAML: {first}') from None
    return Document(data, source, lines)


def _json(source: str) -> bool:
    return source.endswith('.json')


class _Builder:
    """
    Turns YAML nodes into plain data and notes the line of every key.
    """

    def __init__(self, source: str, lines: dict[tuple[Key, ...], int]):
        self.source = source
        self.lines = lines
        self.nodes = 0
        self.scalars = _Loader('')

    def build(self, node: yaml.Node, where: tuple[Key, ...]) -> Any:
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
        return self.scalars.construct_object(node)

    def _mapping(
        self, node: yaml.MappingNode, where: tuple[Key, ...]
    ) -> dict[str, Any]:
        found: dict[str, Any] = {}
        for key_node, value in node.value:
            key = key_node.value if isinstance(key_node, yaml.ScalarNode) else None
            if key_node.tag != 'tag:yaml.org,2002:str' or not isinstance(key, str):
                problem = f'a key must be text: put {key!r} in quotes'
                raise self.wrong(key_node, where, problem)
            if key in found:
                first = self.lines[(*where, key)]
                problem = f'given twice (first in line {first})'
                raise self.wrong(key_node, (*where, key), problem)
            self.lines[(*where, key)] = key_node.start_mark.line + 1
            found[key] = self.build(value, (*where, key))
        return found

    def wrong(self, node: yaml.Node, where: tuple[Key, ...], problem: str) -> UserError:
        here = {where: node.start_mark.line + 1}
        return Document(None, self.source, here).error(where, problem)
