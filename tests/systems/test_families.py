"""
Every family of the papers' systems takes a seat: it is read from its file, holds a
dialogue of 12 utterances on either side, and a batch says what each row says alone, in
every variant that a published model's options may choose. What FiD and RAG say depends
on the passages that they find.
"""

import shutil
from functools import cache
from pathlib import Path
from types import SimpleNamespace

import pytest
from parlai.agents.rag import retrievers

from parlai_ext.core import System
from parlai_ext.systems.identity import candidates_hash, identity
from parlai_ext.systems.parlai_agents import why_unfit
from tests.support import family_fid, family_hf
from tests.support.families import FAMILIES
from tests.support.family_fid import RERANKER, write_passages
from tests.support.lockstep_play import DECODING, play, row
from tests.support.talk import loaded
from tests.support.tiny_models import in_float64, make_ranker, sentences
from tests.support.user_error import user_error

WAYS = {**DECODING, 'own': {}}  # a ranker has one way to speak


GENERATORS = [name for name in FAMILIES if name != 'polyencoder']


WITH_PASSAGES = family_fid.KINDS


# of Hugging Face's library
HF = family_hf.FAMILIES


# a look at the hub, or a download, fails
pytestmark = pytest.mark.usefixtures('no_network')

ALL = {**FAMILIES, **WITH_PASSAGES, **HF, 'causal_lm': family_hf.causal_lm}


SPEAKERS = [
    *((name, 'beam') for name in GENERATORS),
    *((name, 'beam') for name in ('causal_lm', 'fid', 'sequence', 'rag', 'poly')),
    # ParlAI's greedy search is the same for all; what is in the cells of a batch is not
    *((name, 'greedy') for name in ('generator', 'seq2seq_lstm', 'rag')),
    ('polyencoder', 'own'),
    ('generator', 'blocking'),
    ('sequence', 'blocking'),
    ('turn', 'blocking'),
]


@pytest.fixture(scope='module', autouse=True)
def small_rerankers():
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(retrievers, 'TRANSFORMER_RANKER_BASE_OPT', RERANKER)
        yield


@pytest.fixture(scope='module')
def stage(tmp_path_factory):
    """
    Return what makes a family's opt, a player of it, and the dialogues it held.
    """

    @cache
    def opt_of(name):
        return ALL[name](tmp_path_factory.mktemp(name))

    def player_of(name, how, **more):
        player = loaded(name, **{**opt_of(name), **WAYS[how], **more})
        in_float64(player.agent)
        return player

    @cache
    def held(name, how):
        return played(name, player_of(name, how))

    return SimpleNamespace(opt_of=opt_of, player_of=player_of, held=held)


def played(name, player, rows=None, num_turns=12):
    """
    Return the dialogues of a system with a partner whose words depend on what it hears.
    """
    partner = loaded('p', model='tests.support.trial_agents:Talker')
    return play(rows or rows_of(name), {name: player, 'p': partner}, num_turns)


def rows_of(name):
    """
    Return two rows in which the system speaks first and two in which it is second.

    Openers are of very different lengths: rows of a batch get much padding.
    """
    texts = sentences(8, seed=7)
    long = ' '.join(texts)
    first = [row(name, 'p', pair) for pair in (('tea', texts[0]), (texts[1], long))]
    second = [row('p', name, pair) for pair in ((long, 'rain'), texts[2:4])]
    return first + second


@pytest.mark.parametrize('name, how', [*SPEAKERS, *((name, 'beam') for name in HF)])
def test_a_system_holds_dialogues_on_either_side(stage, name, how):
    held = stage.held(name, how)
    for dialogue in held:
        assert (dialogue.ended_by, dialogue.reason) == (None, None)
        assert len(dialogue.utterances) == 12
        assert {u.speaker for u in dialogue.utterances if not u.given} == {name, 'p'}
        if name == 'polyencoder':  # it never repeats a line of its own dialogue
            assert len({*said(dialogue, name)}) == len(said(dialogue, name))
    replies = [said(dialogue, name) for dialogue in held]
    assert len({first for first, *_ in replies}) > 1
    # a system that is deaf says the same five or so things in every dialogue
    assert len({text for texts in replies for text in texts}) > 8


# for the models of `ext:hf`, tests/agents/test_agent_hf.py says so
@pytest.mark.parametrize('name, how', SPEAKERS)
def test_a_batch_says_what_each_row_says_alone(stage, name, how):
    # read from its file once more, so what was loaded before plays no part either
    player = stage.player_of(name, how)
    # the shortest opener and the longest, whose rows have most and least padding
    for place in (0, 2):
        [alone] = played(name, player, rows_of(name)[place : place + 1], 8)
        assert alone.utterances == stage.held(name, how)[place].utterances[:8]


@pytest.mark.parametrize('name', WITH_PASSAGES)
def test_other_passages_give_other_replies(stage, name, tmp_path):
    # the index finds the same numbers, but other texts have them
    before = Path(stage.opt_of(name)['path_to_dpr_passages']).read_text('utf-8')
    how = 'blocking' if name == 'turn' else 'beam'
    texts = [row.split('\t')[1] for row in before.split('\n')[1:-1]]
    moved = write_passages(tmp_path / 'moved.tsv', [*texts[1:], texts[0]])
    other = stage.player_of(name, how, path_to_dpr_passages=str(moved))
    replies = [
        [text for dialogue in dialogues for text in said(dialogue, name)[:2]]
        for dialogues in (played(name, other, num_turns=6), stage.held(name, how))
    ]
    assert sum(a != b for a, b in zip(*replies, strict=True)) > len(replies[0]) / 2


def said(dialogue, name):
    return [u.text for u in dialogue.utterances if u.speaker == name and not u.given]


def test_a_ranker_with_too_few_candidates_says_so(tmp_path):
    path = make_ranker(tmp_path, candidates=['you like tea', 'we saw rain'])
    assert {d.reason for d in played('x', loaded('x', model_file=path))} == {
        'raised LookupError: every candidate has been said; the file needs more'
    }


def test_candidates_that_only_the_models_options_name_are_part_of_what_it_is(tmp_path):
    path = make_ranker(tmp_path, candidates=['you like tea', 'we saw rain'])
    system = System('x', {'model_file': path})
    before = identity(system), candidates_hash(system)
    [candidates] = tmp_path.glob('*.candidates.txt')
    candidates.write_text('you like tea\nwe saw nobody\n')
    after = identity(system), candidates_hash(system)
    assert None not in before + after
    assert before[0] != after[0] and before[1] != after[1]


CHANGED = {
    'bart as lstm': ('bart', {'model': 'seq2seq'}),
    'wider': ('generator', {'embedding_size': 32}),
}


@pytest.fixture(scope='module')
def built(module_folder):
    names = dict.fromkeys(name for name, _ in CHANGED.values())
    return {name: FAMILIES[name](module_folder) for name in names}


def misfit_line(opt):
    """
    Return what is said of a system that cannot be loaded.
    """
    with user_error() as caught:
        loaded('x', **opt)
    return why_unfit(caught.value.__cause__, opt)


@pytest.mark.parametrize('case', CHANGED)
def test_a_model_file_that_does_not_fit_is_one_short_line(built, case):
    name, change = CHANGED[case]
    opt = {**built[name], **change}
    line = misfit_line(opt)
    start = f'model_file: {opt["model_file"]} is no {opt["model"]}'
    assert line.startswith(start)
    rest = line.removeprefix(start)
    assert ': its weights do not fit (' in rest
    assert '\n' not in rest and len(rest) < 200
    # its own options say otherwise
    assert rest.endswith("; its own options say 'bart'") == ('model' in change)


@pytest.mark.parametrize(
    'name, text, start, rest',
    [
        # 30 words and ParlAI's four are in the tiny models' dictionary
        ('generator.dict', 'a\t1\nb\t1\n', '{} makes 6 words', '{} are for 34'),
        ('gone.dict', None, 'there is no file {}', '34 words'),
    ],
)
def test_a_dictionary_that_does_not_fit_is_named(
    built, tmp_path, name, text, start, rest
):
    opt, words = built['generator'], tmp_path / name
    for path in Path(opt['model_file']).parent.glob('generator*'):
        shutil.copy(path, tmp_path / path.name)
    (tmp_path / 'generator.dict').unlink()
    if text is not None:
        words.write_text(text)
    model = str(tmp_path / 'generator')
    line = misfit_line({**opt, 'model_file': model, 'dict_file': str(words)})
    assert line.startswith(f'dict_file: {start.format(words)}')
    assert rest.format(model) in line
