"""
An audit: the checks that play nothing, on runs with planted scores; canaries and
clones, played against systems that are known to be dull.
"""

import re
import shutil

import numpy as np
import pytest

from parlai_ext.audit.gaming import canary_finding
from parlai_ext.audit.options import AuditOptions
from parlai_ext.audit.record import (
    FAILS,
    HOLDS,
    LEFT_OUT,
    NOT_SHOWN,
    REPORTS,
    is_current,
    outcome_of_equality,
    read_audit,
    read_audited,
)
from parlai_ext.commands.audit_run import AuditRun
from parlai_ext.commands.rank_systems import RankSystems
from parlai_ext.isolation.policy import SCORER, note_parts
from parlai_ext.ranking.intervals import Estimate
from parlai_ext.ranking.standings import Placing
from parlai_ext.store.folder import RunFolder, read_manifest, save_manifest, system_part
from tests.support.interrupted import interrupted
from tests.support.planted_run import planted_run
from tests.support.published_runs import import_chats, make_run
from tests.support.small_run import files_of
from tests.support.user_error import user_error
from tests.support.written import csv_rows

ALL = ('a', 'b', 'c', 'd', 'e')
FEW = {'ranking': {'bootstraps': 200}}
ALL_PLAY_ALL = {'partners': (), 'pairing': 'all_play_all'}
WORTH = dict(zip(ALL, (5.0, 4.0, 3.0, 2.0, 1.0), strict=True))


def plain(first, second, n):
    return WORTH[first] + 0.01 * n


def moody(first, second, n):
    """
    b is worth 8 with e, and a 2: with e in a set, b leads; with all, a does.
    """
    swing = {('b', 'e'): 3.8, ('a', 'e'): -1}.get((first, second), 0)
    return plain(first, second, n) + swing


@pytest.fixture
def planted(tmp_path, monkeypatch):
    """
    Return a function that makes a run with planted scores, by scorer or of one.
    """

    monkeypatch.setattr('parlai_ext.audit.dependence.RESAMPLES', 40)

    def make(scores=plain, systems=ALL, partners=('p', 'q'), **about):
        scores = scores if isinstance(scores, dict) else {'made-up': scores}
        return planted_run(tmp_path, scores, systems, partners, **FEW | about)

    return make


def audit(run, **options):
    return AuditRun.main(run_dir=run.root, tables_only=True, **options)


def outcome(result, part):
    return [finding.outcome for finding in result.part(part)]


def values(result, part, quantity):
    rows = [r for r in result.rows if (r.part, r.quantity) == (part, quantity)]
    return {(row.case, row.system): row.value for row in rows}


def test_fixed_partners_keep_every_order(planted):
    result = audit(planted(), set_size=3)
    assert outcome(result, 'target sets') == [HOLDS]
    for quantity, n in (('changed scores', 0), ('compared scores', 30)):
        # of 10 sets of 3
        assert values(result, 'target sets', quantity) == {('sets of 3', ''): n}
    # a bipartite run has no Table 6, and is told why
    assert outcome(result, 'table 6') == outcome(result, 'siblings') == [LEFT_OUT]
    assert 'all_play_all' in result.part('table 6')[0].sentence


def test_an_audit_resamples_as_its_ranking_did(planted):
    run = planted()
    assert read_audited(run, AuditOptions()).scores.options.bootstraps == 200
    RankSystems.main(run_dir=run.root, bootstraps=37)
    assert read_audited(run, AuditOptions()).scores.options.bootstraps == 37


def test_a_planted_swing_is_named_with_its_set(planted):
    result = audit(planted(moody, **ALL_PLAY_ALL), set_size=3)
    # a: (5 + 5 + 5 + 4) / 4 = 4.75, b: (4 + 4 + 4 + 7.8) / 4 = 4.95
    ranks = values(result, 'target sets', 'places lost')
    # with all opponents b leads; in {a, b, c}: a 5, b 4
    assert ranks['a + b + c', 'b'] == 1
    found = result.part('target sets')
    assert found[0].outcome == FAILS
    # a leads b in {a, b, c} and {a, b, d}, of the three sets with both
    parts = (
        'of 10 pairs of systems, 1 (10 %)',
        'a 1 up, 0 down; b 0 up, 1 down; the other 3 stay',
        'in 2 of the 3 sets',
    )
    for finding, part in zip(found, parts, strict=True):
        assert part in finding.sentence
    assert 'a is behind b' in found[2].sentence


def test_table_six_counts_what_siblings_turn_over(planted):
    def clannish(first, second, n):
        kin = {first, second} <= {'a', 'b', 'c'}
        # a: with b, c 3.6, with d, e 5; d: 3.9 with everybody
        return {'d': 3.9, 'e': 1.0}.get(first, 3.6 if kin else 5.0) + 0.01 * n

    run = planted(clannish, **ALL_PLAY_ALL)
    declare_families(run, {'a': 'kin', 'b': 'kin', 'c': 'kin'})
    result = audit(run)
    # {a, d, e}: a 5 > d 3.9; {a, b, c, d}: a (3.6 + 3.6 + 5) / 3 = 4.07 > 3.9
    assert outcome(result, 'table 6') == [HOLDS]
    # kin lose 5 - 3.6 = 1.4 among themselves: beyond chance
    (finding,) = result.part('siblings')
    assert finding.outcome == FAILS and finding.sentence.startswith('Siblings lose 1.4')


def test_table_six_of_targets_of_one_family_is_no_error(planted):
    run = planted(moody, **ALL_PLAY_ALL)
    declare_families(run, dict.fromkeys(ALL, 'kin'))
    (finding,) = audit(run).part('table 6')
    # five unfavored ones, six pairs of siblings each, two favored ones left
    assert 'of 60 sets' in finding.sentence


# u is worth 5 with all but its siblings and x; the favored ones are worth the same with
# all
FAVORED = {'highest': 7.0, 'high': 6.0, 'middle': 4.0, 'low': 1.0}


def against_siblings(first, second, n):
    return FAVORED.get(first, {'s': 2.0, 't': 2.0, 'x': 60.0}.get(second, 5.0))


def test_table_six_of_named_systems_and_a_fair_set(planted, tmp_path, printed):
    systems = ('u', 's', 't', 'x', *FAVORED)
    run = planted(against_siblings, systems, **ALL_PLAY_ALL)
    fair = tmp_path / 'fair.txt'
    fair.write_text('\n'.join(['u', *FAVORED]))
    audit(run, unfavored='u', similar=['s', 't'], fair_set=str(fair))
    # fair: u 5; unfair, {f, u, s, t}: u (5 + 2 + 2) / 3 = 3. So 7 and 6 win both times,
    # 4 wins in the unfair set alone, 1 never does
    shown = printed()
    assert re.search(r'favored wins +2 +0\n +favored loses +1 +1\n', shown)


@pytest.mark.parametrize(
    'unfavored, similar, words',
    [
        ('z', 'bc', '--unfavored: no audited system'),
        ('a', 'bz', '--similar: no audited system'),
        ('a', 'ab', '--similar: systems are expected'),
        ('a', '', '--similar: systems are expected'),
    ],
)
def test_sets_that_table_six_cannot_be_made_of_are_refused(
    planted, unfavored, similar, words
):
    run = planted(plain, **ALL_PLAY_ALL)
    with user_error(words):
        audit(run, unfavored=unfavored, similar=[*similar])


def declare_families(run, families):
    save_manifest(run.root, run.manifest.changed(families=families))


def within_chance(first, second, n):
    """
    a is 3 better or worse in turn: its lead of 1 within the set may be chance.
    """
    return moody(first, second, n) + (3 * (-1) ** n if first == 'a' else 0)


def silent(*pairs):
    """
    Some pairs have no scores.
    """
    return lambda first, second, n: (
        None if first + second in pairs else plain(first, second, n)
    )


def partial_to_a(first, second, n):
    """
    p likes a, and only p: without p, b leads.
    """
    base = plain(first, second, n) - (1.5 if (first, second) != ('a', 'p') else -4)
    return base + (1.2 if first == 'b' and second != 'p' else 0)


def close(first, second, n):
    """
    b is 3.9 in the first half and 4.3 in the second, a is 4 and a bit.
    """
    wave = 0.2 if n >= 3 else -0.1
    return {'a': 4.0, 'b': 3.9}[first] + (wave if first == 'b' else 0.06)


def by_opener(weight, spread, seed=2, size=2):
    """
    The systems' scores with one opener are unlike those with another.
    """
    noise = np.random.default_rng(seed).normal(size=(size, 6))
    noise -= noise.mean(axis=1, keepdims=True) * (size > 2)

    def score(first, second, n):
        place = ALL.index(first)
        return float(weight * WORTH[first] + spread * noise[place, n])

    return score


AB = {'systems': ('a', 'b')}
TOURNAMENT = {'rule': 'tournament', 'bootstraps': 20}
SAME_ORDER = 'both tell 0 of 10 pairs apart in the same order'
FLIP = '10 of 10 pairs flip'


@pytest.mark.parametrize(
    'scores, about, options, part, expected, words',
    [
        *(
            (scores, ALL_PLAY_ALL, {'set_size': 3}, 'target sets', NOT_SHOWN, [words])
            for scores, words in (
                (within_chance, ', 0 of them beyond chance'),
                # a has scores with e only: {a, two of b, c, d}
                (
                    silent('ab', 'ac', 'ad'),
                    'Sets in which a system has no dialogue: 3.',
                ),
            )
        ),
        (
            close,
            AB,
            {'opener_blocks': 2},
            'opener blocks',
            NOT_SHOWN,
            # a 4.06, b 3.95; without the first three openers b has 4.1
            ['a and b change places', 'openers would tell a and b apart'],
        ),
        *(
            (within_chance, AB, {}, part, NOT_SHOWN, ['tells 0 of 1 pairs of systems'])
            for part in ('partner families', 'opener blocks')
        ),
        (
            silent('bp'),
            {},
            {},
            'partner families',
            NOT_SHOWN,
            ['No score is left of b without q', 'ranks move by no place'],
        ),
        (
            plain,
            {**AB, 'partners': 'p', 'num_openers': 1},
            {},
            'variance',
            LEFT_OUT,
            [],
        ),
        (silent('bp', 'bq'), {}, {}, 'target sets', REPORTS, ['not audited: b.']),
        (
            plain,
            {**ALL_PLAY_ALL, 'score': 'both', 'ranking': TOURNAMENT},
            {},
            'target sets',
            REPORTS,
            ['mean scores'],
        ),
        *(
            ({'made-up': plain, 'other': other}, {}, {}, 'judge swap', expected, words)
            for other, expected, words in (
                (
                    lambda *pair: -plain(*pair),
                    FAILS,
                    ['Kendall −1', f'{FLIP}, 10 of which both judges tell apart'],
                ),
                (by_opener(0.01, 1, 0, 5), NOT_SHOWN, [SAME_ORDER]),
                # the order is reversed, by less than chance explains
                (by_opener(-0.01, 1, 0, 5), FAILS, [f'{FLIP}, 0 of which both']),
                (plain, HOLDS, []),
                (lambda *pair: None, LEFT_OUT, ['one scorer only']),
            )
        ),
        (by_opener(1, 2), AB, {}, 'variance', NOT_SHOWN, []),
    ],
)
def test_what_a_check_says_of_planted_scores(
    planted, scores, about, options, part, expected, words
):
    first, *_ = audit(planted(scores, **about), **options).part(part)
    assert first.outcome == expected
    for text in words:
        assert text in first.sentence


def test_the_partner_family_that_turns_an_order_over_is_named(planted):
    result = audit(planted(partial_to_a, ('a', 'b'), ('p', 'q', 'r')))
    (finding,) = result.part('partner families')
    assert 'from 1 to 2, without p' in finding.sentence
    moved = values(result, 'partner families', 'rank change')
    assert moved[('without p', 'a')] == 1 and moved[('without q', 'a')] == 0


def test_opener_blocks_without_effect_move_no_rank(planted):
    result = audit(planted(), opener_blocks=3)
    assert outcome(result, 'opener blocks') == [HOLDS]
    drift = values(result, 'opener blocks', 'score change')
    cases = {case for case, _ in drift}
    assert cases == {f'without openers {k} to {k + 1}' for k in (1, 3, 5)}
    # openers 0 … 5 add 0.01 n, 0.025 on average; without the last two 0.015
    assert drift['without openers 5 to 6', 'a'] == pytest.approx(-0.01)


def test_with_one_partner_the_rest_counts_as_choice(planted):
    # system × opener cannot be told from the rest then
    run = planted(by_opener(0.1, 1), ('a', 'b'), ('p',))
    (finding,) = audit(run).part('variance')
    assert finding.outcome != HOLDS and 'up to' in finding.sentence


def test_imported_dialogues_have_no_openers_to_vary_over(tmp_path):
    rows = [
        f'{n},{who},{"word " * n}.' for n in range(8) for who in ('ab'[n % 2], 'me')
    ]
    run = import_chats(tmp_path, rows)
    assert outcome(audit(run), 'variance') == [LEFT_OUT]


def test_floors_do_not_make_the_share_of_systems(planted):
    def score(first, second, n):
        # a and b are alike but for openers, the floor is far below
        return {'a': 5.0 + (-1) ** n, 'b': 5.0, 'floor-x': 0.0}[first]

    result = audit(planted(score, ('a', 'b', 'floor-x')))
    shares = values(result, 'variance', 'share')
    assert shares['without floors', 'system'] == pytest.approx(0)
    assert shares['all systems', 'system'] > 0.8
    assert outcome(result, 'variance') != [HOLDS]


@pytest.fixture(scope='module')
def ladder(module_folder):
    run = planted_run(module_folder, {'made-up': plain}, ALL, ('p', 'q'))
    return read_audited(run, AuditOptions())


@pytest.mark.parametrize(
    'beaten, better, expected',
    [
        ((), (0, 1, 2), HOLDS),
        ((4,), (0, 1, 2), HOLDS),
        ((), (0, 1), NOT_SHOWN),  # two of five are not half of them
        ((3, 4), (0,), NOT_SHOWN),
        ((2, 3, 4), (0, 1), FAILS),
    ],
)
def test_a_canary_is_low_if_half_of_the_systems_are_surely_better(
    ladder, beaten, better, expected
):
    placing = Placing(Estimate(1.5, 1.0, 2.0), 5, beaten, (), better)
    assert canary_finding(ladder, 'echo', placing).outcome == expected


@pytest.mark.parametrize(
    'low, high, expected',
    [
        (0, 0, HOLDS),
        (1e-17, 1e-17, HOLDS),  # rounding
        (-0.5, 0.9, HOLDS),  # systems that are told apart are 1 apart at least
        (-0.5, 1.1, NOT_SHOWN),
        (0.1, 0.5, FAILS),
        (None, None, NOT_SHOWN),
    ],
)
def test_a_difference_is_none_within_the_least_claim(ladder, low, high, expected):
    gap = Estimate(0.0, low, high)
    assert outcome_of_equality(ladder, gap) == expected


def test_audited_twice_is_the_same_and_read_back(planted, tmp_path):
    run = planted()
    first = audit(run)
    files = files_of(tmp_path)
    rows = csv_rows(tmp_path / 'audit.csv')
    found = [(r['case'], r['outcome']) for r in rows if r['quantity'] == 'finding']
    assert found == [(one.sentence, one.outcome) for one in first.findings]
    audit(run)
    assert files_of(tmp_path) == files
    assert read_audit(run) == first and is_current(run, first)
    # an edited audit is refused
    run.write_text('audit.json', files['audit.json'].decode().replace(HOLDS, FAILS))
    with user_error(r'audit\.json is damaged'):
        read_audit(run)


@pytest.mark.parametrize(
    'options, names',
    [
        ({'dimension': 'Overal'}, '--dimension Overal.*Overall'),
        ({'clone': ('f',)}, '--clone f'),
        ({'scores': 'fed'}, '--scores: fed'),
        ({'set_size': 1}, '--set.size'),
        ({'set_size': 99}, '--set-size 99'),
        ({'audit_openers': 2}, '--audit.openers'),
    ],
)
def test_a_wrong_option_is_named(planted, options, names):
    run = planted()
    with user_error(names):
        audit(run, **options)


def test_a_run_without_scores_is_one_line(planted):
    run = planted({})
    with user_error('no scores'):
        audit(run)


# Canaries and clones, played against systems that are known to be dull.

TALKER = 'tests.support.trial_agents:Talker'


def roster(targets, partners):
    def talkers(names):
        return [{'name': name, 'opt': {'model': TALKER}} for name in names]

    return {'targets': talkers(targets), 'partners': talkers(partners)}


def evaluated(folder, **keys):
    keys = {'num_dialogues': 3, 'roster': roster(('one', 'two'), 'pq'), **keys}
    return make_run(folder / 'run', (), scorer={'name': 'length'}, **keys).root


@pytest.fixture(scope='module')
def fresh(module_folder):
    return evaluated(module_folder / 'played')


@pytest.fixture
def root(fresh, tmp_path):
    """
    A copy of the run, for a test that changes it.
    """
    return shutil.copytree(fresh, tmp_path / 'run')


@pytest.fixture(scope='module')
def audited(fresh, module_folder):
    root = shutil.copytree(fresh, module_folder / 'audited')
    return root, audit_with_games(root)


def audit_with_games(root, **options):
    return AuditRun.main(run_dir=root, **options)


def finding_on(result, canary):
    return next(f for f in result.part('canaries') if canary in f.sentence)


def test_under_a_judge_that_loves_length_a_canary_wins_and_is_reported(audited):
    # every target says five words; a flatterer says twelve or more
    _, result = audited
    summary, *_ = result.part('canaries')
    assert summary.outcome == FAILS and 'can be gamed' in summary.sentence
    flatterer = finding_on(result, 'flatterer')
    assert flatterer.outcome == FAILS
    assert 'would rank 1 of 3' in flatterer.sentence
    assert 'beats 2 of 2 systems' in flatterer.sentence


def test_a_clone_gets_the_score_of_its_original(audited):
    _, result = audited
    clones = result.part('clone as target')
    assert [clone.outcome for clone in clones] == [HOLDS, HOLDS]
    rows = [row for row in result.rows if row.quantity == 'score above']
    assert [row.value for row in rows] == [0, 0]


def test_the_ranking_of_the_run_stays_as_it_was(fresh, audited):
    before, after = files_of(fresh), files_of(audited[0])
    # the page says what the audit found
    page = before.pop('report.html')
    assert b'canaries fool this judge' not in page
    assert b'canaries fool this judge' in after.pop('report.html')
    assert {name: after[name] for name in before} == before
    added = {name.split('/')[0] for name in after.keys() - before.keys()}
    assert added == {'audit', 'audit.json', 'audit.csv'}


def test_interrupted_anywhere_and_audited_again_ends_the_same(root, audited):
    for until in (3, 7):
        with interrupted(RunFolder, 'write_dialogues', until):
            audit_with_games(root)
        assert not (root / 'audit.json').exists()
    audit_with_games(root)
    assert files_of(root) == files_of(audited[0])


def test_a_partner_that_has_changed_is_left_out_by_name(root):
    data = RunFolder.existing(root).manifest.to_json()
    data['partners']['q']['identity'] = 'another'
    manifest = read_manifest(data)
    save_manifest(root, manifest)
    # the user's own run, or its agents would not be looked at
    note_parts(manifest, [*map(system_part, manifest.systems), SCORER])
    result = audit_with_games(root)
    (finding,) = result.part('canaries')
    assert finding.outcome == LEFT_OUT and 'q is not the system' in finding.sentence
    assert result.part('partner families')[0].outcome != LEFT_OUT


def test_with_tables_only_nothing_is_played(root):
    result = audit_with_games(root, tables_only=True)
    for part in ('canaries', 'clone as target', 'clone as partner'):
        assert outcome(result, part) == [LEFT_OUT]
    assert not (root / 'audit').exists()


@pytest.mark.parametrize(
    'keys', [{'pairing': 'all_play_all', 'score': 'both'}, {'pairing': 'self_play'}]
)
def test_other_pairings_play_canaries_against_what_targets_meet(keys, tmp_path):
    result = audit_with_games(evaluated(tmp_path, **keys))
    flatterer = finding_on(result, 'flatterer')
    assert 'would rank 1 of 3' in flatterer.sentence
    assert outcome(result, 'clone as target') == [HOLDS, HOLDS]
    as_partner = {*outcome(result, 'clone as partner')}
    assert (as_partner == {LEFT_OUT}) == (keys['pairing'] == 'self_play')


def test_names_that_the_run_has_already_are_no_obstacle(tmp_path):
    # and one partner, beside which a clone has nothing to be compared with
    names = roster(('canary-echo', 'clone-of-canary-echo'), 'p')
    result = audit_with_games(evaluated(tmp_path, roster=names), clone=('canary-echo',))
    for part in ('canaries', 'clone as target', 'clone as partner'):
        assert LEFT_OUT not in outcome(result, part)
    systems = {row.system for row in result.rows if row.part == 'canaries'}
    assert {'canary-echo', 'canary-echo-audit'} <= systems
