"""
Named entities, for knowledge: dates and numbers are none.

`gazetteer` and `capitals` need nothing; `spacy` and `stanza` an installed pipeline. The
gazetteer is a list of this project, in lower case, written for everyday talk: places,
peoples and languages, faiths, companies and brands, well-known people, works and teams.
Words that everyday talk uses otherwise too (turkey, apple, may, nice) are left out,
since a list cannot tell them apart. How a name is written does not matter: a bot that
writes capitals gains nothing.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from typing import NamedTuple

from parlai_ext.core import UserError, bytes_hash, frozen, require_known
from parlai_ext.scoring.chatmatch.concepts import Finder, words

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
