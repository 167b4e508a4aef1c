"""
ChatMatch as a `Scorer`: raw values of every game, and what each turn adds to the seven
dimensions, or why it does not count. Larger is better everywhere: perplexities and
penalties are negated.

The paper's text and the authors' script differ, so a reading is part of every number's
signature: `paper` is the text, `released` what the script computes, `released_fixed`
the script with its swapped specificity mended. docs/chatmatch.md lists the differences.

Algorithms 1 and 2: who repeats, and who answers a repeated question otherwise. How
alike two turns are is the cosine of their tf-idf vectors, which are scikit-learn's: idf
is smoothed, ``log((1 + turns) / (1 + turns with it)) + 1``. Algorithm 3: a concept that
comes back after a while is a bonus.
"""

import json
import math
import operator
import re
import string
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import field
from functools import lru_cache, partial
from importlib.metadata import version
from itertools import accumulate, pairwise
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from nltk.stem.porter import PorterStemmer  # type: ignore[import-untyped]
from nltk.tokenize import NLTKWordTokenizer  # type: ignore[import-untyped]

from parlai_ext.core import (
    Dialogue,
    LanguageModel,
    Question,
    Score,
    ScoredDialogue,
    UserError,
    Utterance,
    bytes_hash,
    computed_once,
    frozen,
    mean,
    option,
    parse_json,
    require_known,
)
from parlai_ext.core.records import record_from_json
from parlai_ext.ranking.games import Game, award_points
from parlai_ext.scoring.base import (
    Items,
    ItemScore,
    Scorer,
    ScoringItem,
    judged_speakers,
)
from parlai_ext.scoring.likelihood import finite_sum, judge_option

# --- words and concepts ---------------------------------------------------------------
# Words and stems of a turn, as tf-idf and the concepts see them, and where the concepts
# of a dialogue come from: a list of function words, a tagger, files.
#
# Words are in lower case, without ASCII punctuation, Treebank tokens, Porter stems. A
# tournament says the same words over and over, so every word is looked at once. A
# dictionary maps a word to its concept (its stem), in the order of the dialogue, since
# among equally rare concepts the first counts as rarer.

CACHED = 1 << 16
UNPUNCTUATED = {ord(mark): None for mark in string.punctuation}
TREEBANK = NLTKWordTokenizer()
PORTER = PorterStemmer()
# of three letters and the rest
CONTRACTED = {
    word: (word[:3], word[3:])
    for word in ['cannot', 'gimme', 'gonna', 'gotta', 'lemme', 'wanna']
}
# the script adds them against division by 0, and its numbers show it
ABOVE, BELOW = 1e-12, 1e-5


@lru_cache(CACHED)
def words(text: str) -> tuple[str, ...]:
    """
    Return the words of a text.

    The Treebank rules have nothing to do on ASCII text without punctuation but to part
    a few contractions; other text (curly quotes, dashes, emoji) goes through all.
    """
    plain = text.lower().translate(UNPUNCTUATED)
    if not plain.isascii():
        return tuple(TREEBANK.tokenize(plain))
    return tuple(p for word in plain.split() for p in CONTRACTED.get(word, (word,)))


@lru_cache(CACHED)
def stem(word: str) -> str:
    """
    Return the Porter stem of a word.
    """
    return PORTER.stem(word)


@lru_cache(CACHED)
def stems(text: str) -> tuple[str, ...]:
    """
    Return the stems of a text's words.
    """
    return tuple(map(stem, words(text)))


@lru_cache(CACHED)
def distinct(text: str, unit: str) -> tuple[float, float]:
    """
    Return distinct-1 and distinct-2 (Li et al. 2016) of a turn: the share of different
    unigrams and of different bigrams.

    Of characters, as the script computes it; or of words, exactly, where a turn without
    bigrams has a distinct-2 of 0.
    """
    seen, above, below = words(text), 0.0, 0.0
    if unit == 'character':
        seen, above, below = tuple(text), ABOVE, BELOW
    shares = []
    for n, different in (1, set(seen)), (2, set(pairwise(seen))):
        total = max(0, len(seen) - n + 1) + below
        shares.append((len(different) + above) / total if total else 0.0)
    return shares[0], shares[1]


DEFAULT = 'content_words'
ENDING = '.jsonl'
# nouns, adjectives, verbs, foreign words, predeterminers and possessive endings; no
# proper nouns: the tags whose words are concepts in the released script
OPEN_CLASSES = 'FW JJ NN NNS NNPS PDT POS VB VBD VBG VBN VBP VBZ'
TAGS = OPEN_CLASSES.split()
# what is left of contractions once the apostrophe is gone
SPLINTERS = frozenset(['d', 'ive', 'll', 'm', 'ont', 're', 's', 't', 've'])
CLOSED_CLASSES = """
    a about above across after again against ago ah all almost alone along already also
    although always among an and another any anybody anyone anyway anywhere around as at
    away back because before behind below beside besides between beyond both but by
    certainly definitely despite down during each either else enough especially even
    ever every everybody everyone everywhere exactly except few finally for from
    further haha he hello her here hers herself hey hi him himself his hmm how however
    i if in indeed inside instead into it its itself just least less lol many maybe me
    mine more most much my myself near nearly neither never no nobody none nope nor not
    now nowhere of off often oh ok okay on once one only onto or other others ought our
    ours ourselves out outside over particularly per perhaps please pretty probably
    quite rather really recently same several shall she should since so some somebody
    someone something sometimes somewhere somehow soon still such sure than that the
    their theirs them themselves then there therefore these they this those though
    three through throughout till to together too toward towards two under unless until
    up upon us usually very via we well what whatever when whenever where wherever
    whether which while who whoever whom whose why with within without wow yeah yep yes
    yet you your yours yourself yourselves can could may might must will would am is
    are was were be been being do does did have has had having don dont doesn doesnt
    didn didnt isn isnt wasn wasnt aren arent couldn couldnt wouldn wouldnt shouldn
    shouldnt hasn hasnt haven havent hadn hadnt cant wont im youre theyre weve youve id
"""
FUNCTION_WORDS = frozenset(CLOSED_CLASSES.split()) | SPLINTERS

Tagger = Callable[[Sequence[str]], Sequence[tuple[str, str]]]


@frozen
class Finder:
    """
    Finds the concepts of a dialogue, `None` where there are none, or the named entities
    of texts; `signature` says by which program and version.
    """

    signature: str
    find: Callable[[Any], Any]


def load_dictionaries(name: str) -> Finder:
    """
    Return the dictionaries called ``name``: ``content_words``, ``nltk``, or a file or
    folder of JSON dictionaries (``FIRST_SECOND.jsonl`` after the speakers).

    :raises UserError: when there is no such thing.
    """
    if name == DEFAULT:
        return Finder('content_words-1', all_but_function_words)
    if name == 'nltk':
        from nltk.tag.perceptron import PerceptronTagger  # type: ignore[import-untyped]

        try:
            tag = PerceptronTagger().tag
        except LookupError as error:
            raise UserError(
                "scorer: concepts: nltk's tagger has no weights; `python -m "
                'nltk.downloader averaged_perceptron_tagger_eng` gets them; `concepts: '
                f'{DEFAULT}` needs nothing'
            ) from error
        find = partial(content_words_by_tags, tagger=tag)
        return Finder(f'nltk-{version("nltk")}', find)
    path = Path(name)
    if not path.exists():
        raise UserError(
            f'scorer: concepts {name!r} is no file or folder; {DEFAULT}, nltk or a '
            'path is expected'
        )
    return dictionaries_from_files(path)


def all_but_function_words(dialogue: Dialogue) -> dict[str, str]:
    """
    Return every word but function words and splinters.
    """
    all_words = (word for text in dialogue.texts for word in words(text))
    return {w: stem(w) for w in all_words if w not in FUNCTION_WORDS}


def content_words_by_tags(dialogue: Dialogue, tagger: Tagger) -> dict[str, str]:
    """
    Return the words that the tagger tags as nouns, verbs or adjectives, with their
    concepts.
    """
    stems: dict[str, str] = {}
    for text in dict.fromkeys(dialogue.texts):
        # of a word that a turn has twice, the last tag holds
        tags = dict(tagger(words(text)))
        stems |= {word: stem(word) for word, tag in tags.items() if tag in TAGS}
    return {word: root for word, root in stems.items() if word not in SPLINTERS}


def dictionaries_from_files(path: Path) -> Finder:
    """
    Return the dictionaries in one file, for all dialogues, or in a folder.

    :raises UserError: for a folder without any, or a file that is none; it is named.
    """
    paths = [path] if path.is_file() else sorted(path.glob('*' + ENDING))
    if not paths:
        raise UserError(f'scorer: concepts {path}: no *{ENDING} in this folder')
    dictionaries = {}
    for one in paths:
        try:
            data = parse_json(one.read_bytes())
            dictionaries[one.stem] = record_from_json(dict[str, str], data)
        except (OSError, ValueError) as error:
            raise UserError(f'scorer: concepts {one}: {error}') from error
    content = json.dumps(list(dictionaries.items())).encode()
    digest = bytes_hash(content)[:10]
    find = partial(dictionary_of_speakers, dictionaries)
    if path.is_file():
        find = partial(dictionaries.get, path.stem)
    return Finder(f'files-{digest}', find)


def dictionary_of_speakers(
    dictionaries: Mapping[str, dict[str, str]], dialogue: Dialogue
) -> dict[str, str] | None:
    """
    Return the dictionary that is named after the speakers of a dialogue.
    """
    names = dialogue.speakers[:2] or ('',)
    first, second = names[0], names[-1]
    keys = [f'{first}_{second}', f'{second}_{first}']
    if first == second:
        keys.append(f'{first}_1_{first}_2')
    return next((dictionaries[key] for key in keys if key in dictionaries), None)


# --- named entities -------------------------------------------------------------------
# Named entities, for knowledge: dates and numbers are none.
#
# `gazetteer` and `capitals` need nothing; `spacy` and `stanza` an installed pipeline.
# The gazetteer is a list of this project, in lower case, written for everyday talk:
# places, peoples and languages, faiths, companies and brands, well-known people, works
# and teams. Words that everyday talk uses otherwise too (turkey, apple, may, nice) are
# left out, since a list cannot tell them apart. How a name is written does not matter:
# a bot that writes capitals gains nothing.

# a paragraph each: countries, regions, cities, peoples and faiths, brands and bodies,
# people, works and teams
LISTED = """
afghanistan,albania,algeria,andorra,angola,argentina,armenia,australia,austria,
azerbaijan,bahamas,bahrain,bangladesh,barbados,belarus,belgium,belize,benin,bhutan,
bolivia,bosnia,botswana,brazil,brunei,bulgaria,burundi,cambodia,cameroon,canada,
cape verde,chile,china,colombia,costa rica,croatia,cuba,cyprus,czech republic,denmark,
djibouti,dominica,dominican republic,ecuador,egypt,el salvador,england,eritrea,estonia,
ethiopia,fiji,finland,france,gabon,gambia,germany,ghana,great britain,greece,greenland,
grenada,guatemala,guyana,haiti,honduras,hungary,iceland,india,indonesia,iran,
iraq,ireland,israel,italy,ivory coast,jamaica,japan,kazakhstan,kenya,kosovo,kuwait,
kyrgyzstan,laos,latvia,lebanon,lesotho,liberia,libya,liechtenstein,lithuania,luxembourg,
madagascar,malawi,malaysia,maldives,malta,mauritania,mauritius,mexico,moldova,monaco,
mongolia,montenegro,morocco,mozambique,myanmar,namibia,nepal,netherlands,new zealand,
nicaragua,niger,nigeria,north korea,northern ireland,norway,oman,pakistan,palestine,
panama,papua new guinea,paraguay,peru,philippines,poland,portugal,puerto rico,qatar,
romania,russia,rwanda,samoa,saudi arabia,scotland,senegal,serbia,seychelles,
sierra leone,singapore,slovakia,slovenia,somalia,south africa,south korea,korea,spain,
sri lanka,sudan,suriname,sweden,switzerland,syria,taiwan,tajikistan,tanzania,thailand,
tibet,togo,tonga,trinidad,tunisia,turkmenistan,uganda,ukraine,united arab emirates,
united kingdom,united states,united states of america,uruguay,usa,uk,uzbekistan,vatican,
venezuela,vietnam,wales,yemen,zambia,zimbabwe,

africa,alabama,alaska,alps,antarctica,appalachia,arizona,arkansas,asia,bali,bavaria,
california,caribbean,catalonia,central america,colorado,connecticut,delaware,east coast,
europe,european union,everglades,florida,grand canyon,great lakes,hawaii,himalayas,
idaho,illinois,indiana,iowa,kansas,kentucky,lake michigan,latin america,long island,
louisiana,maine,maryland,massachusetts,middle east,michigan,midwest,minnesota,
mississippi,missouri,montana,mount everest,nebraska,nevada,new england,new hampshire,
new jersey,new mexico,north america,north carolina,north dakota,ohio,oklahoma,ontario,
oregon,pacific northwest,pennsylvania,quebec,queensland,rhode island,rocky mountains,
scandinavia,siberia,sicily,silicon valley,south america,south carolina,south dakota,
tasmania,tennessee,texas,tuscany,utah,vermont,virginia,west coast,west virginia,
wisconsin,wyoming,yellowstone,yosemite,yorkshire,

amsterdam,atlanta,auckland,austin,baghdad,baltimore,bangkok,barcelona,beijing,belfast,
berlin,birmingham,boston,brisbane,brooklyn,brussels,budapest,buenos aires,cairo,calgary,
cape town,charlotte,chicago,cincinnati,cleveland,copenhagen,dallas,delhi,denver,detroit,
dubai,dublin,edinburgh,el paso,florence,fort worth,frankfurt,geneva,glasgow,hamburg,
hanoi,havana,helsinki,hollywood,hong kong,honolulu,houston,indianapolis,istanbul,
jakarta,jerusalem,johannesburg,kansas city,kyoto,las vegas,lisbon,liverpool,london,
los angeles,louisville,madrid,manchester,manhattan,manila,melbourne,memphis,mexico city,
miami,milan,milwaukee,minneapolis,montreal,moscow,mumbai,munich,nairobi,naples,
nashville,new orleans,new york,new york city,nyc,oakland,orlando,osaka,oslo,ottawa,
oxford,paris,philadelphia,pittsburgh,prague,raleigh,rio de janeiro,rome,rotterdam,
sacramento,salt lake city,san antonio,san diego,san francisco,san jose,santa fe,seattle,
seoul,shanghai,st louis,stockholm,sydney,tampa,tel aviv,tokyo,toronto,vancouver,venice,
vienna,warsaw,washington,washington dc,wellington,winnipeg,zurich,

african,african american,albanian,american,americans,arab,arabic,argentinian,armenian,
asian,australian,austrian,belgian,brazilian,british,buddhist,bulgarian,canadian,
cantonese,catholic,chilean,chinese,christian,christianity,colombian,croatian,cuban,
czech,danish,democrat,democrats,dutch,egyptian,english,ethiopian,european,filipino,
finnish,french,german,greek,haitian,hawaiian,hebrew,hindi,hindu,hispanic,hungarian,
indian,indonesian,iranian,irish,islam,israeli,italian,jamaican,japanese,jewish,judaism,
kenyan,korean,latin,latino,latina,mandarin,mexican,mormon,moroccan,muslim,
native american,nigerian,norwegian,pakistani,persian,peruvian,portuguese,
protestant,republican,republicans,romanian,russian,scandinavian,scottish,serbian,
spanish,swedish,swiss,taiwanese,thai,turkish,ukrainian,vietnamese,welsh,

adidas,airbnb,aldi,bmw,boeing,burger king,chevrolet,chevy,chick fil a,chipotle,
coca cola,coke,costco,disney,disneyland,disney world,ebay,facebook,fedex,
fender,ferrari,gibson,gmail,google,harley davidson,home depot,honda,hulu,hyundai,ibm,
ikea,instagram,iphone,jeep,kfc,kindle,kroger,lego,lexus,linkedin,lowes,macbook,
mazda,mcdonalds,mercedes,microsoft,nasa,netflix,nike,nintendo,nissan,nokia,paypal,pepsi,
pinterest,playstation,porsche,ps4,ps5,reddit,safeway,samsung,skype,snapchat,sony,
spotify,starbucks,taco bell,tesla,tiktok,tinder,toyota,trader joes,tumblr,twitter,uber,
volkswagen,walmart,wendys,whatsapp,wikipedia,xbox,yahoo,youtube,nba,nfl,nhl,mlb,
ufc,fbi,cia,harvard,stanford,yale,princeton,mit,ucla,red cross,congress,united nations,

abraham lincoln,adele,agatha christie,al pacino,albert einstein,ariana grande,aristotle,
bach,barack obama,batman,beethoven,beyonce,bill clinton,bill gates,billie eilish,
bob dylan,bob marley,brad pitt,britney spears,bruce lee,bruce springsteen,bruno mars,
celine dion,charles dickens,christopher nolan,clint eastwood,darth vader,david bowie,
dr seuss,ed sheeran,edgar allan poe,elon musk,elton john,elvis,elvis presley,eminem,
ernest hemingway,frank sinatra,freddie mercury,gandhi,george clooney,george lucas,
george orwell,george rr martin,george washington,hans zimmer,harrison ford,
harry potter,hemingway,hillary clinton,iron man,j k rowling,jane austen,
jennifer aniston,
jim carrey,jimi hendrix,jk rowling,joe biden,john lennon,johnny cash,johnny depp,
justin bieber,kanye west,katy perry,kobe bryant,kurt cobain,lady gaga,lebron james,
leonardo dicaprio,lionel messi,mark twain,martin luther king,marvel,mary shelley,
michael jackson,michael jordan,michelangelo,mickey mouse,mozart,obama,oprah,picasso,
plato,quentin tarantino,rihanna,robin williams,sandra bullock,shakespeare,
sherlock holmes,stan lee,stephen king,steve jobs,steven spielberg,spiderman,superman,
taylor swift,tiger woods,tolkien,tom brady,tom cruise,tom hanks,trump,donald trump,
van gogh,whitney houston,will smith,william shakespeare,winston churchill,wonder woman,

ac dc,aerosmith,animal crossing,assassins creed,avatar,avengers,backstreet boys,
beatles,bible,black sabbath,breaking bad,call of duty,candy crush,coldplay,dark souls,
doctor who,dragon ball z,fallout 4,family guy,final fantasy,foo fighters,fortnite,
game of thrones,gone with the wind,grand theft auto,great gatsby,green day,
greys anatomy,guns n roses,hunger games,imagine dragons,iron maiden,jurassic park,
king kong,league of legends,led zeppelin,lion king,linkin park,lord of the rings,
maroon 5,mario kart,mass effect,metallica,minecraft,naruto,nirvana,
overwatch,parks and recreation,pearl jam,pink floyd,pokemon,quran,radiohead,
rolling stones,simpsons,skyrim,south park,star trek,star wars,stranger things,
super mario,the beatles,titanic,to kill a mockingbird,torah,u2,
walking dead,world of warcraft,zelda,dallas cowboys,chicago bulls,chicago cubs,
green bay packers,la lakers,lakers,manchester united,new england patriots,patriots,
new york giants,new york yankees,red sox,steelers,yankees,world cup,super bowl,
olympics,world war ii,world war 2,world war i,cold war,civil war,
"""
NAMES = frozenset(
    tuple(name.split()) for name in LISTED.replace('\n', '').split(',') if name
)
LONGEST = max(map(len, NAMES))
# a name's first word tells whether looking further is worth it
FIRST = frozenset(name[0] for name in NAMES)


def names_on_list(texts: Sequence[str]) -> list[list[str]]:
    """
    Return the names on the list that each text holds, the longest at each place.
    """
    found = []
    for said in map(words, texts):
        names = []
        i = 0
        while i < len(said):
            most = min(LONGEST, len(said) - i) if said[i] in FIRST else 0
            lengths = range(most, 0, -1)
            length = next((n for n in lengths if said[i : i + n] in NAMES), 0)
            if length:
                names.append(' '.join(said[i : i + length]))
            i += max(1, length)
        found.append(names)
    return found


UNCOUNTED = ('DATE', 'TIME', 'ORDINAL', 'CARDINAL')

KNOWN = ('gazetteer', 'capitals', 'spacy', 'stanza', 'none')

# a run of capitalised words; a sentence's first word is capitalised anyway
CAPITALS = re.compile(
    r"(?<![.?!]\s)(?<!^)(?<!\w)(?!I\b)[A-Z][\w'-]*(?:\s[A-Z][\w'-]*)*"
)


class ReadText(NamedTuple):
    """
    How a pipeline reads a text: begin and end of its tokens, and of its entities with
    their labels.
    """

    text: str
    tokens: Sequence[tuple[int, int]]
    entities: Sequence[tuple[int, int, str]]


@frozen
class Pipeline:
    """
    A library's pipeline: its name with versions, what reads texts, and its parts.
    """

    signature: str
    read: Callable[[Sequence[str]], Iterator[ReadText]]
    parts: Sequence[str]

    def named_entities(self, texts: Sequence[str]) -> list[list[str]]:
        """
        Return the entities of each text, without dates and numbers.
        """
        return [
            [text[begin:end] for begin, end, label in found if label not in UNCOUNTED]
            for text, _, found in self.read(texts)
        ]


def load_recogniser(name: str) -> Finder | None:
    """
    Return the recogniser called ``name``: ``gazetteer``, ``capitals``, ``spacy`` or
    ``stanza`` (``spacy:MODEL``, ``stanza:LANGUAGE`` for another pipeline), or ``none``.

    :raises UserError: when it is unknown, or what it needs is not installed.
    """
    kind, _, model = str(name).partition(':')
    known = PIPELINES if model else KNOWN
    require_known(kind, known, f'scorer: entities {name!r}')
    if kind == 'none':
        return None
    if kind == 'gazetteer':
        text = '\n'.join(sorted(map(' '.join, NAMES)))
        version = bytes_hash(text.encode())[:8]
        return Finder(f'gazetteer-{version}', names_on_list)
    if kind == 'capitals':
        return Finder('capitals', capitalised_runs)
    instead = '; `entities: gazetteer` needs nothing'
    pipeline = load_pipeline(name, 'scorer: entities', instead)
    if 'ner' not in pipeline.parts:
        raise UserError(f'scorer: entities: the pipeline {model!r} finds no entities')
    return Finder(pipeline.signature, pipeline.named_entities)


def capitalised_runs(texts: Sequence[str]) -> list[list[str]]:
    """
    Return the runs of capitalised words inside the sentences of each text.
    """
    return [CAPITALS.findall(text) for text in texts]


def load_pipeline(name: str, where: str, instead: str = '') -> Pipeline:
    """
    Return an installed pipeline: ``spacy`` or ``stanza``, or, with a colon, another
    than their English one.

    :param where: stands before the problem in an error, `instead` behind it.
    :raises UserError: saying how to install it.
    """
    kind, _, model = name.partition(':')
    require_known(kind, PIPELINES, f'{where}: {name!r}')
    load, usual, download = PIPELINES[kind]
    model = model or usual
    download = f'`{download.format(model)}`'
    try:
        return load(model)
    except ImportError:
        problem = f'{kind} is not installed; `pip install {kind}`, then {download}'
    except Exception:  # their own classes differ between versions
        problem = f'{kind} cannot load its pipeline {model!r}; {download} installs it'
    raise UserError(f'{where}: {problem}{instead}')


def _spacy(model: str) -> Pipeline:
    import spacy

    nlp = spacy.load(model)

    def read(texts: Sequence[str]) -> Iterator[ReadText]:
        for document in nlp.pipe(texts):
            tokens = [(t.idx, t.idx + len(t)) for t in document]
            found = [(e.start_char, e.end_char, e.label_) for e in document.ents]
            yield ReadText(document.text, tokens, found)

    signature = f'spacy-{spacy.__version__}-{model}-{nlp.meta.get("version")}'
    return Pipeline(signature, read, nlp.pipe_names)


def _stanza(language: str) -> Pipeline:
    import stanza

    parts = 'tokenize,ner'
    nlp = stanza.Pipeline(
        language, processors=parts, download_method=None, verbose=False
    )

    def read(texts: Sequence[str]) -> Iterator[ReadText]:
        for text in texts:
            document = nlp(text) if text.strip() else None
            sentences = document.sentences if document else []
            tokens = [(t.start_char, t.end_char) for s in sentences for t in s.tokens]
            entities = document.ents if document else []
            found = [(e.start_char, e.end_char, e.type) for e in entities]
            yield ReadText(text, tokens, found)

    return Pipeline(f'stanza-{stanza.__version__}-{language}', read, parts.split(','))


PIPELINES = {  # what loads it, the usual one, and how it is installed
    'spacy': (_spacy, 'en_core_web_sm', 'python -m spacy download {}'),
    'stanza': (_stanza, 'en', 'python -c "import stanza; stanza.download(\'{}\')"'),
}


# --- games and their turns ------------------------------------------------------------

DIMENSIONS = (
    'fluency',
    'knowledge',
    'proactivity',
    'specificity',
    'diversity',
    'consistency',
    'relevance',
)
READINGS = ('released_fixed', 'released', 'paper')
UNITS = ('character', 'token')


@frozen
class ChatMatchOptions:
    """
    A reading with its thresholds, and where entities, concepts and perplexities come
    from. The defaults are those of reading ``released_fixed``.
    """

    reading: str = option(
        'released_fixed',
        help='the text, the released script, or that with its swapped point mended; '
        'it sets the defaults of the thresholds',
        choices=READINGS,
    )
    repetition: float = option(
        0.95, help='similarity from which a turn is a repetition (σ_r)', low=0, high=1
    )
    contradiction: float = option(
        0.8, help='similarity below which an answer is another one (σ_c)', low=0, high=1
    )
    recall_distance: int = option(
        1, help='a concept is recalled after more than this many turns (d)', low=0
    )
    concept_share: float = option(
        0.5,
        help='share of concepts, rarest first, that can be recalled (p)',
        low=0,
        high=1,
    )
    perplexity_cap: float = option(
        50.0, help='no perplexity counts as more; 0 is no cap', low=0
    )
    perplexity_unit: str = option(
        'character',
        help="perplexity per character, as the script's model, or per token",
        choices=UNITS,
    )
    distinct_unit: str = option(
        'character', help='what distinct-1 and distinct-2 count', choices=UNITS
    )
    first_judged: int = option(
        3, help='first place whose repetition and fluency are judged', low=1
    )
    entities: str = option(
        'gazetteer',
        help='gazetteer, capitals, spacy[:MODEL], stanza[:LANGUAGE] or none',
    )
    concepts: str = option(
        'content_words',
        help='content_words, nltk, or a file or folder of dictionaries',
        path=True,
    )
    judge_model_file: str = judge_option(
        'zoo:mini/judge/model', 'the language model for fluency, or none'
    )

    presets = {
        'reading': {
            'paper': {
                'perplexity_cap': 0.0,
                'perplexity_unit': 'token',
                'distinct_unit': 'token',
                'first_judged': 1,
            }
        }
    }

    @property
    def released(self) -> bool:
        """
        True for what the released script does otherwise than the text of the paper.

        A turn may repeat its own speaker only; a lone last ``?`` alone makes a repeated
        question; two questions in a turn count once; a similarity equal to the
        threshold is no contradiction; concepts are looked up as they are written,
        capitals and all; what a repeated turn does otherwise, the last turn of an even
        number of turns, and a side's worst perplexity do not count; an empty turn is a
        repetition; an entity counts once a game, for who names it first; entities
        behind a turn's first colon are not seen; specificity and knowledge look at
        uncounted turns, too.
        """
        return self.reading != 'paper'


# equal turns have a cosine of 1 only up to rounding
ROUNDING = 1e-9


def find_echoes(
    texts: Sequence[str], rules: ChatMatchOptions
) -> tuple[list[int | None], list[int | None]]:
    """
    Return, for each turn, the earlier turn that it is penalised for repeating, and the
    speaker's own earlier answer that it is penalised for contradicting, or `None`.
    """
    alike = similarities(texts)
    step = 2 if rules.released else 1  # the script's turns repeat their own speaker's
    close = (alike >= rules.repetition - ROUNDING).tolist()
    same = [  # the earlier turns that each turn repeats: Rep(t)
        [j for j in range(i % step, i, step) if row[j] and i >= rules.first_judged]
        for i, row in enumerate(close)
    ]
    # of the script, a lone last mark alone makes a repeated question
    asks = [
        text.split()[-1:] == ['?'] if rules.released else '?' in text for text in texts
    ]
    differs = operator.lt if rules.released else operator.le
    repeats: list[int | None] = []
    contradicts: list[int | None] = []
    asked_before: list[int] = []  # where the turn before this one was asked before
    for i, row in enumerate(alike):
        # what the other speaker answered, nobody is bound to
        own = [j + 1 for j in asked_before if (i - j) % 2]
        others = (j for j in own if differs(row[j], rules.contradiction))
        contradicts.append(next(others, None))
        questions = [j for j in same[i] if asks[i] and asks[j]]
        # an answer to a repeated question may be the same again
        free = asked_before and not questions
        repeats.append(None if free or not same[i] else (questions or same[i])[-1])
        asked_before = questions
    return repeats, contradicts


def similarities(texts: Sequence[str]) -> np.ndarray:
    """
    Return the cosine of every two turns; a turn without words is like no other.
    """
    from sklearn.feature_extraction.text import TfidfVectorizer

    if not any(map(stems, texts)):
        return np.zeros((len(texts), len(texts)))
    rows = TfidfVectorizer(analyzer=stems).fit_transform(texts)
    return (rows @ rows.T).toarray()


QUESTION = re.compile(r'\?[?!]*')  # the end of one question


def rarest_concepts(
    texts: Sequence[str], concepts: Mapping[str, str], share: float
) -> set[str]:
    """
    Return a share of the concepts: those that the fewest turns mention. Rare first is
    high inverse document frequency first. Among equals, the concept that was found
    first goes first.
    """
    num_turns = dict.fromkeys(concepts.values(), 0)
    for text in texts:
        for root in num_turns.keys() & stems(text):
            num_turns[root] += 1
    ordered = sorted(num_turns, key=lambda concept: num_turns[concept])
    most = len(ordered) * share
    return {concept for rank, concept in enumerate(ordered) if rank < most}


def find_recalls(
    texts: Sequence[str], concepts: Mapping[str, str], rules: ChatMatchOptions
) -> list[int | None]:
    """
    Return, for each turn, the earlier turn whose concept it recalls, or `None`. Only
    the rarest concepts can be recalled.

    :param concepts: word to concept, in the order in which they were found.
    """
    rarest = rarest_concepts(texts, concepts, rules.concept_share)
    last: dict[str, int] = {}
    recalls: list[int | None] = []
    for i, text in enumerate(texts):
        recalled = None
        # the script does not look at the first turn
        for word in words(text) if not rules.released else text.split() if i else ():
            concept = concepts.get(word)
            if concept is None or concept not in rarest:
                continue
            before = last.get(concept, i)
            if i - before > rules.recall_distance and recalled is None:
                recalled = before
            last[concept] = i
        recalls.append(recalled)
    return recalls


@frozen
class Material:
    """
    What a game needs beside its turns; `None` where nobody was asked.

    :param concepts: word to concept, in the order in which they were found.
    :param names: the entities of each turn.
    :param perplexities: of each turn; `None` for a turn without one.
    """

    concepts: Mapping[str, str] | None = field(default_factory=dict)
    names: Sequence[Sequence[str]] | None = None
    perplexities: Sequence[float | None] | None = None


def turn_scores(
    dialogue: Dialogue, rules: ChatMatchOptions, material: Material
) -> list[ItemScore]:
    """
    Return the values of each turn; the evidence is the earlier turns that it repeats,
    contradicts and recalls, and its perplexity.
    """
    texts, unit = dialogue.texts, rules.distinct_unit
    repeats, contradicts = find_echoes(texts, rules)
    recalls = find_recalls(texts, material.concepts or {}, rules)
    columns: dict[str, Sequence[float | None]] = {
        'fluency': fluency(texts, material.perplexities, rules),
        'knowledge': knowledge(material.names, len(texts), rules),
        # the script tells only whether a turn asks
        'proactivity': [
            '?' in text if rules.released else len(QUESTION.findall(text))
            for text in texts
        ],
        'specificity': [sum(distinct(text, unit)) / 2 for text in texts],
        'diversity': [
            0 - (j is not None or (rules.released and text == ''))
            for j, text in zip(repeats, texts, strict=True)
        ],
        'consistency': [0 - (j is not None) for j in contradicts],
        'relevance': [
            None if material.concepts is None else j is not None for j in recalls
        ],
    }
    missing = {
        'fluency': 'no language model was asked'
        if material.perplexities is None
        else 'the language model gives the turn no finite perplexity',
        'knowledge': 'no entity recogniser was asked',
        'relevance': 'there is no dictionary of concepts',
    }
    perplexities = material.perplexities or [None] * len(texts)
    evidence = zip(repeats, contradicts, recalls, perplexities, strict=True)
    rows = zip(*columns.values(), strict=True)
    scores = []
    for i, (row, reasons) in enumerate(zip(rows, evidence, strict=True)):
        uncounted = why_not_counted(dialogue, i, repeats[i], rules)
        values = dict(zip(columns, row, strict=True)) | dict.fromkeys(uncounted)
        score = ItemScore(values, missing | uncounted, reasons)
        scores.append(score.completed(DIMENSIONS))
    return scores


def why_not_counted(
    dialogue: Dialogue, i: int, repeated_turn: int | None, rules: ChatMatchOptions
) -> dict[str, str]:
    """
    Return why turn ``i`` does not count, by each dimension for which it does not.

    A turn may not count because of where it stands (it is given, or the last of an even
    number), or because it is repeated.
    """
    n = len(dialogue.utterances)
    place = repeated = None
    if i == 0 or dialogue.utterances[i].given:
        place = 'not counted: given'
    if rules.released and n % 2 == 0 and i == n - 1:
        place = 'not counted: the last of an even number of turns'
    if repeated_turn is not None and rules.released:
        repeated = 'not counted: repeated'
    either = place or repeated
    reasons = {
        **dict.fromkeys(DIMENSIONS, either),
        'knowledge': None if rules.released else place,
        'specificity': repeated if rules.released else either,
        'diversity': place,
    }
    return {name: reason for name, reason in reasons.items() if reason}


def fluency(
    texts: Sequence[str],
    perplexities: Sequence[float | None] | None,
    rules: ChatMatchOptions,
) -> list[float | None]:
    """
    Return the negated perplexities; `None` where there is no finite one.

    Turns before the first that is judged count as 0, as the script has it, and a text
    of one character or none as the cap, where there is one.
    """
    if perplexities is None:
        return [None] * len(texts)
    cap = rules.perplexity_cap
    values: list[float | None] = []
    for i, (text, perplexity) in enumerate(zip(texts, perplexities, strict=True)):
        if cap and len(text) <= 1:
            perplexity = cap
        if i < rules.first_judged:
            values.append(0)
        elif perplexity is None or not math.isfinite(perplexity):
            values.append(None)
        else:
            values.append(-min(perplexity, cap or math.inf))
    return values


def knowledge(
    names: Sequence[Sequence[str]] | None, n: int, rules: ChatMatchOptions
) -> Sequence[int | None]:
    """
    Return how many entities each turn names, or, as the released script counts, how
    many that no turn before has named; `None` for each turn without entities.

    :param n: how many turns there are.
    """
    if names is None:
        return [None] * n
    if not rules.released:
        return [len(turn_names) for turn_names in names]
    counted: set[str] = set()
    values = []
    for turn_names in names:
        new = set(turn_names) - counted
        counted |= new
        values.append(len(new))
    return values


def perplexities(
    likelihood: LanguageModel, texts: Sequence[str], unit: str
) -> list[float | None]:
    """
    Return the perplexity of each text, without context, its end token included.

    Per token, or per character (the end token counts as one more), where models with
    different vocabularies compare. `None` for an empty text, or where it is not finite.
    Equal texts are asked once, and all at once, the shortest first: they share batches.
    """
    asked = sorted({text for text in texts if text.strip()}, key=lambda t: (len(t), t))
    answers = likelihood.answer([Question((), (text,)) for text in asked])
    by_text = {}
    for text, answer in zip(asked, answers, strict=True):
        logprobs = answer.continuations[0]
        total = finite_sum(logprobs)
        if total is not None:
            n = len(text) + 1 if unit == 'character' else len(logprobs)
            with suppress(OverflowError):
                by_text[text] = math.exp(-total / n)
    return [by_text.get(text) for text in texts]


SIDES, EXCHANGES = 2, 100
MEANS = ('fluency', 'specificity')


@frozen
class JudgedGame:
    """
    The scores of a dialogue.

    :param turns: of each turn; none in a dialogue that is no game.
    :param sides: of each speaker in the whole game.
    :param nothing: the scores of all in a dialogue that is no game, with the reason.
    """

    turns: Sequence[ItemScore] = ()
    sides: Mapping[str, ItemScore] = field(default_factory=dict)
    nothing: ItemScore | None = None

    def score(self, item: ScoringItem) -> ItemScore:
        """
        Return the score of an item's turn, or of its speaker in the whole game.
        """
        if self.nothing:
            return self.nothing
        if item.response is not None:
            return self.turns[len(item.context)]
        return self.sides.get(item.speaker, ItemScore({}))


def speakers(dialogue: Dialogue) -> list[str]:
    """
    Return the speakers' names in their order of speaking.
    """
    return list(dict.fromkeys(dialogue.speakers))


def why_no_game(dialogue: Dialogue) -> str | None:
    """
    Return why a dialogue is no game of two sides in turns; `None` when it is one.

    One name alone is a self-chat: its even turns are one side, its odd ones the other.
    """
    utterances, names = dialogue.utterances, speakers(dialogue)
    if len(utterances) < SIDES:
        return f'{len(utterances)} turn(s): a game has at least one exchange of two'
    if len(names) > SIDES:
        return f'{len(names)} speakers ({", ".join(names)}): a game has two'
    for i, (before, now) in enumerate(pairwise(dialogue.speakers), 1):
        if len(names) > 1 and now == before:
            return f'turn {i}: {now} speaks twice running; sides take turns'
    return None


def judged_game(
    dialogue: Dialogue, rules: ChatMatchOptions, material: Material
) -> JudgedGame:
    """
    Return the scores of a dialogue.

    In a self-chat both sides are one: counts are added, means averaged.
    """
    if reason := why_no_game(dialogue):
        nothing = dict.fromkeys(DIMENSIONS), dict.fromkeys(DIMENSIONS, reason)
        return JudgedGame(nothing=ItemScore(*nothing))
    turns = turn_scores(dialogue, rules, material)
    halves = [turns[start::SIDES] for start in range(SIDES)]
    swapped: Sequence[str] = ()
    if rules.reading == 'released':
        # the script's slips: each side gets the other's specificity, and fluency, too,
        # where only the first speaker has one unrepeated turn
        n_even, n_odd = (
            sum(turn.values['proactivity'] is not None for turn in half)
            for half in halves
        )
        swapped = ('specificity', 'fluency')[: 1 + (n_even == 1 and n_odd > 1)]
    sides = [
        side_score({d: other if d in swapped else own for d in DIMENSIONS}, rules)
        for own, other in (halves, halves[::-1])
    ]
    names = speakers(dialogue)
    if len(names) > 1:
        return JudgedGame(turns, dict(zip(names, sides, strict=True)))
    values = {}
    for name in DIMENSIONS:
        average = mean([side.values[name] for side in sides])
        if average is not None and name not in MEANS:
            average *= SIDES
        values[name] = average
    even, odd = sides
    whole = ItemScore(values, {**odd.reasons, **even.reasons})
    return JudgedGame(turns, {names[0]: whole})


def side_score(
    turns: Mapping[str, Sequence[ItemScore]], rules: ChatMatchOptions
) -> ItemScore:
    """
    Return one side's raw values.

    :param turns: by dimension, those that count for the side.
    """
    values: dict[str, float | None] = {}
    reasons = {}
    for name, column in turns.items():
        told = dict.fromkeys(turn.reasons.get(name) or '' for turn in column)
        known = [v for turn in column if (v := turn.values[name]) is not None]
        total, count = math.fsum(known), len(known)
        if name == 'fluency' and rules.released and count > 1:
            total, count = total - min(known), count - 1
        elif name == 'knowledge' and not rules.released:
            total = total * EXCHANGES / len(column)
        values[name] = total / count if known and name in MEANS else total
        if not known:
            values[name], reasons[name] = None, '; '.join(told)
    return ItemScore(values, reasons)


# --- the scorers ----------------------------------------------------------------------

REMEMBERED = 64  # games
UNNAMED = ('one', 'other')  # speakers of a game that names none
OVERALL = 'Overall'
NO_NAMES = ('', '')  # where it is not known who says what
ALONE = 'ChatMatch scores a game by comparing its two sides; a response has no game'


class ChatMatch(Scorer):
    """
    Judges whole games. A game's own values have no utterance index.

    Which concepts are important and how alike two turns are depends on the whole game,
    so an item without ``later`` turns is judged as if the game ended with it. The
    evidence of a turn names the earlier turns behind its penalty or bonus, and its
    perplexity. Without a judge, fluency has no score; without entities, knowledge.
    """

    name = 'chatmatch'
    version = 2
    options_class = ChatMatchOptions
    options: ChatMatchOptions
    dimensions = DIMENSIONS
    evidence_labels = ('repeats_turn', 'contradicts_turn', 'recalls_turn', 'perplexity')

    def prepare(self) -> None:
        """
        Read the dictionaries of concepts, and load the recogniser of entities.
        """
        self.dictionaries = load_dictionaries(self.options.concepts)
        self.recogniser = load_recogniser(self.options.entities)
        self.signed = {
            'entities': self.recogniser.signature if self.recogniser else 'none',
            'concepts': self.dictionaries.signature,
        }
        self.remembered: dict[Dialogue, JudgedGame] = {}

    def score_dialogues(
        self, dialogues: Sequence[Dialogue], indices: Sequence[Sequence[int]]
    ) -> list[ScoredDialogue]:
        """
        Judge, in ``dialogues[i]``, the utterances ``indices[i]`` and their speakers.
        One that is no game has only the reason why its speakers have no score.
        """
        scored = []
        for dialogue, game, counted in zip(
            dialogues, self.judged(dialogues), indices, strict=True
        ):
            judged, sides = judged_speakers(dialogue, counted), game.sides
            if game.nothing:
                counted, sides = (), dict.fromkeys(judged, game.nothing)
            rows: list[tuple[int | None, str, ItemScore]] = [
                (i, dialogue.speakers[i], game.turns[i]) for i in counted
            ]
            rows += [(None, name, sides[name]) for name in sides if name in judged]
            scores = tuple(
                Score(dialogue.id, index, system, name, value, score.reasons.get(name))
                for index, system, score in rows
                for name, value in score.values.items()
            )
            evidence = {i: game.turns[i].evidence for i in counted}
            scored.append(ScoredDialogue(dialogue.id, scores, evidence))
        return scored

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return what each item's turn adds to its game. The turns of a game are judged
        together, and a game that was judged lately is remembered.
        """
        games = [game_of(item, UNNAMED) for item in items]
        new = [game for game in dict.fromkeys(games) if game not in self.remembered]
        self.remembered |= dict(zip(new, self.judged(new), strict=True))
        scores = [
            self.remembered[game].score(item)
            for game, item in zip(games, items, strict=True)
        ]
        self.remembered = dict(list(self.remembered.items())[-REMEMBERED:])
        return scores

    def judged(self, dialogues: Sequence[Dialogue]) -> list[JudgedGame]:
        """
        Return the scores of each dialogue.
        """
        games = zip(dialogues, self.materials(dialogues), strict=True)
        return [judged_game(game, self.options, material) for game, material in games]

    def materials(self, dialogues: Sequence[Dialogue]) -> list[Material]:
        """
        Return the perplexities, entities and concepts of these games; the model is
        asked once.
        """
        texts = [text for dialogue in dialogues for text in dialogue.texts]
        names = fluent = None
        if self.recogniser is not None:
            cut = self.options.released  # behind the first colon
            seen = [text.partition(':')[0] if cut else text for text in texts]
            names = computed_once(self.recogniser.find, seen)
        for _, name in self.named_models():  # one, or none
            unit = self.options.perplexity_unit
            fluent = perplexities(self.models.likelihood(name), texts, unit)
        ends = accumulate((len(one.utterances) for one in dialogues), initial=0)
        return [
            Material(
                self.dictionaries.find(dialogue),
                names and names[start:stop],
                fluent and fluent[start:stop],
            )
            for dialogue, (start, stop) in zip(dialogues, pairwise(ends), strict=True)
        ]


def game_of(item: ScoringItem, sides: tuple[str, str]) -> Dialogue:
    """
    Return the game of an item.

    :param sides: its speakers, where the item does not say who spoke.
    """
    texts = (*item.utterances, *item.extras.get('later', ()))
    names = item.speakers or [sides[i % 2] for i in range(len(texts))]
    return Dialogue('', '', '', tuple(map(Utterance, names, texts)))


class ChatMatchGame(Scorer):
    """
    Judges a speaker's side of a whole dialogue against the other side.

    `Overall` is the number of points; the other dimensions are the side's raw values,
    as in `ChatMatch`. The evidence is the points of the speaker by dimension. Of a
    judged response, there are only the values that its turn adds; ``Overall`` has none.
    """

    name = 'chatmatch_game'
    level = 'dialogue'
    also_level = 'turn'
    version = ChatMatch.version
    options_class = ChatMatchOptions
    options: ChatMatchOptions
    dimensions = (OVERALL, *DIMENSIONS)

    def prepare(self) -> None:
        """
        Read what the raw values need.
        """
        self.chatmatch = ChatMatch(self.options, self.models)
        self.signed = self.chatmatch.signed

    def score(self, items: Items) -> list[ItemScore]:
        """
        Return the score of each side; both sides of a dialogue are worked out at once.
        """
        of_responses = iter(
            self.chatmatch.score([item for item in items if item.response is not None])
        )
        wholes = [game_of(item, NO_NAMES) for item in items if item.response is None]
        games = zip(wholes, computed_once(self.chatmatch.judged, wholes), strict=True)
        scores = []
        for item in items:
            if item.response is None:
                scores.append(_points(item.speaker, *next(games)))
            else:
                score = next(of_responses)
                reasons = {OVERALL: ALONE, **score.reasons}
                scores.append(ItemScore(score.values, reasons))
        return scores


def _points(speaker: str, dialogue: Dialogue, game: JudgedGame) -> ItemScore:
    """
    Return the points of a speaker's side against the other, with its raw values; or
    why it has none.
    """
    names = speakers(dialogue)
    reason = why_no_game(dialogue)
    if not all(names) or not names:
        reason = 'it is not known who says what, so there are no two sides to compare'
    elif len(names) < 2:
        reason = reason or 'a self-chat has no other side to compare with'
    elif speaker not in names:
        reason = reason or f'{speaker!r} says nothing in this dialogue'
    if reason:
        return ItemScore({}, dict.fromkeys((OVERALL, *DIMENSIONS), reason))
    raw = {name: side.values for name, side in game.sides.items()}
    first, second = names
    [result] = award_points([Game(first, second, raw)]).results
    points = result.totals[speaker] if result.has_points else None
    no_points = 'the two sides have a raw score on no common dimension'
    side = game.sides[speaker]
    return ItemScore(
        {OVERALL: points, **side.values},
        {OVERALL: no_points, **side.reasons},
        dict(result.points[speaker]),
    )
