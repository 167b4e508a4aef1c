"""
Systems whose weights come from the Hugging Face hub or from a folder in its format:
any model as `ext:hf`, and ParlAI's own agents for DialoGPT and GPT-2.
"""

from collections.abc import Hashable
from difflib import get_close_matches
from pathlib import Path
from typing import ClassVar

from parlai_ext.compat.agents import HUB_REPOSITORIES
from parlai_ext.core.errors import UserError
from parlai_ext.core.nouns import System
from parlai_ext.files.model_cards import is_model_name, model_card
from parlai_ext.files.option_files import sha256
from parlai_ext.isolation.names import Options
from parlai_ext.systems import hub
from parlai_ext.systems.chat.conversation import other_contexts_hash
from parlai_ext.systems.family import DOWNLOAD, PRESENT, Family, Record

BITS = {'4bit': 4, '8bit': 8, 'float16': 16, 'bfloat16': 16, 'float32': 32}
BITS |= {'float64': 64}
# the options of `ModelOptions`, which is not imported here because it loads torch
LOADING_OPTIONS = (
    *('hf_model', 'hf_revision', 'hf_dtype', 'hf_device', 'no_cuda'),
    *('hf_device_map', 'hf_quantisation', 'hf_trust_code'),
)


class HubFamily(Family):
    """
    Systems whose weights are in a repository of the hub, or in a folder of its format.
    """

    weights_options = ('model_file', 'hf_model', 'model_name', 'gpt2_size')
    # whether `load_hf_judge` can read such a model as a judge
    can_judge: ClassVar[bool] = True
    # the most tokens of a context that its agent reads, whatever the model could
    text_truncate: ClassVar[int | None] = None

    def repository(self, opt: Options) -> str:
        """
        Return the repository, or the folder, of a system's weights.

        :raises UserError: when the options name none.
        """
        raise NotImplementedError

    def revision(self, opt: Options) -> str | None:
        """
        Return the branch, tag or commit that the options ask for.
        """
        return None

    def commit(self, opt: Options) -> str | None:
        """
        Return the commit of a system's files in the hub's cache; `None` for a folder,
        a model of the catalogue, and files that are not there.
        """
        weights = self.cached_weights(opt)
        if weights is None or weights.parents[1].name != 'snapshots':
            return None
        return weights.parent.name

    def cached_weights(self, opt: Options, datapath: str | None = None) -> Path | None:
        """
        Return the weights in the hub's cache, in the folder, or in the folder of the
        catalogue's models; `None` without them.
        """
        datapath = opt.get('datapath') or datapath
        return hub.cached_weights(self.repository(opt), self.revision(opt), datapath)

    def locate_weights(self, system: System, datapath: str | None) -> tuple[str, str]:
        repo, revision = self.repository(system.opt), self.revision(system.opt)
        cached = self.cached_weights(system.opt, datapath)
        if cached:
            return PRESENT, str(cached)
        if is_model_name(repo):
            return DOWNLOAD, ' '.join(model_card(repo).addresses())
        if Path(repo).is_dir():
            raise UserError(f'hf_model: {repo} has no weights; see docs/systems.md')
        at = f' at {revision}' if revision else ''
        return DOWNLOAD, f'https://huggingface.co/{repo}{at}'

    def fetch_weights(
        self, system: System, record: Record, datapath: str | None
    ) -> list[str]:
        if self.cached_weights(system.opt, datapath) is not None:
            return []
        repo, revision = self.repository(system.opt), self.revision(system.opt)
        weights = hub.fetch_weights(repo, revision, datapath)
        if is_model_name(repo):
            return [repo]  # its card has its checksums
        address = f'https://huggingface.co/{repo}/resolve/{self.commit(system.opt)}'
        record(address, hub.weight_files(weights))
        return [repo]

    def weight_bytes(self, system: System, datapath: str | None = None) -> int:
        weights = self.cached_weights(system.opt, datapath)
        if weights is None:
            return 0
        return sum(path.stat().st_size for path in hub.weight_files(weights))

    def contents(
        self, system: System, opt: Options, datapath: str | None
    ) -> dict[str, str]:
        """
        Return the hash of every file that changes a reply. A folder that moves, or a
        snapshot in the cache with the same files, is the same model.
        """
        repo, revision = self.repository(system.opt), self.revision(system.opt)
        weights = hub.fetch_weights(repo, revision, datapath)
        folder = weights.parent
        code = ('*.py',) if hub.truthy(system.opt.get('hf_trust_code')) else ()
        files = [*hub.weight_files(weights), *hub.companions(folder, code)]
        hashes = {f'hub/{p.relative_to(folder).as_posix()}': sha256(p) for p in files}
        return hashes | other_contexts_hash(opt)

    def local_options(self, system: System) -> tuple[str, ...]:
        return ('model_name',)  # its files are hashed in its stead


class HuggingFace(HubFamily):
    """
    ``ext:hf``: any causal or sequence-to-sequence model of transformers.
    """

    agents = (hub.AGENT,)
    place_options = ('hf_model', 'hf_revision', 'hf_device', 'hf_device_map')

    def repository(self, opt: Options) -> str:
        if 'hf_model' not in opt:
            for near in get_close_matches('hf_model', opt, 1, cutoff=0.85):
                raise UserError(f"{near}: unknown; did you mean 'hf_model'?")
        return hub.checked_repository(opt.get('hf_model'))

    def revision(self, opt: Options) -> str | None:
        return opt.get('hf_revision') or None

    def weights_key(self, opt: Options) -> Hashable:
        """
        Return the options with which `ModelOptions` loads a model: two systems with
        the same share it.
        """
        return tuple(str(opt.get(name)) for name in LOADING_OPTIONS)

    def weight_bytes(self, system: System, datapath: str | None = None) -> int:
        """
        Return about how many bytes the weights take in the precision asked for.
        """
        stored = super().weight_bytes(system, datapath)
        asked = (system.opt.get(f'hf_{name}') for name in ('quantisation', 'dtype'))
        bits = next((BITS[str(name)] for name in asked if str(name) in BITS), None)
        weights = self.cached_weights(system.opt, datapath)
        if bits is None or weights is None:
            return stored
        config = hub.read_config(weights.parent)
        own = str(config.get('dtype') or config.get('torch_dtype'))
        return stored * bits // BITS.get(own, 32)


class CausalLm(HuggingFace):
    """
    ``ext:causal_lm`` as its base model is; once trained, it is a model file.
    """

    agents = ('ext:causal_lm',)
    can_judge = False

    def covers(self, opt: Options) -> bool:
        return super().covers(opt) and not opt.get('model_file')

    def weights_key(self, opt: Options) -> Hashable:
        return None


class Gpt2(HubFamily):
    """
    ParlAI's agent for GPT-2, built without a model file: its weights are the hub's.
    """

    agents = ('hugging_face/gpt2',)
    can_judge = False
    default_size: ClassVar[str] = 'small'

    def covers(self, opt: Options) -> bool:
        return super().covers(opt) and not opt.get('model_file')

    def repository(self, opt: Options) -> str:
        if opt.get('model_name'):
            return str(opt['model_name'])
        size = str(opt.get('gpt2_size') or self.default_size)
        sizes = HUB_REPOSITORIES[self.agents[0]]
        if size not in sizes:
            raise UserError(f'gpt2_size {size!r} is none of {", ".join(sizes)}')
        return sizes[size]


class DialoGpt(Gpt2):
    """
    ParlAI's agent for DialoGPT.
    """

    agents = ('hugging_face/dialogpt',)
    can_judge = True
    default_size = 'medium'
    text_truncate = 768  # parlai/agents/hugging_face/dialogpt.py
