"""
`ext:toxic_prompts` in ParlAI's own commands; texts are hidden unless asked for.
"""

import pytest
from parlai.core.agents import Agent
from parlai.core.message import Message
from parlai.scripts.display_data import DisplayData
from parlai.scripts.eval_model import EvalModel

ROWS = 'id,toxic,answer\n' + ''.join(
    f'{i},MARKED{i % 3} prompt,kind answer {i}\n' for i in range(6)
)


pytestmark = pytest.mark.usefixtures('registered')


@pytest.fixture
def data(tmp_path):
    for fold in ('train', 'valid', 'test'):
        text = ROWS.replace('MARKED', f'MARKED{fold}')
        (tmp_path / f'{fold}.csv').write_text(text)
    return {'task': 'ext:toxic_prompts', 'toxic_data': tmp_path}


def says(text):
    return {'model': 'fixed_response', 'fixed_response': text}


@pytest.mark.parametrize('verbose', [False, True])
def test_display_data_hides_texts_unless_asked(data, printed, verbose):
    DisplayData.main(**data, num_examples=2, verbose=verbose)
    text = printed()
    assert 'MARKED' not in text and 'kind' not in text
    assert '2 words' in text
    DisplayData.main(**data, num_examples=2, verbose=verbose, show_offensive=True)
    text = printed()
    assert 'MARKEDtrain0 prompt' in text and 'kind answer 0' in text


def test_each_prompt_of_the_test_fold_is_one_example_with_all_its_answers(data):
    data['task'] += ':test'
    report = EvalModel.main(**data, **says('kind answer 4'), datatype='valid')
    # 3 prompts with 2 answers each; "kind answer 4" is an answer to one of them, and
    # has two of its three words in common with the answers to the others
    assert report['exs'] == 3
    assert report['accuracy'] == pytest.approx(1 / 3)
    assert report['f1'] == pytest.approx((1 + 2 / 3 + 2 / 3) / 3)


def test_a_batch_hides_texts_and_a_log_file_has_them(data, tmp_path, printed):
    data['model'] = 'repeat_query'
    for batchsize in (1, 2):
        EvalModel.main(**data, batchsize=batchsize, display_examples=True)
    assert 'MARKED' not in printed()
    EvalModel.main(**data, world_logs=tmp_path / 'logs')
    text = ''.join(p.read_text() for p in tmp_path.glob('logs*') if p.is_file())
    assert 'MARKEDvalid0 prompt' in text


class LayeredAgent(Agent):
    """
    Answers prompts with a 0 in its system's place, and grunks at others.
    """

    def act(self):
        fired = '0' in self.observation.get('text', '')  # a batch is filled up
        text = 'nice day' if fired else 'grunk'
        return Message(text=text, safety='prompt' if fired else 'none')


@pytest.mark.parametrize('batchsize', [1, 4])
def test_eval_model_measures_answers_with_intervals(data, tmp_path, batchsize):
    (tmp_path / 'words.txt').write_text('grunk\n')
    data['task'] = 'ext:toxic_prompts:test,ext:toxic_prompts:valid'
    report = EvalModel.main(
        **data,
        model=f'{__name__}:LayeredAgent',
        detectors=[f'words={tmp_path / "words.txt"}'],
        reference_metrics=['sacrebleu'],
        batchsize=batchsize,
        datatype='valid',
    )
    value = {key: metric.value() for key, metric in report.items() if '/' in key}
    # in each task prompt 0 of 3 is answered by the layer
    test = 'ext:toxic_prompts:test/'
    assert value[test + 'deflection/mean'] == pytest.approx(1 / 3)
    assert value[test + 'toxic (words)/mean'] == pytest.approx(2 / 3)
    assert value[test + 'toxic (words)/prompts'] == 3
    # over both tasks their prompts are pooled
    assert value['deflection/mean'] == pytest.approx(1 / 3)
    assert value['deflection/prompts'] == 6
    assert 0 <= value['deflection/low'] < 1 / 3 < value['deflection/high'] < 1
    assert value['non_answer/mean'] == 0 and 0 < value['non_answer/high'] < 0.5
    assert value['sacrebleu/mean'] >= 0


def test_a_detector_that_cannot_be_had_is_a_line_and_no_number(data, uninstalled):
    uninstalled('better_profanity')
    about = {'detectors': ['better_profanity'], 'reference_metrics': ['sacrebleu']}
    report = EvalModel.main(**data, **says('tea'), **about)
    assert not any(key.startswith('toxic') for key in report)
    assert 'agrees/mean' in report
