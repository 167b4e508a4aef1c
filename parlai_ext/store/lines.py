"""
Records as lines of JSON with a checksum, which shows any damage.

A record has exactly one spelling: sorted keys, shortest floats, a checksum of the rest.
Line separators that JSON allows in strings are escaped, because ParlAI's `splitlines()`
would split a record at them. Lone surrogates are escaped, because UTF-8 cannot hold
them; two that form a pair are, in JSON, the character that they encode, and are read
back as that character.
"""

import hashlib
import json
import re
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import Any, TypeVar

from parlai_ext.core import (
    Dialogue,
    Pairing,
    Score,
    ScoredDialogue,
    UserError,
    Utterance,
    parse_own_json,
    without_secrets,
)

T = TypeVar('T')
_UNSAFE = re.compile('[\x7f-\x9f\u2028\u2029\ud800-\udfff]')
_HEAD = re.compile(r'\{"checksum": "([0-9a-f]{16})", ')


def dumps(value: Any, **kwargs: Any) -> str:
    """
    Return a value as one line of JSON that every reader of UTF-8 sees as one line.

    :raises ValueError: for NaN or infinity, which JSON does not have.
    """
    text = json.dumps(value, ensure_ascii=False, allow_nan=False, **kwargs)
    return _UNSAFE.sub(lambda match: f'\\u{ord(match[0]):04x}', text)


def as_read(data: Any) -> Any:
    """
    Return JSON data as it is read from its file, without secrets.
    """
    return parse_own_json(without_secrets(dumps(data)))


def json_lines_text(records: Iterable[Any]) -> str:
    """
    Return values as JSON lines.
    """
    return ''.join(f'{dumps(record)}\n' for record in records)


def short_hash(data: bytes) -> str:
    """
    Return 16 hex digits of the sha256 of data.
    """
    return hashlib.sha256(data).hexdigest()[:16]


def checksum(record: Mapping[str, Any]) -> str:
    """
    Return 16 hex digits that depend on the record's content, except its own checksum.
    """
    content = {key: value for key, value in record.items() if key != 'checksum'}
    text = dumps(content, sort_keys=True, separators=(',', ':'))
    return short_hash(text.encode())


def without_checksum(data: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return JSON data without its checksum.

    :raises ValueError: when there is none, or it does not fit.
    """
    content = dict(data)
    if content.pop('checksum', None) != checksum(content):
        raise ValueError('its checksum does not fit; it may have been edited')
    return content


def sealed_text(content: Mapping[str, object]) -> str:
    """
    Return the text of a JSON file with its checksum.
    """
    return dumps({**content, 'checksum': checksum(content)}, indent=1) + '\n'


def encode(record: Mapping[str, Any]) -> str:
    """
    Return the one line of ``record``, without secrets.
    """
    line = _line(record)
    hidden = without_secrets(line)
    return line if hidden == line else _line(parse_own_json(hidden))


def _line(record: Mapping[str, Any]) -> str:
    return dumps({**record, 'checksum': checksum(record)}, sort_keys=True)


def decode(line: bytes) -> dict[str, Any]:
    """
    Return the record of a line.

    :raises ValueError: if the line is not exactly as `encode` wrote it.
    """
    text = line.decode()
    record = parse_own_json(text)
    if not isinstance(record, dict):
        raise ValueError('not a record')
    if not _intact(text) and _line(record) != text:
        raise ValueError('the checksum does not fit')
    del record['checksum']
    return record


def _intact(line: str) -> bool:
    """
    True if a quick test shows that `encode` wrote this line of JSON. A false result is
    no proof of damage.

    The checksum is of the record's text without the checksum and without the spaces
    after ``,`` and ``:``. Removing them is quicker than encoding the record again.
    """
    head = _HEAD.match(line)
    if head is None:
        return False
    # JSON holds no such characters; without these escapes a quote ends a string
    text = line[head.end() :].replace('\\\\', '\1').replace('\\"', '\2')
    pieces = text.split('"')  # every other one is a string
    outside = '"'.join(pieces[::2])
    compact = outside.replace(', ', ',').replace(': ', ':')
    if compact.replace(',', ', ').replace(':', ': ') != outside:
        return False
    pieces[::2] = compact.split('"')
    text = '"'.join(pieces).replace('\2', '\\"').replace('\1', '\\\\')
    return short_hash(f'{{{text}'.encode()) == head[1]


def encode_shard(records: Sequence[Mapping[str, Any]], index: int) -> bytes:
    """
    Return a shard's bytes. Each line holds its number, which shows a missing line.
    """
    count = len(records)
    lines = [
        encode({**record, 'shard': {'index': index, 'line': n, 'of': count}})
        for n, record in enumerate(records)
    ]
    return ''.join(line + '\n' for line in lines).encode()


def decode_shard(data: bytes, index: int, path: Path) -> list[dict[str, Any]]:
    """
    Return a shard's records.

    :raises UserError: names file and line of anything that is not as it was written.
    """
    *lines, after_last_line = data.split(b'\n')
    records: list[dict[str, Any]] = []
    count = None
    for n, line in enumerate(lines):
        try:
            record = decode(line)
            shard = record.pop('shard')
        except (ValueError, KeyError) as error:
            raise damage_error(
                path, f'line {n + 1} is damaged ({short_text(error)})'
            ) from None
        if count is None and isinstance(shard, dict):
            count = shard.get('of')
        if shard != {'index': index, 'line': n, 'of': count}:
            raise damage_error(path, f'line {n + 1} belongs to another place')
        records.append(record)
    if after_last_line:
        raise damage_error(path, f'line {len(lines) + 1} is cut off')
    if count != len(records):
        raise damage_error(path, f'line {len(records) + 1} is missing')
    return records


def read_records(
    read: Callable[[Mapping[str, Any]], T],
    records: Sequence[Mapping[str, Any]],
    path: Path,
    kind: str,
) -> list[T]:
    """
    Return what ``read`` makes of the records of an intact shard.

    :param kind: what they should be, for messages.
    :raises UserError: names file and line of the first record of another kind, as of a
        shard of scores in the place of one of dialogues.
    """
    values = []
    for n, record in enumerate(records):
        try:
            values.append(read(record))
        except (KeyError, TypeError, ValueError, AttributeError):
            raise damage_error(path, f'line {n + 1} is no {kind}') from None
    return values


def damage_error(path: Path, problem: str) -> UserError:
    """
    Return the error about a damaged shard.
    """
    return UserError(f'{path}: {problem}; delete this file and run again to remake it')


def short_text(error: Exception) -> str:
    """
    Return an error's message on one short line.
    """
    words = ' '.join(str(error).split())
    return ascii(words)[1:-1][:80]


METADATA_VERSION = '0.1'  # of ParlAI's Conversations format


def dialogue_record(dialogue: Dialogue, stem: str) -> dict[str, Any]:
    """
    Return a dialogue in ParlAI's Conversations format, with our fields beside.
    """
    acts = [
        {
            'id': utterance.speaker,
            'text': utterance.text,
            'given': utterance.given,
            **({'reference': utterance.references} if utterance.references else {}),
        }
        for utterance in dialogue.utterances
    ]
    return {
        'dialog': [acts[start : start + 2] for start in range(0, len(acts), 2)],
        'metadata_path': f'{stem}.metadata',
        'dialogue_id': dialogue.id,
        'pairing_id': dialogue.pairing_id,
        'opener_id': dialogue.opener_id,
        'ended_by': dialogue.ended_by,
        'reason': dialogue.reason,
    }


def dialogue_from_record(record: Mapping[str, Any]) -> Dialogue:
    """
    Return the dialogue of a record.
    """
    return Dialogue(
        id=record['dialogue_id'],
        pairing_id=record['pairing_id'],
        opener_id=record['opener_id'],
        utterances=tuple(
            Utterance(
                sys.intern(act['id']),
                act['text'],
                act['given'],
                tuple(act.get('reference', ())),
            )
            for pair in record['dialog']
            for act in pair
        ),
        ended_by=record['ended_by'],
        reason=record['reason'],
    )


def shard_metadata(pairing: Pairing, collect: Mapping[str, Any]) -> dict[str, Any]:
    """
    Return the metadata that ParlAI expects beside a file of conversations.

    The date is a constant: the same dialogues make the same bytes on every day.
    """
    return {
        'date': '1970-01-01 00:00:00',
        'opt': dict(collect),
        'self_chat': pairing.first == pairing.second,
        'speakers': list(dict.fromkeys(pairing.speakers)),
        'version': METADATA_VERSION,
        'pairing_id': pairing.id,
    }


def scored_record(scored: ScoredDialogue, source: str) -> dict[str, Any]:
    """
    Return the record of a dialogue's scores.

    :param source: the checksum of the shard file that holds the dialogue.
    """
    rows = []
    for score in scored.scores:
        if score.dialogue_id != scored.dialogue_id:
            raise ValueError(f'a score of {score.dialogue_id} in {scored.dialogue_id}')
        rows.append(
            {
                'utterance_index': score.utterance_index,
                'system': score.system,
                'dimension': score.dimension,
                'value': score.value,
                'reason': score.reason,
            }
        )
    return {
        'dialogue_id': scored.dialogue_id,
        'dialogues': source,
        'scores': rows,
        'evidence': {str(at): row for at, row in scored.evidence.items()},
        'truncated': {str(at): n for at, n in scored.truncated.items()},
    }


def scored_from_record(record: Mapping[str, Any]) -> ScoredDialogue:
    """
    Return the scored dialogue of a record.
    """
    dialogue_id = record['dialogue_id']
    evidence = {
        int(at): tuple(row) if isinstance(row, list) else row
        for at, row in record['evidence'].items()
    }
    return ScoredDialogue(
        dialogue_id=dialogue_id,
        scores=tuple(Score(dialogue_id=dialogue_id, **row) for row in record['scores']),
        evidence={at: evidence[at] for at in sorted(evidence)},
        truncated={int(at): n for at, n in record['truncated'].items()},
    )
