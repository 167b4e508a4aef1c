"""
`rate_dialogues`: offline pages on which people compare or rate a run's dialogues.
"""

from parlai_ext.commands.command import Command, print_lines, program
from parlai_ext.people.rating_set import (
    FOLDER,
    RatingOptions,
    make_rating_set,
    render_rating_page,
    write_key,
)
from parlai_ext.view import count_of


class RateDialogues(Command):
    """
    Write rating pages, one HTML file each, and the key to their answers.

    The pages name no system and need no network; `import_judgements` reads the answers
    that annotators save and send back.
    """

    usage = '--run-dir FOLDER [option …]'
    declares = (RatingOptions,)
    of_run = 'the folder of a run with dialogues'

    def run(self) -> object:
        """
        Return the paths of the pages.
        """
        run = self.existing_run
        options = self.options(RatingOptions)
        rating_set = make_rating_set(run, options)
        key, paths = rating_set.key, []
        questions = count_of(len(key.questions), 'question')
        with run.lock():
            write_key(run.root / FOLDER / options.name, key, '--name')
            for number, items in enumerate(rating_set.pages, 1):
                name = f'{FOLDER}/{options.name}/rate-{number}.html'
                page = render_rating_page(key, number, items, rating_set.turns)
                run.write_text(name, page)
                paths.append(run.root / name)
                print(f'{paths[-1]}: {count_of(len(items), "item")}, {questions} each')
        print_lines(f'note: {note}' for note in rating_set.notes)
        print(
            'send a page to annotators; their answers: '
            f'{program()} import_judgements {run.as_option} --answers FILE …'
        )
        return paths
