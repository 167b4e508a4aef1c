"""
Models of the catalogue: what there is, and fetching by name.
"""

from dataclasses import dataclass
from pathlib import Path

from tabulate import tabulate

from parlai_ext.commands.command import Command
from parlai_ext.core.display import data_size
from parlai_ext.core.options import option
from parlai_ext.files.model_cards import checked_model_name, model_card, model_names


@dataclass(frozen=True)
class GetOptions:
    """
    Which models are fetched.
    """

    names: tuple[str, ...] = option(
        (),
        positional=True,
        nargs='*',
        metavar='NAME',
        help='a model of the catalogue (none: show which there are)',
    )


class GetModel(Command):
    """
    Fetch models by name; without a name, show which there are.

    What is here already is not fetched again; what was interrupted goes on.
    """

    usage = '[NAME …] [--datapath FOLDER]'
    declares = (GetOptions, '--datapath')

    def run(self) -> list[Path]:
        """
        Fetch the models and return their folders; list the catalogue without names.

        :raises UserError: before anything is fetched, when a name is unknown.
        """
        wanted = self.options(GetOptions).names
        names = [checked_model_name(name) for name in wanted]
        from parlai_ext.systems.catalogue.fetch_model import fetch_model, is_fetched

        if not names:
            fetched = {n for n in model_names() if is_fetched(n)}
            print(catalogue_table(fetched))
            print('fetch one with: parlai get_model NAME')
            return []
        folders = []
        for name in names:
            verb = 'is here' if is_fetched(name) else 'fetched'
            folders.append(fetch_model(name))
            print(f'{name} {verb}: {folders[-1]}')
        return folders


def catalogue_table(fetched: set[str]) -> str:
    """
    Return a line for each model of the catalogue.
    """
    rows = [('model', 'kinds', 'download', 'here', 'good for')]
    for name in model_names():
        card = model_card(name)
        rows.append(
            (
                name,
                ', '.join(card.kinds),
                data_size(card.download_bytes),
                'yes' if name in fetched else 'no',
                card.good_for,
            )
        )
    return tabulate(rows, tablefmt='plain', disable_numparse=True)
