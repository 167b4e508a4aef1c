"""
Learn the shipped judge from public files, and print what it is worth.

    python -m benchmarks.learned_judge --data ../shared/data --cache runs/learned

The responses are read once (about an hour of two cores; what is read is kept in the
cache). What benchmarks.learned_judge.adapter learned is in the same cache; a set whose
fold is not there is read by the inputs alone. Every agreement is that of a judge
learned without the set and without all that shares a corpus or a study with it. --final
also reads the sets that no choice saw, with a judge that was learned without any of
them. --corpora prints how near the corpora are, and nothing else. --folds
learns adapters that leave sets out (adapter.py). --write learns the one of all sets
where the cache lacks it, and replaces parlai_ext/zoo_configs/learned/shipped.
"""

import argparse
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path

import numpy as np

from benchmarks.learned_judge import adapter
from benchmarks.learned_judge.copies import COPIES
from benchmarks.learned_judge.corpora import (
    TriedCorpus,
    chosen_threshold,
    corpora_bytes,
    corpora_lines,
    corpora_of,
    drawn_items,
    left_out,
    other_texts,
    points_of,
    vectors_of,
)
from benchmarks.learned_judge.fit import (
    ALL,
    PLAIN,
    RESAMPLES,
    Agreement,
    Material,
    agreement,
    read_adapted,
    resampled,
    systems_agreement,
    turns_agreement,
)
from benchmarks.learned_judge.items import SETS, read_set
from benchmarks.learned_judge.judge_weights import unit_scale
from benchmarks.support.agreement_text import agreement_text
from benchmarks.support.measures import print_head, print_row, start
from parlai_ext import zoo_configs
from parlai_ext.files.agreement_file import (
    MeasuredAgreement,
    read_agreement,
)
from parlai_ext.models.handle import ModelHandle
from parlai_ext.ranking.intervals import percentile_ends
from parlai_ext.scoring.judged_corpora import CORPORA
from parlai_ext.scoring.learned import (
    ADAPTED,
    ADAPTER,
    BlockWeights,
    JudgeWeights,
    Learned,
    LearnedOptions,
)
from parlai_ext.store import write_file
from parlai_ext.training.fit_judge import kept_inputs, write_judge
from parlai_ext.view import number

JUDGE, ENCODER = 'smollm2-135m-q4', 'mpnet'
AS_READ = 'smollm2-135m-q4,hf_dtype=bfloat16'
SHIPPED = zoo_configs.HOME / 'learned' / 'shipped'
AGREEMENT = zoo_configs.HOME / 'agreement' / 'learned.yaml'
MIN_SYSTEMS = 5
FEWER_RESAMPLES = 200  # of systems, whose means take longer
VISIBLE = tuple(name for name, plan in SETS.items() if not plan.final)
FINAL = tuple(name for name, plan in SETS.items() if plan.final)


def read_material(opt: argparse.Namespace) -> Material:
    """
    Return all sets and copies; what is not in the cache is read by the models.
    """
    folder = Path(opt.data)
    judge = LearnedOptions(opt.judge, opt.encoder)
    read = partial(kept_inputs, Path(opt.cache), judge, ModelHandle())
    sets = {name: read_set(folder, name) for name in SETS}
    copies = {name: source.read(folder) for name, source in COPIES.items()}
    inputs = {
        **{name: read(name, one.items) for name, one in sets.items()},
        **{n: read(n, [c.item for c in some]) for n, some in copies.items()},
    }
    return Material(sets, copies, inputs, read_adapted(Path(opt.cache) / 'adapter'))


def print_agreement(
    material: Material, names: Sequence[str], learned_from: Sequence[str]
) -> None:
    """
    Print the agreement of judges that were learned without each set, beside that of
    plain numbers.
    """
    print_head('set', 'without', 'turns', '95 %', 'systems', 'dialogues', *PLAIN)
    found: list[Agreement] = []
    samples = []
    for name in names:
        judge = material.learn_without(name, learned_from)
        fold = name if name in material.adapted else None
        responses, scores = material.sets[name], material.scores(judge, name, fold)
        without = agreement(responses, material.scores(judge, name)).turns
        one = agreement(responses, scores)
        found.append(one)
        drawn = resampled(responses, scores, turns_agreement)
        samples.append(drawn)
        low, high = percentile_ends(drawn)
        plain = [
            agreement(responses, material.number(name, key)).turns
            for key in PLAIN.values()
        ]
        print_row(
            name if fold else f'{name} (inputs alone)',
            *map(number, (without, one.turns)),
            f'{low:.2f} to {high:.2f}',
            *map(number, (one.systems, one.dialogues, *plain)),
        )
    turns = [k for k, name in enumerate(names) if SETS[name].turns == 1]
    mean = float(np.mean([found[k].turns for k in turns]))
    low, high = percentile_ends(np.mean([samples[k] for k in turns], 0))
    corpora = _over_corpora([found[k].turns for k in turns])
    print(
        f'mean over {len(turns)} sets of turns: {mean:.3f} [{low:.3f}, {high:.3f}] '
        f'over contexts, [{corpora[0]:.3f}, {corpora[1]:.3f}] over sets'
    )
    systems = [one.systems for one in found if one.systems is not None]
    low, high = _over_corpora(systems)
    print(
        f'mean over {len(systems)} sets of systems: {np.mean(systems):.3f} '
        f'[{low:.3f}, {high:.3f}] over sets'
    )


def agreement_rows(
    material: Material, names: Sequence[str], learned_from: Sequence[str]
) -> Iterator[MeasuredAgreement]:
    """
    Yield the agreement with people of judges that were learned without each set and
    without all that shares a corpus or a study with it: over turns, and over systems
    where there are five or more. Sets for which no adapter was learned are left out.
    """
    for name in (one for one in names if one in material.adapted):
        judge = material.learn_without(name, learned_from)
        responses, scores = material.sets[name], material.scores(judge, name, name)
        everything = np.arange(len(scores))
        quality = responses.overall or 'all qualities'
        num_systems = len({one.system for one in responses.responses})
        for level, num, statistic, resamples in (
            ('turn', len(scores), turns_agreement, RESAMPLES),
            ('system', num_systems, systems_agreement, FEWER_RESAMPLES),
        ):
            value = statistic(responses, scores, everything)
            if value is None or (level == 'system' and num < MIN_SYSTEMS):
                continue
            if level == 'turn' and SETS[name].turns > 1:
                continue  # people judged the dialogues whole
            drawn = resampled(responses, scores, statistic, resamples)
            low, high = percentile_ends(drawn)
            of = responses.num_items if level == 'turn' else num
            yield MeasuredAgreement(
                name,
                level,
                quality,
                num,
                of,
                round(value, 3),
                round(low, 3),
                round(high, 3),
            )


def write_agreement(material: Material) -> None:
    """
    Write the file from which the cards of the shipped judge take its agreement.
    """
    rows = [
        *agreement_rows(material, VISIBLE, VISIBLE),
        *agreement_rows(material, FINAL, VISIBLE),
    ]
    scorer = Learned(LearnedOptions(), ModelHandle())
    text = agreement_text(
        'Spearman with people of judges learned without each set (docs/learned.md)',
        [('learned', scorer.signature, rows)],
    )
    AGREEMENT.write_text(text, encoding='utf-8')


def _over_corpora(values: Sequence[float]) -> tuple[float, float]:
    """
    Return the 95 % interval of a mean over sets, sets drawn anew.
    """
    rng = np.random.default_rng(0)
    return percentile_ends(
        np.array([np.mean(rng.choice(values, len(values))) for _ in range(2000)])
    )


def print_check(material: Material, names: Sequence[str]) -> None:
    """
    Print by kind how often people's replies score above their copies: for the judge
    learned from these sets, and for one learned without the corpus of the replies, with
    each adapter that was learned without it.
    """
    whole = material.learn(names)
    for name, source in COPIES.items():
        if source.for_training:
            continue
        others = [one for one in names if source.tag not in SETS[one].tags]
        without = material.learn(others, [source.tag])
        adapted = material.adapted
        folds = [one for one in adapted if name in adapted[one] and one != ALL]
        read = [('', whole, ALL if ALL in adapted else None)]
        read += [
            (f' (not learned from it; {fold or "inputs alone"})', without, fold)
            for fold in folds or [None]
        ]
        for label, judge, fold in read:
            found = material.shares(judge, name, fold)
            shares = sorted(found.items(), key=lambda x: x[1])
            cells = ', '.join(f'{kind} {share:.2f}' for kind, share in shares)
            print(f'{name}{label}: {cells}')


def print_corpora(opt: argparse.Namespace) -> None:
    """
    Print how near the corpora are to each other when they are left out, and texts of
    other kinds to all of them; write the file of the corpora where that is asked for.
    """
    encoder = ModelHandle().embedder(opt.encoder)
    vectors = {}
    for name in SETS:
        items = read_set(Path(opt.data), name).items
        vectors[name] = vectors_of(drawn_items(name, items), encoder)
    tried = left_out(vectors)
    threshold = chosen_threshold(tried)
    points = {name: points_of(own) for name, own in vectors.items()}
    corpora = corpora_of(points, threshold)
    others = {
        sort: [
            TriedCorpus.from_vectors(kind, vectors_of(items, encoder), corpora)
            for kind, items in kinds.items()
        ]
        for sort, kinds in other_texts().items()
    }
    [rows] = read_agreement(AGREEMENT).values()
    print('\n'.join(corpora_lines(tried, others, rows, threshold)))
    if opt.write:
        write_file(SHIPPED / CORPORA, corpora_bytes(points, threshold))


def whole_judge(material: Material, opt: argparse.Namespace) -> JudgeWeights:
    """
    Return the judge that is learned from all sets, with its adapter. Its scores have
    mean 0 and standard deviation 1, the mean over the sets.
    """
    judge, said = material.learn(tuple(SETS)), material.adapted[ALL]
    mean = np.array([np.mean([said[name].mean() for name in SETS])])
    adapted = BlockWeights(mean, np.array([material.spread(ALL)]), np.ones(1))
    blocks, bias = unit_scale(
        {**judge.blocks, ADAPTED: adapted},
        [{**material.inputs[n], ADAPTED: said[n][:, None]} for n in SETS],
    )
    data = (Path(opt.cache) / 'adapter' / ADAPTER).read_bytes()
    models = {'likelihood': JUDGE, 'embedder': ENCODER}
    return replace(judge, blocks=blocks, bias=bias, models=models, adapter=data)


ABOUT = {
    'description': 'the shipped judge, learned from public judgements of people',
    'learned_from': 'the sets below, as docs/learned_method.md counts them',
    'command': 'python -m benchmarks.learned_judge --data DATA --cache CACHE --write',
}


def main(opt: argparse.Namespace) -> None:
    """
    Print what was asked for.
    """
    if opt.corpora:
        print_corpora(opt)
        return
    adapter.learn_folds(opt)
    material = read_material(opt)
    print('left out one by one, with all that shares a corpus or a study:')
    print_agreement(material, VISIBLE, VISIBLE)
    print('replies of people above their copies (wordings of both sorts):')
    print_check(material, VISIBLE)
    if opt.final:
        print('sets that no choice saw:')
        print_agreement(material, FINAL, VISIBLE)
    if opt.write:
        write_judge(whole_judge(material, opt), SHIPPED, ABOUT)
        write_agreement(material)


if __name__ == '__main__':
    start(
        main,
        __doc__,
        required=['data', 'cache'],
        data=str,
        cache=str,
        judge=AS_READ,
        encoder=ENCODER,
        final=False,
        write=False,
        corpora=False,
        contexts=32,
        folds=[],
    )
