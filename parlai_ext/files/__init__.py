"""
Files that a user writes, read into nouns; every mistake is told with its place.

They are imported from here, but for protocols and measured agreement.
"""

from parlai_ext.files.human_scores import (
    COLUMNS,
    LARGEST,
    parse_number,
    read_human_scores,
)
from parlai_ext.files.model_cards import (
    ModelCard,
    Wheel,
    check_kind,
    checked_model_name,
    is_model_name,
    model_card,
    model_names,
)
from parlai_ext.files.openers_file import EVERYDAY, read_openers_file
from parlai_ext.files.option_files import (
    existing_file,
    files_at,
    missing_file,
    no_path,
    sha256,
)
from parlai_ext.files.protocol_file import (
    FILE_OPTIONS,
    FOLDER_OPTIONS,
    INDEX_OPTIONS,
    SystemInfo,
    load_roster,
    parse_target,
    read_shipped,
    shipped_systems,
)
from parlai_ext.files.text_file import (
    CsvProblem,
    column_places,
    decoded_text,
    is_special,
    is_texts,
    is_utf8,
    json_lines,
    read_csv,
    read_json,
    read_utf8,
    split_rows,
    text_lines,
    width_problem,
)
from parlai_ext.files.yaml_file import Document, read_file
from parlai_ext.files.zip_file import open_zip, read_member
