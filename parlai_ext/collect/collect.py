"""
Plays what a plan holds: every dialogue that is not there yet; and, before a long run,
its preflight and its pilot, of which nothing is kept.

A block is played as a whole, so that what a batch holds never depends on what was done
before; only its missing shards are written.
"""

import itertools
import sys
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field, replace
from functools import cache, partial
from time import perf_counter
from typing import NamedTuple

from parlai.core.agents import Agent
from parlai.core.message import Message

from parlai_ext.collect.forecast import (
    Forecast,
    SystemForecast,
    forecast_settings,
    peak_bytes,
    timed,
)
from parlai_ext.collect.not_run import write_problems
from parlai_ext.collect.plan import RequestedProtocol, named_systems, prepare
from parlai_ext.core import (
    Dialogue,
    Pairing,
    System,
    UserError,
    chunks,
    content_id,
    frozen,
    is_floor,
    quoted_reply,
)
from parlai_ext.engines import EngineOptions, Machine, open_engine, use_data_folder
from parlai_ext.engines.engine import (
    LOCAL,
    Engine,
    Job,
    Task,
    Tell,
    Worker,
    refuse_difference,
    wait_for_files,
)
from parlai_ext.isolation.policy import note_parts, note_trust
from parlai_ext.scoring.score_run import ChosenScorer, score_dialogues
from parlai_ext.store import Block, Plan, RunFolder, ShardKey
from parlai_ext.systems.identity import identity
from parlai_ext.systems.model_cache import (
    are_small,
    memory_for_weights,
    size_on_disk,
    weights_key,
)
from parlai_ext.systems.parlai_agents import load_on
from parlai_ext.systems.players import Participant, Player, Reply
from parlai_ext.systems.spending import (
    Spending,
    add_to_spent,
    spending_of,
    spending_since,
    total_spending,
)
from parlai_ext.view import count_of, split_words
from parlai_ext.view.progress import bar_of
from parlai_ext.worlds.block_player import BatchRow, BlockPlayer


@frozen
class CollectReport:
    """
    How many dialogues were played and written, how many were there already or had to
    be left out, and which systems could not be loaded.
    """

    n_played: int
    n_skipped: int
    problems: tuple[str, ...] = ()


def collect(
    run: RunFolder,
    machine: Machine,
    *,
    spent: dict[str, Spending] | None = None,
    engine: Engine = LOCAL,
) -> CollectReport:
    """
    Play every block of the run's plan that lacks a shard, and write what is missing.

    After a Ctrl-C the shards that were written stay, and so do the replies so far of
    the block that was being played, as `KeptReplies` says.

    :param spent: is filled with what each system has used, however this ends.
    :param engine: where the blocks are played.
    """
    spent = {} if spent is None else spent
    plan = run.plan
    player = BlockPlayer.from_plan(plan, machine)
    tasks = block_tasks(plan, player.missing_blocks(run))
    problems: dict[str, str] = {}
    n_played = 0
    job = playing_job(run, player, machine, spent)
    try:
        with (
            bar_of('collect', sum(task.size for task in tasks)) as bar,
            closing(engine.run(job, tasks, bar)) as finished,
        ):
            for _, (written, why_not) in finished:
                wait_for_files(map(run.dialogues_path, written))
                n_played += sum(shard.n_dialogues for shard in written)
                problems |= why_not
    except KeyboardInterrupt:
        n_replies = run.count_partial_replies()
        more = f', and {n_replies} replies of the next ones' if n_replies else ''
        of_all = f'{run.n_dialogues:,} of {count_of(plan.n_dialogues, "dialogue")}'
        print(f'stored: {of_all}{more}', file=sys.stderr)
        raise
    run.remove_partial_replies()
    run.restore_metadata()
    write_problems(run, problems)
    for name, used in spent.items():
        if n_cut := used.get('cut_replies'):
            print(f'{name}: {n_cut:,.0f} replies were cut at reply_max_tokens')
    n_skipped = plan.n_dialogues - n_played
    return CollectReport(n_played, n_skipped, tuple(problems.values()))


def playing_job(
    run: RunFolder, player: BlockPlayer, machine: Machine, spent: dict[str, Spending]
) -> Job:
    """
    Return the job of playing blocks, in this process or in others.

    :param spent: is filled with what each system has used.
    """
    root, manifest, plan = str(run.root.resolve()), run.manifest.digest, run.plan
    return Job(
        here=lambda: BlockWorker(run, replace(player, kept_in=run)),
        elsewhere=partial(block_worker, root, manifest, machine, named_systems(plan)),
        steps='replies',
        whole_tasks=True,
        key=content_id('collect', root, manifest),
        on_close=partial(add_to_spent, spent),
        small=are_small(plan.roster.systems, machine),
    )


@frozen
class CollectedRun:
    """
    A run whose dialogues are collected, and the engine that is open for it.

    :param left_out: the systems that are not in it, with the reasons.
    """

    run: RunFolder
    engine: Engine
    report: CollectReport
    left_out: tuple[str, ...]


@contextmanager
def collected_run(
    requested: RequestedProtocol, machine: Machine, where: EngineOptions
) -> Iterator[CollectedRun]:
    """
    Collect what the requested run lacks. Inside, the run is locked and the
    engine open.
    """
    run, plan = prepare(requested, machine)
    spent: dict[str, Spending] = {}
    with run.lock(), open_engine(where, run.root, machine) as engine:
        if run.manifest.scheme.is_played:
            with timed(run, 'collect', spent):
                report = collect(run, machine, spent=spent, engine=engine)
        else:
            report = CollectReport(0, run.n_dialogues)
        yield CollectedRun(run, engine, report, (*plan.left_out, *report.problems))


class BlockWorker(Worker):
    """
    Plays blocks and writes those of their shards that are missing.
    """

    def __init__(self, run: RunFolder, player: BlockPlayer):
        self.run = run
        self.player = player
        self.budget = player.cache.budget

    def work(
        self, data: tuple[Block, Collection[ShardKey]], tell: Tell
    ) -> tuple[list[ShardKey], dict[str, str]]:
        """
        Play a block. Return the shards that were written, and why systems cannot go on.

        :param data: the block, and its shards that are missing.
        """
        block, missing = data
        written = []
        played = replace(self.player, on_replies=tell).play_block(block)
        for shard, dialogues in played.items():
            if shard in missing:
                self.run.write_dialogues(shard, dialogues)
                written.append(shard)
        if self.player.kept_in is not None:
            self.run.remove_partial_replies()
        return written, dict(self.player.cache.problems)

    def loaded(self) -> Collection[str]:
        """
        Return the names of the weights that are loaded.
        """
        return self.player.cache.loaded_weights()

    def close(self) -> dict[str, Spending]:
        """
        Drop the systems; return what each has used.
        """
        self.player.cache.clear()
        return self.player.cache.ledger.spent


def block_tasks(plan: Plan, blocks: Mapping[Block, frozenset[ShardKey]]) -> list[Task]:
    """
    Return a task for each block.

    :param blocks: with the shards that they lack.
    """

    @cache
    def weights(name: str) -> tuple[str, int]:
        system = plan.roster.system(name)
        return str(weights_key(system)), size_on_disk(system)

    tasks = []
    for block, missing in blocks.items():
        pairings = [plan.by_id[shard.pairing_id] for shard in block.shards]
        names = {name for pair in pairings for name in pair.speakers}
        first, last = pairings[0], pairings[-1]
        more = '' if first == last else f' to {last.first} – {last.second}'
        shard = block.shards[0]
        tasks.append(
            Task(
                f'block {first.first} – {first.second}{more}, shard {shard.index}',
                (block, missing),
                sum(shard.n_dialogues for shard in missing),
                dict(map(weights, names)),
            )
        )
    return tasks


def block_worker(
    run_dir: str,
    manifest: str,
    machine: Machine,
    named: Collection[str],
    share: float,
) -> BlockWorker:
    """
    Return a worker of another process, which reads the plan from the run folder.

    :param manifest: a hash of the manifest there.
    :param named: the parts of the manifest that the user named, of whom this machine
        may have no note.
    :param share: of the memory of its device, from 0 to 1.
    """
    use_data_folder(machine.datapath)
    run = RunFolder.existing(run_dir)
    refuse_difference(f'{run_dir}/manifest.json', run.manifest.digest, manifest)
    note_parts(run.manifest, named, on_disk=False)
    limit = memory_for_weights(machine.no_cuda) * share / 1e9
    if machine.max_gpu_memory is not None:
        limit = min(limit, machine.max_gpu_memory)
    machine = replace(machine, max_gpu_memory=limit)

    def load(system: System) -> Player:
        # it must be what the run's manifest says
        known = run.manifest.everybody[system.name].identity
        note_trust(machine.trust_model_code, on_disk=False)
        what = f'system {system.name!r}: its options and files'
        refuse_difference(what, identity(system), known)
        return load_on(machine, system)

    return BlockWorker(run, BlockPlayer.from_plan(run.plan, machine, load=load))


# --- the preflight --------------------------------------------------------------------
# The preflight plays two dialogues a system, to see whether it is fit to talk. A system
# talks with a script, so that no system is blamed for another. Nothing of it is kept;
# the run folder is not touched.

DIALOGUES = 2
# generated utterances in a dialogue, three replies of the system among them
GENERATED = 6
CANNOT = 'cannot be loaded: '
SCRIPT = 'preflight script'
LINES = (
    'That is interesting. Can you tell me more about it?',
    'I see. How do you feel about that?',
    'I had a busy week myself. What do you like to do in your free time?',
    'Maybe you are right. What would you do in my place?',
    'It was nice to hear that. What are your plans for today?',
    'Thank you for telling me. Is there anything you want to ask me?',
)
# a short reply may repeat what was said by chance, every second one does not
COPIED_SHARE = 0.5
FEWEST_COPIES = 2
# a reply that begins with so many words of what it heard was copied
QUOTED_WORDS = 4


class ScriptedPartner(Agent):
    """
    An agent that says prepared lines, whatever it hears, one after the other in all its
    dialogues.
    """

    def __init__(self) -> None:
        super().__init__({})
        self.id = SCRIPT
        self.lines = itertools.cycle(LINES)

    def clone(self) -> 'ScriptedPartner':
        """
        Return the agent, which knows of no dialogue.
        """
        return self

    def act(self) -> Message:
        """
        Return the next line.
        """
        return Message(id=self.id, text=next(self.lines), episode_done=False)


class HeardReply(NamedTuple):
    """
    One reply: its text and words, the words of the utterance right before it, and those
    of the dialogue's first utterance.
    """

    text: str
    words: tuple[str, ...]
    heard: tuple[str, ...]
    first: tuple[str, ...]

    @property
    def is_repeat(self) -> bool:
        """
        True if it is the utterance before it, or begins with that or with the first one
        (as a model does whose prompt was not cut off).
        """
        if self.words and self.words == self.heard:
            return True
        quotes = [q for q in (self.heard, self.first) if len(q) >= QUOTED_WORDS]
        return any(self.words[: len(quote)] == quote for quote in quotes)


@frozen
class SystemCheck:
    """
    Why a system stops a run (`None`: it does not), and what is odd about its replies.
    """

    system: str
    stop: str | None = None
    warnings: tuple[str, ...] = ()
    n_replies: int = 0


def preflight(plan: Plan, machine: Machine, run: RunFolder | None) -> list[SystemCheck]:
    """
    Let every system that the run needs talk with the script, and check its replies.

    :param run: the run folder as it is, `None` when it is not there yet.
    """
    player = BlockPlayer.from_plan(plan, machine)
    blocks = player.missing_blocks(run)
    needed = {name for block in blocks for name in player.speakers(block)}
    names = [system.name for system in plan.roster.systems if system.name in needed]
    checks = []
    with bar_of('preflight', len(names), unit='system') as bar:
        for i, name in enumerate(names):
            checks.append(try_system(player, name, i))
            bar.update()
    player.cache.clear()
    return checks


def try_system(player: BlockPlayer, name: str, index: int) -> SystemCheck:
    """
    Play a system's dialogues with the script as the run plays, and check its replies.

    :param index: chooses the openers, others for each index as far as there are.
    """
    plan, problems = player.plan, player.cache.problems
    loaded = player.cache.load_all([plan.roster.system(name)])
    if name not in loaded:
        return SystemCheck(name, CANNOT + _reason(name, problems))
    places = range(DIALOGUES * index, DIALOGUES * (index + 1))
    openers = [plan.openers[place % len(plan.openers)] for place in places]
    given = max(len(opener.utterances) for opener in openers)
    pair = Pairing('preflight', name, SCRIPT, 'preflight')
    before = tokens_written(loaded[name])
    dialogues = player.play_rows(
        [BatchRow(pair, opener) for opener in openers],
        {name: loaded[name], SCRIPT: Player(SCRIPT, ScriptedPartner())},
        min(plan.protocol.num_turns, given + GENERATED),
        content_id('preflight', plan.protocol.seed, name),
    )
    if name in problems:
        return SystemCheck(name, _reason(name, problems))
    played = [dialogue for dialogue in dialogues if dialogue]
    # a floor, and a system whose place in the ranking is planted
    bad_on_purpose = is_floor(name) or name in plan.protocol.planted_systems
    check = check_system(name, played, bad_on_purpose=bad_on_purpose)
    texts = [reply.text for d in played for reply in replies_in(d, name)]
    written = tokens_written(loaded[name]) - before
    if are_all_cut(loaded[name], texts, written):
        cut = f'all replies are cut at the longest, {loaded[name].longest_reply} tokens'
        check = replace(check, warnings=(*check.warnings, cut))
    return check


def _reason(name: str, problems: Mapping[str, str]) -> str:
    return problems[name].removeprefix(f'system {name!r}: ')


def tokens_written(player: Player) -> float:
    """
    Return how many tokens a system has written, 0 when it does not count them.
    """
    return (spending_of(player.agent) or {}).get('completion_tokens') or 0


def are_all_cut(player: Player, texts: Sequence[str], written: float) -> bool:
    """
    True if every reply of a system is as long as it may be.

    :param written: how many tokens the system counted, 0 where it does not.
    """
    longest = player.longest_reply or 0
    if longest <= 0 or not texts:
        return False
    if written:
        return written >= longest * len(texts)
    # the end token is one
    return min(player.count_tokens(texts) or [0]) >= longest - 1


def check_system(
    system: str, dialogues: Sequence[Dialogue], *, bad_on_purpose: bool = False
) -> SystemCheck:
    """
    Return what is wrong with a system's replies in these dialogues.

    :param bad_on_purpose: it is meant to say the same whatever it hears, as a floor
        does; copied replies are a warning then.
    """
    replies = [replies_in(dialogue, system) for dialogue in dialogues]
    said = [reply for dialogue in replies for reply in dialogue]
    broken = [str(d.reason) for d in dialogues if d.ended_by == system]
    stop = f'{broken[0]} (dialogue ended)' if broken else None
    if said and not stop and not any(reply.words for reply in said):
        stop = f'empty replies: nothing but {quoted_reply(said[0].text)}'
    # copied: half of the replies repeat the utterance before them, or dialogues of
    # several replies are the same whatever was heard
    repeated = [reply for reply in said if reply.is_repeat]
    several = [dialogue for dialogue in replies if len(dialogue) > 1]
    lines = {tuple(reply.words for reply in dialogue) for dialogue in several}
    heard = {tuple(reply.heard for reply in dialogue) for dialogue in several}
    odd = None
    if len(repeated) >= max(FEWEST_COPIES, COPIED_SHARE * len(said)):
        odd = (
            f'copied replies: {len(repeated)} of {len(said)} repeat what was heard '
            f'({quoted_reply(repeated[0].text)})'
        )
    elif len(lines) == 1 and len(heard) > 1:
        odd = (
            'copied replies: the same in all dialogues, whatever the other said '
            f'({quoted_reply(several[0][0].text)}, …)'
        )
    if odd and not stop and not bad_on_purpose:
        stop, odd = odd, None
    elif not odd and several and all(len({r.words for r in d}) == 1 for d in several):
        odd = (
            f'says one thing throughout a dialogue ({quoted_reply(several[0][0].text)})'
        )
    return SystemCheck(system, stop, (odd,) if odd else (), len(said))


def replies_in(dialogue: Dialogue, system: str) -> list[HeardReply]:
    """
    Return the replies that a system generated in a dialogue.
    """
    turns = dialogue.utterances
    words = [tuple(split_words(turn.text)) for turn in turns]
    return [
        HeardReply(turn.text, words[i], words[i - 1], words[0])
        for i, turn in enumerate(turns)
        if i and turn.speaker == system and not turn.given
    ]


def stop_unless_fit(checks: Sequence[SystemCheck], *, skip_missing: bool) -> None:
    """
    End a command whose systems are not fit to talk.

    :param skip_missing: the run does without systems that cannot be loaded.
    :raises UserError: one line that names them all, with reasons.
    """
    stops = [check for check in checks if check.stop]
    if skip_missing and len(stops) < len(checks):
        stops = [check for check in stops if not (check.stop or '').startswith(CANNOT)]
    if stops:
        reasons = '; '.join(f'system {check.system!r}: {check.stop}' for check in stops)
        raise UserError(
            f'preflight: {len(stops)} of {len(checks)} systems are not fit to talk, so '
            f'nothing was collected: {reasons}'
        )


# --- the pilot ------------------------------------------------------------------------
# Pilot: real blocks of a run are played and scored, to forecast what is left of it.
#
# The blocks are few, but every system speaks in one of them, so that its seconds and
# its money for a reply are known for batches as the run has them. Nothing else is
# kept, since settings may still change afterwards.


@dataclass
class Measured:
    """
    What a system took in the pilot; `batches` are pairs of replies and seconds.
    """

    load_seconds: float = 0.0
    n_bytes: int = 0
    batches: list[tuple[int, float]] = field(default_factory=list)
    spent: Spending | None = None

    @property
    def replies(self) -> int:
        """
        The replies of all batches.
        """
        return sum(n for n, _ in self.batches)

    def forecast(self, replies: int, between: float) -> SystemForecast:
        """
        Return what so many replies take. A first batch that is slower than the others
        counts as a part of loading, since much is set up in it. What is spent is that
        of replies of which none is in a cache; its cost is `None` when the pilot's were
        all in one, or have no price.

        :param between: seconds for each reply that pass between the batches.
        """
        (n_first, first_seconds), *_ = self.batches
        timed = self.batches[1:] or self.batches
        each = sum(seconds for _, seconds in timed) / sum(n for n, _ in timed)
        spent: Spending | None = None
        if self.spent is not None:
            paid = self.replies - (self.spent['cached'] or 0)
            factor = replies / paid if paid > 0 else 0
            spent = {key: (n or 0) * factor for key, n in self.spent.items()}
            has_price = paid > 0 and self.spent['cost'] is not None
            spent |= {'cached': 0, 'cost': spent['cost'] if has_price else None}
        return SystemForecast(
            replies,
            replies * (each + between),
            self.load_seconds + max(0.0, first_seconds - n_first * each),
            self.n_bytes,
            spent,
            (self.spent or {}).get('cached') or 0,
        )


@frozen
class PilotMeter:
    """
    Measures what systems take: loading, and the batches of their replies.

    :param measured: takes up the measurement of each system, by its name.
    """

    machine: Machine
    measured: Mapping[str, Measured]

    @property
    def spoke(self) -> dict[str, Measured]:
        """
        The measurements of the systems that replied.
        """
        return {name: one for name, one in self.measured.items() if one.batches}

    def load(self, system: System) -> Player:
        """
        Load a system.
        """
        begun, player = perf_counter(), load_on(self.machine, system)
        measurement = self.measured[system.name]
        measurement.load_seconds = perf_counter() - begun
        measurement.n_bytes = player.n_bytes
        return player

    def respond(
        self, player: Player, participants: Sequence[Participant]
    ) -> list[Reply]:
        """
        Let every participant speak next.
        """
        measurement = self.measured[player.name]
        before, start = spending_of(player.agent), perf_counter()
        replies = player.respond(participants)
        measurement.batches.append((len(participants), perf_counter() - start))
        now = spending_of(player.agent)
        if now is not None and before is not None:
            used = spending_since(now, before)
            measurement.spent = total_spending([measurement.spent, used])
        return replies

    def forecasts(
        self, replies: Mapping[str, int], seconds: float
    ) -> dict[str, SystemForecast]:
        """
        Return what the replies of each system that spoke will take.

        :param replies: how many each system will give.
        :param seconds: what loading and playing took; the part of it that no system
            used is shared out over the replies.
        """
        spoke = self.spoke
        used = sum(
            one.load_seconds + sum(seconds for _, seconds in one.batches)
            for one in spoke.values()
        )
        n_replies = sum(one.replies for one in spoke.values())
        between = max(0.0, (seconds - used) / n_replies)
        return {n: one.forecast(replies[n], between) for n, one in spoke.items()}


def pilot(
    plan: Plan,
    machine: Machine,
    run: RunFolder | None,
    scorer: ChosenScorer | None = None,
) -> Forecast:
    """
    Play blocks in which every system speaks, score them, and forecast what is left.

    :param scorer: the protocol's, by which the dialogues are scored, too.
    :raises UserError: when nothing is left to do, or nothing could be measured.
    """
    start, systems = perf_counter(), plan.roster.systems
    meter = PilotMeter(machine, {one.name: Measured() for one in systems})
    player = BlockPlayer.from_plan(plan, machine, load=meter.load)
    missing = player.missing_blocks(run)
    if not missing:
        raise UserError('--pilot: all dialogues of the run are there already')
    blocks = covering_blocks(player, missing)
    begun = perf_counter()
    dialogues = play_blocks(replace(player, respond=meter.respond), blocks)
    play_seconds = perf_counter() - begun
    player.cache.clear()
    if not dialogues or not meter.spoke:
        why = next(iter(player.cache.problems.values()), 'no dialogue could be played')
        raise UserError(f'--pilot: nothing could be measured: {why}')
    shards = [shard for block in missing.values() for shard in block]
    n_dialogues = sum(shard.n_dialogues for shard in shards)
    replies, judged = replies_left(plan, shards)
    forecasts = meter.forecasts(replies, play_seconds)
    score_seconds = None
    if scorer is not None:
        once, each = time_scoring(plan, dialogues, scorer, meter)
        score_seconds = once + each * n_dialogues
    return Forecast(
        plan.protocol.name,
        forecast_settings(plan.protocol),
        n_dialogues,
        n_dialogues * plan.protocol.num_turns,
        judged,
        score_seconds,
        *peak_bytes(),
        forecasts,
        len(dialogues),
        perf_counter() - start,
        total_spending(one.spent for one in meter.measured.values())['cost'],
        tuple(uncounted(player, forecasts)),
    )


def play_blocks(player: BlockPlayer, blocks: Sequence[Block]) -> list[Dialogue]:
    """
    Return the dialogues of these blocks.
    """
    dialogues: list[Dialogue] = []
    n_dialogues = sum(block.n_dialogues for block in blocks)
    with bar_of('pilot', n_dialogues) as bar:
        for block in blocks:
            for played in player.play_block(block).values():
                dialogues += played
            bar.update(block.n_dialogues)
    return dialogues


def covering_blocks(player: BlockPlayer, work: Iterable[Block]) -> list[Block]:
    """
    Return few of these blocks, rather the larger ones, in which every system speaks.
    """
    speakers = {block: set(player.speakers(block)) for block in work}
    silent = set().union(*speakers.values())
    blocks: list[Block] = []
    while silent:
        best = max(speakers, key=lambda b: (len(speakers[b] & silent), b.n_dialogues))
        blocks.append(best)
        silent -= speakers[best]
    return blocks


def replies_left(plan: Plan, shards: Iterable[ShardKey]) -> tuple[Counter[str], int]:
    """
    Return how many replies each system gives in these shards, and how many of all
    replies are judged: both speakers', or the first one's.
    """
    replies = Counter[str]()
    judged = 0
    for shard in shards:
        pair = plan.by_id[shard.pairing_id]
        for opener in plan.openers[shard.start : shard.stop]:
            turns = range(len(opener.utterances), plan.protocol.num_turns)
            by_first = sum(i % 2 == 0 for i in turns)
            replies[pair.first] += by_first
            replies[pair.second] += len(turns) - by_first
            judged += by_first if plan.manifest.first_only else len(turns)
    return replies, judged


def time_scoring(
    plan: Plan, dialogues: Sequence[Dialogue], chosen: ChosenScorer, meter: PilotMeter
) -> tuple[float, float]:
    """
    Return the seconds that it takes to load the scorer, and to score a dialogue.
    """
    start = perf_counter()
    scorer = chosen.build(meter.machine)
    loaded = perf_counter()
    for some in chunks(dialogues, plan.shard_size):
        score_dialogues(some, scorer, plan.manifest.first_only)
    return loaded - start, (perf_counter() - loaded) / len(dialogues)


def uncounted(
    player: BlockPlayer, systems: Mapping[str, SystemForecast]
) -> Iterable[str]:
    """
    Yield what the forecast does not count.
    """
    for problem in player.cache.problems.values():
        yield f'not measured: {problem}'
    if sum(system.weights_bytes for system in systems.values()) > player.cache.budget:
        yield (
            'not counted: the systems do not fit into memory together, so that the '
            'run loads some of them several times'
        )
