"""
Parrots: replies that please a judge without saying anything of their own.

A parrot says back what its partner said in words of another kind than an exact copy, or
says something that fits every turn. ``zoo_configs/parrots.yaml`` is the one bank of
their wordings: the judge check, the audit's canaries and the benchmarks take theirs
from it.

Each kind has wordings of two sorts. A judge may be trained and fitted on those of
`TRAIN`; those of `HELD_OUT` are other sentences, on which it is tested. So a judge that
has learned the sentences and not the fault is found out.
"""

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parlai_ext import zoo_configs
from parlai_ext.core.nouns import content_id
from parlai_ext.files.yaml_file import read_file
from parlai_ext.ranking.baselines import WORD
from parlai_ext.scoring.english import LEFT_OUT, SECOND_PERSON

TRAIN, HELD_OUT, ALL = 'train', 'held_out', 'all'
MAX_QUOTED = 20  # words of a turn that are said back; of a longer one a part is
MAX_KEY_WORDS = 2
SENTENCE_END = re.compile(r'(?<=[.!?…])\s+')
AT_THE_ENDS = ' \t\n.,;:!?…-–—"“”'


@dataclass(frozen=True)
class ParrotKind:
    """
    One kind of parrot.

    The wordings are templates. `{quote}` is the turn that is said back, without its
    final punctuation and with a small letter first; `{mirror}` has its pronouns
    swapped; `{half}` and `{rest}` are its first and second half; `{shuffled}` is half
    of its words in random order; `{words}` are its key words, and `{word}` the longest
    of them. `{Quote}`, `{Mirror}`, `{Half}`, `{Rest}` and `{Shuffled}` begin with a
    capital letter.

    :param does: what such a speaker does, as the predicate of a sentence.
    :param earlier: it says back the partner's turn before the last one.
    """

    does: str
    train: tuple[str, ...]
    held_out: tuple[str, ...]
    earlier: bool = False

    def wordings(self, which: str = ALL) -> tuple[str, ...]:
        """
        Return the templates of `TRAIN`, of `HELD_OUT`, or of `ALL`.
        """
        sorts = {TRAIN: self.train, HELD_OUT: self.held_out}
        sorts[ALL] = self.train + self.held_out
        return sorts[which]


PARROTS: Mapping[str, ParrotKind] = {
    kind: ParrotKind(
        own['does'],
        tuple(own['train']),
        tuple(own['held_out']),
        own.get('earlier', False),
    )
    for kind, own in read_file(zoo_configs.HOME / 'parrots.yaml').data.items()
}


def parrot_text(
    kind: str, heard: Sequence[str], number: int, wordings: str = ALL
) -> str | None:
    """
    Return what a parrot of this kind says; `None` where it has nothing to say back.

    :param heard: the partner's turns so far, the last one last.
    :param number: chooses the wording; it may be larger than there are wordings.
    :param wordings: which ones to choose from: `TRAIN`, `HELD_OUT` or `ALL`.
    """
    parrot = PARROTS[kind]
    turn = heard[-2:-1] if parrot.earlier else heard[-1:]
    quoted = quote(turn[0]) if turn else ''
    if not quoted and any('{' in template for template in parrot.wordings()):
        return None
    templates = parrot.wordings(wordings)
    template = templates[number % len(templates)]
    return template.format_map(_fillings(turn[0] if turn else '', quoted))


def _fillings(turn: str, quoted: str) -> dict[str, str]:
    """
    Return what the names in a template stand for.
    """
    words = quoted.split()
    half = -(-len(words) // 2)
    rng = random.Random(content_id('parrot', quoted))
    keys = key_words(turn)
    texts = {
        'quote': quoted,
        'mirror': mirrored(quoted),
        'half': ' '.join(words[:half]),
        'rest': ' '.join(words[len(words) - half :]),
        'shuffled': ' '.join(rng.sample(words, half)),
        'words': ' and '.join(keys),
        'word': max(keys, key=len),
    }
    # the cut may come before or after a comma
    texts = {name: text.strip(AT_THE_ENDS) for name, text in texts.items()}
    capital = {
        name.title(): text[:1].upper() + text[1:] for name, text in texts.items()
    }
    return {**texts, **capital}


def quote(turn: str) -> str:
    """
    Return a turn as it stands within a sentence: without punctuation at its ends, and
    with a small letter first, unless the first word is "I" or has a capital letter
    elsewhere. Of a long turn it is the last sentence that has a word, of a long
    sentence the first words.
    """
    text = ' '.join(turn.split())
    if len(text.split()) > MAX_QUOTED:
        sentences = [s for s in SENTENCE_END.split(text) if WORD.search(s)]
        text = ' '.join((sentences or [text])[-1].split()[:MAX_QUOTED])
    text = text.strip(AT_THE_ENDS)
    if not WORD.search(text):
        return ''
    first = re.split(r"[\s'’]", text, maxsplit=1)[0]
    if first == 'I' or any(map(str.isupper, first[1:])):
        return text
    return text[:1].lower() + text[1:]


def key_words(turn: str) -> list[str]:
    """
    Return the longest words of a turn that are no stop words, in their order; "that",
    which fits everywhere, where it has none.
    """
    found = [word.lower() for word in WORD.findall(turn)]
    known = [
        word
        for word in dict.fromkeys(found)
        if len(word) > 2 and re.split("['’]", word)[0] not in LEFT_OUT
    ]
    longest = sorted(known, key=len, reverse=True)[:MAX_KEY_WORDS]
    return [word for word in known if word in longest] or ['that']


SWAPPED = {
    **SECOND_PERSON,
    'your': 'my',
    'yours': 'mine',
    'yourself': 'myself',
    "you're": "I'm",
    "you've": "I've",
    "you'd": "I'd",
    "you'll": "I'll",
}
# a form of "be" beside a pronoun that is swapped: the pronoun, and what it becomes
FORMS_OF_BE = {
    'am': ('i', 'are'),
    'was': ('i', 'were'),
    'are': ('you', 'am'),
    'were': ('you', 'was'),
}
# after these words "you" is an object and becomes "me"
OBJECT_PHRASES = """
about after at before behind by for from like love of on than thank to with without ask
give hear help know let meet miss see show tell teach want
"""
BEFORE_OBJECTS = frozenset(OBJECT_PHRASES.split())


def mirrored(text: str) -> str:
    """
    Return a text with the first and second person swapped, by rules on single words:
    "I like my dog" becomes "you like your dog".
    """
    words = list(WORD.finditer(text))
    known = [match.group().lower().replace('’', "'") for match in words]
    pieces, end = [], 0
    for k, match in enumerate(words):
        pieces += [text[end : match.start()], _mirrored_word(match.group(), known, k)]
        end = match.end()
    return ''.join([*pieces, text[end:]])


def _mirrored_word(written: str, words: Sequence[str], k: int) -> str:
    word = words[k]
    beside = {*words[max(0, k - 1) : k], *words[k + 1 : k + 2]}
    if word == 'you':
        before = words[k - 1] if k else ''
        is_last = bool(before) and k == len(words) - 1 and before not in FORMS_OF_BE
        return 'me' if is_last or before in BEFORE_OBJECTS else 'I'
    if word in FORMS_OF_BE:
        pronoun, swapped = FORMS_OF_BE[word]
        return swapped if pronoun in beside else written
    return SWAPPED.get(word, written)
