"""
The files that a retriever reads beside its model.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from parlai_ext.core.errors import UserError

BERT = 'bert-base-uncased'
BERT_FOLDER = 'bert_base_uncased'  # as ParlAI calls it (rag/dpr.py:102)
BERT_FILES = ('config.json', 'vocab.txt')


def bert_home(opt: Mapping[str, Any]) -> Path:
    """
    Return the folder with the configuration and the vocabulary of the query encoder.

    It is the folder `bert_base_uncased` beside the model file or in ParlAI's data
    folder, and else the cache of the Hugging Face hub.

    :raises UserError: when it is nowhere and cannot be downloaded.
    """
    model_file = opt.get('model_file')
    places = [Path(model_file).parent] if model_file else []
    places += [Path(opt['datapath'])] if opt.get('datapath') else []
    homes = [place / BERT_FOLDER for place in places]
    for home in (*homes, *_cached()):
        if all((home / name).is_file() for name in BERT_FILES):
            return home
    return _downloaded(homes[-1] if homes else Path(BERT_FOLDER))


def _cached() -> Iterator[Path]:
    from huggingface_hub import try_to_load_from_cache

    for repo in (BERT, f'google-bert/{BERT}'):  # the hub has renamed it
        vocabulary = try_to_load_from_cache(repo, BERT_FILES[-1])
        if isinstance(vocabulary, str):
            yield Path(vocabulary).parent


def _downloaded(instead: Path) -> Path:
    from huggingface_hub import hf_hub_download

    try:
        files = [hf_hub_download(f'google-bert/{BERT}', name) for name in BERT_FILES]
    except (OSError, ValueError) as error:
        raise UserError(
            f'the tokenizer of {BERT} is not here and cannot be downloaded; put its '
            f'{" and ".join(BERT_FILES)} into {instead}'
        ) from error
    return Path(files[0]).parent


def index_files(path: str | Path, embeddings: str | Path | None = None) -> list[Path]:
    """
    Return the file of an index and those that number its passages.

    rag/indexers.py:145: ``path`` is a folder, a file `….index` or its name without
    that ending; `…_meta` holds the numbers, or else `ids_0`, `ids_1`, … in the folder
    of the embeddings.
    """
    index = Path(path)
    if index.is_dir():
        index = index / 'index'
    elif index.suffix != '.index':
        index = Path(f'{path}.index')
    numbers = [Path(f'{index}_meta')]
    if not numbers[0].is_file():
        folder = Path(embeddings) if embeddings else Path(path).parent
        folder = folder if folder.is_dir() else folder.parent
        parts = [p for p in folder.glob('ids_*') if p.name[4:].isdigit()]
        numbers = sorted(parts, key=lambda p: int(p.name[4:])) or numbers
    return [index, *numbers]
