"""
Loads the ParlAI agent of a system, or checks options as loading it would: in this
process where its files and its code are ours or trusted, else in a process of its own
(`own_process.py`), in which the system talks, too. What that says is text.

Systems that share their weights share such a process. Where a model file does not fit
the agent that is to read it, one line says why: torch's own error names every weight,
in kilobytes that do not say what is wrong.
"""

import itertools
import json
import os
import re
import traceback
import weakref
from collections.abc import Callable, Hashable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass, replace
from glob import escape, glob
from pathlib import Path
from typing import Any

from parlai.core.agents import Agent, create_agent
from parlai.core.loader import load_agent_module
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser

from parlai_ext.compat import prepare_parlai, quiet_parlai
from parlai_ext.core import (
    JsonDict,
    JsonObject,
    System,
    UserError,
    errors_about,
    errors_of_system,
    frozen,
    known_values,
    nearest,
    read_options,
    text_option,
)
from parlai_ext.core.records import record_from_json
from parlai_ext.engines import Machine, is_zoo_path, local_path
from parlai_ext.isolation.policy import (
    ASKING_AGENTS,
    CHECKED_AGENTS,
    agent_module,
    agent_names_like,
    is_trusted_file,
    nested_values,
    require_named,
    source_file,
)
from parlai_ext.systems.downloads import (
    fetch_system,
    fetched_file,
    needed_tokenizer,
)
from parlai_ext.systems.families import (
    CANDIDATES,
    check_reader,
    effective_options,
    family_of,
    fresh_candidates,
    has_trusted_folder,
    innermost,
    layers,
    no_model,
)
from parlai_ext.systems.fetch.checked_downloads import ensure_checked_downloads
from parlai_ext.systems.own_process import OwnProcess, Server, answers_of_a_kind
from parlai_ext.systems.players import (
    Participant,
    Player,
    Reply,
    in_words,
    raise_out_of_memory,
    raise_unless_of_agent,
    reply_fields,
    reply_from_fields,
)
from parlai_ext.systems.safe.load import (
    bounded_cost,
    check_model_files,
    guarded,
    is_shipped,
)
from parlai_ext.systems.spending import Usages, spending_of

# files that are fetched here and may be read: candidates are text, and a model file is
# checked
SEEN_TO = 'model_file', CANDIDATES
# never datatype=train, which builds an optimizer
DEFAULTS = {'datatype': 'valid', 'interactive_mode': True}
# set in any case, where the agent has such an option: batch size 1, since some agents
# (gpt2.py:276) refuse others, while `batch_act` takes as many clones as one likes; and
# no vectors of candidates from a file
FIXED = {'batchsize': 1, 'fixed_candidate_vecs': 'replace'}


def load_system(system: System, machine: Machine | None = None) -> Player:
    """
    Build the system's agent; its options win over those in the model's own `.opt`.

    :raises UserError: naming the system and the option, when it cannot be built.
    """
    require_named(system)
    prepare_parlai()
    with errors_of_system(system.name), guarded(system.opt):
        return _build(system, machine or Machine())


def _build(system: System, machine: Machine) -> Player:
    """
    Build the agent of a system; every error names the system and an option.
    """
    given = _options_to_build(system)
    opt = parsed_options(system, given)
    all_options = {**opt, **effective_options(system), **given}
    if not (model := all_options.get('model')):
        raise no_model(given.get('model_file'))
    if getattr(load_agent_module(model), 'is_scorer', False):
        # whose options may name code that no roster or model file may bring in
        raise UserError(
            f'model: {model} is a scorer: it judges utterances and does not talk'
        )
    family_of(all_options).check(all_options)
    set_our_options(opt, given, machine)
    try:
        with (
            ensure_checked_downloads(),
            fresh_candidates(),
            quiet_parlai(),
            cost_of_model(all_options),
        ):
            agent = create_agent(opt, requireModelExists='model_file' in given)
    except BaseException as error:
        raise_unless_of_agent(error)
        words = in_words(error)
        raise_out_of_memory(error, given, f'while it was loaded ({words})')
        raise UserError(
            why_unfit(error, opt) or f'it cannot be built: {words}'
        ) from error
    return Player(system.name, agent)


def set_our_options(opt: Opt, given: JsonObject, machine: Machine) -> None:
    """
    Set, among the options that an agent has, those that this program and this machine
    decide.

    :param given: the roster's options.
    """
    ours = {key: given.get(key, value) for key, value in DEFAULTS.items()}
    ours |= FIXED | ({'no_cuda': True} if machine.no_cuda else {})
    if machine.fp16 is not None and 'fp16' not in given:
        ours['fp16'] = machine.fp16
    for key, value in ours.items():
        if key in opt:
            opt[key] = opt['override'][key] = value


def cost_of_model(opt: JsonObject) -> AbstractContextManager[None]:
    """
    Bound what the model of these options may cost while it is loaded; one without a
    file, and a trusted one, may cost anything.
    """
    file = str(opt.get('model_file') or '')
    if not file or is_trusted_file(file):
        return nullcontext()
    names = {value for _, value in nested_values(opt) if isinstance(value, str)}
    return bounded_cost(file, [Path(name) for name in names if os.path.isfile(name)])


def has_strange_code(system: System) -> bool:
    """
    True if a system's agent comes from outside the package and is not trusted. Nothing
    of it is imported.
    """
    prepare_parlai()
    for one in layers(system):
        agent = str(one.opt.get('model') or '')
        if agent and agent_module(agent) is None:
            source = source_file(agent.partition(':')[0])
            if source is None or not is_trusted_file(source):
                return True
    return False


def is_trusted(system: System) -> bool:
    """
    True if a system, or a judge, may be loaded in this process: its code is ours or
    trusted, and its files are shipped, trusted, or none.
    """
    return not has_strange_code(system) and all(
        has_trusted_files(one.opt) for one in layers(system)
    )


def has_trusted_files(opt: JsonObject) -> bool:
    """
    True if the files that a system's options name are shipped, trusted, or none.
    """
    module = agent_module(str(opt.get('model'))) or ''
    if ASKING_AGENTS.fullmatch(module):
        return True
    # any other agent may unpickle whatever an option names
    values = () if CHECKED_AGENTS.fullmatch(module) else nested_values(opt)
    named = (v for key, v in values if key not in SEEN_TO and _names_files(v))
    if not all(is_trusted_file(local_path(value)) for value in named):
        return False
    if opt.get('model_file'):
        file = fetched_file(str(opt['model_file']))
        # a name that is too long for the disk is no file, too
        parts = filter(os.path.isfile, (file, Path(f'{file}.opt')))
        if not all(is_trusted_file(part) or is_shipped(part) for part in parts):
            return False
    return has_trusted_folder(opt)


def _names_files(value: Any) -> bool:
    """
    True if a value names a file, a folder, files by how their names begin, or a file of
    the zoo.
    """
    if not isinstance(value, str) or '\0' in value:
        return False
    is_there = os.path.exists(value) or is_zoo_path(value)
    return is_there or bool(value and glob(f'{escape(value)}.*'))


def check_options(system: System, given: JsonObject | None) -> None:
    """
    Read the system's options as `load_system` does, without loading it.

    :param given: these options alone, for which no file is looked for.
    :raises SystemFailed: naming the option that cannot be meant.
    """
    prepare_parlai()
    with errors_of_system(system.name), guarded(system.opt):
        parsed_options(system, _options_to_build(system) if given is None else given)


def samples(system: System) -> bool:
    """
    True if the system draws its replies at random.

    Reads the model's own `.opt` where it is on disk; downloads nothing.
    """
    opt = effective_options(innermost(system))
    return family_of(opt).samples(opt)


def _options_to_build(system: System) -> JsonDict:
    """
    Return the roster's options as the agent needs them: with local paths, the files
    downloaded.
    """
    given: JsonDict = known_values(system.opt)
    if str(given.get('datatype', '')).startswith('train'):
        raise UserError('datatype: train builds an optimizer; leave it out')
    for key in SEEN_TO:
        if key in given:
            with errors_about(key), quiet_parlai():
                given[key] = str(fetched_file(str(given[key])))
    if 'model_file' in given:
        file, path = str(given['model_file']), str(system.opt['model_file'])
        if not os.path.isfile(file):
            where = f' ({path})' if is_zoo_path(path) else ''
            raise UserError(f'model_file: there is no file {file}{where}')
        check_model_files(file)
    elif 'model' not in given:
        raise UserError('model_file: not given, and no model either')
    opt = effective_options(system)
    check_reader(opt)
    tokenizer = needed_tokenizer(opt)
    if tokenizer and tokenizer.urls:
        with errors_about(tokenizer.option):
            tokenizer.fetch()
    if isinstance(given.get('stop'), list):  # which ParlAI would join with commas
        given['stop'] = json.dumps(given['stop'], ensure_ascii=False)
    return given


def parsed_options(system: System, given: JsonObject) -> Opt:
    """
    Return the options as `parlai` reads them, types checked, ``override`` filled.

    :raises UserError: ``option: what is wrong``.
    """
    parser = ParlaiParser(True, True)
    try:
        with quiet_parlai():
            return parser.parse_kwargs(**given)
    except (ImportError, AttributeError) as error:
        name = str(given.get('model') or effective_options(system).get('model'))
        hint = hint_at_agent(name, str(error.name).removesuffix('.py'))
        raise UserError(f'model: no agent {name!r}: {in_words(error)}{hint}') from error
    except KeyError as error:
        flags = parser._option_string_actions
        names = {flag.lstrip('-').replace('-', '_') for flag in flags}
        unknown = [key for key in given if key not in names]
        if not unknown:
            raise UserError(in_words(error)) from error
        hint = nearest(unknown[0], names)
        raise UserError(f'{unknown[0]}: unknown; {hint}') from error
    except (ValueError, TypeError) as error:
        # "argument --beam-size: invalid int value: 'x'"
        spelled, _, problem = str(error).removeprefix('argument ').partition(': ')
        if not problem:
            raise UserError(in_words(error)) from error
        key = spelled.split('/')[-1].lstrip('-').replace('-', '_')
        raise UserError(f'{key}: {problem}') from error
    except BaseException as error:  # of an agent's own `add_cmdline_args`
        raise_unless_of_agent(error)
        raise UserError(
            f'model: its options cannot be read: {in_words(error)}'
        ) from error


def hint_at_agent(name: str, missing: str) -> str:
    """
    Return what would be right in place of an agent that there is not; '' where nothing
    is near.

    :param missing: the module that was not found.
    """
    module, _, agent = name.replace('.py:', ':').partition(':')
    if module == 'agent':
        return f'; agent: is for --add-target alone: write {agent}'
    if missing.endswith(module) and os.path.isfile(f'{module}.py'):
        own = f'{module}:{agent or "CLASS"}'
        return f'; begin the command with PYTHONPATH=. and write {own}'
    hint = nearest(name, agent_names_like(name))
    return f'; {hint}' if hint.startswith('did') else ''


SHAPES = re.compile(
    r'size mismatch for (\S+): copying a param with shape torch\.Size\(\[(.*?)\]\) '
    r'from checkpoint, the shape in current model is torch\.Size\(\[(.*?)\]\)'
)
LOADING = ('load', 'load_state_dict')


def why_unfit(error: BaseException, opt: JsonObject) -> str | None:
    """
    Return which option does not fit the model file and how; `None` if the error has
    another cause.

    :param error: what building the agent raised.
    :param opt: what it was built with.
    """
    file, frames = opt.get('model_file'), traceback.extract_tb(error.__traceback__)
    if not file or not any(frame.name in LOADING for frame in frames):
        return None
    lines = [' '.join(line.split()) for line in str(error).split('\n\t')]
    # name, size in the file and size by the options, of each tensor
    wrong = SHAPES.findall(' '.join(lines))
    reasons = lines[-1][:100] or type(error).__name__
    if wrong:
        if len(wrong) == len(lines) - 1 and (dictionary := _dictionary(wrong, opt)):
            return dictionary
        name, there, here = (part.replace(', ', 'x') for part in wrong[0])
        sizes = f'{name} is {there}, the options make it {here}'
        reasons = f'{len(wrong)} of another size: {sizes}'
    own_options = Path(f'{file}.opt')
    own = Opt.load(str(own_options)).get('model') if own_options.is_file() else None
    agent = opt.get('model') or own
    kind, hint = f'{agent} with these options', ''
    if own not in (None, agent):
        kind, hint = str(agent), f'; its own options say {own!r}'
    return f'model_file: {file} is no {kind}: its weights do not fit ({reasons}){hint}'


def _dictionary(wrong: Sequence[tuple[str, str, str]], opt: JsonObject) -> str:
    """
    Return what is wrong with the dictionary, if only the number of words differs.
    """
    shapes = [(there.split(', '), here.split(', ')) for _, there, here in wrong]
    if any(there[1:] != here[1:] for there, here in shapes):
        return ''
    rows = {(there[0], here[0]) for there, here in shapes}
    if len(rows) != 1:
        return ''
    [(known, made)] = rows
    file = f'{opt["model_file"]}.dict'  # where there is one, ParlAI reads no other
    if not Path(file).is_file():
        file = text_option(opt, 'dict_file') or file
    if not Path(file).is_file():
        return f'dict_file: there is no file {file}; the model knows {known} words'
    return (
        f'dict_file: {file} makes {made} words with these options, '
        f'the weights in {opt["model_file"]} are for {known}'
    )


# --- in a process of its own, where it is not trusted ---------------------------------

SERVER = f'{__name__}:PlayersHere'


def load_on(machine: Machine, system: System) -> Player:
    """
    Load a system where and as the machine says: in a process of its own unless it is
    trusted.

    :raises UserError: as `load_system` does.
    """
    require_named(system)
    with errors_of_system(system.name):
        if is_trusted(system):
            return load_system(system, machine)
        fetch_system(system)
        inner = innermost(system).opt
        key = os.getpid(), family_of(inner).weights_key(inner)
        process = _living.get(key)
        if process is None or process.worker.ended:
            process = _process_for(system, machine.reply_timeout)
        if key[1] is not None:
            _living[key] = process
        facts = process.ask('load', system.name, dict(system.opt), asdict(machine))
        with answers_of_a_kind():
            known = record_from_json(PlayerFacts, facts)
            return DistantPlayer(system.name, process, known)


def check_options_apart(system: System, given: JsonObject | None = None) -> None:
    """
    Check a system's options, in a process of its own where code of others would run.

    :param given: these options alone; `None`: all, with their files, which are
        downloaded first, since such a process can reach no network.
    :raises UserError: naming the option that cannot be meant.
    """
    if not has_strange_code(system):
        check_options(system, given)
        return
    if given is None:
        fetch_system(system)
    given = given and dict(given)
    with errors_of_system(system.name), answers_of_a_kind():
        _process_for(system, None).ask('check', system.name, dict(system.opt), given)


def _process_for(system: System, patience: float | None) -> OwnProcess:
    return OwnProcess(f'system {system.name!r}', SERVER, system.opt, patience)


# processes that more systems may be loaded in, by this process and their weights
_living: weakref.WeakValueDictionary[tuple[int, Hashable], OwnProcess]
_living = weakref.WeakValueDictionary()


@dataclass(eq=False, repr=False, kw_only=True)
class DistantParticipant(Participant):
    """
    A system of another process in one dialogue.

    :param ask: asks the process something about this participant.
    :param number: what the process calls it.
    """

    ask: Callable[..., Any]
    number: int

    def hear(self, text: str, speaker: str) -> None:
        """
        Observe an utterance of the other speaker.
        """
        self.ask('call', self.number, 'hear', text, speaker)

    def take_as_own(self, text: str) -> None:
        """
        Observe a given utterance, such as an opener's, as this system's own.
        """
        self.ask('call', self.number, 'take_as_own', text)


@frozen
class PlayerFacts:
    """
    What is to be known of a system of another process.
    """

    batches: bool
    n_bytes: int
    longest_reply: int | None


class DistantPlayer(Player):
    """
    A system that is loaded in another process.
    """

    numbers = itertools.count()

    def __init__(self, name: str, process: OwnProcess, facts: PlayerFacts):
        super().__init__(name, _StandIn(process, name))
        self.process = process
        self.batches, self.n_bytes = facts.batches, facts.n_bytes
        self.longest_reply = facts.longest_reply

    def count_tokens(self, texts: Sequence[str]) -> list[int] | None:
        """
        Return how many tokens each text has, `None` where the agent cannot tell.
        """
        with answers_of_a_kind():
            counts = self._ask('call', 'count_tokens', list(texts))
            return None if counts is None else list(map(int, counts))

    def join(self) -> Participant:
        """
        Return a participant of a new dialogue, which shares the weights.
        """
        number = next(self.numbers)
        self._ask('join', number)
        one = DistantParticipant(self.agent, ask=self.process.ask, number=number)
        weakref.finalize(one, self.process.gone.append, number)
        return one

    def propose(self, participants: Sequence[Participant]) -> list[Reply]:
        """
        Return what every participant would say.
        """
        return self._replies('propose', participants)

    def observed(
        self, participants: Sequence[Participant], replies: Sequence[Reply]
    ) -> list[Reply]:
        """
        Let every participant observe its reply, and return the replies.
        """
        return self._replies('observed', participants, list(map(reply_fields, replies)))

    def states(self, participants: Sequence[Participant]) -> list[str]:
        """
        Return hashes of the states of the clones.
        """
        with answers_of_a_kind():
            return list(map(str, self._ask('states', _numbers(participants))))

    def _ask(self, do: str, *given: Any) -> Any:
        return self.process.ask(do, self.name, *given)

    def _replies(
        self, do: str, participants: Sequence[Participant], *given: Any
    ) -> list[Reply]:
        """
        Return what the process says for these participants.

        :raises SystemFailed: when the system cannot go on at all.
        """
        with errors_of_system(self.name), answers_of_a_kind():
            told = self._ask('replies', do, _numbers(participants), *given)
            replies = list(map(reply_from_fields, told))
            if len(replies) != len(participants):
                raise TypeError(f'{len(replies)} replies of {len(participants)}')
        for reply in replies:
            self.process.warn_if_refused(reply.reason or '')
        return replies


def _numbers(participants: Sequence[Participant]) -> list[int]:
    return [one.number for one in participants if isinstance(one, DistantParticipant)]


class _StandIn(Agent):
    """
    Stands for an agent of another process: it knows what that has used.
    """

    def __init__(self, process: OwnProcess, name: str):
        super().__init__({})
        self.process, self.name = process, name

    @property
    def usage(self) -> Any:
        """
        What the agent has counted.
        """
        return self.process.usage.get(self.name)


# --- in the other process -------------------------------------------------------------


class PlayersHere(Server):
    """
    The systems of this process, by name, and their participants, by number.
    """

    def __init__(self, *args: Any, **like: Any) -> None:
        super().__init__(*args, **like)
        self.acts: dict[int, Any] = {}

    def load(self, name: str, opt: Any, machine: JsonObject) -> JsonObject:
        """
        Load a system, and return what is to be known of it.
        """
        player = load_system(System(name, opt), read_options(Machine, machine))
        self.things[name] = player
        return vars(PlayerFacts(player.batches, player.n_bytes, player.longest_reply))

    def check(self, name: str, opt: Any, given: Any) -> None:
        """
        Check a system's options, or these of them.
        """
        check_options(System(name, opt), given)

    def join(self, name: str, number: int) -> None:
        """
        Begin a dialogue.
        """
        self.things[number] = self.things[name].join()

    def call(self, name: str | int, do: str, *given: Any) -> Any:
        """
        Return what a method of a player, or of a participant, returns.
        """
        return getattr(self.things[name], do)(*given)

    def replies(
        self, name: str, do: str, numbers: list[int], *given: list[dict[str, Any]]
    ) -> list[JsonObject]:
        """
        Return the replies of participants, by a method of `Player`.

        :param given: the replies, to one that is given them.
        """
        replies = [
            [
                replace(reply, act=self.acts.pop(n, None) or reply.act)
                for n, reply in zip(numbers, map(reply_from_fields, some), strict=True)
            ]
            for some in given
        ]
        spoken = self.call(name, do, self._at(numbers), *replies)
        self.acts = {n: one.act for n, one in zip(numbers, spoken, strict=True)}
        return list(map(reply_fields, spoken))

    def states(self, name: str, numbers: list[int]) -> list[str]:
        """
        Return hashes of the states of participants.
        """
        return self.call(name, 'states', self._at(numbers))

    def _at(self, numbers: list[int]) -> list[Participant]:
        return [self.things[number] for number in numbers]

    def usage(self) -> Usages:
        """
        Return what each system has counted; systems of one model count apart.
        """
        return {
            name: spending_of(one.agent)
            for name, one in self.things.items()
            if isinstance(name, str)
        }
