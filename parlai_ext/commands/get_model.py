"""
Models of the catalogue: what there is, and fetching by name.
"""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from parlai_ext.commands.command import Command
from parlai_ext.commands.options import add_options
from parlai_ext.core.display import data_size
from parlai_ext.files.model_cards import checked_model_name, model_card, model_names


class GetModel(Command):
    """
    Fetch models by name; without a name, show which there are.

    What is here already is not fetched again; what was interrupted goes on.
    """

    description = 'Fetch small models by name: checked, converted once, whole or not'
    usage = '[NAME …] [--datapath FOLDER]'

    @classmethod
    def add_arguments(cls, parser: argparse.ArgumentParser) -> None:
        parser.add_argument(
            'names',
            nargs='*',
            metavar='NAME',
            help='a model of the catalogue (none: show which there are)',
        )
        add_options(parser, '--datapath')

    def run(self) -> list[Path]:
        """
        Fetch the models and return their folders; list the catalogue without names.

        :raises UserError: before anything is fetched, when a name is unknown.
        """
        from parlai_ext.systems.catalogue.fetch_model import fetch_model, is_fetched

        datapath = self.opt['datapath']
        names = [checked_model_name(name) for name in self.opt['names'] or ()]
        if not names:
            fetched = {n for n in model_names() if is_fetched(n, datapath)}
            print('\n'.join(catalogue_lines(fetched)))
            print('fetch one with: parlai get_model NAME')
            return []
        folders = []
        for name in names:
            verb = 'is here' if is_fetched(name, datapath) else 'fetched'
            folders.append(fetch_model(name, datapath))
            print(f'{name} {verb}: {folders[-1]}')
        return folders


def catalogue_lines(fetched: set[str]) -> list[str]:
    """
    Return a line for each model of the catalogue.
    """
    rows: list[Sequence[str]] = [('model', 'kinds', 'download', 'here', 'good for')]
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
    widths = [max(len(row[i]) for row in rows) for i in range(4)]
    return [
        '  '.join([*map(str.ljust, row[:4], widths), row[4]])  # the last is not padded
        for row in rows
    ]
