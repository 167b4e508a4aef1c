"""
Options declared once: keys, flags, signature and docs come from one dataclass.
"""

import argparse
from dataclasses import dataclass

import pytest

from parlai_ext.commands.options import Resamples
from parlai_ext.core import (
    Flags,
    flag_values,
    option,
    option_values,
    options_from_opt,
    read_key_values,
    read_options,
    signature_values,
)
from parlai_ext.engines import Machine
from parlai_ext.people.rating_set import RatingOptions
from tests.support.user_error import user_error


@dataclass(frozen=True)
class Sample:
    """
    One option of each kind.
    """

    encoder: str = option('small', help='model', model='embedder', path=True)
    against: str = option('context', help='what', choices=('context', 'last_turn'))
    share: float = option(0.5, help='part of it', low=0, high=1)
    turns: int | None = option(None, help='how many', low=1, signed='if changed')
    exact: bool = option(False, help='no rounding', signed=False)
    words: tuple[str, ...] = option((), help='list', flag='--word-list')

    presets = {'against': {'last_turn': {'share': 0.25}}}


def parser_of(options, **about):
    parser = argparse.ArgumentParser()
    Flags(options, **about).add_to(parser)
    return parser


def parsed(*args, **about):
    parser = parser_of(Sample, prefix='sample', **about)
    return flag_values(Sample, vars(parser.parse_args(list(args))), 'sample')


def test_a_mapping_is_read_with_defaults_for_what_is_not_given():
    assert option_values(read_options(Sample, {'share': 1, 'turns': None})) == {
        'encoder': 'small',
        'against': 'context',
        'share': 1.0,
        'turns': None,
        'exact': False,
        'words': (),
    }


def test_presets_follow_from_what_is_given_and_yield_to_it():
    assert read_options(Sample, {'against': 'last_turn'}).share == 0.25
    assert read_options(Sample, {'against': 'last_turn', 'share': 0.1}).share == 0.1


@pytest.mark.parametrize(
    'given, key, hint',
    [
        ({'encodr': 'x'}, 'encodr', "'encoder'"),
        ({'against': 'last turn'}, 'against', "'last_turn'"),
        ({'share': 1.5}, 'share', 'from 0 to 1'),
        ({'share': float('nan')}, 'share', 'from 0 to 1'),
        ({'turns': 2.5}, 'turns', 'whole number'),
        ({'turns': True}, 'turns', 'whole number'),
        ({'turns': 10**20}, 'turns', 'from 1 to 1,000,000,000'),
        ({'encoder': 7}, 'encoder', 'quotes'),
        ({'exact': 'yes'}, 'exact', 'true or false'),
        ({'words': 'a'}, 'words', 'list'),
    ],
)
def test_a_mistake_names_place_key_and_what_would_be_right(given, key, hint):
    with user_error(f'^scorer: {key}: .*{hint}'):
        read_options(Sample, given, 'scorer: ')


@pytest.mark.parametrize(
    'options, name', [(Resamples, 'bootstraps'), (RatingOptions, 'num_pages')]
)
def test_work_that_would_not_end_is_refused(options, name):
    with user_error(f'^{name}: 1000001: a whole number from 1 to 1[0,]+ is expected'):
        read_options(options, {name: 1_000_001})


def test_a_seed_may_be_any_number():
    assert read_options(Resamples, {'seed': 10**20}).seed == 10**20


def test_flags_are_kebab_case_and_know_their_types_and_are_no_values_where_not_given():
    words = '--sample-share 0.2 --sample-turns 3 --sample-exact'
    words += ' --word-list a,b --word-list c'
    expected = {'share': 0.2, 'turns': 3, 'exact': True, 'words': ('a', 'b', 'c')}
    assert parsed(*words.split(), not_given=True) == expected
    assert parsed(not_given=True) == {}


def test_a_wrong_flag_is_refused_by_the_parser(capsys):
    with pytest.raises(SystemExit):
        parsed('--sample-against', 'x')
    assert '--sample-against' in capsys.readouterr().err


@pytest.mark.parametrize(
    'flag, texts',
    [
        ('--max-gpu-memory', ['0', '-1', 'much', 'nan', 'inf']),
        ('--batchsize', ['0', '-1', '1.5', ' 5', '1_000', '+3']),
    ],
)
def test_a_size_of_the_machine_is_a_plain_number_above_zero(flag, texts, capsys):
    parser = parser_of(Machine)
    parser.parse_args([flag, '2'])
    for text in texts:
        with pytest.raises(SystemExit):
            parser.parse_args([f'{flag}={text}'])
        assert flag in capsys.readouterr().err


def test_help_shows_group_help_and_default():
    text = parser_of(Sample, title='Sample', not_given=True).format_help()
    assert 'Sample:' in text and 'part of it (default: 0.5)' in text


def test_pairs_are_read_as_flags_are():
    assert read_key_values(Sample, ['share=0.2', 'exact=true'], '--scorer-option') == {
        'share': 0.2,
        'exact': True,
    }
    for wrong in ('share', 'shar=1', 'share=x'):
        with user_error(f'--scorer-option {wrong}: '):
            read_key_values(Sample, [wrong], '--scorer-option')


def test_only_signed_options_are_in_the_signature():
    assert list(signature_values(Sample())) == ['against', 'share', 'words']
    assert signature_values(Sample(turns=2))['turns'] == 2


@dataclass(frozen=True)
class Several:
    """
    Options of several values, and options that are named by their place.
    """

    sets: tuple[str, ...] = option((), nargs='+', help='names')
    metrics: tuple[str, ...] | None = option(None, nargs='*', help='names, or none')
    first: str | None = option(None, positional=True, help='one word')
    others: tuple[str, ...] = option((), positional=True, nargs='*', help='words')


def several(*args):
    given = vars(parser_of(Several).parse_args(list(args)))
    return read_options(Several, flag_values(Several, given))


def test_a_flag_takes_several_values_commas_included():
    given = several('--sets', 'a,x=1', 'b', '--metrics')
    assert given == Several(sets=('a,x=1', 'b'), metrics=())
    assert several('--sets', 'a', '--sets', 'b').sets == ('b',)  # the last one holds


def test_words_are_options_by_their_place_and_may_be_left_out():
    assert several('a', 'b', 'c') == Several(first='a', others=('b', 'c'))
    assert several() == Several()


def test_a_text_of_a_roster_is_one_of_several_values():
    assert options_from_opt(Several, {'sets': 'a,x=1'}).sets == ('a,x=1',)
