"""
A folder of packs becomes a site: one page for each protocol, and one that lists them.

It is plain files, without a server or a script. Packs are strangers' files: each is
checked first, one in which something is wrong is named and left out, and no text of a
pack reaches a page unescaped.
"""

import re
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from pathlib import Path
from tempfile import TemporaryDirectory

from parlai_ext.core import UserError, content_id, frozen, scorer_name
from parlai_ext.packs.check_pack import Again, Verification
from parlai_ext.packs.compare import join_packs, pack_differences
from parlai_ext.packs.pack import Pack, open_pack, packs_in
from parlai_ext.report import judge, summary
from parlai_ext.report.table import leaderboards
from parlai_ext.store import make_folder, write_file, write_text
from parlai_ext.view.page import render_page

INDEX_PAGE = 'index.html'
PACKS = 'packs'
Check = Callable[[Path], Verification]


@frozen
class Site:
    """
    What was written: the page of each protocol, and the packs that were left out, with
    reasons.
    """

    index: Path
    pages: Mapping[str, Path]
    left_out: Mapping[str, str]


def build_site(folder: Path, out: Path, check: Check) -> Site:
    """
    Write the site of all packs in a folder.

    :param check: checks a pack, and makes again as much of it as is wanted.
    :raises UserError: when the folder has no packs.
    """
    again: dict[Path, Again] = {}
    left_out = {}
    by_protocol = defaultdict(list)
    for path in packs_in(folder):
        try:
            checked = check(path)
        except UserError as error:
            left_out[path.name] = str(error)
            continue
        if checked.problems or checked.manifest is None:
            left_out[path.name] = checked.problems[0]
        else:
            again[path] = checked.again
            by_protocol[checked.manifest.protocol.name].append(path)
    make_folder(out / PACKS)
    rows, pages = [], {}
    for protocol, members in sorted(by_protocol.items()):
        name = page_name(protocol)
        with ExitStack() as stack:
            packs = [stack.enter_context(open_pack(path)) for path in members]
            groups = [
                _group_data(group, reasons, again)
                for group, reasons in comparable_groups(packs)
            ]
        text = render_page('leaderboard.html.j2', protocol=protocol, groups=groups)
        write_text(out / name, text)
        pages[protocol] = out / name
        rows.append({'protocol': protocol, 'page': name, 'groups': groups})
    for path in again:
        copy = out / PACKS / path.name
        if not copy.exists() or not copy.samefile(path):
            write_file(copy, path.read_bytes())
    text = render_page('leaderboards.html.j2', rows=rows, left_out=left_out)
    write_text(out / INDEX_PAGE, text)
    return Site(out / INDEX_PAGE, pages, left_out)


def comparable_groups(
    packs: Sequence[Pack],
) -> Iterator[tuple[list[Pack], list[str]]]:
    """
    Yield packs in groups that may be compared, each with the keys in which it differs
    from the first group.
    """
    groups: list[list[Pack]] = []
    for pack in packs:
        for group in groups:
            if not pack_differences(group, pack):
                group.append(pack)
                break
        else:
            groups.append([pack])
    for group in groups:
        yield group, [] if group is groups[0] else pack_differences(groups[0], group[0])


def page_name(protocol: str) -> str:
    """
    Return the file name of a protocol's page; protocols whose names look alike have
    pages of their own.
    """
    words = re.findall('[A-Za-z0-9_]+', protocol)
    slug = '-'.join(words)[:40] or 'protocol'
    plain = slug == protocol and slug != 'index'
    return f'{slug}.html' if plain else f'{slug}-{content_id(protocol)[:8]}.html'


def _group_data(
    packs: Sequence[Pack], reasons: Sequence[str], again: Mapping[Path, Again]
) -> dict[str, object]:
    """
    Return what a page shows of packs that may be compared.
    """
    with TemporaryDirectory(prefix='parlai_site_') as folder:
        joined = join_packs(packs, Path(folder) / 'joined')
        rankings = [joined.rank(signature) for signature in joined.signatures]
    made_again = [(pack, again[pack.path]) for pack in packs]
    # a system that is in several packs is that of the first
    systems: dict[str, tuple[str, Pack, Again]] = {}
    for one, names in zip(made_again, joined.names, strict=True):
        for target, name in names.items():
            systems.setdefault(name, (target, *one))
    return {
        'reasons': reasons,
        'boards': [
            {
                'scorer': scorer_name(ranking.scorer_signature),
                'headline': summary.sentences(ranking)[0],
                'outcome': judge.outcome_on(ranking, ranking.leading_dimension),
                'boards': leaderboards(ranking),
                'warnings': summary.warnings(ranking),
            }
            for ranking in rankings
        ],
        'packs': made_again,
        'systems': systems,
        'notes': joined.notes,
        'manifest': packs[0].manifest,
        'signatures': [ranking.signature for ranking in rankings],
    }
