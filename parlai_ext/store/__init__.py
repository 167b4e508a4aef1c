"""
The run folder: every file of a run is complete, or it is not there.

    RUN/manifest.json                          protocol, systems, openers, versions
    RUN/dialogues/<pairing>/<shard>.jsonl      ParlAI Conversations, with .metadata
    RUN/scores/<hash>/signature.txt            one folder for each scorer signature
    RUN/scores/<hash>/<pairing>/<shard>.jsonl  one line a dialogue

A file appears under its name only when it is complete and on the disk, every record
carries a checksum, and the same content gives the same bytes.

Names are imported from here: ``from parlai_ext.store import RunFolder, write_file``.
"""

from parlai_ext.store.disk import (
    LEFTOVER,
    LOCK,
    ActRecord,
    PartialWork,
    append_synced,
    as_read,
    dialogue_record,
    dumps,
    encode_shard,
    file_named_in_errors,
    json_lines_text,
    json_text,
    locked,
    make_folder,
    no_garbage_collection,
    sealed_text,
    staged_folder,
    without_checksum,
    write_file,
    write_text,
    write_texts,
)
from parlai_ext.store.folder import (
    MANIFEST,
    PLAYED_KEYS,
    SCORER_FILE,
    STOPPING_FILE,
    Manifest,
    Plan,
    ProtocolRecord,
    RunFolder,
    ScorerRecord,
    ScoreStore,
    StopRecord,
    SystemRecord,
    load_manifest,
    merge_manifests,
    numbered_id,
    read_manifest,
    record_hash,
    system_part,
)
from parlai_ext.store.schedule import (
    NO_TARGETS,
    Block,
    Schedule,
    ShardKey,
    dialogue_id,
    named_pairing,
    pairings,
    sample_openers,
    shard_size_for,
)
