"""
FED in the bipartite paper's way on both kinds of judges, against one pass a follow-up.
"""

import json
from dataclasses import asdict

import pytest
from parlai.scripts.eval_model import EvalModel
from scipy import stats

from parlai_ext.commands import plugin
from parlai_ext.scoring.followups import FollowUps, Sides
from tests.support.fed_samples import by_hand
from tests.support.judged_samples import written

OWN = FollowUps(
    {
        'Wit': Sides(('Ha, that was good!', 'I like it.'), ("You're no fun.",)),
        'Sense': Sides((), ('What do you mean?', "That's  nonsense")),
    }
)
SAID = ('Hi!', "Hey, what's up?", 'Not much.')


@pytest.mark.parametrize('batchsize', [1, 3])
def test_eval_model_prints_the_correlations_of_the_originals_numbers(
    tmp_path, gpt2_folder, batchsize, capsys
):
    plugin.register()
    said = [list(SAID[:n]) for n in (1, 2, 3)] + [['No.', 'Why not?'], ['Oh well']]
    human = [2, 0, 1, 2, 1]
    judged = written(
        tmp_path,
        *(
            {
                'context': '\n'.join(f'User: {text}' for text in one),
                'system': 'Meena',
                'annotations': {'Wit': [value, 'N/A']},
            }
            for one, value in zip(said, human, strict=True)
        ),
    )
    followups = tmp_path / 'own.json'
    followups.write_text(json.dumps({'turn': {'wit': asdict(OWN.dimensions['Wit'])}}))
    report = EvalModel.main(
        model='ext:fed',
        task='ext:judged:fed_dialogue',
        judged_file=judged,
        judge_model_file=f'hf:{gpt2_folder}',
        followups=str(followups),
        fed_variant='original',
        batchsize=batchsize,
        no_cuda=True,
    )
    expected = [by_hand(gpt2_folder, one, OWN)['Wit'] for one in said]
    found = {key: report[f'Wit/{key}'].value() for key in ('spearman', 'pearson')}
    assert found == {
        'spearman': pytest.approx(stats.spearmanr(expected, human).statistic, abs=1e-9),
        'pearson': pytest.approx(stats.pearsonr(expected, human).statistic, abs=1e-4),
    }
    counts = [report[f'Wit/{key}'].value() for key in ('n', 'dropped', 'strings')]
    assert counts == [5, 0, 5]
    assert 'spearman_low' in capsys.readouterr().out
