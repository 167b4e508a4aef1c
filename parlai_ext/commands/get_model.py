"""
Models of the catalogue: what there is, and fetching by name.
"""

from parlai_ext.commands.command import Command, print_lines, program
from parlai_ext.core import frozen, option
from parlai_ext.files import checked_model_name, model_card, model_names
from parlai_ext.view import Column, Table, data_size


@frozen
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


@frozen
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


WIDTH = 160  # of the table: what a model is good for is a line
COLUMNS = (
    Column('name', 'model'),
    Column('kinds', 'kinds', show=lambda model: ', '.join(model.kinds)),
    Column('size', 'download', show=lambda model: data_size(model.download_bytes)),
    Column('licence', 'licence'),
    Column('fetched', 'here', show=lambda model: 'yes' if model.fetched else 'no'),
    Column('good_for', 'good for', widest=WIDTH),
)


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
        names = [checked_model_name(name) for name in self.options(GetOptions).names]
        from parlai_ext.systems.catalogue.fetch_model import fetch_model, is_fetched

        if not names:
            models = []
            for name in model_names():
                card = model_card(name)
                known = card.kinds, card.download_bytes, card.licence
                models.append(
                    ListedModel(name, *known, is_fetched(name), card.good_for)
                )
            print_lines(Table(COLUMNS, models).lines(width=WIDTH))
            print(f'fetch one with: {program()} get_model NAME')
            return models
        folders = []
        for name in names:
            verb = 'is here' if is_fetched(name) else 'fetched'
            folders.append(fetch_model(name))
            print(f'{name} {verb}: {folders[-1]}')
        return folders
