"""
The figures of docs/validity.md and of docs/learned_worth.md.

    python -m benchmarks.validity.figures

draws that of docs/learned_worth.md again, from zoo_configs/agreement/learned.yaml;
benchmarks.validity --write draws those of docs/validity.md.
"""

from collections.abc import Mapping, Sequence
from pathlib import Path

from matplotlib.axes import Axes
from matplotlib.figure import Figure

from benchmarks.validity.trust import TrustFacts, mean_interval
from parlai_ext import zoo_configs
from parlai_ext.files.agreement_file import MeasuredAgreement, read_agreement

LEARNED = zoo_configs.HOME / 'agreement' / 'learned.yaml'
BY_CORPUS = Path(__file__).parents[2] / 'docs' / 'learned_corpora.png'
DPI = 90
TITLES = {'turn': 'single responses', 'system': 'systems'}


def means_figure(facts: Sequence[TrustFacts], level: str) -> Figure:
    """
    Draw the mean agreement of each scorer over its sets at a level, with its interval
    over sets, the highest on top; trivial scorers are hollow.
    """
    found = []
    for one in facts:
        rows = one.turn if level == 'turn' else one.system
        if rows:
            found.append((one, mean_interval(rows), len(rows)))
    found.sort(key=lambda row: -row[1][0])
    figure = Figure(figsize=(7, 0.9 + 0.24 * len(found)), layout='constrained')
    axes = figure.add_subplot()
    labels = []
    for y, (one, estimate, num_sets) in enumerate(found):
        is_trivial = one.measured.is_trivial
        _draw_interval(axes, y, *estimate, face='white' if is_trivial else 'C0')
        trivial = 'trivial, ' if is_trivial else ''
        labels.append(f'{one.measured.label} ({trivial}{num_sets})')
    _name_rows(axes, labels)
    _finish_axis(
        axes, f'mean Spearman over {TITLES[level]}, 95 % over sets (number of sets)'
    )
    return figure


def _draw_interval(
    axes: Axes,
    y: int,
    value: float,
    low: float | None,
    high: float | None,
    face: str = 'C0',
) -> None:
    if low is not None and high is not None:
        axes.plot([max(-1, low), min(1, high)], [y, y], color='C0', linewidth=1.2)
    axes.plot([value], [y], 'o', color='C0', markerfacecolor=face, markersize=5)


def _name_rows(axes: Axes, labels: Sequence[str]) -> None:
    axes.set_yticks(range(len(labels)), labels, fontsize=8)
    axes.set_ylim(len(labels) - 0.5, -0.5)


def _finish_axis(axes: Axes, label: str) -> None:
    axes.axvline(0, color='grey', linewidth=0.8)
    axes.set_xlabel(label, fontsize=8)
    axes.grid(axis='x', alpha=0.3)


def cost_figure(facts: Sequence[TrustFacts], seconds: Mapping[str, float]) -> Figure:
    """
    Draw the mean agreement over single responses against what an utterance costs.

    :param seconds: of CPU time for an utterance, by label.
    """
    figure = Figure(figsize=(7, 4.2), layout='constrained')
    axes = figure.add_subplot()
    for one in facts:
        label = one.measured.label
        if one.turn and label in seconds:
            mean = mean_interval(one.turn)[0]
            face = 'white' if one.measured.is_trivial else 'C0'
            point = (max(seconds[label], 1e-6), mean)
            axes.plot(*point, 'o', color='C0', markerfacecolor=face)
            offset = {'xytext': (5, 3), 'textcoords': 'offset points'}
            axes.annotate(label, point, fontsize=8, **offset)
    axes.set_xscale('log')
    axes.margins(0.15)
    axes.set_xlabel('CPU seconds for an utterance')
    axes.set_ylabel('mean Spearman over single responses')
    axes.grid(alpha=0.3)
    return figure


def corpora_figure(rows: Sequence[MeasuredAgreement]) -> Figure:
    """
    Draw the agreement of judges that were learned without each set, set by set, turn
    level beside system level, with 95 % intervals.
    """
    at_turns = {row.set: row.spearman for row in rows if row.level == 'turn'}
    names = sorted(
        dict.fromkeys(row.set for row in rows), key=lambda name: -at_turns.get(name, -1)
    )
    figure = Figure(figsize=(8, 0.9 + 0.27 * len(names)), layout='constrained')
    panels = figure.subplots(1, 2, sharey=True)
    for axes, (level, title) in zip(panels, TITLES.items(), strict=True):
        for row in rows:
            if row.level == level:
                y = names.index(row.set)
                _draw_interval(axes, y, row.spearman, row.low, row.high)
                if level == 'system':
                    axes.annotate(f'{row.n} systems', (-0.18, y), fontsize=7)
        axes.set_title(title, fontsize=9)
        axes.set_xlim(-0.2, 1.05)
        _finish_axis(axes, 'Spearman with people, 95 % interval')
    _name_rows(panels[0], names)
    return figure


def write_figure(figure: Figure, path: Path) -> None:
    """
    Write a figure; the same figure gives the same bytes.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=DPI, metadata={'Software': None})


def main() -> None:
    """
    Draw the figure of docs/learned_worth.md.
    """
    [rows] = read_agreement(LEARNED).values()
    write_figure(corpora_figure(rows), BY_CORPUS)
    print(BY_CORPUS)


if __name__ == '__main__':
    main()
