"""
A small real run of the mini zoo, for tests of the whole way.
"""

from pathlib import Path

import yaml

from parlai_ext import zoo_configs
from tests.support.store_samples import files_under
from tests.support.written import written

SMALL = {'num_dialogues': 2, 'bootstraps': 50, 'seed': 0, 'check_sample': 4}


def small_config(folder, targets=2, partners=2, name='demo', retriever=False):
    """
    Write a protocol of short dialogues of a few systems of the mini zoo and return its
    path.

    :param retriever: it is the first partner; it takes longest to load.
    """
    demo = yaml.safe_load(zoo_configs.path('protocols', name).read_text())
    mini = yaml.safe_load(zoo_configs.path('rosters', 'mini').read_text())
    demo['num_turns'] = 6
    demo['roster'] = {
        'targets': mini['targets'][:targets],
        'partners': mini['partners'][not retriever :][:partners],
    }
    names = {system['name'] for system in demo['roster']['targets']}
    demo['reference'] = {
        key: {n: v for n, v in value.items() if n in names} if key != 'kind' else value
        for key, value in demo['reference'].items()
    }
    return str(written(folder, 'small.yaml', demo))


def files_of(run):
    """
    Return every result file of a run folder by its name.
    """
    return {
        name: data
        for name, data in files_under(run).items()
        if 'lock' not in Path(name).name
    }
