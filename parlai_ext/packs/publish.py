"""
A run folder becomes a pack: everything that others need to check it, and no secret.

The same run gives the same bytes, in whatever folder it lies and whenever it was made.
"""

import re
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from parlai_ext.collect import not_run
from parlai_ext.core import (
    Dialogue,
    JsonObject,
    ScoredDialogue,
    UserError,
    bytes_hash,
    changed_texts,
    frozen,
    name_secret,
)
from parlai_ext.files import FILE_OPTIONS, FOLDER_OPTIONS
from parlai_ext.judge_check.record import check_basis, read_check, write_check
from parlai_ext.packs.pack import (
    FORMAT,
    INDEX,
    SCHEMA,
    PackIndex,
    describe_member,
    index_bytes,
    zip_bytes,
)
from parlai_ext.results import ranking as rankings
from parlai_ext.results.ranking import choose_scores, rank_by_own_rule
from parlai_ext.store import (
    STOPPING_FILE,
    Manifest,
    RunFolder,
    ShardKey,
    as_read,
    dialogue_record,
    dumps,
    encode_shard,
    write_file,
)
from parlai_ext.view import without_folders

# a folder before a name, but not that of an address (http://host/…) or of zoo:…
FOLDERS = re.compile(r'(?<![\w:/.~])~?/(?:[^\s/:\'"]+/)+')
WITHHELD = 'withheld with the text'


@frozen
class Publication:
    """
    A pack that was written: its path and id, its manifest, the signatures of its
    scores, and the scores that were left out, with reasons.
    """

    path: Path
    id: str
    manifest: Manifest
    signatures: tuple[str, ...]
    left_out: tuple[str, ...]


def publish_run(
    run: RunFolder,
    path: Path,
    *,
    scores: str | None = None,
    withhold_text: bool = False,
) -> Publication:
    """
    Write the pack of a scored run: whole, or not at all.

    :param scores: hash or scorer's name of the only scores to publish (`None`: all).
    :param withhold_text: give digests of the dialogues in the place of their texts.
    :raises UserError: for a run without complete scores, or damaged files.
    """
    for opt in run.manifest.systems.values():
        for key, value in opt.items():
            if key.endswith('key_env') and isinstance(value, str):
                name_secret(value)  # its value is written nowhere
    complete, left_out = _complete_scores(run, scores)
    section = run.manifest.protocol.scorer
    configs = [run.scores(one).about().config or section for one in complete]
    manifest = public_manifest(run.manifest, withhold_text, section in configs)
    members = _member_bytes(run, manifest, complete, withhold_text)
    described = {name: describe_member(data) for name, data in members.items()}
    data = index_bytes(PackIndex(FORMAT, SCHEMA, withhold_text, described))
    write_file(path, zip_bytes({**members, INDEX: data}))
    return Publication(path, describe_member(data).sha256, manifest, complete, left_out)


def _member_bytes(
    run: RunFolder, manifest: Manifest, signatures: Sequence[str], withhold_text: bool
) -> dict[str, bytes]:
    """
    Return the files of a pack by their names, but for its index.

    :param manifest: as it is published.
    :param signatures: of the scores that are published.
    """
    with TemporaryDirectory(prefix='parlai_pack_') as folder:
        public = RunFolder.new(Path(folder), manifest)
        problems = without_paths(not_run.read_problems(run))
        not_run.write_problems(public, problems)
        if (run.root / STOPPING_FILE).exists():
            public.write_json(STOPPING_FILE, run.read_json(STOPPING_FILE))
        for shard in run.dialogue_shards():
            data = dialogue_bytes(run, shard, withhold_text)
            write_file(public.dialogues_path(shard), data)
        for signature in signatures:
            _write_scores(run, public, signature, withhold_text)
        return {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in Path(folder).rglob('*')
            if path.is_file()
        }


def _complete_scores(
    run: RunFolder, wanted: str | None
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """
    Return the signatures of the scores of all dialogues, and why others are left out.
    """
    stores = run.score_stores()
    if wanted or not stores:
        stores = [run.scores(choose_scores(run, wanted)[0])]
    shards = run.dialogue_shards()
    complete, left_out = [], []
    for store in stores:
        n_missing = sum(not store.has(s) for s in shards)
        if n_missing:
            name = f'scores {store.root.name}'
            left_out.append(f'{name}: {n_missing} of {len(shards)} files miss')
        else:
            complete.append(store.signature)
    if not complete:
        raise UserError(
            f'{run.root}: no complete scores ({"; ".join(left_out)}); '
            '`parlai score_dialogues` writes what is missing'
        )
    return tuple(complete), tuple(left_out)


def dialogue_bytes(run: RunFolder, shard: ShardKey, withhold_text: bool) -> bytes:
    """
    Return the bytes of a shard of dialogues. Where text is withheld, it has a digest of
    each, and who spoke, what was given, and who ended it.
    """
    records, stem = [], f'{shard.index:05d}'
    for dialogue in run.read_dialogues(shard):
        shown, digest = dialogue, {}
        if withhold_text:
            turns = [replace(u, text='', references=()) for u in dialogue.utterances]
            # why somebody ended it may quote the partner, as errors of endpoints do
            reason = None if dialogue.ended_by is None else WITHHELD
            shown = replace(dialogue, utterances=tuple(turns), reason=reason)
            digest = {'digest': dialogue_digest(dialogue)}
        records.append({**dialogue_record(shown, stem), **digest})
    return encode_shard(records, shard.index)


def dialogue_digest(dialogue: Dialogue) -> str:
    """
    Return the sha256 of a whole dialogue, given utterances included.

    It is one for the dialogue and not one for each utterance, and the dialogue's id,
    which depends on both systems and the opener, is part of it: a short utterance
    cannot be guessed by itself, nor can tables be made beforehand. Whoever guesses all
    utterances of a dialogue has the guess confirmed; that is what a digest is for.
    """
    turns = [[u.speaker, u.text, u.given] for u in dialogue.utterances]
    text = dumps(['dialogue text', dialogue.id, turns, dialogue.ended_by])
    return bytes_hash(text.encode())


def _write_scores(
    run: RunFolder, public: RunFolder, signature: str, withhold_text: bool
) -> None:
    """
    Write the scores of one scorer and their ranking as they are published.

    :param public: the run folder that is published, which has the dialogues.
    """
    store, published = run.scores(signature), public.scores(signature)
    about = store.about()
    if about.model_fields_set:
        changes = {
            'config': {key: file_name(value) for key, value in about.config.items()},
            'models': tuple(replace(m, name=file_name(m.name)) for m in about.models),
        }
        published.write_about(about.model_copy(update=changes))
    if (check := read_check(store)) is not None:
        write_check(published, check, check_basis(store) or '')
    for shard in run.dialogue_shards():
        scored = store.read(shard)
        if withhold_text:
            scored = [without_words(one) for one in scored]
        published.write(shard, scored)
    ranking = ranking_data(run, signature, withhold_text)
    public.write_json(f'rankings/{store.root.name}/{rankings.NAME}', ranking)


def without_words(scored: ScoredDialogue) -> ScoredDialogue:
    """
    Return scores without what may quote the dialogue: reasons, and evidence other than
    numbers.
    """
    evidence = {at: row for at, row in scored.figures.items() if None not in row}
    scores = tuple(
        replace(score, reason=score.reason and WITHHELD) for score in scored.scores
    )
    return replace(scored, scores=scores, evidence=evidence)


def ranking_data(
    run: RunFolder, signature: str, withhold_text: bool = False
) -> JsonObject:
    """
    Return what `ranking.json` of these scores holds, ranked by their own rule; without
    the reasons of failures, which may quote a dialogue, if text is withheld.
    """
    ranking = rank_by_own_rule(run, signature)
    if withhold_text:
        failures = {
            name: replace(one, reasons={WITHHELD: sum(one.reasons.values())})
            for name, one in ranking.failures.items()
        }
        ranking = replace(ranking, failures=failures)
    return without_paths(as_read(rankings.to_json(ranking)))


def public_manifest(
    manifest: Manifest, withhold_text: bool = False, has_scores: bool = True
) -> Manifest:
    """
    Return a manifest as it is published: files by their names, not their folders,
    without the openers' text if that is withheld, and without the scorer of a pack that
    has no scores of it.
    """
    places = (*FILE_OPTIONS, *FOLDER_OPTIONS, 'datapath', 'download_path')
    scorer = manifest.protocol.scorer if has_scores else {}
    scorer = {k: file_name(v) for k, v in scorer.items()}
    changes = {
        'systems': {
            name: {k: file_name(v) if k in places else v for k, v in opt.items()}
            for name, opt in manifest.systems.items()
        },
        'protocol': manifest.protocol.model_copy(update={'scorer': scorer}),
    }
    if manifest.asked:
        changes['asked'] = without_paths(manifest.asked)
    if manifest.left_out:
        changes['left_out'] = tuple(without_paths(manifest.left_out))
    if withhold_text:
        changes['openers'] = tuple(
            replace(opener, utterances=(), reply=None) for opener in manifest.openers
        )
    return manifest.model_copy(update=changes)


def file_name(value: Any) -> Any:
    """
    Return the last part of an absolute path; any other value as it is.
    """
    return without_folders(value) if isinstance(value, str) else value


def without_paths(data: Any) -> Any:
    """
    Return JSON data whose texts name files without the folders above them.
    """
    return changed_texts(data, partial(FOLDERS.sub, ''))
