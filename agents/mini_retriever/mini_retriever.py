"""
A poly-encoder that brings its replies along, as `MODEL_FILE.candidates`.

ParlAI has no way to name a file beside the model in the model's own options, and it
caches candidates by the base name of their file: a newer file would silently get the
vectors of an older one. Here the file is found and nothing is cached.
"""

from typing import Any

from parlai.agents.transformer.polyencoder import PolyencoderAgent
from parlai.core.build_data import modelzoo_path
from parlai.core.opt import Opt
from parlai.core.params import ParlaiParser


class MiniRetrieverAgent(PolyencoderAgent):
    """
    `transformer/polyencoder` over the candidates beside its model file.
    """

    @classmethod
    def add_cmdline_args(
        cls, parser: ParlaiParser, partial_opt: Opt | None = None
    ) -> ParlaiParser:
        super().add_cmdline_args(parser, partial_opt)
        opt = partial_opt or {}
        if opt.get('model_file'):
            path = modelzoo_path(opt.get('datapath'), opt['model_file'])
            parser.set_defaults(fixed_candidates_path=f'{path}.candidates')
        return parser

    def __init__(self, opt: Opt, shared: Any = None) -> None:
        if opt.get('model_file') and not opt.get('fixed_candidates_path'):
            opt['fixed_candidates_path'] = f'{opt["model_file"]}.candidates'
        super().__init__(opt, shared)

    def _save_candidates(self, vecs: Any, path: str, cand_type: str = '') -> None:
        """
        Save nothing.
        """
