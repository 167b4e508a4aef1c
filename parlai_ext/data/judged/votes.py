"""
Judged turns in the tables of challenges: answers of annotators, or numbers of votes.

``dstc7``: the human evaluation of DSTC7 Task 2 (Galley et al. 2019), a row an answer.
``dbdc3``, ``wochat``: two corpora of CHANEL@JSALT2020, with votes for each turn.
"""

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import groupby
from pathlib import Path

from parlai_ext.core.errors import UserError
from parlai_ext.data.judged.data_file import DataFile
from parlai_ext.data.judged.judged_set import Annotation, JudgedItem
from parlai_ext.files.csv_file import read_csv
from parlai_ext.files.human_scores import number

CRITERIA = ('Relevance', 'Informativeness')
TOGETHER = 'Average'  # DSTC7's own summary: both count the same
JUDGES = 'human-eval-per-judge'  # in the name of the file with the answers
END = ' EOS '  # between the turns of a context of DSTC7
# a column of votes -> what one vote is worth
BREAKDOWN = {'num_O': 1.0, 'num_T': 0.5, 'num_X': 0.0}
VALID = {'valid': 1.0, 'acceptable': 0.5, 'invalid': 0.0}


def read_dstc7(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the responses of DSTC7's systems; the file has the judges' answers, and the
    tables of contexts, responses and references lie beside it.

    A judge's ``Average`` is the mean of the two criteria. A system without responses
    (TeamEC) is left out.
    """
    contexts = {
        cells[0]: cells[2]
        for _, cells in _dstc7_rows(file, 'context', 'InstanceID', 'Depth', 'Context')
    }
    references = {
        cells[0]: cells[1:]
        for _, cells in _dstc7_rows(file, 'gold_responses', 'InstanceID')
    }
    answers: dict[tuple[str, str], dict[str, list[Annotation]]] = {}
    for _, cells in file.tab_rows(('JudgeID', 'InstanceID', 'SystemID', *CRITERIA)):
        values = [number(cell) for cell in cells[3:5]]
        given = dict(zip(CRITERIA, values, strict=True))
        known = [value for value in values if value is not None]
        given[TOGETHER] = sum(known) / 2 if len(known) == 2 else None
        of_response = answers.setdefault((cells[2], cells[1]), {})
        for quality, value in given.items():
            of_response.setdefault(quality, []).append(Annotation(cells[0], value))
    responses = _dstc7_rows(
        file, 'system_responses', 'SystemID', 'InstanceID', 'Response'
    )
    for line, (system, instance, response, *_) in responses:
        if instance not in contexts:
            raise UserError(f'{file}: response {line}: no context {instance}')
        given_answers = answers.get((system, instance), {})
        if given_answers:
            yield JudgedItem(
                f'{instance}-{system}',
                tuple(turn.strip() for turn in contexts[instance].split(END)),
                response.strip(),
                system,
                {quality: tuple(given) for quality, given in given_answers.items()},
                tuple(text for text in references.get(instance, ()) if text),
            )


def _dstc7_rows(
    file: DataFile, part: str, *columns: str
) -> Iterator[tuple[int, list[str]]]:
    """
    Return line number and cells of the table with another part of the evaluation.
    """
    name = Path(file.path).name.replace(JUDGES, part)
    return file.neighbour(name).tab_rows(columns)


def read_dbdc3(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the systems' turns of the third Dialogue Breakdown Detection Challenge.

    A vote is 1 for no breakdown, 0 for a breakdown and 0.5 for a possible one. The
    ids of dialogues begin with the system's name.
    """
    systems = {'YI': 'yura', 'CIC': 'cic'}
    for item in _voted_turns(file, 'S', BREAKDOWN, 'No breakdown'):
        name = item.system
        known = [system for start, system in systems.items() if name.startswith(start)]
        yield replace(item, system=known[0] if known else name.partition('_')[0])


def read_wochat(file: DataFile) -> Iterator[JudgedItem]:
    """
    Yield the systems' turns of the workshops on chatbots (WOCHAT).

    A vote is 1 for a valid turn, 0.5 for an acceptable and 0 for an invalid one.
    """
    for item in _voted_turns(file, 'SYSTEM', VALID, 'Valid'):
        yield replace(item, system=item.system.rpartition('_')[0])


def _voted_turns(
    file: DataFile, judged_speaker: str, worth: Mapping[str, float], quality: str
) -> Iterator[JudgedItem]:
    """
    Yield the judged turns with their votes; the system is called by the id of its
    dialogue.

    The table of utterances lies beside that of the votes. The first utterance of a
    dialogue, an empty one and one without a vote are no items.
    """
    name = Path(file.path).name.rpartition('_')[0]
    main = file.neighbour(f'{name}_main.csv').path
    rows = {
        row['UID']: {**row, 'where': f'{file.path}:{line}'}
        for line, row in read_csv(file.path, ('UID', 'dialogue_id'))
    }
    spoken = (row for _, row in read_csv(main, ('UID', 'SID', 'SEG')))
    for dialogue, turns in groupby(spoken, key=lambda r: r['UID'].rpartition('-')[0]):
        texts: list[str] = []
        for turn in turns:
            texts.append(turn['SEG'])
            row = rows.get(turn['UID'])
            judged = turn['SID'] == judged_speaker and len(texts) > 1 and turn['SEG']
            if not (row and judged):
                continue
            values: list[float] = []
            for column, value in worth.items():
                votes = number(cell := row.get(column) or '0')
                if votes is None or votes < 0 or votes != int(votes):
                    problem = f'{column}: {cell!r} is no number of votes'
                    raise UserError(f'{row["where"]}: {problem}')
                values += [value] * int(votes)
            if values:  # nobody knows whose they are
                given = tuple(Annotation(str(i), one) for i, one in enumerate(values))
                yield JudgedItem(
                    turn['UID'],
                    tuple(texts[:-1]),
                    texts[-1],
                    row['dialogue_id'],
                    {quality: given},
                    dialogue=dialogue,
                )
