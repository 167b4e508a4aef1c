"""
The rating pages: offline HTML files on which people compare or rate dialogues.

A page holds the dialogues, the questions and a script, and nothing that says which
system spoke. Order and sides are drawn anew for each annotator, in the browser.
"""

from collections.abc import Mapping, Sequence
from dataclasses import asdict
from typing import Any

from parlai_ext.core.records import record_to_json
from parlai_ext.people.draw_items import RatingItem
from parlai_ext.people.given_answers import FORMAT
from parlai_ext.people.rating_set import RatingKey
from parlai_ext.people.run_dialogues import DialogueReference, ShownTurn
from parlai_ext.view.page import render_page, template_text

Turns = Mapping[DialogueReference, Sequence[ShownTurn]]


def render_rating_page(
    key: RatingKey, page: int, items: Sequence[RatingItem], turns: Turns
) -> str:
    """
    Return one rating page as one HTML file.

    :param page: its number, from 1.
    :param turns: of every dialogue of the items.
    """
    return render_page(
        'rating.html.j2',
        style='rating.css',
        script=template_text('rating.js'),
        data=_page_data(key, page, items, turns),
        page=page,
        key=key,
        num_items=len(items),
    )


def _page_data(
    key: RatingKey, page: int, items: Sequence[RatingItem], turns: Turns
) -> dict[str, Any]:
    """
    Return what the page's script shows.
    """
    return {
        'format': FORMAT,
        'rating_set': key.rating_set,
        'page': page,
        'kind': key.kind,
        'ties': key.ties,
        'tie': key.tie,
        'unrelated': key.unrelated,
        'flag': key.flag,
        'offensive': bool(key.offensive),
        'segments': bool(key.segments),
        'questions': record_to_json(key.questions),
        'items': [
            {
                'id': item.id,
                'dialogues': [
                    [asdict(turn) for turn in turns[dialogue][: item.num_turns]]
                    for dialogue in item.dialogues[: 1 if key.segments else None]
                ],
            }
            for item in items
        ],
    }
