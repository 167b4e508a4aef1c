"""
The models that scorers ask for by name, loaded on demand and kept for the process.

    smollm2-135m-q4, minilm, …                a model of the catalogue
    hf:REPOSITORY[@REVISION], a folder        a Hugging Face model
    zoo:…, a model file                       a ParlAI model (likelihood, classifier)
    http://…/v1,remote_model=NAME             an endpoint (chat)
    glove-50d, a text file                    word vectors

Importing this module is cheap: torch is imported with the first model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from parlai_ext.core.errors import SystemFailed, UserError, nearest
from parlai_ext.core.nouns import LanguageModel, System
from parlai_ext.core.options import options_from_opt
from parlai_ext.engines.machine import Machine, data_in
from parlai_ext.files.model_cards import check_kind, is_model_name, model_names

if TYPE_CHECKING:
    from parlai_ext.models.chat import AgentChat as ChatModel
    from parlai_ext.models.encoders import FirstTokenEncoder as PairEncoder
    from parlai_ext.models.encoders import MaskedLanguageModel as MaskedLM
    from parlai_ext.models.encoders import MeanPooling as Embedder
    from parlai_ext.models.encoders import SequenceClassifier as Classifier
    from parlai_ext.models.encoders import SequenceRegressor as Regressor
    from parlai_ext.models.encoders import WordClassifier as TokenClassifier
    from parlai_ext.models.word_vectors import WordVectorTable as WordVectors
else:  # the classes load torch
    ChatModel = PairEncoder = Embedder = Classifier = Regressor = Any
    MaskedLM = TokenClassifier = WordVectors = Any

T = TypeVar('T')
CONTEXT = 256  # tokens of a context, for how many go through a model together
PLACES = ('model', 'hf_model', 'hf_revision', 'hf_device')
EXAMPLES = 'a folder or hf:REPOSITORY[@REVISION] would do'
_LOADED: dict[tuple[str, str, Machine], Any] = {}


def _forget_connections() -> None:
    for key, model in list(_LOADED.items()):
        if key[0] == 'chat' or hasattr(type(model), 'ask'):
            del _LOADED[key]


# two processes must not talk over one connection
os.register_at_fork(after_in_child=_forget_connections)


def _load_likelihood(kind: str, name: str, machine: Machine) -> Any:
    from parlai_ext.models.parlai_likelihood import load_judge

    return load_judge(
        name,
        no_cuda=machine.no_cuda,
        fp16=machine.fp16,
        tokens=machine.batchsize * CONTEXT,
    )


def _load_encoder(kind: str, name: str, machine: Machine) -> Any:
    from parlai_ext.models.encoder_kinds import load_encoder
    from parlai_ext.systems.hub import PREFIX, ModelOptions
    from parlai_ext.systems.pretrained import chosen_device, fetch_named_weights

    system = model_system(kind, name)
    try:
        if 'model_file' in system.opt:
            from parlai_ext.models.parlai_classifier import ParlaiClassifier

            return ParlaiClassifier(system, machine)
        opt = {**system.opt, 'no_cuda': machine.no_cuda}
        options = options_from_opt(ModelOptions, opt, PREFIX)
        folder = fetch_named_weights(options).parent
        tokens = machine.batchsize * CONTEXT
        return load_encoder(kind, folder, chosen_device(options), tokens)
    except UserError as error:
        raise UserError(f'{kind} {name}: {error}') from None


def _load_word_vectors(kind: str, name: str, machine: Machine) -> Any:
    from parlai_ext.models import word_vectors
    from parlai_ext.systems import hub

    opt = model_system(kind, name).opt
    if 'model_file' in opt:
        return word_vectors.read_text_vectors(Path(opt['model_file']))
    weights = hub.fetch_weights(str(opt['hf_model']), None)
    return word_vectors.read_vectors(weights.parent)


def _load_chat(kind: str, name: str, machine: Machine) -> Any:
    from parlai_ext.models.chat import AgentChat

    try:
        return AgentChat(model_system(kind, name), machine)
    except SystemFailed as error:
        raise UserError(f'chat {name}: {error}') from error


class Kind(Generic[T]):
    """
    A kind of model: an attribute of `Models` that gives a model of its kind by name.

    :param load: loads a model of a kind by its name for a machine.
    """

    def __init__(self, load: Callable[[str, str, Machine], T] = _load_encoder):
        self.load = load

    def __set_name__(self, owner: type, name: str) -> None:
        self.name = name

    def __get__(self, models: Models, owner: object = None) -> Callable[[str], T]:
        return partial(models.model, self.name)


class Models:
    """
    What a scorer is given to ask for models, as ``models.embedder(name)``; they are
    loaded once. Each kind is declared once: its name, the class that says what a model
    of it gives, and how it is loaded.
    """

    likelihood = Kind[LanguageModel](_load_likelihood)
    embedder = Kind[Embedder]()
    classifier = Kind[Classifier]()
    masked_lm = Kind[MaskedLM]()
    token_classifier = Kind[TokenClassifier]()
    regressor = Kind[Regressor]()
    pair_encoder = Kind[PairEncoder]()
    chat = Kind[ChatModel](_load_chat)
    word_vectors = Kind[WordVectors](_load_word_vectors)

    def model(self, kind: str, name: str) -> Any:
        """
        Return a model of a kind.
        """
        raise NotImplementedError


def _load(kind: str, name: str, machine: Machine) -> Any:
    """
    Load a model: in a process of its own unless it is trusted.
    """
    from parlai_ext.systems.parlai_agents import is_trusted

    load = vars(Models)[kind].load
    try:
        system = model_system(kind, name)
        trusted = is_trusted(system)
    except UserError:  # which says why; or a kind of model has names of its own
        trusted = True
    if trusted:
        return load(kind, name, machine)
    from parlai_ext.models.judge_process import load_apart

    return load_apart(load, kind, name, system, machine)


class AskedModels(Models):
    """
    The models of one scorer: what it asked for, by kind and name.

    `complete` is set with the signature; after that no other model may be asked for.
    """

    def __init__(self, scorer: str, models: Models | None):
        self.scorer = scorer
        self.source = models
        self.loaded: dict[tuple[str, str], Any] = {}
        self.complete = False

    def commit(self, name: str) -> str | None:
        """
        Return the commit of a loaded model's files; `None` where they are from no hub.
        """
        commit = getattr(self.source, 'commit', None)  # a stand-in may have none
        return None if commit is None else commit(name)

    def model(self, kind: str, name: str) -> Any:
        """
        Return a model, loaded on first use; after the signature is made no other may be
        asked for.
        """
        if (kind, name) not in self.loaded:
            if self.source is None:
                raise UserError(f'scorer {self.scorer}: it was given no models')
            if self.complete:
                raise UserError(
                    f'scorer {self.scorer} asks for the {kind} {name!r} after its '
                    'signature was made; an option with model=, or load_models, '
                    'asks in time'
                )
            self.loaded[kind, name] = getattr(self.source, kind)(name)
        return self.loaded[kind, name]

    @contextmanager
    def changed(self, **attributes: Any) -> Iterator[bool]:
        """
        Set attributes of the models that have them, for a while: a ``watch``, which is
        told of what they finish (a shard takes minutes through a large one), or
        ``asks_anew``, so that they are asked even where an earlier reply is kept.
        Yields true if any model has one.
        """
        former = [
            (model, name, getattr(model, name))
            for model in self.loaded.values()
            for name in attributes
            if hasattr(model, name)
        ]
        for model, name, _ in former:
            setattr(model, name, attributes[name])
        try:
            yield bool(former)
        finally:
            for model, name, value in former:
                setattr(model, name, value)


class ModelHandle(Models):
    """
    Loads models for one machine; equal names give the same model, in every scorer.
    """

    def __init__(self, machine: Machine | None = None):
        self.machine = machine or Machine()

    def model(self, kind: str, name: str) -> Any:
        """
        Return a model of a kind, loaded on first use.
        """
        key = (kind, name, self.machine)
        if key not in _LOADED:
            with data_in(self.machine.datapath):
                _LOADED[key] = _load(kind, name, self.machine)
        return _LOADED[key]

    def commit(self, name: str) -> str | None:
        """
        Return the commit of the files of a model that was loaded from the hub; `None`
        for any other.
        """
        from parlai_ext.models.judge_names import judge_system
        from parlai_ext.systems.families import HubFamily, family_of

        opt = judge_system(name).opt
        family = family_of(opt)
        return family.commit(opt) if isinstance(family, HubFamily) else None

    def signatures(self) -> dict[str, str]:
        """
        Return the signature of each model that this process has loaded for the machine,
        by kind and name.
        """
        return {
            f'{kind} {name}': str(model.signature)
            for (kind, name, machine), model in _LOADED.items()
            if machine == self.machine and hasattr(model, 'signature')
        }


def model_system(kind: str, name: str) -> System:
    """
    Return the system that a model's name means.

    :raises UserError: for a name that no model of this kind can have.
    """
    from parlai_ext.models.judge_names import judge_system
    from parlai_ext.systems import hub
    from parlai_ext.systems.fetch.data_folder import is_zoo_path

    system = judge_system(name)
    model = str(system.opt.get('hf_model'))
    if is_model_name(model):
        check_kind(model, kind)
    path = system.opt.get('model_file')
    hint = nearest(name, model_names(kind))
    if kind == 'likelihood':
        if path == name and hint.startswith('did') and not Path(name).exists():
            raise UserError(f'no model and no file {name!r}; {hint}')
        return system
    if kind == 'word_vectors' and path is not None and Path(path).is_file():
        return system
    if kind == 'classifier' and path and (is_zoo_path(path) or Path(path).is_file()):
        opt = {'model': 'transformer/classifier', 'model_file': path}
        return System(system.name, opt)
    if path is not None:
        if Path(path).is_dir():
            raise UserError(f'{kind} {name}: there is no config.json in this folder')
        raise UserError(f'no {kind} {name!r}; {hint}; {EXAMPLES}')
    if kind != 'chat':
        if system.opt.get('model') != hub.AGENT:
            raise UserError(f'{kind} {name}: no Hugging Face model; {EXAMPLES}')
        for key in system.opt:
            if key not in PLACES:
                hint = nearest(key, PLACES[1:])
                raise UserError(f'{kind} {name}: {key}: no option of it; {hint}')
    return system


def is_here(kind: str, name: str) -> bool:
    """
    True if a model is on this machine, so that loading it asks no network.

    :raises UserError: for a name that no model of this kind can have.
    """
    from parlai_ext.systems.families import family_of
    from parlai_ext.systems.family import PRESENT

    system = model_system(kind, name)
    status, _ = family_of(system.opt).locate_weights(system)
    return status == PRESENT


def check_model(kind: str, name: str) -> None:
    """
    Refuse a model that cannot be had; it is fetched and not loaded.

    :raises UserError: when it is not there or cannot be downloaded.
    """
    from parlai_ext.systems.downloads import fetch_system
    from parlai_ext.systems.resolve import DOWNLOAD, MISSING, resolve

    system = model_system(kind, name)
    resolution = resolve(system)
    if resolution.status == MISSING:
        raise SystemFailed(system.name, resolution.reason or 'it is missing')
    if resolution.status == DOWNLOAD:
        fetch_system(system)
