"""
Cite a published run: what a paper has to say of it.
"""

from parlai_ext.commands.command import Command, print_lines
from parlai_ext.commands.verify_run import PackOptions
from parlai_ext.packs.cite import CiteOptions, cite_pack
from parlai_ext.packs.verify import open_right_pack


class CiteRun(Command):
    """
    Print the signature, the partners' lock, the numbers, BibTeX and LaTeX of a pack.
    """

    usage = 'PACK [--system NAME] [--url URL] [option …]'
    declares = (PackOptions, CiteOptions)

    def run(self) -> object:
        """
        Print and return a citation for each scorer of the pack.
        """

        with open_right_pack(self.opt['pack']) as pack:
            citations = cite_pack(pack, self.options(CiteOptions))
        for lines in citations:
            print_lines([*lines, ''])
        return citations
