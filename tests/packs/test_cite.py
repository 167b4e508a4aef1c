"""
A citation says what the numbers rest on, in texts that LaTeX can read.
"""

import pytest

from parlai_ext.commands.cite_run import CiteRun
from parlai_ext.packs.cite import CiteOptions, cite_pack, latex_text
from parlai_ext.packs.pack import open_pack
from parlai_ext.results.rank import rank_run
from tests.support.user_error import user_error


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


def test_facts_name_signature_lock_openers_check_and_n(pack):
    (citation,) = cite_pack(pack, CiteOptions())
    text = '\n'.join(citation.facts)
    (signature,) = pack.index.scores.values()
    ranking = rank_run(pack.run, signature)
    (row, *_) = next(iter(ranking.standings.values()))
    for fact in (
        ranking.signature,
        pack.id,
        pack.index.partner_lock,
        pack.index.openers.hash,
        'unchecked',
        f'{row.score:.3f}',
        'n = 10',
    ):
        assert fact in text


def test_the_table_has_a_row_for_each_system_best_first(pack):
    (citation,) = cite_pack(pack, CiteOptions())
    head, *rows = citation.latex
    assert head == r'System & Overall & 95 \% interval & Rank & n \\'
    assert [row.count('&') for row in rows] == [4, 4]
    assert [row.split(' & ')[3][0] for row in rows] == ['1', '2']
    # what nobody gave is left out
    assert not [line for line in citation.bibtex if 'author' in line or 'year' in line]
    assert pack.id[:16] in ''.join(citation.bibtex)
    (one,) = cite_pack(pack, CiteOptions(system='talker'))
    assert len(one.latex) == 2
    assert one.latex[1].startswith('talker & ')


def test_braces_of_an_address_do_not_end_the_bibtex_entry(pack):
    options = CiteOptions(url='https://x.org/a}b', author='A & B', year=2026)
    (citation,) = cite_pack(pack, options)
    text = '\n'.join(citation.bibtex)
    assert r'\url{https://x.org/a%7Db}' in text
    assert r'author = {A \& B}' in text
    assert text.count('{') == text.count('}')


@pytest.mark.parametrize('key', ['system', 'dimension'])
def test_an_unknown_name_gets_a_hint(pack, key):
    with user_error(f'--{key}'):
        cite_pack(pack, CiteOptions(**{key: 'nobody'}))


def test_the_command_prints_facts_table_and_entry(packs, capsys):
    CiteRun.main(str(packs['both']))
    out = capsys.readouterr().out
    assert '@misc{tiny-' in out
    assert 'partners      lock ' in out
