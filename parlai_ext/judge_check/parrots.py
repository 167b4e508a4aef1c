"""
Parrots: replies that please a judge without saying anything of their own.

A parrot says back what its partner said in words of another kind than an exact copy, or
says something that fits every turn. `PARROTS` is the one bank of their wordings: the
judge check, the audit's canaries and the benchmarks take theirs from it.

Each kind has wordings of two sorts. A judge may be trained and fitted on those of
`TRAIN`; those of `HELD_OUT` are other sentences, on which it is tested. So a judge that
has learned the sentences and not the fault is found out.
"""

from __future__ import annotations

import random
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from parlai_ext.core.nouns import content_id
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

    @property
    def needs_turn(self) -> bool:
        """
        True if there is no such text without a turn of the partner.
        """
        return any('{' in template for template in self.wordings())


PARROTS: Mapping[str, ParrotKind] = {
    'padded_echo': ParrotKind(
        'says the last turn back with a few words around it',
        train=(
            'You say {quote} and I agree with that.',
            'So you are saying that {quote}, and I think so too.',
            'I hear you when you say {quote}.',
            '{Quote}, that is exactly what I think.',
            'Yes, {quote}, you are right about that.',
            'It is true that {quote}, I could not have said it better.',
            'I understand that {quote}.',
            'You told me {quote} and that makes sense to me.',
            'Well, {quote}, as you say.',
            'When you say {quote}, I know what you mean.',
        ),
        held_out=(
            'I also believe {quote}.',
            'As you just put it, {quote}. How true!',
            'Right, right. {Quote}. Absolutely.',
            'If I got you correctly, {quote}; well, same here.',
            'My feelings exactly: {quote}!',
            '"{Quote}" - I like that.',
            'Nobody can deny that {quote}, can they.',
            'Good point, {quote}, sure.',
        ),
    ),
    'echo_question': ParrotKind(
        'says the last turn back as a question and asks for more',
        train=(
            '{Quote}? Really? Tell me more about that.',
            '{Quote}? Why do you say that?',
            'Did you just say {quote}? I would love to hear more.',
            'You mean {quote}? How interesting!',
            '{Quote}? And how do you feel about it?',
            'Oh, {quote}? What happened then?',
            'Is it true that {quote}? Please go on.',
            'So {quote}? I want to know everything about it.',
            '{Quote}? How did that come about?',
            'Really, {quote}? What was that like?',
        ),
        held_out=(
            '{Quote}?! No way, give me the details!',
            'Hold on, {quote}? Could you explain that?',
            'Am I hearing you right, {quote}? Since when?',
            '{Quote}, huh? Do tell.',
            'What makes you say {quote}?',
            'Can you say a little more about "{quote}"?',
            'Wow, {quote}? Keep talking!',
            'And why exactly {quote}?',
        ),
    ),
    'key_words': ParrotKind(
        "puts the partner's key words into a sentence that fits any",
        train=(
            'I think {words} is a very important topic these days.',
            'There is so much to say about {words}.',
            'Many people talk about {words} now.',
            'I have always been interested in {words}.',
            '{Words} can be a good thing or a bad thing, it depends.',
            'When it comes to {words}, everybody has an opinion.',
            'I was just reading something about {words} the other day.',
            'I like {words} a lot, it is one of my favourite things.',
            'You know a lot about {words}.',
            '{Words} is something that matters to all of us.',
        ),
        held_out=(
            'Speaking of {words}, it never gets old.',
            'Ah yes, {words}! What a subject.',
            'My friends and I often discuss {words} as well.',
            'To me, {words} means a great deal.',
            'It is amazing how {words} affects our lives.',
            "Let's keep chatting about {words}, I enjoy it.",
            'Not everyone understands {words} the way we do.',
            'The world would be different without {words}.',
        ),
    ),
    'flatterer': ParrotKind(
        'flatters',
        train=(
            'What a wonderful thing to say, you are so smart!',
            'What a wonderful thing to say! You are so kind and so interesting.',
            'I love how you put that. You really are a great person to talk with.',
            'That is so true, and you say it beautifully. I admire you.',
            'You are amazing. I could listen to you all day, please tell me more.',
            'You are such a nice person, I am glad that I met you.',
            'That was very well said. You must be proud of yourself.',
            'You always know the right thing to say.',
        ),
        held_out=(
            'Wow, that is brilliant! I have never met anybody as thoughtful as you.',
            'Thank you for sharing that with me. You make me so happy.',
            'Bravo! Such wit, such charm, I am impressed.',
            'Honestly, you are the best company that one could wish for.',
            'How clever of you! People must adore you.',
            'I feel lucky to hear this from somebody like you.',
            'Your words touch my heart, my dear friend.',
            'Genius! I wish that everybody were like you.',
        ),
    ),
    'mirror': ParrotKind(
        'says the last turn back with its pronouns swapped',
        train=(
            '{Mirror}.',
            'So {mirror}.',
            '{Mirror}?',
            'Oh, {mirror}.',
            'I see, {mirror}.',
            'You mean that {mirror}.',
            'Okay, {mirror}, I got that.',
            'It sounds like {mirror}.',
        ),
        held_out=(
            'In other words, {mirror}.',
            '{Mirror}, is that it?',
            'Hmm, {mirror}. Fair enough.',
            'Let me repeat that: {mirror}.',
            '{Mirror}, apparently.',
            'Then {mirror}, I suppose!',
            'Ah! {Mirror}, I take it.',
            "What I'm hearing is that {mirror}.",
        ),
    ),
    'question_spammer': ParrotKind(
        'asks questions only that fit everything',
        train=(
            'Really? Why is that? How did it happen? What did you do then?',
            'What do you mean? Where was that? Who was with you? How did you feel?',
            'And then? Did you like it? Would you do it again? What would you change?',
            'That is interesting. What do you mean by that?',
            'Oh really? Why do you think that is?',
            'I see. How does that make you feel?',
            'That sounds interesting. Can you tell me more about it?',
            'Interesting. And what happened after that?',
            'Hmm. What makes you think so?',
            'I never thought about it like that. How did you come to that?',
        ),
        held_out=(
            'When did it begin? Is it always so? What do your friends think of it?',
            'Why do you think so? Could it be otherwise? What else do you like?',
            'What happened next? Were you surprised? What will you do tomorrow?',
            'Fascinating! Care to elaborate?',
            'Go on, how come?',
            'I wonder, what was the best part of it?',
            'Is there anything else that you would like to add to that?',
            'How so? Could you give me an example, please?',
        ),
    ),
    'quoted_question': ParrotKind(
        'asks questions that fit everything, with a key word in them',
        train=(
            'That is interesting. What do you mean by {word}?',
            'What do you like most about {word}?',
            'Can you tell me more about {word}?',
            'Why {word}?',
            'I see. How do you feel about {word}?',
            'Oh, {word}? What about it?',
            'Do you often think about {word}?',
            'When did you first hear of {word}?',
            'You said {word}. Why is that so important to you?',
            'Do you know anything else about {word}?',
        ),
        held_out=(
            '"{word}", you say. Could you elaborate on that?',
            'How come you mention {word}?',
            'Interesting! Where does {word} come into it?',
            'Would your friends say the same about {word}?',
            'Sorry, which {word} are we talking about?',
            'What is it with {word} these days?',
            'And what does {word} mean to you personally?',
            'Anything more on {word}?',
        ),
    ),
    'earlier_echo': ParrotKind(
        "says an earlier turn of the partner's back with a few words around it",
        earlier=True,
        train=(
            'You said {quote} and I still think about that.',
            'Earlier you said that {quote}, and I agree with that.',
            'As you said before, {quote}.',
            'I remember that you said {quote}.',
            'That is what you meant when you said {quote}.',
            'Like you told me, {quote}, so I understand.',
            'It is just as you said: {quote}.',
            'Well, {quote}, as you mentioned.',
        ),
        held_out=(
            'Coming back to it, {quote}. True, true.',
            'A moment ago it was "{quote}", I liked that.',
            'But then {quote}, no?',
            'Which brings us back to {quote}.',
            'Going by what I heard a minute ago, {quote}!',
            'I keep thinking: {quote}. Wise words.',
            'Okay, and {quote} too, of course.',
            'Once more, {quote}, right?',
        ),
    ),
    'partial_echo': ParrotKind(
        'says half of the last turn back',
        train=(
            'Yes, {half}, you know.',
            '{Half}, I think so too.',
            'I mean, {rest}, that is right.',
            'Oh yes, {rest}.',
            'You know, {half}, and so on.',
            'Well, {shuffled}, I guess.',
            '{Rest}, that is what it is all about.',
            'I think that {shuffled}, yes.',
            'It is all about {rest}.',
        ),
        held_out=(
            'Sure thing, {rest}, totally.',
            '{Half} ... anyway, I get it!',
            'Mhm, {shuffled}, of course.',
            '{Shuffled}, more or less.',
            'Like, {half}, or something.',
            'Precisely! {Rest}!',
            'Haha, {half}, indeed.',
            'Hm, {rest}, fair point.',
        ),
    ),
    'echo_generic': ParrotKind(
        'says the last turn back and adds a reply that fits everything',
        train=(
            "{Quote}. I don't know.",
            '{Quote}. That is nice.',
            '{Quote}. I am not sure what to say.',
            '{Quote}. Okay, I see.',
            '{Quote}. I like that.',
            '{Quote}. That sounds good to me.',
            '{Quote}! That is great.',
            '{Quote}. I think that is very interesting.',
        ),
        held_out=(
            '{Quote}. Cool, cool.',
            '{Quote}. Oh well, such is life.',
            '{Quote}. Hard to tell, though.',
            '{Quote}. Thanks for letting me know!',
            '{Quote}. Sounds fun.',
            '{Quote}. Got it.',
            '{Quote}. Makes sense, I guess.',
            '{Quote}. How about that!',
        ),
    ),
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
    if parrot.needs_turn and not quoted:
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
