"""
The models that scorers ask for by name, loaded on demand and kept for the process.

    smollm2-135m-q4, minilm, …                a model of the catalogue
    hf:REPOSITORY[@REVISION], a folder        a Hugging Face model
    zoo:…, a model file                       a ParlAI model (likelihood, classifier)
    http://…/v1,remote_model=NAME             an endpoint (chat)
    glove-50d, a text file                    word vectors
    agent:CLASS[,key=value…]                  as for --add-target, for judges
    FILE.yaml, FILE.json                      `name` and `opt` of a system, for judges

Options may follow after commas (``,k=v…``) where a model has some. Importing this
module is cheap: torch is imported with the first model.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from pkgutil import resolve_name
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from parlai_ext.core import (
    LanguageModel,
    System,
    SystemFailed,
    UserError,
    errors_about,
    nearest,
    options_from_opt,
    require_known,
    text_option,
)
from parlai_ext.engines import Machine, data_in, is_zoo_path
from parlai_ext.files import check_kind, is_model_name, model_names, parse_target
from parlai_ext.systems import hub

HF, AGENT = 'hf:', 'agent:'
ENDPOINTS = ('http://', 'https://')


def judge_system(name: str) -> System:
    """
    Return the judge of this name as a system.

    :raises UserError: if its options or its file are wrong.
    """
    head, comma, options = name.partition(',')
    if head.startswith(HF) or is_model_name(head):
        repo, at, revision = head.removeprefix(HF).partition('@')
        pinned = f',hf_revision={revision}' if at else ''
        spec = f'judge={AGENT}{hub.AGENT},hf_model={repo}{pinned}{comma}{options}'
    elif head.startswith((AGENT, *ENDPOINTS)):
        spec = f'judge={name}'
    elif name.endswith(('.yaml', '.yml', '.json')) and os.path.isfile(name):
        spec = name
    elif os.path.isfile(os.path.join(name, 'config.json')):
        return System('judge', {'model': hub.AGENT, 'hf_model': name})
    else:
        return System('judge', {'model_file': name})
    try:
        return System('judge', parse_target(spec)[0].opt)
    except UserError as error:
        problem = str(error).replace(f'--add-target {spec}', f'judge {name}')
        raise UserError(problem) from None


# --- models by name -------------------------------------------------------------------

if TYPE_CHECKING:  # the classes load torch
    from parlai_ext.models.chat import AgentChat
    from parlai_ext.models.encoders import (
        FirstTokenEncoder,
        MaskedLanguageModel,
        MeanPooling,
        SequenceClassifier,
        SequenceRegressor,
        WordClassifier,
    )
    from parlai_ext.models.word_vectors import WordVectorTable

T = TypeVar('T')
PLACES = ('model', 'hf_model', 'hf_revision', 'hf_device')
EXAMPLES = 'a folder or hf:REPOSITORY[@REVISION] would do'
_LOADED: dict[tuple[str, str, Machine], Any] = {}


def _forget_connections() -> None:
    for key, model in list(_LOADED.items()):
        if key[0] == 'chat' or hasattr(type(model), 'ask'):
            del _LOADED[key]


# two processes must not talk over one connection
os.register_at_fork(after_in_child=_forget_connections)


class Kind(Generic[T]):
    """
    A kind of model: an attribute of `Models` that gives a model of its kind by name.

    :param model: the class of `encoders` that reads the weights, for its loader.
    :param loader: ``module:function`` (or a class) of this folder, imported with the
        first model: called with kind, name, the system that the name means, and the
        machine.
    """

    def __init__(self, model: str = '', loader: str = 'handle:load_encoder'):
        self.model = model
        self.loader = f'parlai_ext.models.{loader}'

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

    likelihood: Kind[LanguageModel] = Kind(loader='handle:load_judge')
    embedder: Kind[MeanPooling] = Kind('MeanPooling')
    classifier: Kind[SequenceClassifier] = Kind('SequenceClassifier')
    masked_lm: Kind[MaskedLanguageModel] = Kind('MaskedLanguageModel')
    token_classifier: Kind[WordClassifier] = Kind('WordClassifier')
    regressor: Kind[SequenceRegressor] = Kind('SequenceRegressor')
    pair_encoder: Kind[FirstTokenEncoder] = Kind('FirstTokenEncoder')
    chat: Kind[AgentChat] = Kind(loader='chat:AgentChat')
    word_vectors: Kind[WordVectorTable] = Kind(loader='word_vectors:load_vectors')

    def model(self, kind: str, name: str) -> Any:
        """
        Return a model of a kind.
        """
        raise NotImplementedError


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
        from parlai_ext.systems.families import HubFamily, family_of

        if not isinstance(self.source, ModelHandle):  # a stand-in
            return None
        opt = judge_system(name).opt
        family = family_of(opt)
        return family.commit(opt) if isinstance(family, HubFamily) else None

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
    def changed(self, **attributes: Any) -> Iterator[None]:
        """
        Set attributes of the models that have them, for a while: a ``watch``, which is
        told of what they finish (a shard takes minutes through a large one), or
        ``asks_anew``, so that they are asked even where an earlier reply is kept.
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
            yield
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
        Return a model of a kind, loaded on first use: in a process of its own unless it
        is trusted.
        """
        key = (kind, name, self.machine)
        if key in _LOADED:
            return _LOADED[key]
        from parlai_ext.systems.parlai_agents import is_trusted

        with data_in(self.machine.datapath):
            loader = vars(Models)[kind].loader
            system = model_system(kind, name)
            try:
                trusted = is_trusted(system)
            except UserError:  # its process says why
                trusted = False
            if trusted:
                load = resolve_name(loader)
            else:
                from parlai_ext.models.judge_process import DistantModel

                load = partial(DistantModel, loader)
            _LOADED[key] = load(kind, name, system, self.machine)
        return _LOADED[key]

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


def load_judge(kind: str, name: str, system: System, machine: Machine) -> LanguageModel:
    """
    Return a Hugging Face model or a ParlAI encoder-decoder as a `LanguageModel`; only
    the code of its own kind is imported.
    """
    from parlai_ext.systems.families import HubFamily, family_of

    family = family_of(system.opt)
    if isinstance(family, HubFamily):
        from parlai_ext.models.hf_likelihood import load_hf_judge

        return load_hf_judge(system, family, machine)
    from parlai_ext.models.parlai_models import load_parlai_judge

    return load_parlai_judge(name, system, machine)


def load_encoder(kind: str, name: str, system: System, machine: Machine) -> Any:
    """
    Return an encoder, or a classifier of another kind.
    """
    from parlai_ext.models import encoders
    from parlai_ext.systems.catalogue.conversions import MODEL_TYPE
    from parlai_ext.systems.pretrained import chosen_device, fetch_named_weights

    with errors_about(f'{kind} {name}'):
        if 'model_file' in system.opt:
            from parlai_ext.models.parlai_models import ParlaiClassifier

            return ParlaiClassifier(system, machine)
        opt = {**system.opt, 'no_cuda': machine.no_cuda}
        options = options_from_opt(hub.ModelOptions, opt)
        folder = fetch_named_weights(options).parent
        device = chosen_device(options)
        found = hub.read_config(folder).get('model_type')
        if (kind, found) == ('classifier', MODEL_TYPE):
            return encoders.WordBiLSTM(folder, device)
        model = vars(encoders)[vars(Models)[kind].model]
        return model(folder, device, machine.tokens)


def model_system(kind: str, name: str) -> System:
    """
    Return the system that a model's name means.

    :raises UserError: for a name that no model of this kind can have.
    """
    system = judge_system(name)
    model = str(system.opt.get('hf_model'))
    path = text_option(system.opt, 'model_file')
    if is_model_name(model):
        check_kind(model, kind)
    if path is None:
        if kind in ('likelihood', 'chat'):
            return system
        # no encoder is another agent, or has options besides where its files are
        if system.opt.get('model') != hub.AGENT:
            raise UserError(f'{kind} {name}: no Hugging Face model; {EXAMPLES}')
        for key in system.opt:
            require_known(key, PLACES, f'{kind} {name}: {key}: no option of it')
        return system
    is_file, is_zoo = os.path.isfile(path), is_zoo_path(path)
    if kind == 'classifier' and (is_file or is_zoo):
        opt = {'model': 'transformer/classifier', 'model_file': path}
        return System(system.name, opt)
    if is_file and kind == 'word_vectors' or is_zoo and kind == 'likelihood':
        return system
    hint = nearest(name, model_names(kind))
    if kind != 'likelihood':
        if os.path.isdir(path):
            raise UserError(f'{kind} {name}: there is no config.json in this folder')
        raise UserError(f'no {kind} {name!r}; {hint}; {EXAMPLES}')
    if path == name and hint.startswith('did') and not Path(name).exists():
        raise UserError(f'no model and no file {name!r}; {hint}')
    return system


def is_here(kind: str, name: str) -> bool:
    """
    True if a model is on this machine, so that loading it asks no network.

    :raises UserError: for a name that no model of this kind can have.
    """
    from parlai_ext.systems.families import family_of
    from parlai_ext.systems.family import PRESENT

    system = model_system(kind, name)
    status, _ = family_of(system.opt).locate_weights(system.opt)
    return status == PRESENT


def check_model(kind: str, name: str) -> None:
    """
    Refuse a model that cannot be had; it is fetched and not loaded.

    :raises UserError: when it is not there or cannot be downloaded.
    """
    from parlai_ext.systems.downloads import fetch_system
    from parlai_ext.systems.identity import DOWNLOAD, MISSING, resolve

    system = model_system(kind, name)
    resolution = resolve(system)
    if resolution.status == MISSING:
        raise SystemFailed(system.name, resolution.reason or 'it is missing')
    if resolution.status == DOWNLOAD:
        fetch_system(system)
