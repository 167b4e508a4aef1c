"""
BLEURT on tiny models: numbers by transformers, names of weights as in bleurt-pytorch.
"""

import json

import pytest
import torch
import transformers
from transformers import BertForSequenceClassification, RemBertForSequenceClassification

from parlai_ext.scoring.base import ScoringItem
from parlai_ext.scoring.bleurt import Bleurt
from tests.support.on_cpu import models_on_cpu
from tests.support.tiny_trained import (
    SIZES,
    bert_tokenizer,
    make_bert,
    spread,
)
from tests.support.user_error import user_error

REFERENCES = ('do you like the old piano ?', 'i have three dogs')
RESPONSE = 'i like the old piano'
ITEM = ScoringItem(('hi there .',), RESPONSE, references=REFERENCES)


def score(folder, item=ITEM):
    scorer = Bleurt.from_section({'regressor': str(folder)}, models_on_cpu())
    [scored] = scorer.checked_scores([item])
    return scored


def number(model, reference, response):
    inputs = bert_tokenizer()(reference, response, return_tensors='pt')
    with torch.no_grad():
        return model.eval()(**inputs).logits[0, 0].item()


def test_the_best_reference_counts(tmp_path):
    folder = make_bert(tmp_path, BertForSequenceClassification, num_labels=1)
    model = BertForSequenceClassification.from_pretrained(folder)
    each = [number(model, reference, RESPONSE) for reference in REFERENCES]
    assert score(folder).values['Overall'] == pytest.approx(max(each), abs=1e-5)
    assert score(folder).evidence == {'reference': each.index(max(each))}


@pytest.mark.parametrize('narrow', [8, None])
def test_a_checkpoint_of_bleurt_pytorch_is_read(tmp_path, narrow):
    tokenizer = bert_tokenizer()
    sizes = {**SIZES, 'vocab_size': len(tokenizer), 'max_position_embeddings': 64}
    if narrow:
        config = transformers.RemBertConfig(
            **sizes, input_embedding_size=narrow, num_labels=1
        )
        model = spread(RemBertForSequenceClassification(config))
        mapping = {'rembert.': 'bleurt.', 'embedding_hidden_mapping_in': 'projection'}
    else:
        config = transformers.BertConfig(**sizes, num_labels=1)
        model = spread(BertForSequenceClassification(config))
        mapping = {'bert.': 'bleurt.'}
    mapping['projection'] = 'embedding_projection'
    weights = {}
    for name, weight in model.state_dict().items():
        for theirs, ours in mapping.items():
            name = name.replace(theirs, ours)
        weights[name] = weight
    torch.save(weights, tmp_path / 'pytorch_model.bin')
    own = {'model_type': 'bleurt', 'embedding_size': narrow, 'num_labels': 1}
    written = {'architectures': ['BleurtForSequenceClassification'], **sizes, **own}
    (tmp_path / 'config.json').write_text(json.dumps(written))
    tokenizer.save_pretrained(tmp_path)
    expected = max(number(model, reference, RESPONSE) for reference in REFERENCES)
    assert score(tmp_path).values['Overall'] == pytest.approx(expected, abs=1e-5)


def test_the_tokenizer_of_bleurt_20_is_that_of_sentencepiece(tmp_path):
    sentencepiece = pytest.importorskip('sentencepiece')
    pytest.importorskip('google.protobuf')
    from parlai_ext.models.encoder_kinds import BleurtSPTokenizer
    from tests.support.tiny_trained import TEXTS

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


def test_a_model_of_two_outputs_is_refused(tmp_path):
    folder = make_bert(tmp_path, BertForSequenceClassification, num_labels=2)
    with user_error('one output') as error:
        score(folder)
    assert folder in str(error.value)


def test_an_item_without_a_reference_has_no_score(tmp_path):
    folder = make_bert(tmp_path, BertForSequenceClassification, num_labels=1)
    scored = score(folder, ScoringItem(('hi',), 'yes'))
    assert scored.values['Overall'] is None
    assert 'reference' in scored.reasons['Overall']


def test_a_missing_model_is_one_line(monkeypatch):
    from huggingface_hub import constants

    monkeypatch.setattr(constants, 'HF_HUB_OFFLINE', True)
    with user_error('lucadiliello/BLEURT-20'):
        Bleurt.from_section({}, models_on_cpu()).load_models()
