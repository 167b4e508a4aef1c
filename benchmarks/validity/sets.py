"""
Two sources beside the judged sets: spoilt replies of people, and ChatMatch's games.
"""

import random
from collections.abc import Iterator
from pathlib import Path

from benchmarks.chatmatch.games import read_games
from benchmarks.chatmatch.judgements import OVERALL, read_judgements
from benchmarks.support.corpora import LAST_TURNS, dailydialog, empathetic_dialogues
from benchmarks.support.perturbed_replies import perturbed_replies
from parlai_ext.core import Dialogue
from parlai_ext.data.judged import Annotation, JudgedItem, JudgedSet
from parlai_ext.ranking.agreement import mean_ranks

SEED = 1
GAMES, WHOLE_GAMES = 'chatmatch_games', 'chatmatch_whole_games'
TURNS_A_SIDE = 3
SPOILT = 'spoilt_replies'
SOURCE = 'Yang et al. 2022, ChatMatch'


def spoilt_replies(folder: Path, number: int) -> JudgedSet:
    """
    Return replies of people and their perturbed copies, as a set without judgements;
    an item's id is ``corpus, number, kind``, its system the kind.
    """
    items = []
    for name, read in (('ED', empathetic_dialogues), ('DD', dailydialog)):
        replies = perturbed_replies(read(folder, 'test'), number, seed=SEED)
        for k, reply in enumerate(replies):
            for kind, item in reply.items():
                about = (f'{name},{k},{kind}', item.context, item.response)
                items.append(JudgedItem(*about, 'person', {}))
    about = (SPOILT, 'spoilt replies', 'EmpatheticDialogues, DailyDialog', '', 'turn')
    return JudgedSet(*about, tuple(items))


def chatmatch_games(folder: Path) -> JudgedSet:
    """
    Return turns of ChatMatch's 42 games, each judged by the mean rank that four people
    gave its bot: fit for the level of systems only.
    """
    items = []
    for game, bot, human in _judged_sides(folder):
        texts = tuple(utterance.text for utterance in game.utterances)
        places = [
            place
            for place, utterance in enumerate(game.utterances)
            if place and utterance.speaker == bot and utterance.text.strip()
        ]
        rng = random.Random(f'{game.id} {bot}')
        for place in sorted(rng.sample(places, min(TURNS_A_SIDE, len(places)))):
            context = texts[max(0, place - LAST_TURNS) : place]
            about = (f'{game.id}-{place}', context, texts[place], bot, human)
            items.append(JudgedItem(*about, dialogue=game.id))
    about = (GAMES, 'games of seven bots', SOURCE, '', 'turn')
    return JudgedSet(*about, tuple(items), 'dialogue', 'Overall')


def chatmatch_whole_games(folder: Path) -> JudgedSet:
    """
    Return both sides of ChatMatch's 42 games, each judged as in `chatmatch_games`: for
    scorers of whole games.
    """
    items = []
    for game, bot, human in _judged_sides(folder):
        texts, speakers = zip(
            *((u.text, u.speaker) for u in game.utterances), strict=True
        )
        about = (f'{game.id}-{bot}', texts, None, bot, human)
        items.append(JudgedItem(*about, speakers=speakers, dialogue=game.id))
    about = (WHOLE_GAMES, 'games of seven bots, whole', SOURCE, '', 'dialogue')
    return JudgedSet(*about, tuple(items), 'dialogue', 'Overall')


def _judged_sides(
    folder: Path,
) -> Iterator[tuple[Dialogue, str, dict[str, tuple[Annotation]]]]:
    """
    Yield each game with each of its bots and what people think of the bot.
    """
    judges = read_judgements(folder / 'chatmatch' / 'human_judgement.xlsx')[OVERALL]
    ranks = mean_ranks(judges)
    for game in read_games(folder / 'chatmatch' / 'original'):
        for bot in dict.fromkeys(utterance.speaker for utterance in game.utterances):
            rank = ranks.get(bot)
            if rank is not None:
                yield game, bot, {'Overall': (Annotation('mean of four', -rank),)}
