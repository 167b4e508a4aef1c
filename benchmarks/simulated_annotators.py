"""
Answer exported annotation items as simulated annotators with known error rates would.

    python -m benchmarks.simulated_annotators sheets --key FOLDER --out FOLDER
    python -m benchmarks.simulated_annotators acute --run-dir RUN --out FOLDER

Nobody's opinion is in these answers: they show that what was planted comes back through
export and import, and nothing about the systems.

``sheets`` fills in the sheets that `export_annotation` wrote. Each item has a planted
answer, drawn by strengths that grow in the order of the systems' names; the bad side of
a control item always loses. An annotator gives the planted answer, but with the error
rate an answer drawn from all planted ones. Then Fleiss' kappa over items like these is
``(1 - error rate) ** 2``, and the expected shares of each system are printed. The last
annotators only guess: their error rate is 1.

``acute`` answers the pairings that `export_crowdsourcing --format acute_eval` wrote, by
Bradley-Terry with the places in the order that the run's protocol planted as strengths
(floors come last), and writes the ``*.full.csv`` of ParlAI's ACUTE-Eval analysis. The
last annotator fails the onboarding.
"""

import argparse
import csv
import json
import math
import random
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.support.measures import benchmark_parser
from parlai_ext.commands.command import one_line_errors
from parlai_ext.core.errors import UserError
from parlai_ext.files.csv_file import read_csv, spreadsheet_csv
from parlai_ext.people.answer_shares import OUTCOMES, outcomes
from parlai_ext.people.given_answers import GivenAnswer
from parlai_ext.people.questionnaire import PAIR, SIDES
from parlai_ext.people.rating_set import RatingKey, read_key
from parlai_ext.people.sheets import LETTERS
from parlai_ext.store import RunFolder

TIED_SHARE, UNRELATED_SHARE, MIDDLE_SHARE = 0.15, 0.25, 0.2
FLAG_SHARE = 0.1
STEP = 1.0  # between the strengths of successive systems
ACUTE_COLUMNS = (
    'run_id',
    'worker',
    'worker_name',
    'question',
    'unit_id',
    'correct',
    'winner',
    'loser',
    'eval_choice_0',
    'eval_choice_1',
    'reason',
    'is_onboarding',
    'matchup',
    'pairing_id',
    'pairs_to_eval',
)


# ------------------------------------------------------------------------------- sheets


@dataclass(frozen=True)
class Planted:
    """
    The planted answer of each item, and how often each answer was planted.

    :param flagged: the planted flags of each item.
    """

    answers: Mapping[str, str]
    frequencies: Mapping[str, int]
    flagged: Mapping[str, tuple[str, ...]]

    def drawn(self, rng: random.Random) -> str:
        """
        Return an answer drawn from all planted ones.
        """
        names = list(self.frequencies)
        return rng.choices(names, [self.frequencies[n] for n in names])[0]


def planted_answers(key: RatingKey, seed: int) -> Planted:
    """
    Return an answer for each item, by strengths in the order of the systems' names.
    """
    rng = random.Random(f'planted {seed}')
    names = sorted({d.system for shown in key.items.values() for d in shown})
    judged = [name for name in names if name not in (*key.controls, key.human)]
    judged += [key.human] if key.human else []
    strengths = {name: STEP * place for place, name in enumerate(judged)}
    answers, flagged = {}, {}
    for item, shown in key.items.items():
        systems = [dialogue.system for dialogue in shown]
        if key.kind == PAIR:
            answers[item] = _planted_choice(systems, strengths, key, rng)
        else:
            answers[item] = _planted_label(systems[0], strengths, key, rng)
        flagged[item] = tuple(
            side
            for side, system in zip(SIDES, systems, strict=False)
            if system not in key.controls and rng.random() < FLAG_SHARE
        )
    results = [i for i in answers if not _is_control(i, key)]
    return Planted(answers, Counter(answers[i] for i in results), flagged)


def _is_control(item: str, key: RatingKey) -> bool:
    return any(d.system in key.controls for d in key.items[item])


def _planted_choice(
    systems: Sequence[str],
    strengths: Mapping[str, float],
    key: RatingKey,
    rng: random.Random,
) -> str:
    if bad := [name for name in systems if name in key.controls]:
        return SIDES[1 - systems.index(bad[0])]
    draw = rng.random()
    if draw < TIED_SHARE:
        return 'tie'
    if draw < TIED_SHARE + UNRELATED_SHARE:
        return 'unrelated'
    odds = math.exp(strengths[systems[1]] - strengths[systems[0]])
    return SIDES[0] if rng.random() < 1 / (1 + odds) else SIDES[1]


def _planted_label(
    system: str,
    strengths: Mapping[str, float],
    key: RatingKey,
    rng: random.Random,
) -> str:
    labels = key.answers_to(key.questions[0])
    if system in key.controls:
        return labels[0]
    if rng.random() < MIDDLE_SHARE:
        return labels[len(labels) // 2]
    middle = STEP * (len(strengths) - 1) / 2
    best = rng.random() < 1 / (1 + math.exp(middle - strengths[system]))
    return labels[-1] if best else labels[0]


def expected_shares(
    key: RatingKey, planted: Planted, error: float
) -> dict[str, dict[str, float]]:
    """
    Return the share of each outcome or label that each system is expected to get from
    annotators with an error rate.
    """
    total = sum(planted.frequencies.values())
    shares: dict[str, Counter[str]] = {}
    counts: Counter[str] = Counter()
    for item, answer in planted.answers.items():
        if _is_control(item, key):
            continue
        counts.update(d.system for d in key.items[item])
        weights = {n: error * k / total for n, k in planted.frequencies.items()}
        weights[answer] += 1 - error
        for name, weight in weights.items():
            for system, what in _said(item, name, key):
                shares.setdefault(system, Counter())[what] += weight
    return {
        system: {what: value / counts[system] for what, value in given.items()}
        for system, given in shares.items()
    }


def _said(item: str, answer: str, key: RatingKey) -> list[tuple[str, str]]:
    if key.kind == PAIR:
        return outcomes(GivenAnswer(item, '', answer), key)
    return [(key.items[item][0].system, key.questions[0].name(answer))]


def filled_sheet(
    path: Path, key: RatingKey, planted: Planted, error: float, name: str
) -> str:
    """
    Return a sheet as an annotator with this error rate fills it in.
    """
    rng = random.Random(name)
    rows = []
    for _, row in read_csv(path, ('row',)):
        item, _, order = row['row'].partition('-')
        wrong = rng.random() < error
        answer = planted.drawn(rng) if wrong else planted.answers[item]
        if key.kind != PAIR:
            rows.append({**row, 'label': key.questions[0].name(answer)})
            continue
        sides = SIDES if order == '1' else SIDES[::-1]
        letters = {sides[0]: 'A', sides[1]: 'B', **LETTERS}
        flags = {
            f'flag_{letter}': 'x' if side in planted.flagged[item] else ''
            for letter, side in zip('ab', sides, strict=True)
        }
        rows.append({**row, 'choice': letters[answer], **flags})
    return spreadsheet_csv([list(rows[0]), *(row.values() for row in rows)])


def answer_sheets(opt: argparse.Namespace) -> None:
    """
    Write a filled sheet for each annotator, and print what is to be expected.
    """
    key = read_key(Path(opt.key))
    sheets = sorted((Path(opt.key) / 'send').glob('sheet-*.csv'))
    if len(sheets) < opt.annotators:
        raise UserError(
            f'--annotators {opt.annotators}: {len(sheets)} sheets are there'
        )
    planted = planted_answers(key, opt.seed)
    opt.out.mkdir(parents=True, exist_ok=True)
    for number, sheet in enumerate(sheets[: opt.annotators], 1):
        guesses = number > opt.annotators - opt.guessers
        name = f'{"guesser" if guesses else "annotator"}-{number}'
        error = 1.0 if guesses else opt.error_rate
        text = filled_sheet(sheet, key, planted, error, f'{opt.seed} {name}')
        (opt.out / f'{name}.csv').write_text(text, encoding='utf-8')
    print('\n'.join(expectation_lines(key, planted, opt.error_rate)))


def expectation_lines(key: RatingKey, planted: Planted, error: float) -> Iterator[str]:
    """
    Yield the planted and the expected shares, and the expected kappa.
    """
    names: Sequence[str] = OUTCOMES
    if key.kind != PAIR:
        names = [*map(key.questions[0].name, key.answers_to(key.questions[0]))]
    exact = expected_shares(key, planted, 0.0)
    expected = expected_shares(key, planted, error)
    yield f'expected Fleiss’ kappa {(1 - error) ** 2:.2f}'
    yield f'{"planted / expected, %":22}' + ''.join(f'{name:>13}' for name in names)
    for system in sorted(expected):
        pairs = [
            (exact[system].get(n, 0.0), expected[system].get(n, 0.0)) for n in names
        ]
        cells = ''.join(f'{100 * a:>6.0f} /{100 * b:>5.0f}' for a, b in pairs)
        yield f'{system:22}{cells}'


# --------------------------------------------------------------------------- ACUTE-Eval


def planted_strengths(run: RunFolder) -> dict[str, float]:
    """
    Return the places of the systems in the order that the run's protocol planted;
    other systems, such as floors, come below all of them.
    """
    protocol = run.manifest.protocol
    orders = list((protocol.get('reference') or {}).values())
    if protocol.get('reference_kind') != 'planted' or len(orders) != 1:
        raise UserError('--run-dir: its protocol plants no order')
    order = sorted(orders[0], key=orders[0].get)
    strengths = {name: STEP * place for place, name in enumerate(order, 1)}
    return {name: strengths.get(name, 0.0) for name in run.manifest.targets}


def acute_rows(
    pairings: Sequence[Mapping], question: str, strengths: Mapping[str, float], opt
) -> Iterator[dict[str, object]]:
    """
    Yield the rows of ``full.csv``: each annotator answers the onboarding and all pairs.
    """
    for worker in range(1, opt.annotators + 1):
        rng = random.Random(f'{opt.seed} {worker}')
        careless = worker > opt.annotators - opt.guessers
        for number, pairing in enumerate(pairings):
            names = list(pairing['speakers_to_eval'])
            onboarding = pairing['is_onboarding']
            if onboarding:
                good = pairing['correct_answer']
                winner = next(n for n in names if (n == good) != careless)
                correct: object = winner == good
            else:
                gap = strengths[names[1]] - strengths[names[0]]
                chance = 0.5 if careless else 1 / (1 + math.exp(gap))
                winner, correct = names[rng.random() >= chance], -1
            loser = names[1 - names.index(winner)]
            shown = dict(zip(names, pairing['dialogue_dicts'], strict=True))
            pair = {k: v for k, v in pairing.items() if k != 'dialogue_dicts'}
            values = (
                'simulated',
                worker,
                f'simulated-{worker}',
                question,
                number,
                *(correct, winner, loser, *names, '', onboarding),
                '__vs__'.join(sorted(names)),
                number,
                repr({**pair, **shown}),
            )
            yield dict(zip(ACUTE_COLUMNS, values, strict=True))


def answer_acute(opt: argparse.Namespace) -> None:
    """
    Write ``simulated.full.csv``.
    """
    run = RunFolder.existing(opt.run_dir)
    folder = run.root / 'people' / 'acute_eval'
    lines = (folder / 'pairings.jsonl').read_text(encoding='utf-8').split('\n')
    pairings = [json.loads(line) for line in lines if line]
    question = json.loads((folder / 'blueprint.json').read_text())['eval_question']
    strengths = planted_strengths(run)
    rows = list(acute_rows(pairings, question, strengths, opt))
    opt.out.mkdir(parents=True, exist_ok=True)
    path = opt.out / 'simulated.full.csv'
    with path.open('w', encoding='utf-8', newline='') as out:
        writer = csv.DictWriter(out, ACUTE_COLUMNS)
        writer.writeheader()
        writer.writerows(rows)
    print(f'{path}: {len(rows)} rows of {opt.annotators} simulated annotators')


def main() -> None:
    """
    Answer sheets or pairings, as the command line says.
    """
    parser = benchmark_parser(__doc__)
    parser.add_argument('what', choices=('sheets', 'acute'))
    parser.add_argument('--key', help='sheets: the folder of export_annotation')
    parser.add_argument('--run-dir', help='acute: the run that was exported')
    parser.add_argument('--out', type=Path, required=True)
    parser.add_argument('--annotators', type=int, default=7)
    parser.add_argument('--guessers', type=int, default=1)
    parser.add_argument('--error-rate', type=float, default=0.3)
    parser.add_argument('--seed', type=int, default=0)
    opt = parser.parse_args()
    (answer_sheets if opt.what == 'sheets' else answer_acute)(opt)


if __name__ == '__main__':
    with one_line_errors():
        main()
