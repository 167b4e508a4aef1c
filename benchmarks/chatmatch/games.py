"""
Games as they lie in a folder, and their raw values in some reading of ChatMatch.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.chatmatch.crowd import Vote
from benchmarks.chatmatch.tables import RawOf
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import Dialogue, Utterance
from parlai_ext.data.formats import find_files
from parlai_ext.data.gather import gather
from parlai_ext.data.two_speakers import Rules as ImportRules
from parlai_ext.data.two_speakers import Settled
from parlai_ext.files.text_file import read_utf8
from parlai_ext.ranking.tournament import Raw
from parlai_ext.scoring.chatmatch.game import misfit, play, raw_scores
from parlai_ext.scoring.chatmatch.rules import Rules
from parlai_ext.scoring.chatmatch.scorer import ChatMatch
from parlai_ext.scoring.chatmatch.turns import Material
from parlai_ext.scoring.chatmatch.words import words

UNENDED = 'without the last turn'
UNREPEATED = 'without the last and repeated turns'
COUNTS = ('inconsistency', 'relevance', UNENDED, UNREPEATED)
HUMAN = {True: 2, None: 1, False: 0}


def read_games(given: Path, *, strip_markers: bool = False) -> list[Dialogue]:
    """
    Return the dialogues of a file or folder in which no people speak.

    :param strip_markers: take out what generation left (``< /s >``, ``<pad>``).
    """
    rules = ImportRules(empty_turns='keep', strip_markers=strip_markers)
    paths = find_files([str(given)])
    haul = gather(paths, None, rules, skip_bad_rows=None, progress=False)
    return [_dialogue(one) for one in haul.dialogues if not one.humans]


def materials(dialogues: Sequence[Dialogue], scorer: ChatMatch) -> dict[str, Material]:
    """
    Return what the scorer finds beside the turns, by dialogue id; models asked once.
    """
    ids = [one.id for one in dialogues]
    if twice := [name for name in ids if ids.count(name) > 1]:
        raise UserError(f'two dialogues are called {twice[0]!r}')
    return dict(zip(ids, scorer.materials(dialogues), strict=True))


def fitted(material: Material, dialogue: Dialogue) -> Material:
    """
    Return the material of those turns that a (perhaps cut) dialogue still has.
    """
    size = len(dialogue.utterances)
    concepts = material.concepts
    if concepts is not None:
        # words of cut turns would count as the rarest of all
        said = {word for turn in dialogue.utterances for word in words(turn.text)}
        concepts = {word: of for word, of in concepts.items() if word in said}
    names, perplexities = material.names, material.perplexities
    return Material(
        concepts,
        None if names is None else names[:size],
        None if perplexities is None else perplexities[:size],
    )


def raw_maker(rules: Rules, beside: Mapping[str, Material]) -> RawOf:
    """
    Return what gives a dialogue's raw values by system and dimension.
    """

    def raw_of(dialogue: Dialogue) -> Raw:
        return raw_scores(dialogue, rules, fitted(beside[dialogue.id], dialogue))

    return raw_of


def counts(
    dialogues: Sequence[Dialogue], rules: Rules, beside: Mapping[str, Material]
) -> dict[str, float | None]:
    """
    Return inconsistencies and relevance bonuses a dialogue, whoever got them.

    The two further counts are what the paper's own relevance numbers turn out to be:
    without the last turn, and (self-chats) without repeated turns either.
    """
    played = [one for one in dialogues if misfit(one) is None]
    if not played:
        return {}
    found = dict.fromkeys(COUNTS, 0)
    for one in played:
        game = play(one, rules, beside[one.id])
        last = len(one.utterances) - 1
        recalls = [i for i, j in enumerate(game.recalls) if j is not None]
        found['inconsistency'] += sum(j is not None for j in game.echoes.contradicts)
        found['relevance'] += len(recalls)
        found[UNENDED] += sum(i < last for i in recalls)
        found[UNREPEATED] += sum(
            i < last and game.echoes.repeats[i] is None for i in recalls
        )
    known = all(beside[one.id].concepts is not None for one in played)
    return {
        name: None if name != 'inconsistency' and not known else total / len(played)
        for name, total in found.items()
    }


def read_votes(path: Path, dialogues: Sequence[Dialogue]) -> list[Vote]:
    """
    Return the crowd's votes on these dialogues from Spot The Bot's annotations.
    """
    sides = {one.id: _sides(one) for one in dialogues}
    votes = []
    for number, line in enumerate(read_utf8(path).split('\n'), 1):
        if not line.strip():
            continue
        try:
            said = json.loads(line)
            pair = sides.get(said['convo_id'])
            grades = [HUMAN[said[f'entity{k}_annotation']['is_human']] for k in (0, 1)]
            rater = str(said['user_name'])
        except (ValueError, KeyError, TypeError) as e:
            raise UserError(f'{path}:{number}: no annotation: {e!r}') from None
        if pair is not None:
            side = None if grades[0] == grades[1] else pair[int(grades[1] > grades[0])]
            votes.append(Vote(rater, *pair, side))
    return votes


def _sides(dialogue: Dialogue) -> tuple[str, str]:
    """
    Return the two speakers; Spot The Bot's side 0 always begins.
    """
    first, second = (turn.speaker for turn in dialogue.utterances[:2])
    return first, second


def _dialogue(one: Settled) -> Dialogue:
    name = one.id or Path(one.file).stem
    turns = tuple(Utterance(turn.speaker, turn.text, turn.given) for turn in one.turns)
    return Dialogue(name, '', '', turns)
