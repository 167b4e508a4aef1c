"""
Judged turns of published sets, in one form: a response, who said it, what people think.

The sets lie in a folder that the user names; each is read from its official files.
"""

from __future__ import annotations

import csv
import json
import random
from collections import defaultdict
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from itertools import groupby
from pathlib import Path
from statistics import fmean

from parlai_ext.core.nouns import content_id
from parlai_ext.data.dstc9 import read as read_dstc9
from parlai_ext.data.judged.cards import read_card
from parlai_ext.data.source_file import SourceFile
from parlai_ext.scoring.base import ScoringItem

LAST_TURNS = 6  # of a context, which are kept


@dataclass(frozen=True)
class JudgedTurn:
    """
    One judged response.

    :param human: the mean of people's numbers for it (DSTC9: for its dialogue).
    :param group: turns of one group are alike: one context, or one dialogue.
    """

    item: ScoringItem
    system: str
    human: float
    group: str


def judged_turn(
    context: Iterable[str], response: str, system: str, human: float, group: object
) -> JudgedTurn:
    """
    Return a judged turn with the end of its context.
    """
    turns = tuple(text.strip() for text in context if text.strip())
    item = ScoringItem(turns[-LAST_TURNS:], response.strip(), system)
    return JudgedTurn(item, system, human, str(group))


def from_card(folder: Path, name: str, file: str) -> list[JudgedTurn]:
    """
    Return the turns of a set that has a card, with the quality that judges them whole.
    """
    judged = read_card(name).read(folder / file)
    quality = judged.overall or judged.qualities[0]
    return [
        judged_turn(item.context, item.response, item.system, human, group)
        for item, group in zip(judged.items, judged.groups(), strict=True)
        if item.response and item.response.strip()
        if (human := item.human(quality)) is not None
    ]


def dstc7(folder: Path) -> list[JudgedTurn]:
    """
    Return DSTC7's responses on Reddit; relevance and informativeness are averaged.
    """

    def rows(name: str) -> list[list[str]]:
        path = folder / 'dstc7_human_eval' / f'dstc7-task2-{name}.tsv'
        lines = path.read_text(encoding='utf-8-sig').split('\n')[1:]
        return [line.split('\t') for line in lines if line]

    contexts = {row[0]: row[2].split(' EOS ') for row in rows('context')}
    ratings = defaultdict(list)
    for _, place, system, *values in rows('human-eval-per-judge'):
        ratings[system, place].append(fmean(map(float, values)))
    return [
        judged_turn(contexts[place], text, system, fmean(given), place)
        for system, place, text in rows('system_responses')
        if text.strip() and (given := ratings.get((system, place)))
    ]


def dstc9(folder: Path) -> list[JudgedTurn]:
    """
    Return one random turn of the bot of each of DSTC9's interactive dialogues.
    """
    turns = []
    for path in sorted((folder / 'dstc9_interactive').glob('chatbot*.json')):
        ratings = json.loads(path.read_text(encoding='utf-8'))
        humans = [
            [r['human (overall)'] for r in same]
            for _, same in groupby(ratings, key=lambda rating: rating['context'])
        ]
        for dialogue, values in zip(
            read_dstc9(SourceFile.from_path(path)), humans, strict=True
        ):
            given = [v for v in values if isinstance(v, int | float)]
            texts = [turn.text for turn in dialogue.turns]
            places = [
                place
                for place, turn in enumerate(dialogue.turns)
                if place and turn.speaker != 'User' and turn.text
            ]
            if given and places:
                k = random.Random(dialogue.id or '').choice(places)
                turns.append(
                    judged_turn(
                        texts[:k], texts[k], path.stem, fmean(given), dialogue.id
                    )
                )
    return turns


def dbdc3(folder: Path) -> list[JudgedTurn]:
    """
    Return the bots' turns of the third Dialogue Breakdown Detection Challenge; their
    value is the share of people who see no breakdown, doubts counting half.
    """

    def rows(name: str) -> list[dict[str, str]]:
        path = folder / 'chanel_jsalt' / f'0DBDC3_{name}.csv'
        return list(csv.DictReader(path.open(encoding='utf-8-sig', newline='')))

    votes = {row['UID']: row for row in rows('dialoginfo')}
    turns = []
    for name, spoken in groupby(
        rows('main'), key=lambda r: r['UID'].rpartition('-')[0]
    ):
        texts: list[str] = []
        for row in spoken:
            info = votes.get(row['UID'], {})
            if texts and row['SID'] == 'S' and info.get('num_O') and row['SEG'].strip():
                good, bad, unsure = (float(info[f'num_{c}'] or 0) for c in 'OXT')
                human = (good + unsure / 2) / (good + bad + unsure)
                bot = info['dialogue_id']
                bot = 'yura' if bot.startswith('YI') else bot
                bot = 'cic' if bot.startswith('CIC') else bot.partition('_')[0]
                turns.append(judged_turn(texts, row['SEG'], bot, human, name))
            texts.append(row['SEG'])
    return turns


@dataclass(frozen=True)
class Source:
    """
    Where a set is read from, and how many turns of each system are taken.
    """

    read: Callable[[Path], list[JudgedTurn]]
    per_system: int


def card_source(name: str, file: str, per_system: int) -> Source:
    """
    Return the source of a set that has a card.
    """
    return Source(partial(from_card, name=name, file=file), per_system)


SOURCES: Mapping[str, Source] = {
    'zhao_dailydialog': card_source(
        'zhao_dailydialog', 'zhao2020/dailydialog-zhao_eval.json', 25
    ),
    'usr_topical': card_source(
        'usr_topical', 'usr/dstc10_format/topical-usr_eval.json', 25
    ),
    'dstc7': Source(dstc7, 20),
    'dstc9': Source(dstc9, 50),
    'dbdc3': Source(dbdc3, 50),
    'usr_persona': card_source(
        'usr_persona', 'usr/dstc10_format/persona-usr_eval.json', 20
    ),
    'grade_convai2': card_source('grade_convai2', 'grade/convai2-grade_eval.json', 25),
    'fed_turn': card_source('fed_turn', 'fed/fed_data.json', 40),
    'topical_dstc10': card_source(
        'topical_dstc10',
        'dstc10_hidden/dstc10-topical_clean_eval-addrank.json',
        15,
    ),
}


def sampled(turns: Sequence[JudgedTurn], per_system: int) -> list[JudgedTurn]:
    """
    Return at most this many turns of each system; systems that answered the same
    contexts keep the same ones.
    """
    by_system = defaultdict(list)
    for turn in sorted(turns, key=lambda turn: content_id(list(turn.item.context))):
        by_system[turn.system].append(turn)
    return [
        turn for system in sorted(by_system) for turn in by_system[system][:per_system]
    ]


def read_set(folder: Path, name: str, scale: float = 1.0) -> list[JudgedTurn]:
    """
    Return the sample of a set by which it is fitted or reported.

    :param scale: factor on the number of turns of each system.
    """
    source = SOURCES[name]
    return sampled(source.read(folder), max(1, round(scale * source.per_system)))
