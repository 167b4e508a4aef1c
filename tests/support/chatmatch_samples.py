"""
Hand-made games, the authors' games, and what their script says of these.
"""

import itertools

import pytest

from parlai_ext.core import Dialogue, Utterance, read_options
from parlai_ext.ranking.games import Game, award_points
from parlai_ext.scoring.chatmatch import ChatMatchOptions
from tests.support import shared_data
from tests.support.dialogues import dialogue
from tests.support.written import json_in

DATA = shared_data.DATA / 'chatmatch'
needs_games = pytest.mark.skipif(
    not DATA.is_dir(), reason=f"the authors' games are not at {DATA}"
)

# Turn 5 asks what turn 1 asked, turn 6 answers as turn 2 did, turn 7 asks again, and
# turn 8 answers otherwise. No other two turns share a word.
QUIZ = (
    'hello there .',
    'do you like dogs ?',
    'no , cats only .',
    'my house is big .',
    'mine burned down .',
    'do you like dogs ?',
    'no , cats only .',
    'do you like dogs ?',
    'yes , very much .',
    'bye then',
)


def game(texts, names=('ann', 'bob'), **fields):
    """
    Return a dialogue whose speakers, called ``names``, take turns.
    """
    return dialogue(texts, given=0, speakers=names, **fields)


def pecking_order(dims='xy'):
    """
    Earlier beats later on the first dimension; on the others it is the other way.
    """
    games = []
    for a, b in itertools.permutations('ABCD', 2):
        raw = {
            one: {d: float((one < other) == (d == dims[0])) for d in dims}
            for one, other in ((a, b), (b, a))
        }
        games.append(Game(a, b, raw, a + b))
    return award_points(games)


def read_games(folder):
    """
    Return the dialogues in a folder of `BOT: text` files by the speakers' names.
    """
    found = {}
    for path in sorted((DATA / folder).glob('*.txt')):
        lines = path.read_text('utf-8').split('\n')
        said = [Utterance(*line.split(': ', 1)) for line in lines if line]
        name = '_'.join(u.speaker for u in said[:2])
        found[name] = Dialogue(path.stem, 'p', 'o', tuple(said))
    return found


def read_concepts(folder, name):
    """
    Return the authors' dictionary of one game.
    """
    path = DATA / folder / f'{name}.jsonl'
    if not path.exists():  # one self-chat is begun by its second half
        path = path.with_stem('_'.join((name[5:], name[:4])))
    return json_in(path)


# What the public script (evaluate_game.py at 086d01d of ruolanyang/ChatMatch) computes
# of each game, its entity and perplexity parts replaced by constants: repetitions,
# inconsistencies, relevance bonuses and questions over all turns; the mean of
# distinct-1 and distinct-2 of the even and of the odd turns; and the first digits of
# the SHA-256 of JSON [[repetition, inconsistency, relevance, question], …] by turn.
RELEASED = """
BB_CR 0 0 18 40 0.478719 0.683097 17867626
BB_CS 6 1 29 23 0.487374 0.644484 f78c37bf
BB_DD 43 0 21 32 0.470792 0.638537 e4d44f4c
BB_DG 83 0 12 15 0.479551 0.744912 15dafc7d
BB_PL 1 0 24 19 0.478216 0.560553 4d28dacb
BB_UG 47 3 30 37 0.482033 0.471545 3d149d6f
CR_BB 0 0 4 39 0.655668 0.488556 75d80a46
CR_CS 41 11 0 36 0.687208 0.726566 8eb25b05
CR_DD 61 0 0 14 0.702577 0.715902 98e96c0d
CR_DG 74 0 0 17 0.705304 0.821173 be519610
CR_PL 0 0 1 23 0.686161 0.568112 559b1020
CR_UG 63 2 0 12 0.614506 0.718322 b1353c11
CS_BB 0 0 7 44 0.683621 0.489306 51a71949
CS_CR 27 0 0 19 0.705778 0.710143 1f5f3502
CS_DD 27 0 0 18 0.703745 0.742726 662be895
CS_DG 79 0 0 23 0.726655 0.783281 3ab4a3b9
CS_PL 1 0 0 31 0.627101 0.547393 4d5a7986
CS_UG 73 66 0 85 0.698416 0.696163 36507223
DD_BB 58 0 24 32 0.429201 0.472506 47e9241a
DD_CR 91 6 0 13 0.672590 0.671501 ce3dfae4
DD_CS 78 40 0 94 0.769515 0.774176 770fed2b
DD_DG 191 0 0 1 0.806761 0.745910 3995fe50
DD_PL 124 0 0 7 0.612230 0.697324 09612bde
DD_UG 192 0 76 1 0.712502 0.613368 434aff2e
DG_BB 79 0 19 3 0.749292 0.462530 d10e2f32
DG_CR 72 0 1 59 0.780303 0.702818 56674bc8
DG_CS 161 0 3 6 0.721182 0.728659 fe09754a
DG_DD 120 44 146 76 0.838202 0.900083 287d9c21
DG_PL 119 0 0 8 0.699416 0.683285 0057f27d
DG_UG 172 12 16 106 0.863669 0.346532 a2f288c8
PL_BB 2 0 27 24 0.592838 0.486975 ad5581bd
PL_CR 0 0 6 33 0.540930 0.673557 00113c18
PL_CS 0 0 0 32 0.565784 0.655892 cb6a632d
PL_DD 109 10 8 17 0.625604 0.649258 5865e531
PL_DG 146 0 0 5 0.609055 0.778377 99554cc3
PL_UG 167 0 0 0 0.709954 0.611060 afee5d5e
UG_BB 31 1 27 59 0.438310 0.480015 16e48bf8
UG_CR 78 1 0 24 0.433408 0.645716 b8fe9ad0
UG_CS 165 0 12 4 0.607169 0.524255 44f61511
UG_DD 178 0 0 14 0.669570 0.750830 da5a0bf4
UG_DG 95 66 0 98 0.667234 0.852398 3ed14f9d
UG_PL 55 35 19 46 0.535273 0.623709 efc64c20
BB_1_BB_2 0 0 7 47 0.443033 0.445989 96cfd035
CR_1_CR_2 0 0 6 20 0.674634 0.671324 aad0bf12
CS_1_CS_2 6 1 5 17 0.694543 0.703869 4f27c3aa
DD_1_DD_2 99 0 197 99 0.828125 0.833333 057796ac
DG_1_DG_2 163 0 3 13 0.786961 0.779937 b45a0059
PL_2_PL_1 38 0 2 8 0.547876 0.570392 0211ff17
UG_1_UG_2 183 0 0 15 0.516379 0.465906 29c097d1
"""


def released_rows(self_chats):
    """
    Return the rows of `RELEASED` as (name, counts, two specificities, digest).
    """
    rows = []
    for line in RELEASED.strip().split('\n'):
        name, *numbers, digest = line.split()
        counts, distinct = numbers[:4], numbers[4:]
        if (name.count('_') > 1) == self_chats:
            rows.append((name, [*map(int, counts)], [*map(float, distinct)], digest))
    return rows


def chatmatch_options(reading='released_fixed', thresholds=None):
    """
    Return a reading with some thresholds changed.
    """
    given = {'reading': reading, **(thresholds or {})}
    return read_options(ChatMatchOptions, given, 'scorer: ')
