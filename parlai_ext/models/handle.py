"""
The models that scorers ask for by name, loaded on demand and kept for the process.

    smollm2-135m-q4, minilm, …                a model of the catalogue
    hf:REPOSITORY[@REVISION], a folder        a Hugging Face model
    zoo:…, a model file                       a ParlAI model (likelihood)
    http://…/v1,remote_model=NAME             an endpoint (chat)
    glove-50d, a text file                    word vectors

Importing this module is cheap: torch is imported with the first model.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import SystemFailed, UserError, nearest
from parlai_ext.core.machine import Machine
from parlai_ext.core.nouns import System
from parlai_ext.core.options import options_from_opt
from parlai_ext.files.model_cards import check_kind, is_model_name, model_names

CONTEXT = 256  # tokens of a context, for how many go through a model together
PLACES = ('model', 'hf_model', 'hf_revision', 'hf_device')
EXAMPLES = 'a folder or hf:REPOSITORY[@REVISION] would do'
_LOADED: dict[tuple[str, str, Machine], Any] = {}


class ModelHandle:
    """
    Loads models for one machine; equal names give the same model, in every scorer.
    """

    def __init__(self, machine: Machine | None = None):
        self.machine = machine or Machine()

    def likelihood(self, name: str) -> Any:
        """
        Return a language model that says how likely continuations are.
        """
        return self._loaded('likelihood', name, self._load_likelihood)

    def embedder(self, name: str) -> Any:
        """
        Return a sentence encoder.
        """
        return self._loaded('embedder', name, partial(self._load_encoder, 'embedder'))

    def classifier(self, name: str) -> Any:
        """
        Return a text classifier.
        """
        load = partial(self._load_encoder, 'classifier')
        return self._loaded('classifier', name, load)

    def masked_lm(self, name: str) -> Any:
        """
        Return a masked language model.
        """
        return self._loaded('masked_lm', name, partial(self._load_encoder, 'masked_lm'))

    def token_classifier(self, name: str) -> Any:
        """
        Return a classifier of the words of a text.
        """
        load = partial(self._load_encoder, 'token_classifier')
        return self._loaded('token_classifier', name, load)

    def regressor(self, name: str) -> Any:
        """
        Return a model that gives one number for a text or a pair of texts.
        """
        return self._loaded('regressor', name, partial(self._load_encoder, 'regressor'))

    def pair_encoder(self, name: str) -> Any:
        """
        Return an encoder of a context and a response.
        """
        load = partial(self._load_encoder, 'pair_encoder')
        return self._loaded('pair_encoder', name, load)

    def chat(self, name: str) -> Any:
        """
        Return a chat model.
        """
        return self._loaded('chat', name, self._load_chat)

    def word_vectors(self, name: str) -> Any:
        """
        Return vectors of words.
        """
        return self._loaded('word_vectors', name, self._load_word_vectors)

    def commit(self, name: str) -> str | None:
        """
        Return the commit of the files of a model that was loaded from the hub; `None`
        for any other.
        """
        from parlai_ext.models.judge_names import judge_system
        from parlai_ext.systems.families import family_of
        from parlai_ext.systems.family_hugging_face import HubFamily

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

    def _loaded(self, kind: str, name: str, load: Callable[[str], Any]) -> Any:
        key = (kind, name, self.machine)
        if key not in _LOADED:
            _LOADED[key] = load(name)
        return _LOADED[key]

    def _load_likelihood(self, name: str) -> Any:
        """
        Load a language model by its name in the catalogue, or as a judge may be named.
        """
        from parlai_ext.models.parlai_likelihood import load_judge

        return load_judge(
            name,
            datapath=self.machine.datapath,
            no_cuda=self.machine.no_cuda,
            fp16=self.machine.fp16,
            tokens=self.machine.batchsize * CONTEXT,
        )

    def _load_encoder(self, kind: str, name: str) -> Any:
        """
        Load a Hugging Face encoder from a folder or the hub.
        """
        from parlai_ext.models.encoder_kinds import ENCODERS
        from parlai_ext.models.word_bilstm import WordBiLSTM, is_word_bilstm
        from parlai_ext.systems import hub
        from parlai_ext.systems.pretrained import PREFIX, ModelOptions, chosen_device

        system = model_system(kind, name)
        make, loader = ENCODERS[kind]
        try:
            opt = {**system.opt, 'no_cuda': self.machine.no_cuda}
            options = options_from_opt(ModelOptions, opt, PREFIX)
            repository = hub.checked_repository(options.model)
            folder = hub.fetch_weights(
                repository, options.revision, self.machine.datapath
            ).parent
            if kind == 'classifier' and is_word_bilstm(folder):
                return WordBiLSTM(folder, chosen_device(options))
            return make(
                folder, loader, chosen_device(options), self.machine.batchsize * CONTEXT
            )
        except UserError as error:
            raise UserError(f'{kind} {name}: {error}') from None

    def _load_word_vectors(self, name: str) -> Any:
        """
        Load word vectors of the catalogue, or a text file of them.
        """
        from parlai_ext.models import word_vectors
        from parlai_ext.systems import hub

        system = model_system('word_vectors', name)
        path = system.opt.get('model_file')
        if path is not None:
            return word_vectors.read_text_vectors(Path(path))
        model = str(system.opt['hf_model'])
        weights = hub.fetch_weights(model, None, self.machine.datapath)
        return word_vectors.read_vectors(weights.parent)

    def _load_chat(self, name: str) -> Any:
        from parlai_ext.models.chat import AgentChat

        try:
            return AgentChat(model_system('chat', name), self.machine)
        except SystemFailed as error:
            raise UserError(f'chat {name}: {error}') from error


def model_system(kind: str, name: str) -> System:
    """
    Return the system that a model's name means.

    :raises UserError: for a name that no model of this kind can have.
    """
    from parlai_ext.models.judge_names import judge_system
    from parlai_ext.systems import hub

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


def is_here(kind: str, name: str, datapath: str | None = None) -> bool:
    """
    True if a model is on this machine, so that loading it asks no network.

    :raises UserError: for a name that no model of this kind can have.
    """
    from parlai_ext.systems.families import family_of
    from parlai_ext.systems.family import PRESENT

    system = model_system(kind, name)
    status, _ = family_of(system.opt).locate_weights(system, datapath)
    return status == PRESENT


def check_model(kind: str, name: str, datapath: str | None = None) -> None:
    """
    Refuse a model that cannot be had; it is fetched and not loaded.

    :raises UserError: when it is not there or cannot be downloaded.
    """
    from parlai_ext.systems.downloads import download_systems
    from parlai_ext.systems.resolve import DOWNLOAD, MISSING, resolve

    system = model_system(kind, name)
    resolution = resolve(system, datapath)
    if resolution.status == MISSING:
        raise SystemFailed(system.name, resolution.reason or 'it is missing')
    if resolution.status == DOWNLOAD:
        for download in download_systems([system], datapath):
            if download.reason:
                raise UserError(download.reason)
