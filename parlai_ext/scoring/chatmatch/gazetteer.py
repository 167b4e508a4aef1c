"""
Names that need no model to be recognised: a list of this project, in lower case.

Written for everyday talk: places, peoples and languages, faiths, companies and brands,
well-known people, works and teams. Words that everyday talk uses otherwise too (turkey,
apple, may, nice) are left out, since a list cannot tell them apart. How a name is
written does not matter: a bot that writes capitals gains nothing.
"""

COUNTRIES = """
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
"""
REGIONS = """
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
"""
CITIES = """
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
"""
PEOPLES = """
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
"""
BRANDS = """
adidas,airbnb,aldi,bmw,boeing,burger king,chevrolet,chevy,chick fil a,chipotle,
coca cola,coke,costco,disney,disneyland,disney world,ebay,facebook,fedex,
fender,ferrari,gibson,gmail,google,harley davidson,home depot,honda,hulu,hyundai,ibm,
ikea,instagram,iphone,jeep,kfc,kindle,kroger,lego,lexus,linkedin,lowes,macbook,
mazda,mcdonalds,mercedes,microsoft,nasa,netflix,nike,nintendo,nissan,nokia,paypal,pepsi,
pinterest,playstation,porsche,ps4,ps5,reddit,safeway,samsung,skype,snapchat,sony,
spotify,starbucks,taco bell,tesla,tiktok,tinder,toyota,trader joes,tumblr,twitter,uber,
volkswagen,walmart,wendys,whatsapp,wikipedia,xbox,yahoo,youtube,nba,nfl,nhl,mlb,
ufc,fbi,cia,harvard,stanford,yale,princeton,mit,ucla,red cross,congress,united nations,
"""
PEOPLE = """
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
"""
WORKS = """
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
    tuple(name.split())
    for block in (COUNTRIES, REGIONS, CITIES, PEOPLES, BRANDS, PEOPLE, WORKS)
    for name in block.replace('\n', '').split(',')
    if name
)
LONGEST = max(map(len, NAMES))
# a name's first word tells whether looking further is worth it
FIRST = frozenset(name[0] for name in NAMES)


def names_in(words: tuple[str, ...]) -> list[str]:
    """
    Return the names in a turn's words, the longest at each place.
    """
    names = []
    i = 0
    while i < len(words):
        # the longest name that begins here
        lengths = range(min(LONGEST, len(words) - i) if words[i] in FIRST else 0, 0, -1)
        length = next((n for n in lengths if words[i : i + n] in NAMES), 0)
        if length:
            names.append(' '.join(words[i : i + length]))
        i += max(1, length)
    return names
