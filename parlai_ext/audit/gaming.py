"""
Can a result be gamed? Talkers that please a judge and not a partner (canaries) play
against the run's partners, and must not rank high; a clone of a target must get the
target's score, and a clone among the partners must not lift the target.

What is played is a small run beside the audited one, over some of its openers: a run
folder of its own, below `audit/` in the run's, collected and scored by the same
functions, so that it goes on where it was killed. Its ranking is none of the run's.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import replace

import numpy as np

from parlai_ext.audit.record import (
    CANARIES,
    FAILS,
    HOLDS,
    LEFT_OUT,
    NOT_SHOWN,
    REPORTS,
    Audited,
    Finding,
    LeftOut,
    PartResult,
    dialogues_first,
    outcome_of,
    outcome_of_equality,
    settling_text,
)
from parlai_ext.collect.plan import build_manifest, refuse_collecting, resolve_protocol
from parlai_ext.core import (
    JsonObject,
    Roster,
    System,
    UserError,
    content_id,
    require_known,
    signature_differences,
)
from parlai_ext.engines import Machine
from parlai_ext.isolation.policy import CONFIG, is_own_part, is_own_scorer, note_parts
from parlai_ext.judge_check.perturbations import PARROTS
from parlai_ext.ranking.intervals import Floats, Sampling, system_means
from parlai_ext.ranking.standings import (
    Placing,
    dialogues_needed,
    lift,
    place_newcomer,
    ranks_by_score,
    score_gap,
)
from parlai_ext.results.ranking import read_tables
from parlai_ext.store import (
    Manifest,
    RunFolder,
    pairings,
    record_hash,
    shard_size_for,
    system_part,
)
from parlai_ext.view.page import terminal_sentence

FOLDER = 'audit'


class SidePlayer:
    """
    What plays and judges side runs: the machine, and the scorer of the audited scores,
    if the user named what it asks and runs: in this command or when it scored.

    :param named: the ``scorer:`` section that the user names in this command.
    :param cloned: places of the systems that are to be cloned.
    :raises UserError: when nothing can be played, or this is another scorer now.
    """

    def __init__(
        self,
        audited: Audited,
        machine: Machine,
        named: JsonObject | None,
        cloned: Sequence[int],
    ):
        from parlai_ext.scoring.score_run import (
            ChosenScorer,
            require_named_scorer,
            score_signature,
        )

        self.audited, self.machine, self.cloned = audited, machine, cloned
        options, manifest = audited.asked, audited.run.manifest
        if options.tables_only:
            raise UserError('--tables-only')
        refuse_collecting(audited.run)
        if audited.num_openers < 3:
            raise UserError('fewer than three openers give no interval')
        then = audited.scores.scorer_signature
        self.scored = audited.run.scores(then).about()
        if section := self.scored.config:
            is_own = is_own_part(record_hash(self.scored), CONFIG)
        else:
            section, is_own = manifest.protocol.scorer, is_own_scorer(manifest)
        if not is_own and section != named:
            name = section.get('name')
            given = {'name': name} if name == options.scores else {}
            require_named_scorer(section, given)
        self.scorer = ChosenScorer(section).build(machine)
        signature = score_signature(self.scorer, self.scored.given)
        if signature != then:
            [first, *_] = signature_differences(then, signature)
            raise UserError(f'the scorer is not the one that made the scores: {first}')
        self.num_openers = min(options.audit_openers, audited.num_openers)

    @property
    def is_self_play(self) -> bool:
        """
        True if the run's targets talk with themselves.
        """
        return self.audited.plan.protocol.pairing == 'self_play'

    @property
    def partners(self) -> tuple[System, ...]:
        """
        The systems that a further target meets: those that the run's targets meet.
        """
        if self.is_self_play:
            return ()
        roster = self.audited.plan.roster
        return tuple(roster.system(name) for name in self.audited.opponents)

    @property
    def first_games(self) -> tuple[Floats, Sampling]:
        """
        The games that the audited systems began, over the openers that are played, and
        how their means are drawn anew.
        """
        sampling = replace(self.audited.sampling, games_per_opener=1)
        return self.audited.values[:, :, : self.num_openers], sampling

    def clones(self) -> Iterator[tuple[int, System, str]]:
        """
        Yield each place that is to be cloned, the same system under another name, and
        the folder of its side run.
        """
        audited = self.audited
        for place in self.cloned:
            name = audited.systems[place]
            system = audited.plan.roster.system(name)
            identity = audited.run.manifest.targets[name].identity
            clone = replace(system, name=audited.free_name(f'clone-of-{name}'))
            yield place, clone, f'clone-{content_id(name, identity)[:12]}'

    def play(
        self, folder: str, targets: Sequence[System], partners: Sequence[System]
    ) -> Floats:
        """
        Play and score what is missing of a side run. Return its scores on the audited
        dimension, ``[target, partner, opener]``; one partner in self-play.

        :raises UserError: when a system cannot be had or is another one now.
        """
        from parlai_ext.collect.collect import collect
        from parlai_ext.scoring.score_run import ChosenScorer, score_run

        manifest = self._manifest(targets, partners)
        root = self.audited.run.root / FOLDER / f'{self.num_openers}-openers'
        run = RunFolder.open(root / folder, manifest)
        # these were resolved, so they may be used; a manifest that lay there
        # already may hold others
        note_parts(run.manifest, map(system_part, manifest.systems))
        with run.lock():
            if problems := collect(run, self.machine).problems:
                raise UserError(problems[0])
            chosen = ChosenScorer(self.scored.config, named_by_user=False)
            report = score_run(
                run, self.scorer, chosen, include_given=self.scored.given
            )
            tables = read_tables(run, report.signature)
        names = [system.name for system in targets]
        opponents = [system.name for system in partners] or tables.opponents
        return tables.cells(tables.scores[self.audited.dimension], names, opponents)

    def _manifest(
        self, targets: Sequence[System], partners: Sequence[System]
    ) -> Manifest:
        """
        Return the manifest of a side run.
        """
        plan, manifest = self.audited.plan, self.audited.run.manifest
        protocol = replace(
            plan.protocol,
            name=f'{plan.protocol.name}-audit',
            pairing='self_play' if self.is_self_play else 'bipartite',
            num_dialogues=self.num_openers,
            roster=Roster(tuple(targets), tuple(partners)),
            reference={},
            reference_kind=None,
        )
        resolved = resolve_protocol(protocol, {}, False)
        known = manifest.everybody
        for name, identity in resolved.identities.items():
            if name in known and known[name].identity != identity:
                raise UserError(
                    f'{name} is not the system that this run has dialogues of: its '
                    'options or files have changed'
                )
        return build_manifest(
            resolved,
            pairings(resolved.protocol.roster, protocol.pairing, resolved.identities),
            plan.openers[: self.num_openers],
            shard_size_for(self.num_openers, manifest.batchsize),
            batchsize=manifest.batchsize,
            fp16=manifest.fp16,
            asked={'audit_of': plan.protocol.name},
        )


# what each canary does, by the option `canary_kind` of its agent
KINDS = {
    'echo': 'repeats what it hears',
    'opener_parrot': 'repeats its opener',
    'instruction_injector': 'tells the judge which score to give',
    **{kind: parrot.does for kind, parrot in PARROTS.items()},
}


def check_canaries(result: PartResult, player: SidePlayer) -> None:
    """
    Add where each canary would rank. A canary ranks high if it beats half of the
    systems that are no floors, or more; that it does not is shown as soon as half of
    them, or more, are better than it beyond chance.

    :raises UserError: when they cannot be played.
    """
    audited = player.audited
    ranked, sampling = player.first_games
    systems = [
        System(
            audited.free_name(f'canary-{kind}'),
            {'model': 'ext:canary', 'canary_kind': kind},
        )
        for kind in KINDS
    ]
    names = [system.name for system in systems]
    values = player.play('canaries', systems, player.partners)
    findings = []
    for kind, name, own in zip(KINDS, names, values, strict=True):
        placing = place_newcomer(ranked, own, sampling)
        finding = canary_finding(audited, kind, placing)
        if finding.outcome == NOT_SHOWN:
            settling = _settling_text(player, placing, name, own)
            sentence = f'{finding.sentence.removesuffix(".")}; {settling}.'
            finding = replace(finding, sentence=sentence)
        findings.append(finding)
        result.add(name, name, {'score': placing.score, 'rank': placing.rank})
        for k in placing.beaten:
            is_sure = float(k in placing.surely_beaten)
            result.add(name, audited.systems[k], {'beaten': is_sure})
        for k in placing.surely_better:
            result.add(name, audited.systems[k], {'surely better': 1.0})
    _summarize(audited, findings, result)
    result.findings += findings


def canary_finding(audited: Audited, kind: str, placing: Placing) -> Finding:
    """
    Return where one canary would rank, and whether that is low enough.
    """
    honest = audited.honest
    beaten, sure, above = (
        [k for k in places if k in honest]
        for places in (placing.beaten, placing.surely_beaten, placing.surely_better)
    )
    text = terminal_sentence(
        'canary',
        audited=audited,
        kind=kind,
        does=KINDS[kind],
        placing=placing,
        beaten=beaten,
        sure=sure,
        above=above,
    )
    outcome = outcome_of(
        shown=2 * len(above) >= len(honest), refuted=2 * len(beaten) >= len(honest)
    )
    return Finding(CANARIES, text, REPORTS if placing.rank is None else outcome)


def _settling_text(
    player: SidePlayer, placing: Placing, name: str, canary: Floats
) -> str:
    """
    Return about how many openers would show that half of the systems that are no floors
    are better than a canary.

    :param canary: its scores, ``[partner, opener]``.
    """
    audited, (values, sampling) = player.audited, player.first_games
    needed = sorted(
        (
            dialogues_needed(
                (audited.systems[k], name),
                np.stack([values[k], canary]),
                math.comb(len(values) + 1, 2),
                sampling,
            )
            for k in audited.honest
            if k not in (*placing.beaten, *placing.surely_better)
        ),
        key=dialogues_first,
    )
    n_better = sum(k in audited.honest for k in placing.surely_better)
    missing = -(-len(audited.honest) // 2) - n_better
    return settling_text(audited, needed[missing - 1], player.num_openers)


def _summarize(audited: Audited, findings: list[Finding], result: PartResult) -> None:
    """
    Add the finding on all canaries.
    """
    outcomes = [one.outcome for one in findings if one.outcome != REPORTS]
    high, shown = outcomes.count(FAILS), outcomes.count(HOLDS)
    n = len(outcomes)
    text = terminal_sentence(
        'canaries', audited=audited, n=n, n_high=high, n_shown=shown
    )
    outcome = outcome_of(shown=shown == n, refuted=bool(high))
    result.report(text, outcome if outcomes else LEFT_OUT)


BY_DEFAULT = 2  # the first systems that are no floors


def cloned_targets(audited: Audited) -> list[int]:
    """
    Return the systems to clone: those that are asked for, else the first two that are
    no floors.

    :raises UserError: for a name that is no ranked target's.
    """
    wanted = audited.asked.clone
    for name in wanted:
        require_known(name, audited.systems, f'--clone {name}: no ranked target')
    if wanted:
        return [audited.systems.index(name) for name in dict.fromkeys(wanted)]
    return [k for k in audited.by_rank if k in audited.honest][:BY_DEFAULT]


def check_clones_as_targets(result: PartResult, player: SidePlayer) -> None:
    """
    Add whether a clone, played as a further target, gets the score of its original
    over the same openers.

    :raises UserError: when it cannot be played.
    """
    audited = player.audited
    own, sampling = player.first_games
    for place, clone, folder in player.clones():
        cloned = player.play(folder, [clone], player.partners)
        values = np.concatenate([cloned, own[[place]]])
        values[:, np.isnan(values).all(axis=2).any(axis=0)] = np.nan  # itself
        gap = score_gap(values, sampling)
        name, n_openers = audited.systems[place], player.num_openers
        text = terminal_sentence('clone', name=name, gap=gap, n_openers=n_openers)
        result.report(text, outcome_of_equality(audited, gap))
        result.add(clone.name, name, {'score above': gap})


def usual_lifts(values: Floats, place: int) -> list[float]:
    """
    Return by how much each partner lifts a system above the others.

    :param values: ``[system, partner, opener]``.
    """
    lifts = []
    for partner in range(values.shape[1]):
        drift = system_means(values) - system_means(np.delete(values, partner, 1))
        lifts.append(float(drift[place] - np.delete(drift, place).mean()))
    return lifts


def check_clones_as_partners(result: PartResult, player: SidePlayer) -> None:
    """
    Add whether a clone among the partners lifts its original above the others.

    :raises UserError: when it cannot be played.
    """
    audited = player.audited
    if player.is_self_play:
        raise LeftOut('in self-play there are none')
    targets = [audited.plan.roster.system(name) for name in audited.systems]
    before, sampling = player.first_games
    for place, clone, folder in player.clones():
        more = player.play(f'{folder}-as-partner', targets, [clone])
        gain = lift(before, more, place, sampling)
        rank = ranks_by_score(system_means(before))[place]
        together = np.concatenate([before, more], axis=1)
        after = ranks_by_score(system_means(together))[place]
        name, n_partners = audited.systems[place], before.shape[1]
        usual = usual_lifts(before, place) if n_partners > 1 else []
        text = terminal_sentence(
            'clone_as_partner',
            name=name,
            n_partners=n_partners + 1,
            gain=gain,
            rank=rank,
            after=after,
            usual=usual,
        )
        # a clone may do what the partners of the run do, or nothing
        low, high = min([0.0, *usual]), max([0.0, *usual])
        outcome = outcome_of(
            shown=gain.is_within(low, high) and rank == after,
            refuted=gain.is_beyond(low, high),
        )
        result.report(text, outcome)
        result.add(clone.name, name, {'lift': gain, 'rank': after, 'rank before': rank})
