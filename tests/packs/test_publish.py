"""
A published run: the same bytes from everywhere, nothing of the machine, no secret; and
a citation that says what its numbers rest on, in texts that LaTeX can read.
"""

import io
import json
import os
import zipfile
from contextlib import suppress

import pytest

from parlai_ext.commands.cite_run import CiteRun, latex_text
from parlai_ext.commands.publish_run import PublishRun
from parlai_ext.core import SystemFailed, UserError
from parlai_ext.packs.check_pack import check_pack
from parlai_ext.packs.pack import INDEX, open_pack, zip_bytes
from parlai_ext.packs.publish import dialogue_digest, public_manifest, without_paths
from parlai_ext.results.ranking import rank_run
from parlai_ext.store import RunFolder
from tests.support.interrupted import interrupted
from tests.support.published_runs import files_in, make_run, publish
from tests.support.store_samples import sample_manifest
from tests.support.user_error import user_error
from tests.support.written import written, zip_of


def test_an_unpacked_pack_is_the_same_run_and_gives_the_same_pack(
    runs, packs, tmp_path
):
    run = runs['both']
    with open_pack(packs['both']) as pack:
        (signature,) = pack.signatures
        assert list(pack.run.iter_dialogues()) == list(run.iter_dialogues())
        assert rank_run(pack.run, signature) == rank_run(run, signature)
        assert publish(pack.run, tmp_path / 'again.zip').id == pack.id


def test_withheld_text_is_nowhere_in_the_pack(runs, published):
    path = published(runs['both'], withhold_text=True)
    data = b'\n'.join(files_in(path).values()).decode()
    for dialogue in runs['both'].iter_dialogues():
        assert not [text for text in dialogue.texts if text in data]
        assert dialogue_digest(dialogue) in data


def test_an_error_that_quotes_the_partner_is_withheld_with_the_text(
    tmp_path, published
):
    systems = {'quotes': {'model': 'tests.support.trial_agents:Quotes'}}
    with pytest.raises(SystemFailed, match='cannot tokenize'):
        make_run(tmp_path / 'run', ['talker', 'quotes'], systems=systems)
    run = RunFolder.existing(tmp_path / 'run')
    heard = {d.reason for d in run.iter_dialogues() if d.ended_by == 'quotes'}
    assert all('cannot tokenize' in reason for reason in heard)
    path = published(run, withhold_text=True)
    assert b'cannot tokenize' not in b''.join(files_in(path).values())
    assert check_pack(path).problems == []


def test_a_key_that_a_system_names_is_nowhere_in_the_pack(
    copy_of, published, monkeypatch
):
    run = copy_of('generic')
    run.manifest.systems['generic']['remote_key_env'] = 'PACK_TEST_KEY'
    run.manifest.systems['generic']['note'] = 'a-secret-of-19-chars'
    monkeypatch.setenv('PACK_TEST_KEY', 'a-secret-of-19-chars')
    data = b''.join(files_in(published(run)).values())
    assert b'a-secret-of-19-chars' not in data
    assert b'$PACK_TEST_KEY' in data


def test_folders_of_this_machine_are_not_published():
    manifest = sample_manifest()
    manifest.systems['a'].update(model_file='/home/me/models/a', prompt='/think hard')
    manifest.protocol.scorer['judge_model_file'] = '/home/me/judge'
    manifest = manifest.changed(asked={'config': '/home/me/my.yaml'})
    public = public_manifest(manifest)
    assert '/home' not in json.dumps(public.to_json())
    assert public.systems['a'] == {'model_file': '…/a', 'prompt': '/think hard'}


@pytest.mark.parametrize(
    'text, shown',
    [
        ('cannot read /home/me/a b', 'cannot read a b'),
        ('see ~/runs/x.json', 'see x.json'),
        ('http://host/a/b and zoo:mini/a/model', None),
        ('3/4 of and/or', None),
    ],
)
def test_texts_name_files_without_their_folders(text, shown):
    assert without_paths(text) == (shown or text)


def test_a_run_without_all_scores_is_refused(copy_of, published, tmp_path):
    run = copy_of('generic')
    next(run.root.glob('scores/*/*/00000.jsonl')).unlink()
    with user_error('no complete scores'):
        published(run)
    assert not (tmp_path / 'p.zip').exists()


def test_a_killed_publication_leaves_the_old_pack_and_can_be_run_again(runs, published):
    path = published(runs['generic'])
    before = path.read_bytes()
    with interrupted(os, 'replace'):
        published(runs['both'])
    assert path.read_bytes() == before
    assert [one.name for one in path.parent.iterdir()] == ['p.zip']
    assert published(runs['both']).read_bytes() != before


def test_the_command_prints_the_id_of_the_pack_and_wants_a_zip_file(
    runs, tmp_path, printed
):
    root = runs['generic'].root
    made = PublishRun.main(run_dir=root, out=str(tmp_path / 'p.zip'))
    assert f'id {made.id}' in printed()
    for out in (None, 'pack.tar', '.'):
        with user_error('--out'):
            PublishRun.main(run_dir=root, out=out)


@pytest.fixture(scope='module')
def pack(packs):
    with open_pack(packs['both']) as opened:
        yield opened


# how the LaTeX Companion writes each of the ten special characters
@pytest.mark.parametrize(
    'text, latex',
    [
        ('50% of a_b & c#1', r'50\% of a\_b \& c\#1'),
        ('$5 {x}', r'\$5 \{x\}'),
        ('a~b^c', r'a\textasciitilde{}b\textasciicircum{}c'),
        (r'\input{/etc/passwd}', r'\textbackslash{}input\{/etc/passwd\}'),
        ('1–2', '1--2'),
        ('−0.5', '$-$0.5'),
        ('a\nb', 'a b'),
    ],
)
def test_latex_sees_no_command_in_a_text(text, latex):
    assert latex_text(text) == latex


@pytest.fixture
def cited(packs, printed):
    """
    Return a function that cites a pack, and returns the facts, the table and the BibTeX
    entry that are printed, each as one text.
    """

    def cited(path=packs['both'], **options):
        CiteRun.main(pack=str(path), **options)
        facts, table, bibtex, _ = printed().split('\n\n')
        return facts, table, bibtex

    return cited


def test_facts_name_signature_lock_openers_check_and_n(pack, cited):
    text, *_ = cited()
    manifest = pack.manifest
    (signature,) = pack.signatures
    ranking = rank_run(pack.run, signature)
    (row, *_) = next(iter(ranking.standings.values()))
    facts = [ranking.signature, pack.id, manifest.partner_lock, manifest.openers_hash]
    scope = 'for these partners only'  # there are two
    for fact in (*facts, 'unchecked', scope, f'{row.score:.3f}', 'n = 10'):
        assert fact in text


def test_openers_of_imported_dialogues_are_unknown(imported, cited):
    facts, *_ = cited(imported)
    assert 'openers       unknown' in facts


def test_the_table_has_a_row_for_each_system_best_first(pack, cited):
    _, table, bibtex = cited()
    head, *rows = table.split('\n')
    assert head == r'System & Overall & 95 \% interval & Rank & n \\'
    assert [row.split(' & ')[3][0] for row in rows] == ['1', '2']
    # what nobody gave is left out
    assert 'author' not in bibtex and 'year' not in bibtex
    assert pack.id[:16] in bibtex
    _, table, _ = cited(system='talker')
    _, row = table.split('\n')
    assert row.startswith('talker & ')


def test_braces_of_an_address_do_not_end_the_bibtex_entry(cited):
    _, _, text = cited(url='https://x.org/a}b%20c', author='A & B', year=2026)
    assert r'\url{https://x.org/a%7Db%20c}' in text
    assert r'author = {A \& B}' in text
    assert text.startswith('@misc{tiny-') and text.count('{') == text.count('}')


@pytest.mark.parametrize('key', ['system', 'dimension'])
def test_an_unknown_name_gets_a_hint(cited, key):
    with user_error(f'--{key}'):
        cited(**{key: 'nobody'})


# A pack is a stranger's file: archives that would harm are refused by name.


@pytest.mark.parametrize(
    'entries, why',
    [
        # of other ways: tests/systems/test_archives.py
        ([('../evil', b'x')], 'no plain path'),
        *(
            ([(INDEX, index)], 'is no pack')
            for index in (
                b'[]',
                b'{}',
                b'{"format": "parlai_ext pack", "schema": 9}',
                b'{"format": "parlai_ext pack", "schema": 1, "members": 3}',
                b'[' * 100_000,
                b'\xff',
            )
        ),
    ],
)
def test_an_archive_that_would_harm_is_refused_in_one_line(tmp_path, entries, why):
    path = written(tmp_path, 'p.zip', zip_of(entries, zipfile.ZIP_DEFLATED))
    assert path.stat().st_size < 2**20
    with user_error(why), open_pack(path):
        pass
    assert [one.name for one in tmp_path.iterdir()] == ['p.zip']


@pytest.mark.parametrize('data', [b'PK\x03\x04 not really', b'<html>403</html>'])
def test_what_is_no_zip_file_is_one_line(tmp_path, data):
    with user_error('publish_run'), open_pack(tmp_path):
        pass
    with user_error('p.zip'):
        check_pack(written(tmp_path, 'p.zip', data))


def large_import(manifest):
    counts = dict.fromkeys(('dialogues', 'left_out', 'bad_rows', 'people_only'), 0)
    files = {'format': 'csv', 'content': '', 'files': {}, 'silent': {}}
    manifest['imported'] = {**counts, **files, 'dialogues_a_pair': 9_999_999}
    manifest['protocol']['pairing'] = 'imported'


@pytest.mark.parametrize(
    'change, named',
    [
        (lambda m: m['protocol']['ranking'].update(bootstraps=10**9), 'bootstraps'),
        (large_import, 'openers'),
    ],
)
def test_a_manifest_that_asks_for_too_much_work_is_refused_before_it_is_done(
    forged, monkeypatch, change, named
):
    path = forged('manifest.json', change)
    monkeypatch.setattr('parlai_ext.packs.pack.RunFolder', None)  # it makes all openers
    with user_error(named), open_pack(path):
        pass


@pytest.mark.parametrize(
    'change',
    [
        lambda m: m['protocol'].update(pairing=['bipartite']),
        lambda m: m['protocol'].update(ranking={'bootstraps': 'x'}),
    ],
)
def test_a_manifest_of_another_kind_is_wrong_and_no_traceback(forged, change):
    with suppress(UserError):
        assert check_pack(forged('manifest.json', change)).problems


def test_the_bytes_of_a_zip_do_not_depend_on_the_order_of_its_files():
    data = zip_bytes({'b': b'2', 'a': b'1'})
    assert data == zip_bytes({'a': b'1', 'b': b'2'})
    with zipfile.ZipFile(io.BytesIO(data)) as opened:
        entries = [(info.filename, info.date_time) for info in opened.infolist()]
    assert entries == [(name, (1980, 1, 1, 0, 0, 0)) for name in 'ab']


def test_the_id_does_not_depend_on_how_the_archive_is_packed(packs, tmp_path):
    data = zip_of(files_in(packs['both']).items())
    path = written(tmp_path, 'stored.zip', data)
    with open_pack(path) as stored, open_pack(packs['both']) as packed:
        assert stored.id == packed.id
