"""
A ranked run as logs of inspect_ai, one for each target, which `inspect view` opens.

The target is the assistant of a log, its partners are users. A dialogue is a sample,
with the target's mean scores; the ranking's scores and intervals are the log's metrics.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from pathlib import Path

from parlai_ext.core import Dialogue, content_id, dialogue_means, scorer_name
from parlai_ext.report.page import dialogues_with_sides
from parlai_ext.results.ranking import Ranking
from parlai_ext.store import RunFolder, json_text, write_text

# the same run gives the same bytes; `inspect view` finds files whose names begin so
CREATED = '1970-01-01T00:00:00+00:00'
NAME = '1970-01-01T00-00-00+00-00_dialogues'
METRICS = ('score', 'low', 'high', 'rank')  # of a standing


def write_inspect_logs(run: RunFolder, ranking: Ranking, folder: Path) -> list[Path]:
    """
    Write a log for each target and return the paths.
    """
    samples = defaultdict(list)
    for dialogue, scored, sides in dialogues_with_sides(run, ranking.scorer_signature):
        for name, partner in sides:
            if name in run.manifest.targets:
                means = dialogue_means(dialogue, scored, name) if scored else {}
                samples[name].append(sample_of(dialogue, name, partner, means))
    paths = []
    for name, own in samples.items():
        task_id = content_id(ranking.signature, name)
        log = log_of_target(ranking, name, task_id, own)
        paths.append(folder / f'{NAME}_{task_id}.json')
        write_text(paths[-1], json_text(log))
    return paths


def sample_of(
    dialogue: Dialogue, name: str, partner: str, means: Mapping[str, float | None]
) -> object:
    """
    Return a dialogue as the sample of a target, with its mean scores by dimension.
    """
    messages = [
        {
            # in self-play the first speaker is the assistant
            'role': 'assistant' if own else 'user',
            'content': text,
        }
        for own, text in zip(dialogue.turns_of(name), dialogue.texts, strict=True)
    ]
    return {
        'id': dialogue.id,
        'epoch': 1,
        'input': dialogue.texts[0],
        'target': '',
        'messages': messages,
        'scores': {d: {'value': v} for d, v in means.items() if v is not None},
        'metadata': {'partner': partner, 'ended_by': dialogue.ended_by},
    }


def log_of_target(
    ranking: Ranking, name: str, task_id: str, samples: Sequence[object]
) -> object:
    """
    Return the `EvalLog` of a target.
    """
    return {
        'version': 2,
        'status': 'success',
        'eval': {
            'created': CREATED,
            'task': ranking.protocol,
            'task_id': task_id,
            'model': name,
            'dataset': {},
            'config': {'epochs': 1},
            'metadata': {'signature': ranking.signature},
        },
        # `inspect view` reads the keys above the samples alone
        'plan': {},
        'stats': {},
        'results': {
            **dict.fromkeys(('total_samples', 'completed_samples'), len(samples)),
            'scores': scores_of_target(ranking, name),
        },
        'samples': samples,
    }


def scores_of_target(ranking: Ranking, name: str) -> list[object]:
    """
    Return the standings of a target as the scores of its log.
    """
    return [
        {
            'name': dimension,
            'scorer': scorer_name(ranking.scorer_signature),
            'scored_samples': standing.n_dialogues - standing.n_unscored,
            'unscored_samples': standing.n_unscored,
            'metrics': {
                key: {'name': key, 'value': value}
                for key in METRICS
                if (value := getattr(standing, key)) is not None
            },
        }
        for dimension, standings in ranking.standings.items()
        for standing in standings
        if standing.system == name
    ]
