"""
A run's dialogues as the input of ParlAI's crowdsourcing tasks.

``acute_eval``: pairings with an onboarding pair, and Fast-ACUTE's chats and config.
``turn_annotations``: chats whose every second utterance is annotated.
``model_chat``: which bots people talk with, and the settings of Sato et al. (2022).

ParlAI's wheel holds no front end: the tasks need a checkout of ParlAI, and Mephisto.
"""

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from itertools import combinations
from typing import Any

from parlai_ext.core import JsonObject, UserError, chunks, grouped
from parlai_ext.files import read_shipped
from parlai_ext.people.rating_set import (
    BUCKET,
    DialogueReference,
    Questionnaire,
    RatingItem,
    ShownTurn,
    Turns,
    Wording,
)
from parlai_ext.ranking.standings import Standing
from parlai_ext.store import json_lines_text, json_text

OTHER = 'other_speaker'
# Sato et al. (2022), section 5.2 and its footnote 2
CHATS_OF_A_SYSTEM = 50

Files = dict[str, str]  # name -> text


def matchups_by_openness(
    systems: Sequence[str], standings: Iterable[Standing]
) -> list[tuple[str, str]]:
    """
    Return all pairs of systems: first those whose order the ranking leaves open, the
    nearest scores first; then the others.
    """
    known = {one.system: one for one in standings if one.score is not None}

    def key(pair: tuple[str, str]) -> tuple[bool, float, tuple[str, str]]:
        if not known.keys() >= {*pair}:
            return False, 0.0, pair
        one, other = (known[name] for name in pair)
        ranks = [(s.rank_low or 0, s.rank_high or math.inf) for s in (one, other)]
        settled = max(low for low, _ in ranks) > min(high for _, high in ranks)
        return settled, abs((one.score or 0) - (other.score or 0)), pair

    return sorted(combinations(sorted(systems), 2), key=key)


# --------------------------------------------------------------------------- ACUTE-Eval


def acute_files(items: Sequence[RatingItem], turns: Turns, wording: Wording) -> Files:
    """
    Return the files of an ACUTE-Eval task: pairings, its settings, and Fast-ACUTE's.
    """
    dialogues = list(dict.fromkeys(d for item in items for d in item.dialogues))
    numbers = {dialogue: number for number, dialogue in enumerate(dialogues)}
    pairs = [
        {
            'is_onboarding': False,
            'speakers_to_eval': [d.system for d in item.dialogues],
            'dialogue_ids': [numbers[d] for d in item.dialogues],
            'tags': [item.id],
            'dialogue_dicts': [
                {
                    'id': d.dialogue_id,
                    'speakers': [d.system, OTHER],
                    'dialogue': _acts(d.system, turns[d]),
                }
                for d in item.dialogues
            ],
        }
        for item in items  # as acute_eval_runner.py:124 reads it
    ]
    onboarding = read_shipped('crowdsourcing', 'onboarding').data
    settings = {
        'pairings_filepath': 'pairings.jsonl',
        'eval_question': wording.text,
        's1_choice': wording.answers[0],
        's2_choice': wording.answers[1],
    }
    return {
        'pairings.jsonl': json_lines_text([onboarding, *pairs]),
        'blueprint.json': json_text(settings),
        **_fast_acute_files(dialogues, turns),
    }


def _fast_acute_files(dialogues: Sequence[DialogueReference], turns: Turns) -> Files:
    """
    Return Fast-ACUTE's config with one file of chats a system.
    """
    files = {}
    config = {}
    by_system = grouped((dialogue.system, dialogue) for dialogue in dialogues)
    for place, (system, chats) in enumerate(sorted(by_system.items())):
        acts = [_acts(system, turns[chat]) for chat in chats]
        name = f'self_chats/{place}.jsonl'
        # as self-chats, all would have to begin with the same speaker
        config[system] = {'log_path': name, 'is_selfchat': False}
        # two by two, as world logs have them
        files[name] = json_lines_text(
            {'dialog': list(chunks(own, 2)), 'context': []} for own in acts
        )
    files['fast_acute_models.json'] = json_text(config)
    return files


def _acts(name: str, turns: Iterable[ShownTurn]) -> list[dict[str, str]]:
    return [{'id': name if one.own else OTHER, 'text': one.text} for one in turns]


# --------------------------------------------------------------------- turn annotations


def turn_annotation_files(items: Sequence[RatingItem], turns: Turns) -> Files:
    """
    Return the dialogues as turn_annotations_static reads them: pairs of acts, of which
    the second one is the judged system's and is annotated.

    Where the judged system began, its first utterance stands in the act that follows,
    in brackets: it is shown and not annotated.
    """
    lines = []
    for item in items:
        (dialogue,) = item.dialogues
        shown = turns[dialogue]
        begins = int(shown[0].own)
        pairs: list[list[dict[str, Any]]] = []
        for place in range(begins, len(shown) - 1, 2):
            text = shown[place].text
            if begins and not pairs:
                text = f'[The other speaker began: {shown[0].text}] {text}'
            judged = {
                'system': dialogue.system,
                'dialogue_id': dialogue.dialogue_id,
                'utterance_index': place + 1,
            }
            own = {
                'id': 'judged',
                'text': shown[place + 1].text,
                'other_metadata': judged,
            }
            pairs.append([{'id': 'other', 'text': text}, own])
        if pairs:
            lines.append({'dialog': pairs})
    return {'dialogues.jsonl': json_lines_text(lines)}


def label_files(key: Questionnaire) -> Files:
    """
    Return the settings of turn_annotations_static in which labels are ticked.
    """
    (question,) = key.questions
    buckets = [
        {'value': BUCKET + name, 'name': text, 'description': text}
        for name, text in zip(key.named_answers, question.answers, strict=True)
    ]
    settings = {
        'data_jsonl': 'dialogues.jsonl',
        'annotations_config_path': 'annotations_config.json',
        'annotation_question': question.text,
    }
    return {
        'annotations_config.json': json_text(buckets),
        'blueprint.json': json_text(settings),
    }


# --------------------------------------------------------------------------- model_chat


def model_chat_files(
    opts: Mapping[str, JsonObject], asked: Questionnaire, num_turns: int
) -> Files:
    """
    Return the bots and the settings of a model_chat task in which people talk with
    them: "Hi!", some turns, 50 dialogues a system, one rating for each question.

    :param opts: the ParlAI options of each system.
    :raises UserError: for an option that a line of flags cannot hold.
    """
    for name in opts:
        if ',' in name or ':' in name:
            raise UserError(
                f'system {name!r}: model_chat takes no name with a comma or a colon'
            )
    names = sorted(opts)
    lines = [f'{json.dumps(n)}: >\n  {flags_of_opt(n, opts[n])}\n' for n in names]
    settings = {
        'model_opt_path': 'model_opts.yaml',
        'conversation_start_mode': 'hi',
        'num_turns': num_turns,
        'conversations_needed_string': ','.join(
            f'{name}:{CHATS_OF_A_SYSTEM}' for name in names
        ),
        'final_rating_question': '|'.join(w.text for w in asked.questions),
    }
    return {'model_opts.yaml': ''.join(lines), 'blueprint.json': json_text(settings)}


def flags_of_opt(name: str, opt: JsonObject) -> str:
    """
    Return ParlAI options as one line of flags, which ParlAI splits at blanks.

    :raises UserError: for a value that is no text, number or truth value, holds a blank
        or begins like a flag.
    """
    flags = []
    for key, value in opt.items():
        text = str(value).lower() if isinstance(value, bool) else str(value)
        flag = f'--{key.replace("_", "-")}'
        if (
            not isinstance(value, str | int | float)
            or [flag, text] != f'{flag} {text}'.split()
            or text.startswith('--')  # or it would be a flag itself
        ):
            raise UserError(
                f'system {name!r}: {key}: {value!r} does not fit into model_opts.yaml, '
                'where ParlAI splits options at blanks'
            )
        flags += [flag, text]
    return ' '.join(flags)
