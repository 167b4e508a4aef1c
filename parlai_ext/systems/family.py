"""
What the program must know of one kind of dialogue system: a family.

A family is declared once, as a subclass of `Family` with one entry in
`parlai_ext.systems.families`. Whatever a family does not say holds as for a ParlAI
generator in a model file.
"""

from collections.abc import Hashable
from pathlib import Path

from parlai_ext.core import JsonObject, System
from parlai_ext.engines import is_zoo_path, local_path
from parlai_ext.files import existing_file
from parlai_ext.systems import zoo

PRESENT, DOWNLOAD, MISSING = 'present', 'download', 'missing'
SAMPLING = (
    'topk',
    'nucleus',
    'factual_nucleus',
    'delayedbeam',
    'delayednucleusbeam',
    'sample',  # of ext:hf
)


class Family:
    """
    A kind of system. Options that methods take are those that are known at the time:
    the roster's, with those of the model's own `.opt` below them where it is on disk.
    """

    # values of the option `model` that this family covers
    agents: tuple[str, ...] = ()
    # options that say where a system is or how fast it runs, not what it says; they
    # are left out of its identity (in every family, so no two may differ about one)
    place_options: tuple[str, ...] = ()
    # options of such a system alone that say only where it is
    local_options: tuple[str, ...] = ()
    # options that name the weights, the first that is set wins
    weights_options: tuple[str, ...] = ('model_file',)
    # the value of `dict_tokenizer` that the agent's own parser sets
    dict_tokenizer: str | None = None

    def covers(self, opt: JsonObject) -> bool:
        """
        True if a system with these options is of this family.
        """
        return opt.get('model') in self.agents

    def inner_system(self, opt: JsonObject) -> System | None:
        """
        Return the system that one with these options holds and passes dialogues on to;
        `None` where it holds none.

        :raises UserError: ``option: what is wrong`` when the options name no system.
        """
        return None

    def locate_weights(self, opt: JsonObject) -> tuple[str, str]:
        """
        Return `PRESENT` or `DOWNLOAD`, and the path or the URLs of the weights.

        The network is not touched.

        :raises UserError: ``option: what is wrong`` when the weights cannot be had.
        """
        path = opt.get('model_file')
        if path is None:
            return PRESENT, 'no model file'
        path = str(path)
        if not is_zoo_path(path):
            return PRESENT, str(existing_file(path, 'model_file').absolute())
        urls = zoo.option_urls('model_file', path)
        if urls:
            return DOWNLOAD, ' '.join(urls)
        return PRESENT, str(local_path(path).absolute())

    def fetch_weights(self, opt: JsonObject) -> list[str]:
        """
        Download weights that no file option names, and record their checksums. Return
        the names of what was downloaded.

        :raises UserError: when they cannot be had, or are other ones than an earlier
            download of the same address had.
        """
        return []

    def weight_bytes(self, opt: JsonObject) -> int:
        """
        Return the size in bytes of the weights on disk; 0 without any (yet).
        """
        path = model_path(opt)
        return path.stat().st_size if path and path.is_file() else 0

    def weights_key(self, opt: JsonObject) -> Hashable:
        """
        Return what two systems have in common that share their loaded weights; `None`
        where each loads its own.
        """
        return None

    def contents(self, opt: JsonObject) -> dict[str, str]:
        """
        Return what else identifies a system, by a word for it, beside its options and
        the files that the roster names: hashes of other files, or the model that an
        endpoint reports.

        :raises UserError: ``option: what is wrong`` when something cannot be had.
        """
        return {}

    def check(self, opt: JsonObject) -> None:
        """
        Refuse options with which the agent cannot be built; download what it reads.

        :param opt: all options that the agent will be built with.
        :raises UserError: ``option: what is wrong``.
        """

    def samples(self, opt: JsonObject) -> bool:
        """
        True if the system draws its replies at random.
        """
        return opt.get('inference') in SAMPLING

    def pin(self, opt: JsonObject) -> JsonObject:
        """
        Return the options with those that fix which model answers, such as the dated
        name of a hosted model: the system then refuses answers of another one.

        :raises UserError: when the system cannot be asked what it is.
        """
        return dict(opt)

    def weights_option(self, opt: JsonObject) -> str:
        """
        Return the option that a message about a system's weights should name.
        """
        return next((key for key in self.weights_options if opt.get(key)), 'model')


def model_path(opt: JsonObject) -> Path | None:
    """
    Return where the model file of these options is, or would be after a download.
    """
    path = str(opt.get('model_file') or '')
    return local_path(path) if path else None
