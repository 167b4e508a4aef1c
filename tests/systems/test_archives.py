"""
An archive is unpacked whole, inside the target, or not at all.
"""

import gzip
import io
import shutil
import stat
import tarfile
import zipfile
from types import SimpleNamespace

import pytest
from parlai.core import build_data

from parlai_ext.systems.fetch import archives
from parlai_ext.systems.fetch.archives import BadArchive, move_into, unpack, unpack_gzip
from tests.support.download_server import tar_of
from tests.support.store_samples import files_under
from tests.support.user_error import user_error
from tests.support.written import written, zip_of

GOOD = {'./model': b'weights', './sub/model.opt': b'{}', 'sub/deep/x.dict': b'a\t1'}
GOOD['old'] = b'new'  # which is there already
MODES = {'x.tar': 'w:', 'x.tgz': 'w:gz', 'x.tar.bz2': 'w:bz2', 'x.tar.xz': 'w:xz'}


def special(name, kind, target='', size=0):
    """
    Return a tar file with a good member and one of another kind.
    """
    out = io.BytesIO()
    with tarfile.open(fileobj=out, mode='w:gz') as tar:
        tar.addfile(tarfile.TarInfo('model'))
        info = tarfile.TarInfo(name)
        info.type, info.linkname, info.size = kind, target, size
        tar.addfile(info)
    return out.getvalue()


def twice(name, other):
    return tar_of({name: b'a'}, 'w:')[:1024] + tar_of({other: b'b'}, 'w:')


def zip_link():
    info = zipfile.ZipInfo('link')
    info.external_attr = (stat.S_IFLNK | 0o777) << 16
    return zip_of([('model', 'x'), (info, '/etc/passwd')])


@pytest.fixture
def target(tmp_path):
    """
    Give a folder inside another that must not change, with a file of its own.
    """
    written(tmp_path, 'outside.txt', 'mine')
    folder = tmp_path / 'in' / 'target'
    folder.mkdir(parents=True)
    written(folder, 'old', 'old')
    return folder


@pytest.mark.parametrize('flatten', [False, True])
@pytest.mark.parametrize('name', [*MODES, 'x.zip'])
def test_what_parlai_unpacks_is_what_we_unpack(target, tmp_path, name, flatten):
    data = zip_of(GOOD.items()) if name == 'x.zip' else tar_of(GOOD, MODES[name])
    theirs = tmp_path / 'theirs'
    shutil.copytree(target, theirs)
    if name == 'x.zip' or not flatten:  # ParlAI wants these folders to be there
        (theirs / 'sub' / 'deep').mkdir(parents=True)
    build_data.untar(str(theirs), written(theirs, name, data).name, flatten_tar=flatten)
    archive = written(target, name, data)
    unpack(archive, target, flatten=flatten)
    archive.unlink()
    assert files_under(target) == files_under(theirs)


def good_tgz():
    return gzip.compress(tar_of(GOOD, 'w:'), mtime=0)


def encrypted_zip():
    data = bytearray(zip_of([('model', b'weights')]))
    data[6] |= 1
    data[data.index(b'PK\x01\x02') + 8] |= 1
    return bytes(data)


def long_header(kind):
    """
    Return a tar file with a header that goes on for ten megabytes.
    """
    header = tarfile.TarInfo('x')
    header.type, header.size = kind, 10**7
    return gzip.compress(header.tobuf() + bytes(10**7), mtime=0)


NO_PATHS = {
    'end.tgz': 'model/..',
    'abs.tgz': '/tmp/evil',
    'drive.tgz': 'C:/evil',
    'back.tgz': 'a\\..\\evil',
    'line.tgz': 'a\nb',
    'late.tgz': 'a\n/../../outside.txt',
}
PATH, KIND, TWICE = 'no plain path', 'neither a file nor', 'there twice'
REFUSED = {
    PATH: {
        'up.tgz': tar_of({'model': b'', '../outside.txt': b'evil'}),
        **{name: tar_of({member: b'evil'}) for name, member in NO_PATHS.items()},
        'up.zip': zip_of([('model', ''), ('../outside.txt', 'evil')]),
        'nul.zip': zip_of([('model_a', 'x')]).replace(b'model_a', b'mod\0l_a'),
    },
    KIND: {
        'sym.tgz': special('s', tarfile.SYMTYPE, '../../outside.txt'),
        'hard.tgz': special('h', tarfile.LNKTYPE, '../../outside.txt'),
        'char.tgz': special('d', tarfile.CHRTYPE),
        'fifo.tgz': special('f', tarfile.FIFOTYPE),
        'link.zip': zip_link(),
    },
    TWICE: {
        'twice.tar': twice('model', 'model'),
        'flat.tgz': tar_of({'a/model': b'1', 'b/model': b'2'}),
        'both.tar': twice('model', 'model/x'),
        'twice.zip': zip_of([('model', 'a'), ('model', 'b')]),
    },
    'too long': {
        'long.tgz': tar_of({'a' * 300: b'evil'}),
    },
    'is damaged: ': {
        'cut.tgz': good_tgz()[:-30],
        'crc.tgz': good_tgz()[:-8] + bytes(8),  # in place of checksum and length
        'empty.tgz': b'',
        'crc.zip': zip_of([('model', b'weights')]).replace(b'weights', b'Weights'),
        'cut.zip': zip_of(GOOD.items())[:-10],
        'cut.tar': tar_of({'model': bytes(5000)}, 'w:')[:3000],
    },
    'bytes come out of it': {
        'bomb.tgz': tar_of({'zeros': bytes(10**7)}),
        'bomb.zip': zip_of([('zeros', bytes(10**7))], zipfile.ZIP_DEFLATED),
        'pax.tgz': long_header(tarfile.XHDTYPE),
        'name.tgz': long_header(tarfile.GNUTYPE_LONGNAME),
        'global.tgz': long_header(tarfile.XGLTYPE),
        'end.tgz': gzip.compress(bytes(10**7)),
    },
    'damaged|neither': {
        'lie.tgz': special('big', tarfile.REGTYPE, size=10**15),
        'sparse.tgz': special('big', tarfile.GNUTYPE_SPARSE),
    },
    'more than 10 members': {
        'many.tgz': tar_of({str(n): b'' for n in range(11)}),
        'many.zip': zip_of((str(n), b'') for n in range(11)),
    },
    'is encrypted': {
        'locked.zip': encrypted_zip(),
    },
}


@pytest.mark.parametrize(
    'words, name', [(words, name) for words in REFUSED for name in REFUSED[words]]
)
def test_an_archive_that_is_not_to_be_trusted_leaves_nothing(
    target, tmp_path, words, name, monkeypatch
):
    monkeypatch.setattr(archives, 'ALWAYS_ALLOWED', 10**5)
    monkeypatch.setattr(archives, 'MAX_MEMBERS', 10)
    archive = written(target, name, REFUSED[words][name])
    before = files_under(tmp_path)
    with pytest.raises(BadArchive, match=words) as caught:
        # flat.tgz has two files of one name once its folders are left out
        unpack(archive, target, flatten=name == 'flat.tgz')
    assert name in str(caught.value)
    assert files_under(tmp_path) == before
    assert sorted(p.name for p in target.iterdir()) == sorted(['old', name])


def test_what_does_not_fit_on_the_disk_is_not_unpacked(target, monkeypatch):
    usage = SimpleNamespace(free=archives.SPARE_DISK + 99)
    monkeypatch.setattr(shutil, 'disk_usage', lambda path: usage)
    with pytest.raises(BadArchive, match='more than 99 bytes'):
        unpack(written(target, 'x.tgz', tar_of({'model': bytes(100)})), target)


def test_a_folder_may_be_listed_twice(target):
    with tarfile.open(target / 'x.tar', mode='w:') as tar:
        for name in ('.', 'sub', './sub', 'sub/model'):
            info = tarfile.TarInfo(name)
            info.type = tarfile.REGTYPE if '/model' in name else tarfile.DIRTYPE
            tar.addfile(info)
    unpack(target / 'x.tar', target)
    assert (target / 'sub' / 'model').read_bytes() == b''


def test_leftovers_of_a_killed_unpacking_are_no_part_of_the_next(target):
    left = target / '.x.tgz.unpacked'
    left.mkdir()
    written(left, 'half', 'half')
    unpack(written(target, 'x.tgz', tar_of(GOOD)), target)
    assert not left.exists() and not (target / 'half').exists()


def test_the_mark_of_what_is_built_comes_last(tmp_path, monkeypatch):
    source = tmp_path / 'source'
    source.mkdir()
    for name in ('.a', '.built', 'z'):
        (source / name).touch()
    order = []
    monkeypatch.setattr(archives.os, 'replace', lambda a, b: order.append(a.name))
    move_into(source, tmp_path / 'target')
    assert order == ['.a', 'z', '.built']


def test_a_compressed_file_is_expanded_as_gzip_does(tmp_path):
    (tmp_path / 'x.gz').write_bytes(gzip.compress(b'plain' * 1000))
    unpack_gzip(tmp_path / 'x.gz', tmp_path / 'x')
    assert (tmp_path / 'x').read_bytes() == b'plain' * 1000


def test_a_compressed_bomb_leaves_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(archives, 'ALWAYS_ALLOWED', 1000)
    (tmp_path / 'x.gz').write_bytes(gzip.compress(bytes(10**6)))
    with pytest.raises(BadArchive):
        unpack_gzip(tmp_path / 'x.gz', tmp_path / 'x')
    assert [p.name for p in tmp_path.iterdir()] == ['x.gz']


@pytest.mark.parametrize('name', ['model/part', 'model'])
def test_a_file_and_a_folder_of_one_name_leave_all_as_it_was(tmp_path, name):
    source, there = tmp_path / 'came', tmp_path / 'there'
    for place in (source / 'a', source / name):
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text('new')
    old = there / ('model' if '/' in name else 'model/part')
    old.parent.mkdir(parents=True)
    old.write_text('old')
    with user_error('in the way of a'):
        move_into(source, there)
    assert [p for p in there.rglob('*') if p.is_file()] == [old]
    assert old.read_text() == 'old' and (source / 'a').is_file()


def test_a_link_to_nothing_is_in_the_way_of_a_folder(tmp_path):
    (tmp_path / 'came/model').mkdir(parents=True)
    (tmp_path / 'came/a').touch()
    (tmp_path / 'model').symlink_to('nothing')
    with user_error('in the way of a folder'):
        move_into(tmp_path / 'came', tmp_path)
    assert (tmp_path / 'came/a').is_file()
