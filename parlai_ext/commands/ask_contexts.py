"""
`ask_contexts`: what systems answer to the contexts of a corpus, for static metrics.
"""

from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from shlex import quote

from parlai_ext.collect.options import AskedSystems
from parlai_ext.commands.command import ModelCommand, program
from parlai_ext.commands.options import MACHINE
from parlai_ext.core import UserError, frozen, option, optional
from parlai_ext.data.corpora import (
    CORPORA,
    SPLITS,
    Prompt,
    RecordedAnswer,
    Turns,
    read_corpus,
)
from parlai_ext.store import json_lines_text, write_text
from parlai_ext.view.page import print_report

USER = 'user'


@frozen(kw_only=True)
class AskContextsOptions(AskedSystems):
    """
    Whose answers, to which contexts.
    """

    corpus: str = option('dailydialog', choices=tuple(CORPORA), help='format of --path')
    path: str = option(path=True, help='its folder, or one file')
    split: str = option('test', choices=SPLITS, help='which part of the corpus')
    context_turns: int | None = optional(
        low=1, help='only the last N turns of a context are asked'
    )
    limit: int | None = optional(low=1, help='the first N dialogues only')
    seed: int = option(0, low=0, help='of systems that sample')
    out: str = option(metavar='FOLDER', help='answers, and dialogues.jsonl of them')

    def contexts(self) -> dict[str, tuple[Turns, str]]:
        """
        Return each context and the last turn of people, by the place of its dialogue.
        """
        dialogues = read_corpus(self.corpus, self.path, self.split)
        return {
            f'{self.split}-{number}': (
                turns[:-1][-(self.context_turns or 0) :],
                turns[-1],
            )
            for number, turns in enumerate(dialogues[: self.limit], 1)
            if len(turns) > 1
        }


class AskContexts(ModelCommand):
    """
    Ask systems for the last turn of each dialogue of a corpus. The answers, with what
    people said there as references, become dialogues for `import_dialogues`.
    """

    usage = '--path CORPUS --systems NAME … | --roster NAME --out FOLDER'
    declares = (AskContextsOptions, MACHINE)

    def run(self) -> object:
        """
        Return the file of the dialogues.
        """
        from parlai_ext.collect.plan import read_systems

        given = self.options(AskContextsOptions)
        systems = read_systems(given)
        if not systems:
            raise UserError('--systems or --roster is needed: who is asked?')
        chosen = given.contexts()
        from parlai_ext.toxic.collect_answers import collect_answers

        prompts = [Prompt(name, '\n'.join(c), (r,)) for name, (c, r) in chosen.items()]
        folder = Path(given.out)
        answers, problems = collect_answers(
            systems,
            prompts,
            folder / 'answers',
            self.machine,
            seed=given.seed,
            skip_missing=given.skip_missing,
        )
        file = folder / 'dialogues.jsonl'
        write_text(file, json_lines_text(static_dialogues(answers, chosen)))
        print_report(
            'asked_contexts',
            answers=answers,
            problems=problems,
            file=str(file),
            n_contexts=len(prompts),
            program=program(),
            quoted=quote(str(file)),
            user=USER,
        )
        given.require_all(problems)
        return file


def static_dialogues(
    answers: Iterable[RecordedAnswer], chosen: Mapping[str, tuple[Turns, str]]
) -> Iterator[dict[str, object]]:
    """
    Yield each answer as a dialogue for `import_dialogues`: the context's turns are
    given, those before the answer in turn by the user and by the system.
    """
    for answer in answers:
        if answer.text is None:
            continue
        before, reference = chosen[str(answer.prompt_id)]
        sides = (USER, answer.system)
        turns = [
            {'speaker': sides[(len(before) - 1 - i) % 2], 'text': text, 'given': True}
            for i, text in enumerate(before)
        ]
        turns.append(
            {
                'speaker': answer.system,
                'text': answer.text,
                'reference': [reference],
            }
        )
        yield {'dialogue_id': f'{answer.prompt_id}-{answer.system}', 'turns': turns}
