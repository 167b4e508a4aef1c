"""
The nouns of the project, declared options, JSON and errors; standard library only.

They are imported from here: ``from parlai_ext.core import UserError, option``.
`core.records`, which needs pydantic, `core.protocol` and `core.secrets` are modules of
their own.
"""

from parlai_ext.core.errors import (
    SystemFailed,
    UserError,
    first_line,
    message_of,
    nearest,
    printable,
    require_known,
)
from parlai_ext.core.json_text import (
    first_object,
    half_character,
    parse_json,
    parse_json_values,
    parse_own_json,
    whole_characters,
    without_half_characters,
)
from parlai_ext.core.nouns import (
    CLOSE,
    GIVEN_JUDGED,
    PART_SEPARATOR,
    Answer,
    Dialogue,
    HumanJudgement,
    JudgeModel,
    LanguageModel,
    Opener,
    Pairing,
    Question,
    Recorded,
    Roster,
    Score,
    ScoredDialogue,
    System,
    Utterance,
    change_lines,
    content_id,
    dialogue_means,
    differences,
    is_floor,
    mean,
    reference_texts,
    scorer_name,
    signature_differences,
    signature_line,
    utterance_json,
)
from parlai_ext.core.options import (
    DeclaresOptions,
    Fail,
    Flags,
    add_declared,
    add_flags,
    flag_values,
    given_options,
    json_object,
    named_pairs,
    one_value,
    option,
    option_values,
    options_from_opt,
    options_of,
    plain_paths,
    read_key_values,
    read_options,
    read_truth,
    signature_values,
    type_problem,
)
