"""
Read the authors' games, and compute their raw values under a reading of ChatMatch.
"""

from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from parlai_ext.core import Dialogue, UserError, Utterance
from parlai_ext.data.chat_logs import SourceDialogue
from parlai_ext.data.imported_dialogues import ImportRules, find_files, read_imports
from parlai_ext.ranking.games import Game, RawScores, Tournament, award_points
from parlai_ext.scoring.chatmatch import (
    DIMENSIONS,
    ChatMatch,
    ChatMatchOptions,
    Material,
    judged_game,
    speakers,
    why_no_game,
    words,
)

# gives a dialogue's raw values by system and dimension
RawValues = Callable[[Dialogue], RawScores]

UNENDED = 'without the last turn'
UNREPEATED = 'without the last and repeated turns'
COUNTS = ('inconsistency', 'relevance', UNENDED, UNREPEATED)


def read_games(path: Path) -> list[Dialogue]:
    """
    Return the dialogues of a file or folder in which no people speak.
    """
    rules = ImportRules(empty_turns='keep')
    files = find_files([str(path)])
    gathered = read_imports(files, None, rules, skip_bad_rows=None)
    return [_dialogue(one) for one in gathered.dialogues if not one.humans]


def _dialogue(one: SourceDialogue) -> Dialogue:
    name = one.id or Path(one.file).stem
    turns = tuple(Utterance(turn.speaker, turn.text, turn.given) for turn in one.turns)
    return Dialogue(name, '', '', turns)


def materials_by_id(
    dialogues: Sequence[Dialogue], scorer: ChatMatch
) -> dict[str, Material]:
    """
    Return the concepts, names and perplexities of each dialogue by its id.
    """
    ids = [one.id for one in dialogues]
    if repeated := [name for name in ids if ids.count(name) > 1]:
        raise UserError(f'two dialogues are called {repeated[0]!r}')
    return dict(zip(ids, scorer.materials(dialogues), strict=True))


def cut_material(material: Material, dialogue: Dialogue) -> Material:
    """
    Return the material of those turns that a (perhaps cut) dialogue still has.
    """
    size = len(dialogue.utterances)
    concepts = material.concepts
    if concepts is not None:
        # words of cut turns would count as the rarest of all
        used = {word for turn in dialogue.utterances for word in words(turn.text)}
        concepts = {word: one for word, one in concepts.items() if word in used}
    names, perplexities = material.names, material.perplexities
    return Material(
        concepts,
        None if names is None else names[:size],
        None if perplexities is None else perplexities[:size],
    )


def raw_values_under(
    rules: ChatMatchOptions, materials: Mapping[str, Material]
) -> RawValues:
    """
    Return the function that computes a dialogue's raw values under these rules.
    """

    def raw_values(dialogue: Dialogue) -> RawScores:
        material = cut_material(materials[dialogue.id], dialogue)
        return raw_scores(dialogue, rules, material)

    return raw_values


def games_from_dialogues(
    dialogues: Sequence[Dialogue], raw_values: RawValues
) -> list[Game]:
    """
    Return one game for each dialogue.

    :raises UserError: for a dialogue that has not two speakers, by its id.
    """
    games = []
    for dialogue in dialogues:
        names = list(dict.fromkeys(turn.speaker for turn in dialogue.utterances))
        if len(names) != 2:
            raise UserError(
                f'dialogue {dialogue.id}: {len(names)} speakers '
                f'({", ".join(names) or "nobody"}); a game has two'
            )
        games.append(Game(names[0], names[1], raw_values(dialogue), dialogue.id))
    return games


def scored_tournament(dialogues: Sequence[Dialogue], scorer: ChatMatch) -> Tournament:
    """
    Return the tournament of these dialogues under a scorer's rules.
    """
    raw_values = raw_values_under(scorer.options, materials_by_id(dialogues, scorer))
    return award_points(games_from_dialogues(dialogues, raw_values))


def mean_counts(
    dialogues: Sequence[Dialogue],
    rules: ChatMatchOptions,
    materials: Mapping[str, Material],
) -> dict[str, float | None]:
    """
    Return the mean inconsistencies and relevance bonuses per dialogue, both speakers'.

    The two further counts are what the paper's own relevance numbers turn out to be:
    without the last turn, and (self-chats) without repeated turns either.
    """
    playable = [one for one in dialogues if why_no_game(one) is None]
    if not playable:
        return {}
    totals = dict.fromkeys(COUNTS, 0)
    for one in playable:
        turns = judged_game(one, rules, materials[one.id]).turns
        last = len(turns) - 1
        # the earlier turn that each turn repeats, contradicts or recalls
        for i, (repeated, contradicted, recalled, _) in enumerate(
            turn.evidence for turn in turns
        ):
            totals['inconsistency'] += contradicted is not None
            if recalled is not None:
                totals['relevance'] += 1
                totals[UNENDED] += i < last
                totals[UNREPEATED] += i < last and repeated is None
    has_concepts = all(materials[one.id].concepts is not None for one in playable)
    return {
        name: total / len(playable) if name == 'inconsistency' or has_concepts else None
        for name, total in totals.items()
    }


def raw_scores(
    dialogue: Dialogue, rules: ChatMatchOptions, material: Material
) -> dict[str, dict[str, float | None]]:
    """
    Return each system's raw scores of one game, by dimension. A self-chat has one
    system.

    Everything is `None` where the dialogue is no game.
    """
    game = judged_game(dialogue, rules, material)
    if game.nothing:
        return {name: dict.fromkeys(DIMENSIONS) for name in speakers(dialogue)}
    return {name: dict(side.values) for name, side in game.sides.items()}
