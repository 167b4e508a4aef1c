"""
Models of the catalogue: what there is, and fetching by name.
"""

from collections.abc import Sequence
from dataclasses import dataclass

from tabulate import tabulate

from parlai_ext.commands.command import Command, program
from parlai_ext.core import option
from parlai_ext.files.model_cards import checked_model_name, model_card, model_names
from parlai_ext.view import data_size


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


@dataclass(frozen=True)
class ListedModel:
    """
    What is said of a model before it is fetched.
    """

    name: str
    kinds: tuple[str, ...]
    download_bytes: int
    licence: str
    fetched: bool
    good_for: str


class GetModel(Command):
    """
    Fetch models by name; without a name, show which there are.

    What is here already is not fetched again; what was interrupted goes on.
    """

    usage = '[NAME …] [--datapath FOLDER]'
    declares = (GetOptions, '--datapath')

    def run(self) -> object:
        """
        Fetch the models and return their folders; without names, return what there is.

        :raises UserError: before anything is fetched, when a name is unknown.
        """
        wanted = self.options(GetOptions).names
        names = [checked_model_name(name) for name in wanted]
        from parlai_ext.systems.catalogue.fetch_model import fetch_model, is_fetched

        if not names:
            models = []
            for name in model_names():
                card = model_card(name)
                models.append(
                    ListedModel(
                        name,
                        card.kinds,
                        card.download_bytes,
                        card.licence,
                        is_fetched(name),
                        card.good_for,
                    )
                )
            print(catalogue_table(models))
            print(f'fetch one with: {program()} get_model NAME')
            return models
        folders = []
        for name in names:
            verb = 'is here' if is_fetched(name) else 'fetched'
            folders.append(fetch_model(name))
            print(f'{name} {verb}: {folders[-1]}')
        return folders


def catalogue_table(models: Sequence[ListedModel]) -> str:
    """
    Return a line for each model of the catalogue.
    """
    heads = ('model', 'kinds', 'download', 'licence', 'here', 'good for')
    rows = [
        (
            model.name,
            ', '.join(model.kinds),
            data_size(model.download_bytes),
            model.licence,
            'yes' if model.fetched else 'no',
            model.good_for,
        )
        for model in models
    ]
    return tabulate([heads, *rows], tablefmt='plain', disable_numparse=True)
