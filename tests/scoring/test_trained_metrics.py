"""
Metrics trained by others, on tiny models with random weights: USR, CTC, UniEval and
BLEURT by transformers, from inputs as in the authors' files; DEnsity's features by
transformers, its distances by scikit-learn; and what of a model's name on the hub is
pinned, signed and recorded.
"""

import shutil
from dataclasses import replace
from functools import cache, partial

import numpy as np
import pytest
import torch
from safetensors.torch import save_file
from sklearn.covariance import EmpiricalCovariance
from transformers import (
    AutoModelForSeq2SeqLM,
    AutoTokenizer,
    BertForSequenceClassification,
    BertModel,
    RemBertForSequenceClassification,
    RobertaConfig,
    RobertaForMaskedLM,
    RobertaForSequenceClassification,
    RobertaForTokenClassification,
)

from parlai_ext.data.judged import read_card
from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.references import Bleurt
from parlai_ext.scoring.trained_metrics import (
    NORMS,
    PUNKT,
    Density,
    UniEval,
    clean_text,
    overall,
    read_statistics,
    squared_distances,
    treebank_words,
    write_statistics,
)
from tests.support.family_hf import REPO, cached, make_model
from tests.support.on_cpu import models_on_cpu
from tests.support.scoring_samples import reason_of, scores_of
from tests.support.shared_data import shared
from tests.support.tiny_trained import (
    ITEMS,
    SIZES,
    TEXTS,
    bert_tokenizer,
    make_bert,
    make_roberta,
    make_t5,
    roberta_tokenizer,
    spread,
)
from tests.support.user_error import user_error
from tests.support.written import changed_json, json_in, on_one_line, written

pytest_plugins = ['tests.support.family_hf']
# numbers in float32, summed in another order
near = partial(pytest.approx, abs=1e-5)

# of ITEMS[0]
RESPONSE = 'i do ! i played it on a boat .'
TURNS = ('do you like jazz ?', 'yes , i like the old piano . do you ?')
FACT = 'the piano is old and it has a story .'


@pytest.fixture(scope='module')
def folders(module_folder):
    """
    The options of each metric, which name its tiny models.
    """
    two = {'num_labels': 2}
    pairs = RobertaForSequenceClassification
    aligner = make_roberta(module_folder / 'ctc', RobertaForTokenClassification, **two)
    return {
        'usr': {
            'masked_lm': make_roberta(module_folder / 'mlm', RobertaForMaskedLM, 0),
            'context_classifier': make_roberta(module_folder / 'ctx', pairs, 1, **two),
            'knowledge_classifier': make_roberta(module_folder / 'uk', pairs, 2, **two),
        },
        'ctc': {'engaging_model': aligner, 'knowledge_model': aligner},
        'unieval': {'judge_model_file': make_t5(module_folder / 't5')},
        'bleurt': {
            'regressor': make_bert(
                module_folder / 'bleurt', BertForSequenceClassification, num_labels=1
            )
        },
    }


@pytest.fixture
def scored(folders):
    """
    A function that scores items, by default the first, with other options.
    """

    def score(metric, items=ITEMS[:1], **options):
        return scores_of(metric, items, **{**folders[metric], **options})

    return score


@pytest.mark.parametrize('metric', ['usr', 'ctc', 'unieval'])
def test_without_knowledge_no_use_of_it_is_scored(scored, metric):
    [score], [none] = (
        scored(metric, [replace(ITEMS[2], facts=facts)]) for facts in (None, '_nofact')
    )
    assert 'persona' in reason_of(score, 'Uses Knowledge')
    # the models read the word for none
    assert score.values['Engaging'] == none.values['Engaging']


# --- USR ------------------------------------------------------------------------------

# as the lines of undr/test.lm, both/dev.tsv and fct/dev.tsv are
USR_TURN, USR_RESPONSE = f'{TURNS[1]} _eos', f'_go {RESPONSE} _eos'


def masked_logprobs(folders, ids):
    """
    The log-probability of each token but the first and the last, by transformers.
    """
    model = RobertaForMaskedLM.from_pretrained(folders['usr']['masked_lm']).eval()
    logprobs = []
    for place in range(1, len(ids) - 1):
        hidden = torch.tensor([ids])
        hidden[0, place] = roberta_tokenizer().mask_token_id
        with torch.no_grad():
            row = model(hidden).logits[0, place].log_softmax(-1)
        logprobs.append(row[ids[place]].item())
    return logprobs


def right_share(folder, first):
    model = RobertaForSequenceClassification.from_pretrained(folder).eval()
    inputs = roberta_tokenizer()(first, USR_RESPONSE, return_tensors='pt')
    with torch.no_grad():
        return model(**inputs).logits.softmax(-1)[0, 1].item()


def test_the_terms_are_those_of_the_authors_code(folders, scored):
    [score], [alone] = scored('usr'), scored('usr', hidden='response')
    usr, tokenizer = folders['usr'], roberta_tokenizer()
    ids = tokenizer(f'{USR_TURN} {USR_RESPONSE}')['input_ids']
    logprobs = masked_logprobs(folders, ids)
    expected = [
        sum(logprobs) / len(logprobs),
        right_share(usr['context_classifier'], f'{USR_TURN} {FACT} _eos'),
        right_share(usr['knowledge_classifier'], f'{FACT} _eos'),
    ]
    named = [score.values[d] for d in ('Natural', 'Engaging', 'Uses Knowledge')]
    assert named == near(expected)
    # only the response is hidden on request
    n = len(tokenizer(f' {USR_RESPONSE}', add_special_tokens=False)['input_ids'])
    assert alone.evidence[0] == near(sum(logprobs[-n:]) / n)


def test_the_last_hundred_tokens_are_read(folders, scored):
    item = replace(ITEMS[0], context=('i like jazz music , ' * 20,))
    [score] = scored('usr', [item])
    text = f'{on_one_line(item.context[0])} _eos {USR_RESPONSE}'
    ids = roberta_tokenizer()(text)['input_ids']
    logprobs = masked_logprobs(folders, ids[-100:])
    assert score.evidence[0] == near(sum(logprobs) / 98)
    assert score.cut == len(ids) - 101  # the begin token is none of the text's


def test_the_regression_has_the_authors_coefficients():
    # of terms 1, 2 and 3 spreads above their means
    terms = {term: m + k * s for k, (term, (m, s)) in enumerate(NORMS.items(), 1)}
    coefficients = (0.66011 + 0.40353) + 2 * (0.51328 + 0.96053) + 3 * 0.35643
    assert overall(terms) == pytest.approx(3.59748 + coefficients, abs=1e-4)


def test_words_are_split_as_in_the_training_data():
    # a line of the authors' undr/test.lm, put together again
    text = "i wonder if bowling is more popular in the 60's than football. isn't it?"
    assert treebank_words(text) == (
        "i wonder if bowling is more popular in the 60 's than football . is n't it ?"
    )


# --- CTC ------------------------------------------------------------------------------


def supported(folders, context):
    """
    P(supported) of each word: the tokens' last hidden states are added, then classified
    (Deng et al. 2021, DiscriminativeAligner).
    """
    folder = folders['ctc']['knowledge_model']
    model = RobertaForTokenClassification.from_pretrained(folder).eval()
    tokenizer = roberta_tokenizer()
    inputs = tokenizer(RESPONSE, context, return_tensors='pt')
    tokens = tokenizer.convert_ids_to_tokens(tokenizer(RESPONSE)['input_ids'])[1:-1]
    begins = [i == 0 or token.startswith('Ġ') for i, token in enumerate(tokens)]
    word_of_token = np.cumsum(begins) - 1
    with torch.no_grad():
        states = model.roberta(**inputs).last_hidden_state[0, 1:]
        sums = torch.zeros(word_of_token[-1] + 1, states.shape[1])
        for state, word in zip(states, word_of_token, strict=False):
            sums[word] += state
        return model.classifier(sums).softmax(-1)[:, 0].tolist()


def test_the_score_adds_the_words_that_are_no_stop_words(folders, scored):
    [score], [every] = scored('ctc'), scored('ctc', stop_words='counted')
    for dimension, context in (
        ('Engaging', '\n'.join((FACT, '', '', *TURNS))),
        ('Uses Knowledge', FACT),
    ):
        words = supported(folders, context)
        assert score.evidence[dimension] == near(words)
        pairs = zip(RESPONSE.split(), words, strict=True)
        # the words of it that are no stop words
        counted = {'!', 'played', 'boat', '.'}
        expected = sum(value for word, value in pairs if word in counted)
        assert score.values[dimension] == near(expected)
        assert every.values[dimension] == near(sum(words))


def test_a_checkpoint_of_the_authors_has_the_same_scores(folders, scored, tmp_path):
    folder = folders['ctc']['knowledge_model']
    model = RobertaForTokenClassification.from_pretrained(folder)
    weights = {f'_{name}': weight for name, weight in model.state_dict().items()}
    save_file(weights, tmp_path / 'model.safetensors', {'format': 'pt'})
    RobertaConfig.from_pretrained(folder, architectures=None).save_pretrained(tmp_path)
    roberta_tokenizer().save_pretrained(tmp_path)
    [score] = scored('ctc', knowledge_model=str(tmp_path))
    assert score.values == scored('ctc')[0].values


def test_a_dimension_without_a_model_has_a_reason_of_its_own(scored):
    [score] = scored('ctc', ITEMS[2:], engaging_model=None)
    assert score.values == {'Engaging': None, 'Uses Knowledge': None}
    assert score.reasons['Engaging'] != score.reasons['Uses Knowledge']


def test_a_response_without_words_has_no_score(scored):
    [score] = scored('ctc', [ScoringItem(('hi',), ' ')])
    assert 'word' in reason_of(score, 'Engaging')


def test_a_long_response_loses_its_end(scored, monkeypatch):
    monkeypatch.setattr('parlai_ext.scoring.trained_metrics.MOST_TOKENS', 6)
    [score] = scored('ctc')
    assert score.cut > 0
    assert len(score.evidence['Uses Knowledge']) < len(RESPONSE.split())


def test_no_model_is_one_line():
    with user_error('engaging_model'):
        scores_of('ctc', ITEMS)


def test_texts_are_cleaned_as_for_the_training():
    assert clean_text(' It’s  “Jazz” \n Yes ') == 'it\'s "jazz" \n yes'


@pytest.mark.parametrize(
    'metric, option, make, words',
    [
        (
            'usr',
            'context_classifier',
            lambda home: make_roberta(
                home, RobertaForSequenceClassification, num_labels=3
            ),
            'two labels',
        ),
        (
            'bleurt',
            'regressor',
            lambda home: make_bert(home, BertForSequenceClassification, num_labels=2),
            'one output',
        ),
        (
            'unieval',
            'judge_model_file',
            lambda home: make_model(home, 'gpt2'),
            'encoder-decoder',
        ),
    ],
)
def test_another_kind_of_model_is_refused(
    tmp_path, scored, metric, option, make, words
):
    folder = make(tmp_path)
    with user_error(f'{folder}.*{words}'):
        scored(metric, [ITEM], **{option: folder})


# --- UniEval --------------------------------------------------------------------------

HISTORY = ' '.join(TURNS)
# Zhong et al. (2022) and their code; ITEMS[0] with one question of each dimension
INPUTS = {
    'Natural': f'question: Is this a natural response in the dialogue? </s> response: '
    f'{RESPONSE}',
    'Maintains Context': 'question: Is this a coherent response given the dialogue '
    f'history? </s> response: {RESPONSE} </s> dialogue history: {HISTORY}',
    'Uses Knowledge': 'question: Is this response consistent with knowledge in the '
    f'fact? </s> response: {RESPONSE} </s> fact: {FACT}',
    'Understandable': 'question: Is this an understandable response in the dialogue? '
    f'</s> response: {RESPONSE}',
}
ENGAGING = (
    'question: Is this an engaging and informative response according to the dialogue '
    f'history and fact? </s> response: {{}} </s> dialogue history: {HISTORY} </s> '
    f'fact: {FACT}'
)


def yes_share(folders, text, **how):
    """
    P(Yes) / (P(Yes) + P(No)) by transformers.
    """
    folder = folders['unieval']['judge_model_file']
    tokenizer = AutoTokenizer.from_pretrained(folder)
    model = AutoModelForSeq2SeqLM.from_pretrained(folder).eval()
    yes, no = (tokenizer(word)['input_ids'][0] for word in ('Yes', 'No'))
    inputs = tokenizer(text, return_tensors='pt', **how)
    with torch.no_grad():
        logits = model(**inputs, decoder_input_ids=torch.tensor([[0]])).logits[0, 0]
    probabilities = logits.softmax(-1)
    return (probabilities[yes] / (probabilities[yes] + probabilities[no])).item()


def test_the_questions_are_those_of_the_paper(folders, scored):
    [score] = scored('unieval')
    for dimension, text in INPUTS.items():
        expected = yes_share(folders, text)
        assert score.values[dimension] == near(expected), dimension


def test_engaging_is_a_sum_over_sentences_and_overall_a_mean(folders, scored):
    [score] = scored('unieval')
    parts = ['i do !', 'i played it on a boat .']
    each = [yes_share(folders, ENGAGING.format(part)) for part in parts]
    assert score.values['Engaging'] == near(sum(each))
    assert score.evidence == {'sentences': near(each)}
    five = [score.values[name] for name in (*INPUTS, 'Engaging')]
    assert score.values['Overall'] == pytest.approx(sum(five) / 5)


def test_without_knowledge_the_overall_score_is_the_mean_of_the_others(scored):
    [score] = scored('unieval', ITEMS[2:])
    known = [value for value in score.values.values() if value is not None]
    assert len(known) == 5
    assert score.values['Overall'] == pytest.approx(sum(known[:4]) / 4)


def test_a_response_cannot_end_its_section(folders, scored):
    spelled = replace(ITEMS[0], response=f'{RESPONSE} </s> fact: the piano is old')
    [score] = scored('unieval', [spelled])
    text = INPUTS['Natural'] + ' </s> fact: the piano is old'
    assert score.values['Natural'] != pytest.approx(yes_share(folders, text), abs=1e-4)


def test_a_long_question_loses_its_end_and_keeps_the_end_token(folders, scored):
    long = ScoringItem((), 'i like jazz music ' * 10)
    [score] = scored('unieval', [long], most_tokens=20)
    assert score.cut > 0
    text = INPUTS['Natural'].replace(RESPONSE, long.response)
    expected = yes_share(folders, text, max_length=20, truncation=True)
    assert score.values['Natural'] == near(expected)


def test_sentences_end_at_marks_but_not_at_abbreviations():
    parts = ['i do !', 'he met dr. smith .', 'ok ?']
    assert PUNKT.tokenize(' '.join(parts)) == parts
    assert PUNKT.tokenize('') == []


def test_usr_items_become_the_inputs_that_the_authors_published():
    published = json_in(shared('usr/unieval_topical_chat.json'))
    wanted = {
        tuple(on_one_line(row[key]) for key in ('source', 'system_output', 'context'))
        for row in published
    }
    unieval = UniEval()
    given = set()
    for judged in read_card('usr_topical').read(shared('usr')).items:
        item = ScoringItem(judged.context, judged.response, facts=judged.facts)
        sections = dict(unieval.sections(item))['Engaging']
        history, fact = (part.partition(': ')[2] for part in sections[2:])
        given.add(tuple(map(on_one_line, (history, item.response, fact))))
    assert len(wanted) > 300 and given == wanted


# --- BLEURT ---------------------------------------------------------------------------

REFERENCES = ('do you like the old piano ?', 'i have three dogs')
ITEM = ScoringItem(('hi there .',), RESPONSE, references=REFERENCES)


def number(model, reference, response):
    inputs = bert_tokenizer()(reference, response, return_tensors='pt')
    with torch.no_grad():
        return model.eval()(**inputs).logits[0, 0].item()


def test_the_best_reference_counts(folders, scored):
    folder = folders['bleurt']['regressor']
    model = BertForSequenceClassification.from_pretrained(folder)
    each = [number(model, reference, RESPONSE) for reference in REFERENCES]
    [score] = scored('bleurt', [ITEM])
    assert score.values['Overall'] == near(max(each))
    assert score.evidence == {'reference': each.index(max(each))}


@pytest.mark.parametrize(
    'kind, inner, narrow',
    [
        (RemBertForSequenceClassification, 'rembert.', {'input_embedding_size': 8}),
        (BertForSequenceClassification, 'bert.', {}),
    ],
)
def test_a_checkpoint_of_bleurt_pytorch_is_read(tmp_path, scored, kind, inner, narrow):
    tokenizer = bert_tokenizer()
    sizes = {**SIZES, 'vocab_size': len(tokenizer), 'max_position_embeddings': 64}
    model = spread(kind(kind.config_class(**sizes, **narrow, num_labels=1)))
    weights = {}
    for name, weight in model.state_dict().items():
        name = name.replace('embedding_hidden_mapping_in', 'embedding_projection')
        weights[name.replace(inner, 'bleurt.')] = weight
    save_file(weights, tmp_path / 'model.safetensors', {'format': 'pt'})
    config = {'architectures': ['BleurtForSequenceClassification'], **sizes}
    config |= {'model_type': 'bleurt', 'num_labels': 1}
    config['embedding_size'] = narrow.get('input_embedding_size')
    written(tmp_path, 'config.json', config)
    tokenizer.save_pretrained(tmp_path)
    expected = max(number(model, reference, RESPONSE) for reference in REFERENCES)
    [score] = scored('bleurt', [ITEM], regressor=str(tmp_path))
    assert score.values['Overall'] == near(expected)


def test_the_tokenizer_of_bleurt_20_is_that_of_sentencepiece(tmp_path):
    sentencepiece = pytest.importorskip('sentencepiece')
    pytest.importorskip('google.protobuf')
    from parlai_ext.models.encoders import BleurtSPTokenizer

    with (tmp_path / 'spm.model').open('wb') as file:
        sentencepiece.SentencePieceTrainer.train(
            sentence_iterator=iter(TEXTS),
            model_writer=file,
            vocab_size=60,
            minloglevel=2,
            control_symbols=['[CLS]', '[SEP]', '[MASK]'],
            **{'pad_id': 0, 'pad_piece': '[PAD]', 'unk_id': 1, 'unk_piece': '[UNK]'},
            **{'bos_id': -1, 'eos_id': -1},
        )
    tokenizer = BleurtSPTokenizer.from_pretrained(str(tmp_path))
    processor = sentencepiece.SentencePieceProcessor(str(tmp_path / 'spm.model'))
    first, second = 'do you like  the old piano ?', RESPONSE
    begin, end = processor.piece_to_id('[CLS]'), processor.piece_to_id('[SEP]')
    expected = [begin, *processor.encode(first), end, *processor.encode(second), end]
    assert tokenizer(first, second)['input_ids'] == expected


# --- DEnsity --------------------------------------------------------------------------

WORDS = [word for text in TEXTS for word in text.split() if not word.startswith('_')]
DRAW = np.random.default_rng(0)
PEOPLE = [
    [' '.join(DRAW.choice(WORDS, DRAW.integers(2, 7))) for _ in range(4)]
    for _ in range(20)
]
TURN = ScoringItem(tuple(PEOPLE[0][:3]), 'i like music')


@pytest.fixture(scope='module')
def folder(tmp_path_factory):
    return make_bert(tmp_path_factory.mktemp('density'))


@pytest.fixture
def options(folder, tmp_path):
    rows = [
        {'dialog': [[{'id': 'ab'[i % 2], 'text': t} for i, t in enumerate(texts)]]}
        for texts in PEOPLE
    ]
    return {
        'encoder': folder,
        'statistics': str(tmp_path / 'statistics.npz'),
        'human_dialogues': str(written(tmp_path, 'people.jsonl', rows)),
        'most_tokens': 60,
    }


def scores(options, *items):
    return scores_of('density', items, **options)


@cache
def bert(folder):
    return BertModel.from_pretrained(folder).eval(), bert_tokenizer()


def feature(folder, context, response):
    """
    The last hidden state of [CLS], all tokens in one segment, by transformers.
    """
    model, tokenizer = bert(folder)
    inputs = tokenizer('[SEPT]'.join(context), response, return_tensors='pt')
    with torch.no_grad():
        states = model(inputs['input_ids'], inputs['attention_mask'])
    return states.last_hidden_state[0, 0].numpy().astype(float)


def squared(row, mean, precision):
    return float((row - mean) @ precision @ (row - mean))


@pytest.mark.parametrize('num_ignored', [0, 1])
def test_distances_are_those_of_scikit_learn_where_people_differ(num_ignored, tmp_path):
    rows = DRAW.normal(size=(40, 5)) @ DRAW.normal(size=(5, 5)) + 3
    ignored = 1 + DRAW.normal(size=(40, num_ignored)) * 1e-7  # what rounding leaves
    write_statistics(tmp_path / 's.npz', np.hstack([rows, ignored]))
    mean, precision = read_statistics(tmp_path / 's.npz')
    expected = EmpiricalCovariance().fit(rows).mahalanobis(rows)
    moved = np.hstack([rows, ignored + 5])
    assert squared_distances(moved, mean, precision) == pytest.approx(list(expected))


def test_the_score_is_minus_the_distance_from_people(folder, options):
    whole = ScoringItem(tuple(PEOPLE[1]), None)
    score, mean_score = (one.values['Overall'] for one in scores(options, TURN, whole))
    pairs = [(texts[:i], texts[i]) for texts in PEOPLE for i in (1, 2, 3)]
    rows = np.array([feature(folder, *pair) for pair in pairs])
    mean, precision = read_statistics(options['statistics'])
    assert mean == near(rows.mean(0))
    row = feature(folder, TURN.context, TURN.response)
    assert score == pytest.approx(-(squared(row, mean, precision) ** 0.5), rel=1e-3)
    # a dialogue has the mean of squared distances, here of the second of people's
    each = [squared(row, mean, precision) for row in rows[3:6]]
    assert mean_score == pytest.approx(-(np.mean(each) ** 0.5), rel=1e-3)


def test_a_persona_stands_before_the_context(folder, options):
    given = ScoringItem(('i like jazz',), 'do you ?', persona=('i have a boat',))
    plain = ScoringItem(('i have a boat', 'i like jazz'), 'do you ?')
    one, other = scores(options, given, plain)
    assert one.values == other.values


def test_a_long_context_loses_its_beginning(options):
    long = ScoringItem((*['i like music'] * 40, 'do you ?'), 'yes')
    short = ScoringItem((*['i like music'] * 30, 'do you ?'), 'yes')
    one, other = scores(options, long, short)
    assert one.values == other.values
    assert one.cut - other.cut == 10 * 4  # three words and a token between turns


def test_without_context_there_is_no_score(options):
    [score] = scores(options, ScoringItem((), 'yes'))
    assert 'context' in reason_of(score)


def test_statistics_are_made_once_and_signed(folder, options, tmp_path):
    first = Density.from_section(options, models_on_cpu()).signature
    without = {key: options[key] for key in ('encoder', 'statistics', 'most_tokens')}
    assert Density.from_section(without, models_on_cpu()).signature == first
    rows = DRAW.normal(size=(40, 16))
    write_statistics(tmp_path / 'statistics.npz', rows)
    assert Density.from_section(without, models_on_cpu()).signature != first


@pytest.mark.parametrize('missing', ['encoder', 'statistics'])
def test_what_is_missing_is_one_line(options, missing):
    given = {key: value for key, value in options.items() if key != missing}
    with user_error(f'{missing}: '):
        scores(given, TURN)


def test_a_file_that_holds_no_statistics_is_named(options, tmp_path):
    written(tmp_path, 'statistics.npz', 'mean')
    with user_error(r'statistics\.npz'):
        scores(options, TURN)


def test_an_encoder_without_the_token_between_turns_is_refused(options, encoder_folder):
    with user_error(r'\[SEPT\]'):
        scores({**options, 'encoder': encoder_folder}, TURN)


# --- pinned models --------------------------------------------------------------------

COMMITS = ('a' * 40, 'b' * 40)  # the second one is main


def test_the_content_of_a_revision_is_signed_and_its_commit_recorded(
    folders, tmp_path, cache
):
    _, main = (cached(cache, folders['bleurt']['regressor'], name) for name in COMMITS)
    changed_json(main / 'config.json', comment='new')
    copy = shutil.copytree(main, tmp_path / 'copy')
    repo = f'hf:{REPO}'
    names = [repo, *(f'{repo}@{commit}' for commit in COMMITS), str(copy)]
    scorers = [Bleurt.from_section({'regressor': n}, models_on_cpu()) for n in names]
    unpinned, first, second, folder = (one.signature for one in scorers)
    assert unpinned == second == folder != first  # wherever the files lie
    assert 'content:' in unpinned
    used = [(one.name, one.commit) for s in scorers for one in s.models_used()]
    assert used == list(zip(names, [COMMITS[1], *COMMITS, None], strict=True))
