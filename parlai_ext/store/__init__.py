"""
The run folder: every file of a run is complete, or it is not there.

    RUN/manifest.json                          protocol, systems, openers, versions
    RUN/dialogues/<pairing>/<shard>.jsonl      ParlAI Conversations, with .metadata
    RUN/scores/<hash>/signature.txt            one folder for each scorer signature
    RUN/scores/<hash>/<pairing>/<shard>.jsonl  one line a dialogue

A file appears under its name only when it is complete and on the disk, every record
carries a checksum, and the same content gives the same bytes.
"""

from parlai_ext.store.folder import RunFolder, ScoreStore

__all__ = ['RunFolder', 'ScoreStore']
