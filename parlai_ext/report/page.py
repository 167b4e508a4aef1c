"""
The page of a run: a view of each of its rankings, made of sections, its dialogues, and
how it was made; and the files of a ranking that people read.

At the top stand four answers: who leads, by how much, who judged, and whether to
believe it.
"""

import json
import shlex
from collections.abc import Sequence
from itertools import combinations
from pathlib import Path
from pkgutil import resolve_name
from typing import Any

from markupsafe import Markup

from parlai_ext.collect.forecast import seconds_per_scored_dialogue
from parlai_ext.core import PART_SEPARATOR, JsonObject, scorer_name
from parlai_ext.ranking.standings import best_first
from parlai_ext.report import judge, summary
from parlai_ext.report.browse import (
    PageCandidate,
    PageDialogues,
    dialogue_candidates,
    read_page_dialogues,
)
from parlai_ext.report.table import file_table, leaderboard_csv
from parlai_ext.report.view import PAGE, RankingView, dimension_details
from parlai_ext.results.ranking import NAME as RANKING
from parlai_ext.results.ranking import Ranking, ScoreTables, read_ranking, read_tables
from parlai_ext.store import Manifest, RunFolder
from parlai_ext.view import (
    digits_for,
    duration,
    value_text,
    without_folders,
)
from parlai_ext.view.page import Section, render_page, render_part, template_text

LEFT_OUT = ('roster', 'reference', 'reference_kind', 'name')


def method_section(view: RankingView) -> Section:
    """
    Return the section with protocol, roster, signature, versions and the commands of a
    run.
    """
    ranking, scorer = view.ranking, view.scorer
    protocol = view.manifest.protocol.model_dump(exclude_unset=True)
    if scorer is not None:
        protocol['scorer'] = scorer.config
        protocol['ranking'] = scorer.ranking or protocol.get('ranking')
    data = {
        'command': command(ranking.protocol, view.manifest),
        'scorer': scorer_name(ranking.scorer_signature),
        'protocol': {
            key: value
            for key, value in protocol.items()
            if key not in LEFT_OUT and value not in (None, {}, [])
        },
        'signature': ranking.signature.split(PART_SEPARATOR, 2),
        'option_text': _option_text,
        'quoted': shlex.quote,
    }
    return Section('method', 'How it was made', data)


def command(protocol: str, manifest: Manifest) -> str:
    """
    Return the command line that makes the run, or imports it, again in another folder.
    """
    options = dict(manifest.asked)
    if files := options.pop('dialogues', []):
        words = ['parlai', 'import_dialogues', '--dialogues', *files]
    else:
        options = {'config': protocol, **options}
        words = ['parlai', 'evaluate_systems']
    for option, values in {**options, 'run_dir': 'NEW_FOLDER'}.items():
        for value in values if isinstance(values, list) else [values]:
            words += [f'--{option.replace("_", "-")}', without_folders(str(value))]
    return shlex.join(words)


def _option_text(value: Any) -> str:
    """
    Return an option's value as a command line takes it, without folders.
    """
    return without_folders(value) if isinstance(value, str) else json.dumps(value)


def answers(view: RankingView, dimension: str, remarks: Sequence[str] = ()) -> Markup:
    """
    Return the four answers about a dimension, as HTML.

    :param remarks: what else is known of whether to believe it, as half sentences.
    """
    ranking = view.ranking
    leaders = summary.leaders_on(ranking, dimension)
    first, second = (*(one.system for one in leaders.systems), '', '')[:2]
    details, card = view.details.get(dimension), ranking.judge
    return render_part(
        'answers.html.j2',
        view=view,
        dimension=dimension,
        leaders=leaders,
        outcome=judge.outcome_on(ranking, dimension),
        doubt=view.doubts.get(dimension),
        first=first,
        second=second,
        pair=details.pairs.get((first, second)) if details else None,
        digits=digits_for([one.score for one in ranking.standings[dimension]]),
        scorer=scorer_name(ranking.scorer_signature),
        models=[judge.model_text(model) for model in card.models] if card else [],
        remarks=remarks,
        n_cautions=len(summary.warnings(ranking)),
        rating_text=summary.rating_text,
    )


# the sections of a ranking in their order; each function returns one for a
# `RankingView`, or `None` where it has nothing to show
SECTIONS = (
    'parlai_ext.report.table:leaderboard_section',
    'parlai_ext.report.judge:judge_section',
    'parlai_ext.report.details:pairs_section',
    'parlai_ext.report.details:partners_section',
    'parlai_ext.report.details:spread_section',
    'parlai_ext.tournament.section:tournament_section',
    'parlai_ext.report.table:agreement_section',
    'parlai_ext.report.table:failures_section',
    'parlai_ext.stopping.looks:stopping_section',
    'parlai_ext.audit.section:audit_section',
)
# what speaks against a ranking of a run
DOUBTS = 'parlai_ext.audit.section:audit_doubts'
FED_EVIDENCE = (
    'Log-probability of each follow-up as the next utterance; nearer 0 is likelier.'
)
OTHER_EVIDENCE = 'The numbers from which the scorer made its scores.'
# of the file of pairs: the names of a pair, then the fields of a `SystemDifference`
PAIR_COLUMNS = (
    'dimension',
    'first',
    'second',
    'difference',
    'low',
    'high',
    'win_rate',
    'n_dialogues',
    'apart',
)
# of the page's own script, in this order
SCRIPTS = (
    'report_view.js',
    'report_dialogue.js',
    'report_list.js',
    'report_files.js',
    'report_start.js',
)


def render_rankings(views: Sequence[RankingView], shown: PageDialogues) -> str:
    """
    Return the report of a run as one HTML file.

    :param views: the rankings of the run, one for each scorer, the main one first.
    """
    main = views[0].ranking
    scripts = ''.join(map(template_text, SCRIPTS))
    first = next(iter(main.scored_dimensions), 'any dimension')
    dialogues = {
        'shown': shown,
        'chosen_by': 'points' if main.tournament else first,
        'both_judged': any(dialogue['both'] for dialogue in shown.dialogues),
    }
    return render_page(
        'report.html.j2',
        script=f"'use strict';\n(function () {{\n{scripts}}})();\n",
        data={
            'scorers': [*map(_scorer_data, views, shown.labels)],
            'dialogues': shown.dialogues,
        },
        views=[*map(_shown_view, views)],
        dialogues=Section('dialogues', 'Dialogues', dialogues),
        words=summary.baseline_words,
    )


def _shown_view(view: RankingView) -> dict[str, object]:
    """
    Return what the page's template is given of a ranking.
    """
    sections = [one for name in SECTIONS if (one := resolve_name(name)(view))]
    remarks = {
        name: [one.remarks[name] for one in sections if name in one.remarks]
        for name in view.ranking.dimensions
    }
    return {
        'view': view,
        'answers': [answers(view, name, own) for name, own in remarks.items()],
        'sentences': summary.sentences(view.ranking, view.doubts),
        'warnings': summary.warnings(view.ranking),
        'sections': sections,
        'method': method_section(view),
    }


def _scorer_data(view: RankingView, labels: Sequence[str]) -> JsonObject:
    """
    Return what the page's script knows of a scorer.

    `boards` are the dimensions with a leaderboard, `best` the systems of each, best
    first; `dimensions` are those with scores of dialogues, `digits` their decimals.
    """
    ranking = view.ranking
    standings = [ranking.standings[name] for name in ranking.scored_dimensions]
    pairs = [
        (dimension, *pair, *vars(own.pairs[pair]).values())
        for dimension, own in view.details.items()
        for pair in combinations(own.cells, 2)
        if pair in own.pairs
    ]
    is_fed = scorer_name(ranking.scorer_signature) == 'fed'
    return {
        'id': view.id,
        'name': view.name,
        'boards': ranking.dimensions,
        'dimensions': ranking.scored_dimensions,
        'digits': [digits_for([one.score for one in rows]) for rows in standings],
        'best': [
            [one.system for one in best_first(ranking.standings[name])]
            for name in ranking.dimensions
        ],
        'labels': labels,
        'evidence': FED_EVIDENCE if is_fed else OTHER_EVIDENCE,
        # in lines, since a long text is cut
        'leaderboard': file_table(ranking).csv().splitlines(keepends=True),
        'pairs': [PAIR_COLUMNS, *pairs],
    }


def write_report(
    run: RunFolder,
    ranking: Ranking,
    folder: str = '',
    tables: ScoreTables | None = None,
) -> Path:
    """
    Write the leaderboard of a ranking and the page of all rankings of the run, that of
    the protocol's scorer first; return the page's path.

    The same run and rankings give the same bytes (with a forecast, the time that
    scoring took is on the page, too).

    :param folder: of the ranking in the run folder, ending in ``/`` unless empty.
    :param tables: the scores that are ranked, where they were read already.
    """
    run.write_text(f'{folder}leaderboard.csv', leaderboard_csv(ranking))
    paths = run.root.glob(f'rankings/*/{RANKING}')
    folders = {folder, *(f'rankings/{path.parent.name}/' for path in paths)}
    folders |= {''} if (run.root / RANKING).is_file() else set()
    rankings = {
        name: ranking if name == folder else read_ranking(run, name)
        for name in sorted(folders)
    }
    candidates: list[PageCandidate] = []
    views: list[RankingView] = []
    for name, shown in rankings.items():
        own = tables if name == folder else None
        own = own or read_tables(run, shown.scorer_signature)
        if not views:
            candidates = dialogue_candidates(own, shown, run.manifest)
        views.append(view_of_ranking(run, shown, name, own))
    dialogues = read_page_dialogues(run, [*rankings.values()], candidates)
    run.write_text(PAGE, render_rankings(views, dialogues))
    return run.root / PAGE


def view_of_ranking(
    run: RunFolder, ranking: Ranking, folder: str, tables: ScoreTables
) -> RankingView:
    """
    Return a ranking as the page shows it; how fast the judge scored is known of the
    protocol's scorer, whose ranking is in no folder of its own.
    """
    about = run.scores(ranking.scorer_signature).about()
    words = [scorer_name(ranking.scorer_signature)]
    if (model := about.config.get('judge_model_file')) not in (None, 'none'):
        words.append(value_text(model))
    seconds = None if folder else seconds_per_scored_dialogue(run)
    return RankingView(
        ranking,
        run.manifest,
        dimension_details(run, ranking, tables),
        name=', '.join(words),
        scorer=about if folder else None,
        speed=None if seconds is None else f'{duration(seconds)} for each dialogue',
        doubts=resolve_name(DOUBTS)(run, ranking, folder),
        run=run,
    )
