"""
Check a pack: what of it is proven, what is wrong, and what is only reported.
"""

from typing import TYPE_CHECKING

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import MACHINE
from parlai_ext.core import UserError, frozen, option, optional
from parlai_ext.packs.pack import RegenerateOptions, existing_pack
from parlai_ext.view.page import print_report

if TYPE_CHECKING:
    from parlai_ext.packs.check_pack import Checker


LONGEST = 300  # characters of a line about a problem of a stranger's file


@frozen
class PackOptions:
    """
    The pack.
    """

    pack: str = option(
        positional=True, metavar='PACK', help='a published run, a .zip file'
    )


@frozen
class OwnProtocol:
    """
    The protocol of the one who checks a pack.
    """

    title = 'what is at hand'
    config: str | None = optional(
        metavar='NAME|FILE',
        help='your own protocol: its systems and its scorer make things again '
        '(default: the shipped protocol of the pack’s name)',
    )


# what the one who checks a pack has
AT_HAND = (
    OwnProtocol,
    '--add-target',
    '--openers-file',
    MACHINE,
)


class PackChecker(Command):
    """
    A command that checks packs with what the one who runs it has.
    """

    def check_early(self) -> None:
        super().check_early()
        self.own_protocol  # noqa: B018 - read for its errors

    @property
    def checker(self) -> 'Checker':
        """
        What the one who checks has, as the options say.
        """
        from parlai_ext.packs.check_pack import Checker

        return Checker(
            self.machine,
            self.own_protocol,
            self.added_systems,
            self.opt['openers_file'],
        )


class VerifyRun(PackChecker):
    """
    Check a pack and print, part by part, what was and what was not proven.
    """

    usage = 'PACK [--sample N] [--regenerate M] [--config NAME|FILE]'
    declares = (PackOptions, RegenerateOptions, *AT_HAND)

    def check_early(self) -> None:
        """
        Refuse a file that is no pack.
        """
        super().check_early()
        existing_pack(self.opt['pack'])

    def run(self) -> object:
        """
        Print what is known of the pack.

        :raises UserError: when something in it is wrong, or it is no pack.
        """
        from parlai_ext.packs.check_pack import check_pack

        options = self.options(RegenerateOptions)
        checked = check_pack(self.opt['pack'], options, self.checker)
        print_report('verified', checked=checked, longest=LONGEST)
        if checked.problems:
            n, first = len(checked.problems), checked.problems[0]
            many = '' if n == 1 else f'{n} problems, the first: '
            raise UserError(f'{checked.path}: {many}{first}'[:LONGEST])
        return checked
