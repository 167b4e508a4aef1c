"""
Dialogues as three studies published them: ChatMatch, Spot The Bot and DSTC9.

ChatMatch's logs hold one dialogue a file, one turn a line, ``NAME: text``. The speakers
are named in the lines, never in the file's name. WhatsApp's text file, which is read
here too, has a date before each name; a message may go on over lines, and lines of the
program itself (who joined, what is encrypted) are no turns. Messages without a text of
somebody (``<Media omitted>``, ``This message was deleted``) are counted and left out.

Spot The Bot's sampled dialogues stand one a line, with which of the sides are people.
Speakers are called by their type, as in the turns. What generation left in the texts
(``< /s >``, ``<pad>``) stays unless ``--strip-markers`` is given.

DSTC9's interactive dialogues are a JSON list with one object a rating. Neighbouring
objects with the same ``context`` rate one dialogue. The lines of a context begin with
``User:`` or ``System:``; any other line continues the turn before it. Every bot is
called ``System``, so it is given the name of its file.
"""

import re
from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from typing import Any

from parlai_ext.data.source_file import (
    MEDIA,
    NOT_UTF8,
    BadRecord,
    Format,
    SourceDialogue,
    SourceFile,
    SourceTurn,
    Unread,
    brief,
    id_value,
    list_value,
    record_format,
    text_value,
)
from parlai_ext.files.text_file import is_utf8

FORM = 'NAME: text'
TURN = re.compile('(?P<name>[^:]*): ?(?P<text>.*)')
# [31.12.23, 21:15:02] or 12/31/23, 9:15 PM - or 31.12.2023 klo 21.15 - , and marks of
# the direction of text before it; a title in quotation marks, which may have a colon,
# is in a line of the program
DATED_TURN = re.compile(
    r'[\u200e\u200f]*\[?\d{1,4}[./-] ?\d{1,2}[./-] ?\d{2,4}\.?[,،]? '
    r'(?:[^\W\d]+ ?)?\d{1,2}[:.]\d{2}(?:[:.]\d{2})?'
    r'(?:\s?(?:[AaPp]\.?\s?[Mm]\.?|[^\W\d]{1,2}))?(?:\]| -) '
    r'(?:(?P<name>[^"“„«]*?): (?P<text>.*))?'
)
# what WhatsApp puts in the place of a photo, a call or a deleted text: behind a mark of
# direction or in angle brackets (not <html>), or else in words of the phone's language
NO_TEXT = re.compile(
    r'\u200e.*|.* •(?: \u200e.*)?|<(?![!-~]+>)[^<>]+>|null'
    r'|.+ \((?:file attached|Datei angehängt|fichier joint|archivo adjunto|'
    r'arquivo anexado|file allegato|bestand bijgevoegd)\)'
    r'|(?:image|video|audio|sticker|GIF|document|Contact card) omitted'
    r'|(?:Bild|Video|Audio|Sticker|GIF|Dokument|Kontaktkarte) weggelassen'
    r'|(?:This message was deleted|You deleted this message'
    r'|Diese Nachricht wurde gelöscht|Du hast diese Nachricht gelöscht'
    r'|Ce message a été supprimé|Vous avez supprimé ce message'
    r'|Se eliminó este mensaje|Este mensaje fue eliminado|Eliminaste este mensaje'
    r'|Questo messaggio è stato eliminato|Hai eliminato questo messaggio'
    r'|(?:Essa m|Esta m|M)ensagem (?:foi )?(?:apagada|eliminada)'
    r'|Você apagou esta mensagem|Dit bericht is verwijderd'
    r'|U (?:hebt|heeft) dit bericht verwijderd)\.?'
)
# what it puts behind a text: that it was edited, or the file that it was sent with
NOTE = re.compile(
    r' ?(?:\u200e(?:<[^<>\n]*>|\w+ \w+)|<(?:This message was edited'
    r'|Diese Nachricht wurde bearbeitet|Ce message a été modifié|Se editó este mensaje'
    r'|Questo messaggio è stato modificato|Mensagem editada)\.?>)$'
)
HUMAN, BOT = 'User', 'System'


def looks_like_log(source: SourceFile) -> bool:
    """
    Return True if the first line that is not empty is a turn of ChatMatch.
    """
    turn = TURN.match(source.first_line.lstrip())
    return bool(turn and turn['name'] and turn['name'][0] not in '[{<')


def read_log(
    source: SourceFile, pattern: re.Pattern[str] = TURN, goes_on: bool = False
) -> Iterator[SourceDialogue]:
    """
    Yield the one dialogue of a file with turns in lines; empty lines are skipped.

    :param goes_on: a turn may go on in the next lines.
    """
    turns: list[SourceTurn] = []
    problems = []
    for number, line in enumerate(source.lines, 1):
        match = pattern.match(line)
        name = ((match and match['name']) or '').strip()
        if not line.strip():
            continue
        if not is_utf8(line):
            problems.append(source.problem(number, NOT_UTF8))
        elif match and name:
            turns.append(SourceTurn(name, match['text'], number))
        elif not goes_on:
            problem = f'a turn is a line {FORM!r}, this one is {brief(line)}'
            problems.append(source.problem(number, problem))
        elif turns and not match:
            turns[-1] = replace(turns[-1], text=f'{turns[-1].text}\n{line}')
    first = turns[0].line if turns else 1
    yield SourceDialogue(source.file, first, tuple(turns), problems=tuple(problems))


def _whatsapp(source: SourceFile) -> Iterator[SourceDialogue]:
    """
    Yield the one dialogue of a file, without messages in which nobody wrote anything.
    """
    for dialogue in read_log(source, DATED_TURN, goes_on=True):
        turns: list[SourceTurn] = []
        inside = 0
        for turn in dialogue.turns:
            text = NOTE.sub('', turn.text)
            first, _, caption = text.partition('\n')
            text = caption if NO_TEXT.fullmatch(first) else text
            if text.strip():
                turns.append(replace(turn, text=text))
            else:
                inside += bool(turns)
        unread = Unread({MEDIA: len(dialogue.turns) - len(turns)}, inside)
        yield replace(dialogue, turns=tuple(turns), unread=unread)


def _spot_the_bot(
    source: SourceFile, line: int, record: Mapping[str, Any]
) -> Iterator[SourceDialogue]:
    sides = [text_value(record, f'system_type{k}', 'the record') for k in (0, 1)]
    people = (sides[k] for k in (0, 1) if record.get(f'is_human{k}') is True)
    turns = (
        SourceTurn(
            text_value(act, 'id', f'turn {number}').strip(),
            text_value(act, 'text', f'turn {number}'),
            line,
        )
        for number, act in enumerate(list_value(record, 'convo'), 1)
    )
    yield SourceDialogue(
        source.file,
        line,
        tuple(turns),
        id_value(record, '_id'),
        frozenset(people),
        self_chat=sides[0] == sides[1],
        sides=tuple(sides),
    )


def looks_like_ratings(source: SourceFile) -> bool:
    """
    Return True if the file begins as a JSON list of ratings.
    """
    start = '\n'.join(source.lines[:40])[:4000]
    return start.lstrip().startswith('[') and '"context"' in start


def rated_dialogues(
    source: SourceFile,
) -> Iterator[tuple[SourceDialogue, list[Mapping[str, Any]]]]:
    """
    Yield the dialogues of DSTC9 with their ratings, which are the objects of the file.
    """
    try:
        ratings = source.document
        if not ratings:
            raise BadRecord("a JSON list of objects with 'context' is expected")
    except BadRecord as error:
        yield source.unreadable(error.line, str(error)), []
        return
    n = 0
    for context, same in groupby(
        enumerate(ratings, 1),
        key=lambda one: one[1].get('context') if isinstance(one[1], dict) else None,
    ):
        numbered = list(same)
        place = f'object {numbered[0][0]}: '
        try:
            if not isinstance(context, str):
                raise BadRecord(f"'context' is a text, not {brief(context)}")
            n += 1
            turns = tuple(_rated_turns(context, source.stem))
        except BadRecord as error:
            yield source.unreadable(1, f'{place}{error}'), []
            continue
        name, people = f'{source.stem}-{n}', frozenset({HUMAN})
        dialogue = SourceDialogue(source.file, 1, turns, name, people, place=place)
        yield dialogue, [rating for _, rating in numbered]


def _rated_turns(context: str, bot: str) -> Iterator[SourceTurn]:
    """
    Yield the turns of a context; line breaks inside a turn are kept.
    """
    names = {HUMAN: HUMAN, BOT: bot}
    speaker, texts = '', list[str]()
    for line in context.removesuffix('\n').split('\n'):
        name, colon, text = line.partition(':')
        if colon and name in names:
            if speaker:
                yield SourceTurn(speaker, '\n'.join(texts).strip(), 1)
            speaker, texts = names[name], [text]
        elif speaker:
            texts.append(line)
        else:
            raise BadRecord(
                f"a context begins with '{HUMAN}:' or '{BOT}:', not {brief(line)}"
            )
    yield SourceTurn(speaker, '\n'.join(texts).strip(), 1)


CHATMATCH = Format(FORM, looks_like_log, read_log, self_chats=True)
WHATSAPP = Format(
    '31/12/2023, 21:15 - NAME: text',
    lambda source: DATED_TURN.match(source.first_line) is not None,
    _whatsapp,
)
SPOT_THE_BOT = record_format(
    '{"convo": [{"id": "NAME", "text": "Hi!"}, …], …}', ('convo',), _spot_the_bot
)
DSTC9 = Format(
    r'[{"context": "User: Hi!\nSystem: Hello.\n", …}, …]',
    looks_like_ratings,
    lambda source: (dialogue for dialogue, _ in rated_dialogues(source)),
)
