"""
The page of a run: a view of each of its rankings, made of sections, its dialogues, and
how it was made; and the files of a ranking that people read.

At the top stand four answers: who leads, by how much, who judged, and whether to
believe it.
"""

import json
import shlex
from collections.abc import Sequence
from dataclasses import replace
from operator import attrgetter
from pathlib import Path
from typing import Any

from parlai_ext.audit.section import audit_doubts, audit_section
from parlai_ext.collect.forecast import seconds_per_scored_dialogue
from parlai_ext.core import (
    PART_SEPARATOR,
    JsonObject,
    content_id,
    frozen,
    scorer_name,
)
from parlai_ext.judge_check import section as judge
from parlai_ext.judge_check.record import FAIL, PASS, WEAK
from parlai_ext.ranking.standings import Standing, best_first
from parlai_ext.report import summary
from parlai_ext.report.browse import (
    PageCandidate,
    PageDialogues,
    dialogue_candidates,
    read_page_dialogues,
)
from parlai_ext.report.details import (
    pairs_section,
    partners_section,
    spread_section,
)
from parlai_ext.report.table import (
    agreement_section,
    failures_section,
    file_table,
    leaderboard_csv,
    leaderboard_section,
)
from parlai_ext.report.view import PAGE, RankingView, dimension_details
from parlai_ext.results.ranking import NAME as RANKING
from parlai_ext.results.ranking import Ranking, read_ranking
from parlai_ext.results.tables import ScoreTables, read_tables
from parlai_ext.stopping.section import stopping_section
from parlai_ext.store import Manifest, RunFolder
from parlai_ext.tournament.section import rating_text, tournament_section
from parlai_ext.view import (
    count_of,
    digits_for,
    duration,
    few_names,
    interval,
    join_names,
    number,
    percent,
    signed,
    value_text,
    without_folders,
)
from parlai_ext.view.page import Section, render_page, template_text

LEFT_OUT = ('roster', 'reference', 'reference_kind', 'name')


def method_section(view: RankingView) -> Section:
    """
    Return the section with protocol, roster, signature, versions and the commands of a
    run.
    """
    ranking, manifest, scorer = view.ranking, view.manifest, view.scorer
    protocol = manifest.protocol.model_dump(exclude_unset=True)
    commands = [command(ranking.protocol, manifest)]
    if scorer is not None:
        protocol['scorer'] = scorer.config
        protocol['ranking'] = scorer.ranking or protocol.get('ranking')
        # another ranking than the protocol's takes further commands
        section = dict(scorer.config)
        name = section.pop('name', scorer_name(ranking.scorer_signature))
        words = ['--scorer', name]
        for key, value in section.items():
            words += ['--scorer-option', f'{key}={_option_text(value)}']
        words += ['--score-given'] if scorer.given else []
        scores = ['--scores', content_id(ranking.scorer_signature)]
        rules = [*scores]
        for key, value in scorer.ranking.items():
            rules += [f'--{key.replace("_", "-")}', _option_text(value)]
        commands += [
            shlex.join(['parlai', name, '--run-dir', 'NEW_FOLDER', *map(str, options)])
            for name, options in (
                ('score_dialogues', words),
                ('rank_systems', rules),
                ('report_run', scores),
            )
        ]
    data = {
        'commands': commands,
        'protocol': {
            key: value
            for key, value in protocol.items()
            if key not in LEFT_OUT and value not in (None, {}, [])
        },
        'signature': ranking.signature.split(PART_SEPARATOR, 2),
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


# what kind of news an answer is
GOOD, OPEN, BAD, PLAIN = 'good', 'open', 'bad', ''
BELIEVE = {
    PASS: ('The judge passed its check', GOOD),
    WEAK: ('With doubt: the judge is weak', OPEN),
    FAIL: ('No: the judge fails its check', BAD),
    judge.UNCHECKED: ('Not known: the judge was not checked', OPEN),
}


@frozen
class PageAnswer:
    """
    A question, its answer in a few words, and a line more.

    :param news: `GOOD`, `OPEN` where it is not settled, `BAD`, or `PLAIN` for what is
        no news. An answer that is open is not printed bold.
    """

    question: str
    text: str
    more: str = ''
    news: str = PLAIN


def answers(
    view: RankingView, dimension: str, remarks: Sequence[str] = ()
) -> tuple[PageAnswer, ...]:
    """
    Return the four answers about a dimension. Where something speaks against the
    ranking, nothing is good news.

    :param remarks: what else is known of whether to believe it, as half sentences.
    """
    ranking = view.ranking
    leaders = summary.leaders_on(ranking, dimension)
    leader = PageAnswer('Who leads', *_leader(ranking, dimension, leaders))
    lead = PageAnswer('By how much', *_lead(view, dimension, leaders.systems))
    if dimension in view.doubts:
        leader, lead = (
            replace(one, news=OPEN if one.news == GOOD else one.news)
            for one in (leader, lead)
        )
    card = ranking.judge
    scorer = card.scorer if card else scorer_name(ranking.scorer_signature)
    models = [judge.model_text(model) for model in card.models] if card else []
    judged = PageAnswer('Who judged', scorer, join_names(models))
    # whether it can be believed, as far as that is known
    outcome, doubt = judge.outcome_on(ranking, dimension), view.doubts.get(dimension)
    text, news = BELIEVE[outcome]
    parts = []
    if doubt is not None and outcome == FAIL:
        parts.append(doubt.words)
    elif doubt is not None:
        start, news = ('No', BAD) if doubt.is_refuted else ('With doubt', OPEN)
        text = f'{start}: {doubt.words}'
    if agreement := ranking.reference.get(dimension):
        name = ranking.leading_coefficient(dimension)
        value = getattr(agreement, name).value
        reference = 'the planted order' if agreement.kind == 'planted' else 'people'
        parts.append(f'{name.capitalize()} {number(value)} with {reference}')
    parts += remarks
    if n_cautions := len(summary.warnings(ranking)):
        parts.append(f'{count_of(n_cautions, "caution")} below')
    trust = PageAnswer('Believe it?', text, '; '.join(parts), news)
    return leader, lead, judged, trust


def _leader(
    ranking: Ranking, dimension: str, leaders: summary.Leaders
) -> tuple[str, str, str]:
    """
    Return who leads; nobody where the judge failed or nothing can be told apart.
    """
    if judge.outcome_on(ranking, dimension) == FAIL:
        return 'Nobody', f'On {dimension} the judge fails its check.', BAD
    if not leaders.systems:
        return 'Nobody', f'On {dimension} no system could be ranked.', BAD
    where, separation = f'on {leaders.where}', leaders.separation
    best, *others = leaders.systems
    first = best.system
    if separation is None:
        if not others:
            return first, f'It alone is ranked on {dimension}.', PLAIN
        if best.rank_high == 1:
            return first, where, GOOD
        return first, f'{where}; others may be as good', OPEN
    if not separation.n_apart:
        return 'Not settled', f'On {dimension}, {first} scores highest.', OPEN
    if separation.first != first:
        return first, f'{where}, below the floor {separation.first}', BAD
    if separation.not_apart:
        tied = few_names(separation.not_apart, 'or')
        return first, f'{where}, not told apart from {tied}', OPEN
    return first, where, GOOD


def _lead(
    view: RankingView, dimension: str, systems: list[Standing]
) -> tuple[str, str, str]:
    """
    Return how far the first is ahead of the second; nothing where the judge failed.
    """
    ranking, details = view.ranking, view.details.get(dimension)
    if judge.outcome_on(ranking, dimension) == FAIL:
        return 'Not known', 'Its differences say little.', BAD
    if len(systems) < 2:
        return 'Not known', 'Fewer than two systems are ranked.', OPEN
    first, second = (standing.system for standing in systems[:2])
    if ranking.tournament is not None and dimension == ranking.rated_dimension:
        own, other = (rating_text(ranking.tournament, n) for n in (first, second))
        return f'Rating {own}', f'{second}: {other}', PLAIN
    pair = details.by_names.get((first, second)) if details else None
    if pair is None:
        return 'Not known', 'No dialogues to compare.', OPEN
    digits = digits_for([one.score for one in ranking.standings[dimension]])
    ends = 'no interval'
    if pair.low is not None:
        ends = f'95 % {interval(pair.low, pair.high, digits)}'
    if not ranking.is_imported:  # whose dialogues are not over the same openers
        ends += f'; ahead in {percent(pair.win_rate)} of {pair.n} dialogues'
    return (
        f'{signed(pair.difference, digits)} over {second}',
        f'{"" if pair.apart else "which may be chance; "}{ends}',
        GOOD if pair.apart else OPEN,
    )


# the sections of a ranking in their order; each function returns one for a
# `RankingView`, or `None` where it has nothing to show
SECTIONS = (
    leaderboard_section,
    judge.judge_section,
    pairs_section,
    partners_section,
    spread_section,
    tournament_section,
    agreement_section,
    failures_section,
    stopping_section,
    audit_section,
)
FED_EVIDENCE = (
    'Log-probability of each follow-up as the next utterance; nearer 0 is likelier.'
)
OTHER_EVIDENCE = 'The numbers from which the scorer made its scores.'
PAIR_FIELDS = ('first', 'second', 'difference', 'low', 'high', 'win_rate', 'n', 'apart')
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
    labels = shown.labels or ((),) * len(views)
    drawn = []
    for view in views:
        sections = [one for make in SECTIONS if (one := make(view))]
        remarks = {
            name: [one.remarks[name] for one in sections if name in one.remarks]
            for name in view.ranking.dimensions
        }
        drawn.append(
            {
                'view': view,
                'answers': [answers(view, n, own) for n, own in remarks.items()],
                'sentences': summary.sentences(view.ranking, view.doubts),
                'warnings': summary.warnings(view.ranking),
                'sections': sections,
                'below': [method_section(view)],
            }
        )
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
            'scorers': [*map(_scorer_data, views, labels)],
            'dialogues': shown.dialogues,
        },
        views=drawn,
        dialogues=Section('dialogues', 'Dialogues', dialogues),
        agreement=summary.agreement_text,
        words=summary.baseline_words,
    )


def _scorer_data(view: RankingView, labels: Sequence[str]) -> JsonObject:
    """
    Return what the page's script knows of a scorer.

    `boards` are the dimensions with a leaderboard, `best` the systems of each, best
    first; `dimensions` are those with scores of dialogues, `digits` their decimals.
    """
    ranking = view.ranking
    standings = [ranking.standings[name] for name in ranking.scored_dimensions]
    pairs = [
        (dimension, *attrgetter(*PAIR_FIELDS)(one))
        for dimension, own in view.details.items()
        for one in own.pairs
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
        'pairs': [('dimension', *PAIR_FIELDS[:-2], 'n_dialogues', 'apart'), *pairs],
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
    seconds = seconds_per_scored_dialogue(run)
    speed = None if seconds is None else f'{duration(seconds)} for each dialogue'
    views: list[RankingView] = []
    for name, shown in rankings.items():
        own = tables if name == folder else None
        own = own or read_tables(run, shown.scorer_signature)
        if not views:
            candidates = dialogue_candidates(own, shown, run.manifest)
        about = run.scores(shown.scorer_signature).about()
        words = [scorer_name(shown.scorer_signature)]
        if (model := about.config.get('judge_model_file')) not in (None, 'none'):
            words.append(value_text(model))
        views.append(
            RankingView(
                shown,
                run.manifest,
                dimension_details(run, shown, own),
                name=', '.join(words),
                scorer=about if name else None,
                speed=None if name else speed,
                doubts=audit_doubts(run, shown, name),
                run=run,
            )
        )
    dialogues = read_page_dialogues(run, [*rankings.values()], candidates)
    run.write_text(PAGE, render_rankings(views, dialogues))
    return run.root / PAGE
