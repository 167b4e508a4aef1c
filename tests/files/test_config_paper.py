"""
The shipped files of the bipartite-play paper say what the paper says.
"""

import pytest

from parlai_ext.files import load_roster, parse_target
from parlai_ext.scoring.registry import load_protocol_file
from parlai_ext.store import pairings

# Table 2, typed from the paper
TARGETS = """
Tfm-3B-Rdt-Bsm Tfm-3B-Rdt-Msc Tfm-3B-R2c-Bsm Tfm-3B-Rdt-Lgu GPT-345M-Wtx-Rdt
Tfm-89M-Ddc-Nft Tfm-89M-Ddc-Crm Tfm-89M-Ddc-Ddg Tfm-89M-Ddc-Rdt Tfm-89M-Ddc-Twt
PEn-256M-Rdt-Bst
"""
PARTNERS = """
Tfm-3B-Rdt-Slf Tfm-3B-Rdt-Lgt Tfm-3B-Rdt-Img Tfm-3B-Rdt-Sfr Tfm-1B-Rdt-Bsm
GPT-117M-Wtx-Rdt GPT-762M-Wtx-Rdt Tfm-406M-Rdt-Bsm Tfm-406M-R2c-Bsm Brt-406M-Rbt-Woi
Trm-89M-Ddc-Wow Trm-89M-Ddc-Lgt Trm-89M-Ddc-Emp Trm-89M-Ddc-Cv2 Trm-89M-Rdt-Wow
Trm-89M-Rdt-Cv2 Trm-88M-Rdt-Bst Trm-88M-Rdt-Cv2 PEn-256M-Rdt-Cv2 PEn-256M-Rdt-Emp
PEn-256M-Rdt-Wow PEn-256M-Rdt-All PEn-256M-Rdt-Bsm B+F-256M-Rbt-Wow
"""


def test_the_roster_is_table_2():
    roster = load_roster('bipartite_2022').roster
    assert [s.name for s in roster.targets] == TARGETS.split()
    assert [s.name for s in roster.partners] == PARTNERS.split()


@pytest.mark.parametrize(
    'name, pairing, num_dialogues, pairs',
    [
        # section 6.1: 11 x 1, 11 x 10 and 11 x 24 pairs; 1,000, 600 and 600 dialogues
        ('self_play_2022', 'self_play', 1000, 11),
        ('all_play_all_2022', 'all_play_all', 600, 110),
        ('bipartite_2022', 'bipartite', 600, 264),
    ],
)
def test_the_protocols_have_the_numbers_of_section_6(
    name, pairing, num_dialogues, pairs
):
    found = load_protocol_file(name).protocol
    names = {system.name: system.name for system in found.roster.systems}
    assert (found.name, found.pairing) == (name, pairing)
    assert found.num_dialogues == num_dialogues
    assert len(pairings(found.roster, pairing, names)) == pairs
    # two given utterances and five exchanges
    assert found.num_turns == 2 + 5 * 2
    assert found.openers == 'ext:empathetic_openers'
    assert found.scorer['judge_model_file'] == 'zoo:blender/blender_9B/model'
    assert found.scorer['polarity'] == 'negative'


def test_parameters_agree_with_the_names_where_the_name_is_right():
    # the paper's own slips: Blender 400M has 365M, GPT-2's names say 117M and 762M, no
    # zoo FiD has 256M
    slips = {'Tfm-406M-Rdt-Bsm', 'GPT-117M-Wtx-Rdt', 'GPT-762M-Wtx-Rdt'}
    slips |= {'B+F-256M-Rbt-Wow', 'GPT-345M-Wtx-Rdt'}
    units = {'B': 1e9, 'M': 1e6}
    for name, info in load_roster('bipartite_2022').info.items():
        size = name.split('-')[1]
        stated = float(size[:-1]) * units[size[-1]]
        off = abs(info.params / stated - 1)
        # '3B' and '1B' are rounded to one digit
        assert name in slips or off < (0.5 if size[-1] == 'B' else 0.01), name


def test_table_six_has_one_roster_of_the_eleven_and_their_variants():
    file = load_roster('cheating_2022')
    names = [system.name for system in file.roster.targets]
    assert set(names[:11]) == set(TARGETS.split())
    series = [
        [n for n in names if file.info[n].family == kin]
        for kin in ('DialoGPT series', 'Blender series')
    ]
    assert [len(kin) for kin in series] == [3, 3]
    assert {*series[0], *series[1]} - {*names[:11]} == {*names[11:]}


@pytest.mark.parametrize(
    'series, unfavored, similar',
    [
        # section 7.2
        ('dialogpt', 'GPT-345M-Wtx-Rdt', ['GPT-124M-Wtx-Rdt', 'GPT-774M-Wtx-Rdt']),
        ('blender', 'Tfm-3B-Rdt-Bsm', ['Tfm-406M-Rdt-Bsm', 'Tfm-1B-Rdt-Bsm']),
    ],
)
def test_an_unfair_set_is_a_series_and_one_favored_system(series, unfavored, similar):
    found = load_protocol_file(f'cheating_{series}_2022').protocol
    assert [s.name for s in found.roster.targets] == [unfavored, *similar]
    assert (found.pairing, found.num_dialogues) == ('all_play_all', 600)
    # the favored one is any other target of Table 2, by its name alone
    favored = set(TARGETS.split()) - {unfavored}
    assert len(favored) == 10
    assert {parse_target(name)[0].name for name in favored} == favored
