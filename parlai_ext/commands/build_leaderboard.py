"""
Build the site of a folder of packs: one page for each protocol, no server.
"""

from pathlib import Path

from parlai_ext.commands.verify_run import AT_HAND, PackChecker
from parlai_ext.core import Flags, frozen, option, printable
from parlai_ext.packs.pack import RegenerateOptions, packs_in


@frozen
class SiteOptions:
    """
    Where the packs are, and where the site goes.
    """

    packs: str = option(metavar='FOLDER', help='the packs: all its .zip files')
    out: str = option(metavar='FOLDER', help='the site; pages there are replaced')


class BuildLeaderboard(PackChecker):
    """
    Check every pack of a folder, and write the pages that rank what may be compared.
    """

    usage = '--packs FOLDER --out FOLDER [--sample N] [--regenerate M]'
    declares = (SiteOptions, Flags(RegenerateOptions, 'of each pack'), *AT_HAND)

    def check_early(self) -> None:
        """
        Refuse a folder without packs.
        """
        super().check_early()
        packs_in(self.options(SiteOptions).packs)

    def run(self) -> object:
        """
        Write the site and return what is in it.
        """
        from parlai_ext.packs.check_pack import check_pack
        from parlai_ext.packs.site import build_site

        given = self.options(SiteOptions)
        options = self.options(RegenerateOptions)
        site = build_site(
            Path(given.packs),
            Path(given.out),
            lambda path: check_pack(path, options, self.checker),
        )
        for name, reason in site.left_out.items():
            print(printable(f'left out: {name}: {reason}')[:300])
        for protocol, page in site.pages.items():
            print(printable(f'{protocol}: {page}'))
        print(f'site: {site.index}')
        return site
