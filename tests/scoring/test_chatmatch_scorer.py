"""
ChatMatch as a scorer: options, signature, perplexity, scores of turns and games; its
points of a game as one score, for each side, and not for a response. Algorithms 1 to 3
on games whose points can be counted on paper; distinct values. Where its names and
concepts come from: lists, taggers, pipelines, files.
"""

import json
import math
import sys
from types import ModuleType, SimpleNamespace

import pytest
from nltk.tokenize import NLTKWordTokenizer

from benchmarks.chatmatch.games import raw_scores
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.chatmatch import (
    DIMENSIONS,
    NAMES,
    ChatMatch,
    ChatMatchGame,
    all_but_function_words,
    capitalised_runs,
    content_words_by_tags,
    distinct,
    find_echoes,
    find_recalls,
    load_dictionaries,
    load_recogniser,
    names_on_list,
    perplexities,
    similarities,
    stems,
    words,
)
from parlai_ext.scoring.score_run import judged_scoring_items
from tests.support.bench_samples import judged_dialogue
from tests.support.chatmatch_samples import (
    DATA,
    QUIZ,
    chatmatch_options,
    game,
    needs_games,
    read_concepts,
    read_games,
)
from tests.support.scoring_samples import KnownJudge, reason_of
from tests.support.tiny_models import sentences
from tests.support.user_error import user_error


def judge(*_):
    return KnownJudge(lambda context, text: [-1.0] * (len(text.split()) + 1))


def scorer(**config):
    return ChatMatch.from_section({'name': 'chatmatch', **config}, judge())


def scored(indices=range(10), dialogue=None, **config):
    """
    Return the scores of a game of these turns.
    """
    [one] = scorer(**config).score_dialogues([dialogue or game(QUIZ)], [indices])
    return one


def values(scored, index, system):
    return {
        s.dimension: s.value
        for s in scored.scores
        if (s.utterance_index, s.system) == (index, system)
    }


@pytest.mark.parametrize(
    'config, hint',
    [
        ({'entities': 'spacey'}, "'spacy'"),
        ({'entities': 'gazetteer:big'}, 'gazetteer'),
        ({'concepts': '/no/such/folder'}, 'content_words'),
    ],
)
def test_a_wrong_option_is_one_line_before_a_model_is_loaded(config, hint):
    [option] = config
    with user_error(f'^scorer: .*{option}.*{hint}'):
        ChatMatch.from_section(config)


@pytest.mark.parametrize(
    'unit, text, logprobs, mean',
    [
        ('token', 'hi you', (-1.0, -2.0, -6.0), 3),  # two tokens and the end
        ('character', 'hi', (-1.0, -5.0), 2),  # two characters and the end
    ],
)
def test_a_perplexity_is_that_on_paper(unit, text, logprobs, mean):
    known = KnownJudge(lambda *_: logprobs)
    assert perplexities(known, [text], unit) == [pytest.approx(math.e**mean)]


@pytest.mark.parametrize('logprobs', [(), (-math.inf,), (math.nan,), (-1e6,)])
def test_an_empty_text_or_no_finite_number_is_no_perplexity(logprobs):
    known = KnownJudge(lambda _, text: logprobs if text == 'hi' else (-1.0,))
    assert perplexities(known, ['hi', '', ' '], 'token') == [None] * 3


def test_equal_turns_of_all_games_are_asked_once_each_by_itself():
    known = judge()
    one = ChatMatch(models=known)
    one.score_dialogues([game(QUIZ), game(QUIZ[:4])], [range(10), range(4)])
    asked = sorted((q.context, *q.continuations) for q in known.questions)
    assert asked == [((), text) for text in sorted(set(QUIZ))]


def test_a_turn_that_does_not_count_has_no_score_and_a_reason():
    one = scored()
    reasons = {
        s.utterance_index: s.reason
        for s in one.scores
        if s.dimension == 'proactivity' and s.value is None
    }
    # 0 is given, 5 and 7 repeat, 9 is the last of ten
    assert reasons == {
        0: 'not counted: given',
        5: 'not counted: repeated',
        7: 'not counted: repeated',
        9: 'not counted: the last of an even number of turns',
    }


def test_evidence_names_the_earlier_turns():
    one = scorer(judge_model_file='none', recall_distance=1, concept_share=1.0)
    scored = one.score_dialogues([game(QUIZ)], [[5, 8]])[0]
    assert one.evidence_labels[:2] == ('repeats_turn', 'contradicts_turn')
    # the dogs of turn 5 were in turn 1
    assert scored.evidence == {5: (1, None, 1, None), 8: (None, 2, None, None)}


def test_only_judged_speakers_get_a_games_score():
    assert {s.system for s in scored([2, 4]).scores} == {'ann'}


def test_a_self_chat_has_one_score_a_dimension():
    one = scored(range(1, 10), game(QUIZ, names=('solo',)))
    of_game = [s.dimension for s in one.scores if s.utterance_index is None]
    assert sorted(of_game) == sorted(DIMENSIONS)


@pytest.mark.parametrize(
    'dialogue, reason',
    [
        (game(QUIZ, names=('ann', 'bob', 'cy')), '3 speakers (ann, bob, cy)'),
        (game(QUIZ[:1]), '1 turn(s)'),
        (game(QUIZ[:4], names=('ann', 'bob', 'bob')), 'turn 2: bob speaks twice'),
    ],
)
def test_a_dialogue_that_is_no_game_has_no_score_and_a_reason(dialogue, reason):
    rows = scored(range(len(dialogue.utterances)), dialogue).scores
    [(value, why)] = {(s.value, s.reason) for s in rows}
    assert value is None and why.startswith(reason)
    assert len(rows) == len({*dialogue.speakers}) * len(DIMENSIONS)


def test_without_a_model_or_recogniser_the_rest_is_scored():
    one = scored(judge_model_file='none', entities='none')
    missing = {d for d, v in values(one, None, 'ann').items() if v is None}
    assert missing == {'fluency', 'knowledge'}


def test_entities_are_looked_for_before_the_first_colon_by_the_script():
    dialogue = game(['hi', 'note: i love paris', 'ok', 'fine'])
    for reading, found in (('released', 0), ('paper', 50)):
        one = ChatMatch(chatmatch_options(reading, {'judge_model_file': 'none'}))
        material = one.materials([dialogue])[0]
        assert raw_scores(dialogue, one.options, material)['bob']['knowledge'] == found


@pytest.mark.parametrize('reading, n_questions', [('paper', 2), ('released', 1)])
def test_two_questions_of_a_turn_count_twice_for_the_paper(reading, n_questions):
    one = scored([1], game([QUIZ[0], 'Why? Who says so?!', *QUIZ[2:]]), reading=reading)
    assert values(one, 1, 'bob')['proactivity'] == n_questions


# Nobody repeats, recalls or names anything, and no turn has a word twice: the two sides
# differ in their questions only, of which the second speaker has two.
TEXTS = (
    'hello there',
    'you like cats ?',
    'rather not',
    'which animals then ?',
    'none at all',
    'good night dear',
)


def game_scores(*items):
    section = {'reading': 'paper', 'entities': 'none', 'judge_model_file': 'none'}
    return ChatMatchGame.from_section(section).checked_scores(items)


def side(speaker, names=('ann', 'bob') * 3):
    return ScoringItem(TEXTS, None, speaker, extras={'speakers': names})


def test_a_side_gets_a_point_where_its_raw_score_is_higher():
    ann, bob = game_scores(side('ann'), side('bob'))
    assert (ann.values['Overall'], bob.values['Overall']) == (0, 1)
    assert (ann.values['proactivity'], bob.values['proactivity']) == (0, 2)
    assert bob.evidence['proactivity'] == 1
    # equal raw scores give nobody a point; missing ones none to give
    assert bob.evidence['diversity'] == ann.evidence['diversity'] == 0
    assert bob.evidence['fluency'] is None


@pytest.mark.parametrize(
    'item, reason',
    [
        (ScoringItem(TEXTS[:-1], TEXTS[-1], 'bob'), 'a response has no game'),
        (ScoringItem(TEXTS, None, 'bob'), 'who says what'),
        (side('ann', names=('ann',) * 6), 'self-chat'),
        (side('cyd'), "'cyd' says nothing"),
        (side('ann', names=('ann', 'ann', 'bob', 'ann', 'bob', 'ann')), 'twice'),
    ],
)
def test_without_two_sides_there_is_no_score(item, reason):
    [score] = game_scores(item)
    assert reason in reason_of(score)


def test_a_response_has_the_values_that_its_turn_adds():
    [score] = game_scores(ScoringItem(TEXTS[:3], TEXTS[3], 'bob'))
    assert score.values['proactivity'] == 1
    assert score.values['diversity'] == 0


def test_a_judged_response_is_given_apart():
    chatmatch = ChatMatchGame.from_section({'judge_model_file': 'none'})
    [turn] = judged_scoring_items(judged_dialogue(1, *TEXTS).turns()[0], chatmatch)
    assert (turn.context, turn.response) == (TEXTS[:1], TEXTS[1])


# --- algorithms 1 to 3 ----------------------------------------------------------------

# "dogs" is in turns 1, 2 and 4, "we" in turns 0, 1, 3 and 5: of these two concepts the
# rarer half is the dogs
TALK = ('we met', 'we like dogs', 'dogs bark', 'we know', 'my dogs', 'we go')
CONCEPTS = {'we': 'we', 'dogs': 'dog'}


CATS = ('hm', 'cats dogs', 'so', 'cats dogs', 'we', 'we')
CATS_TOO = {**CONCEPTS, 'cats': 'cat', 'so': 'so', 'hm': 'hm'}
TWO_DOGS = ('dogs', 'we two', 'dogs', 'we', 'we')
LOUD = (*TALK[:4], 'My Dogs!', 'we go')
# three concepts: "us" is in no turn, the dog in two; 3 * 0.4 = 1.2 holds both
ONE_STEM = ('hm', 'dogs bark', 'we', 'a dog', 'we')
STEMS = {'dogs': 'dog', 'dog': 'dog', 'we': 'we', 'us': 'us'}
# "a" is in three turns, "b" and "d", which is found later, in two, "c" in none: the
# rarer half is "c" and "b"
LETTERS = ('a b', 'a', 'd', 'b', 'a d')


@pytest.mark.parametrize(
    'texts, concepts, options, expected',
    [
        # turn 2 is 1 turn after turn 1: too soon; turn 4 is 2 turns after turn 2
        (TALK, CONCEPTS, {}, {4: 2}),
        # a concept must come back after more than d turns
        (TALK, CONCEPTS, {'recall_distance': 0}, {2: 1, 4: 2}),
        (TALK, CONCEPTS, {'recall_distance': 2}, {}),
        # twice in a turn
        (('hm', 'dogs dogs', 'we', 'we'), CONCEPTS, {'recall_distance': 0}, {}),
        # with all concepts important, "we" comes back at turns 3 and 5
        (TALK, CONCEPTS, {'concept_share': 1.0}, {3: 1, 4: 2, 5: 3}),
        # a turn has one bonus however much it recalls
        (CATS, CATS_TOO, {'concept_share': 1.0}, {3: 1}),
        # the script does not hear the first turn, and looks up words as they are
        (TWO_DOGS, CONCEPTS, {}, {}),
        (TWO_DOGS, CONCEPTS, {'reading': 'paper'}, {2: 0}),
        (LOUD, CONCEPTS, {}, {}),
        (LOUD, CONCEPTS, {'reading': 'paper'}, {4: 2}),
        (ONE_STEM, STEMS, {'concept_share': 0.3}, {}),
        (ONE_STEM, STEMS, {'concept_share': 0.4}, {3: 1}),
        (LETTERS, {x: x for x in 'abcd'}, {'reading': 'paper'}, {3: 0}),
        (TALK, {}, {}, {}),
    ],
)
def test_which_turn_recalls_which(texts, concepts, options, expected):
    options = {'reading': 'released', **options}
    found = find_recalls(texts, concepts, chatmatch_options(thresholds=options))
    assert len(found) == len(texts)
    assert {i: j for i, j in enumerate(found) if j is not None} == expected


def test_words_lose_punctuation_and_get_stems():
    assert stems("The dogs' hobbies.") == ('the', 'dog', 'hobbi')


@pytest.mark.parametrize(
    'word', ['cannot', 'gimme', 'gonna', 'gotta', 'lemme', 'wanna']
)
@pytest.mark.parametrize('text', ['{}', 'you {} go', 'x{}', '{}s'])
def test_contractions_are_parted_as_nltk_does(word, text):
    said = text.format(word)
    assert list(words(said)) == NLTKWordTokenizer().tokenize(said)


@pytest.mark.parametrize(
    'text, unit, expected',
    [
        # a a b: 2 of 3 characters; aa ab: 2 of 2 pairs; the script adds 0.00001 below
        ('aab', 'character', (2 / 3.00001, 2 / 2.00001)),
        # no no no way: 2 of 4 words; (no no) (no no) (no way): 2 of 3 pairs
        ('No no, no way!', 'token', (0.5, 2 / 3)),
        ('', 'character', (0, 0)),
        ('', 'token', (0, 0)),
        ('yes', 'token', (1, 0)),
    ],
)
def test_distinct_values_on_paper(text, unit, expected):
    assert distinct(text, unit) == pytest.approx(expected, abs=1e-6)


RELEASED, PAPER = chatmatch_options('released'), chatmatch_options('paper')


def repeats(texts, rules=RELEASED):
    return find_echoes(texts, rules)[0]


def contradicts(texts, rules=RELEASED):
    return find_echoes(texts, rules)[1]


def test_cosine_of_two_turns_on_paper():
    # two turns; "red" is in both: idf log(3/3)+1 = 1; "dog", "cat" in one: log(3/2)+1
    # = 1.405465. cosine = 1 / (1 + 1.405465 ** 2) = 1 / 2.975332
    found = similarities(['red dog', 'red cat'])
    assert found[0, 1] == pytest.approx(0.336097, abs=1e-6)


def test_turns_without_words_are_like_no_other():
    assert similarities(['', '?!', '🙂 hm'])[:2].tolist() == [[0] * 3] * 2


@pytest.mark.parametrize('reading, earlier', [('released', None), ('paper', 2)])
def test_in_the_paper_alone_equal_to_the_threshold_contradicts(reading, earlier):
    # the cosine of turns 8 and 2 is 0, and no cosine is below 0
    rules = chatmatch_options(reading, {'contradiction': 0})
    assert contradicts(QUIZ, rules) == [*[None] * 8, earlier, None]


def test_for_the_script_only_a_question_mark_of_its_own_asks():
    # without the blank, turn 5 is no repeated question: turn 6 is a plain repetition
    texts = [text.replace(' ?', '?') for text in QUIZ]
    assert repeats(texts) == [None] * 5 + [1, 2, 5, None, None]
    assert contradicts(texts) == [None] * 10
    # for the paper any question mark asks
    assert repeats(texts, PAPER) == repeats(QUIZ, PAPER)


def test_nobody_is_bound_to_what_the_other_answered():
    # turn 3 is bob's question of turn 1, asked back by ann at turn 4; bob's answer is
    # compared with his own answers, of which there is none
    texts = ['hi', 'any cats ?', 'many', 'nice one', 'any cats ?', 'zero']
    assert repeats(texts, PAPER)[4] == 1
    assert contradicts(texts, PAPER) == [None] * 6


@pytest.mark.parametrize('reading, penalised', [('released', False), ('paper', True)])
def test_the_script_judges_no_repetition_before_turn_3(reading, penalised):
    texts = ['same again', 'other words', 'same again']
    assert (repeats(texts, chatmatch_options(reading))[2] == 0) == penalised


def test_repetition_needs_the_threshold():
    # two turns of three share both their words with turn 1, one has a third word
    texts = ['a start', 'green apples', 'other talk', 'green apples here']
    alike = similarities(texts)[3, 1]
    near = {'repetition': alike - 0.01}, {'repetition': alike + 0.01}
    found = [repeats(texts, chatmatch_options('released', one))[3] for one in near]
    assert found == [1, None]


def test_equal_turns_are_repetitions_whatever_rounding_does():
    texts = sentences(5)
    strictest = chatmatch_options('released', {'repetition': 1})
    assert repeats(texts + texts[:1] * 2, strictest)[6] == 0


# === Where names and concepts come from ===============================================

SAID = 'Rome on May 4 at noon: 7 first saw Ann'


def entity(text, label):
    begin = SAID.index(text)
    places = {'start_char': begin, 'end_char': begin + len(text)}
    return SimpleNamespace(label_=label, type=label, **places)


# what a pipeline finds: dates and numbers are not counted
FOUND = (entity('Rome', 'GPE'), entity('May 4', 'DATE'), entity('7', 'CARDINAL'))
FOUND += (entity('noon', 'TIME'), entity('first', 'ORDINAL'), entity('Ann', 'PERSON'))


class Read:  # a pipeline's document, of no token
    text, ents, sentences = SAID, FOUND, ()
    __iter__ = ().__iter__


@pytest.mark.parametrize(
    'said, names',
    [
        # however they are written
        ('i love New York and PARIS , star wars', ['new york', 'paris', 'star wars']),
        # the longest
        ('new york city is in north america', ['new york city', 'north america']),
        # dates and numbers are none
        ('on monday , 4th of july at noon , twenty of us', []),
    ],
)
def test_names_of_the_list_are_found(said, names):
    assert names_on_list([said]) == [names]


def test_every_listed_name_is_found_as_it_is_listed():
    texts = [' '.join(name) for name in NAMES]
    assert names_on_list(texts) == [[text] for text in texts]


def test_capitals_are_names_inside_sentences_only():
    said = "Well I met Ann Lee. She was in Oslo, I think. I'm sure"
    assert capitalised_runs([said]) == [['Ann Lee', 'Oslo']]


def test_a_missing_library_is_one_line_that_says_how_to_install_it(uninstalled):
    uninstalled('stanza')
    with user_error('stanza is not installed; `pip install stanza`'):
        load_recogniser('stanza')


def fake_spacy(pipes=('ner',)):
    def load(model):
        if model != 'en_core_web_sm':
            raise OSError(f"can't find model {model}")
        return SimpleNamespace(
            pipe_names=pipes,
            meta={'version': '3.8'},
            pipe=lambda texts: [Read() for _ in texts],
        )

    module = ModuleType('spacy')
    module.__version__, module.load = '3.9', load
    return module


def test_a_spacy_pipeline_without_entities_is_one_line(monkeypatch):
    monkeypatch.setitem(sys.modules, 'spacy', fake_spacy(pipes=('tagger',)))
    with user_error('finds no entities'):
        load_recogniser('spacy')


def fake_stanza():
    def pipeline(language, **_):
        if language != 'en':
            raise FileNotFoundError('resources.json')
        return lambda text: Read()

    module = ModuleType('stanza')
    module.__version__, module.Pipeline = '1.1', pipeline
    return module


@pytest.mark.parametrize(
    'name, make, signature',
    [
        ('spacy', fake_spacy, 'spacy-3.9-en_core_web_sm-3.8'),
        ('stanza', fake_stanza, 'stanza-1.1-en'),
    ],
)
def test_a_librarys_names_are_found_without_dates_and_numbers(
    monkeypatch, name, make, signature
):
    monkeypatch.setitem(sys.modules, name, make())
    recogniser = load_recogniser(name)
    assert recogniser.find([SAID, SAID]) == [['Rome', 'Ann']] * 2
    assert recogniser.signature == signature


@pytest.mark.parametrize(
    'name, make, command',
    [
        ('spacy:de_core', fake_spacy, 'python -m spacy download de_core'),
        ('stanza:xx', fake_stanza, r"stanza\.download\('xx'\)"),
    ],
)
def test_a_missing_pipeline_is_one_line(monkeypatch, name, make, command):
    monkeypatch.setitem(sys.modules, name.partition(':')[0], make())
    with user_error(command):
        load_recogniser(name)


def test_content_words_are_all_but_function_words():
    dialogue = game(['Do you like big dogs ?', "yes , i ' m sure they like us"])
    assert all_but_function_words(dialogue) == {
        'like': 'like',
        'big': 'big',
        'dogs': 'dog',
    }


def test_tagged_words_are_nouns_verbs_and_adjectives():
    tags = {'dogs': 'NNS', 'the': 'DT', 'bark': 'VBP', 'rome': 'NNP', 's': 'POS'}
    dialogue = game(["the dogs bark , rome ' s"])
    found = content_words_by_tags(
        dialogue, lambda said: [(word, tags[word]) for word in said]
    )
    assert found == {'dogs': 'dog', 'bark': 'bark'}


def test_of_a_word_twice_in_a_turn_the_last_tag_holds():
    def tagger(said):
        return list(zip(said, ['NN', 'DT'], strict=True))

    assert content_words_by_tags(game(['so so']), tagger) == {}


def test_a_tagger_without_weights_is_one_line(monkeypatch):
    import nltk.tag.perceptron

    def absent():
        raise LookupError('a banner\nof many lines')

    monkeypatch.setattr(nltk.tag.perceptron, 'PerceptronTagger', absent)
    with user_error('nltk.downloader averaged_perceptron'):
        load_dictionaries('nltk')


def write(folder, **dictionaries):
    for name, found in dictionaries.items():
        (folder / f'{name}.jsonl').write_text(json.dumps(found))
    return str(folder)


@pytest.mark.parametrize(
    'files, names, letter',
    [
        (('ann_bob', 'bob_ann'), ('ann', 'bob'), 'ann_bob'),
        (('ann_bob', 'bob_ann'), ('bob', 'ann'), 'bob_ann'),
        # either order will do where one is there
        (('ann_bob',), ('bob', 'ann'), 'ann_bob'),
        # a self-chat's file may number its halves
        (('ann_1_ann_2',), ('ann',), 'ann_1_ann_2'),
    ],
)
def test_a_file_is_found_by_the_speakers(tmp_path, files, names, letter):
    found = load_dictionaries(write(tmp_path, **{one: {'a': one} for one in files}))
    assert found.find(game(['hi', 'hi'], names=names)) == {'a': letter}


def test_one_file_is_for_every_game(tmp_path):
    write(tmp_path, all={'a': 'x'})
    found = load_dictionaries(str(tmp_path / 'all.jsonl'))
    assert found.find(game(['hi', 'hi'])) == {'a': 'x'}


@pytest.mark.parametrize('texts', [['hi', 'hi'], []])
def test_a_game_without_a_file_has_no_concepts(tmp_path, texts):
    assert load_dictionaries(write(tmp_path, x_y={})).find(game(texts)) is None


def test_the_content_of_the_files_is_in_the_signature(tmp_path):
    one = load_dictionaries(write(tmp_path, ann_bob={'a': 'x'})).signature
    assert load_dictionaries(write(tmp_path, ann_bob={'a': 'z'})).signature != one


@pytest.mark.parametrize('text', ['{', '[1]', '{"a": 1}'])
def test_a_broken_file_is_named(tmp_path, text):
    (tmp_path / 'ann_bob.jsonl').write_text(text)
    with user_error(r'concepts .*ann_bob\.jsonl'):
        load_dictionaries(str(tmp_path))


def test_an_empty_folder_is_one_line(tmp_path):
    with user_error(r'no \*\.jsonl in this folder'):
        load_dictionaries(str(tmp_path))


@needs_games
def test_the_authors_dictionaries_are_found_for_every_game():
    for folder in ('original', 'selfchat'):
        found = load_dictionaries(str(DATA / f'lemma_{folder}'))
        for name, dialogue in read_games(folder).items():
            assert found.find(dialogue) == read_concepts(f'lemma_{folder}', name)
