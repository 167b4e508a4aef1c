"""
The topics of our small talk, and the details that they share.

A topic is something that a speaker likes or does (``{x}``, one of its items), with verb
phrases about it; the other speaker may ask for a detail (when, who, where, how long,
why). No sentence has to agree with ``{x}``, so any item fits any sentence.
"""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Topic:
    """
    One topic: its items, and the sentences that ask, tell and comment about them.
    """

    name: str
    items: tuple[str, ...]
    ask: tuple[str, ...]
    tell: tuple[str, ...]
    comment: tuple[str, ...]
    do: str
    doing: str
    probes: tuple[str, ...]


def topic(name: str, do: str, doing: str, probes: str, **lists: str) -> Topic:
    """
    Return a topic whose lists are written with ``|`` between their members.
    """
    parts = {
        key: tuple(member.strip() for member in text.split('|'))
        for key, text in lists.items()
    }
    return Topic(name=name, do=do, doing=doing, probes=tuple(probes.split()), **parts)


@dataclass(frozen=True)
class Detail:
    """
    One kind of detail ``{y}``: how it is asked for, given and taken up.

    ``check`` are questions that refer to the value just given, ``confirm`` their
    answers. ``{yours}`` is the value as the listener says it (my sister, your sister).
    """

    values: tuple[str, ...]
    ask: tuple[str, ...]
    answer: tuple[str, ...]
    remark: tuple[str, ...]
    check: tuple[str, ...]
    confirm: tuple[str, ...]


def detail(**lists: str) -> Detail:
    """
    Return a detail whose lists are written with ``|`` between their members.
    """
    return Detail(
        **{
            key: tuple(member.strip() for member in text.split('|'))
            for key, text in lists.items()
        }
    )


DETAILS = {
    'when': detail(
        values='every Sunday | on Friday evenings | twice a week | almost every day '
        '| once a month | before work | after dinner | at the weekend | on rainy days '
        '| late at night | early in the morning | every Tuesday',
        ask='How often do you {do}? | When do you usually {do}? | When do you {do}? '
        '| When do you find the time for that? | Do you {do} often?',
        answer='I {do} {y}. | Usually {y}. | {Y}, most of the time. '
        '| Mostly {y}, I think. | I try to {do} {y}. | {Y} is when I {do}. '
        '| I like to {do} {y}.',
        remark='{Y} sounds about right. | {Y}, that is a good habit. '
        '| So {y}, that is nice. | I could never do that {y}. | {Y} would suit me too.',
        check='Why {y}? | Is {y} not hard to keep up? | Do you really {do} {y}?',
        confirm='Because I am free {y}. | I have more time {y}, so it is easy. '
        '| Yes, I really {do} {y}. | {Y} is just when I have a quiet hour.',
    ),
    'who': detail(
        values='my sister | my brother | my best friend | my neighbor | my cousin '
        '| my uncle | my grandmother | my daughter | my son | my aunt | my boss '
        '| my old teacher',
        ask='Who do you {do} with? | Do you {do} with anybody? | Do you {do} alone? '
        '| Does anyone join you?',
        answer='I {do} with {y}. | With {y}, usually. | Mostly with {y}. '
        '| {Y} always joins me. | No, {y} comes along. | I always {do} with {y}.',
        remark='It must be nice to have {yours} around. | {Yours} sounds like good '
        'company. | I would like to meet {yours}. | How sweet of {yours}. '
        '| You and {yours} must be close.',
        check='Does {yours} like {x} too? | Was it {yours} who showed you {x}? '
        '| What does {yours} think of {x}? | Is {yours} as keen as you?',
        confirm='Yes, {y} loves {x}. | {Y} likes {x} even more than I do. '
        '| {Y} is very fond of {x}. | Oh yes, {y} talks about {x} all the time.',
    ),
    'where': detail(
        values='near the river | in the old town | close to the station | by the lake '
        '| in my village | next to the library | behind the school | on the island '
        '| at the market square | in the city center',
        ask='Where do you {do}? | Where do you go for that? '
        '| Is there a good place for that? | Where is the best place to {do}?',
        answer='I {do} {y}. | Mostly {y}. | There is a good place {y}. '
        '| I know a spot {y}. | I found a place {y}. | Usually somewhere {y}.',
        remark='I have heard it is lovely {y}. | I used to live {y}. '
        '| I should go and look {y}. | {Y} must be pretty. | I know the place {y}.',
        check='Is it quiet {y}? | Is it crowded {y}? | Is it far to get there? '
        '| What is it like {y}?',
        confirm='It is very calm {y}. | It gets busy {y}, but I do not mind. '
        '| It is lovely {y}. | Not really, I live {y}. | I feel at home {y}.',
    ),
    'span': detail(
        values='two years | three months | ten years | six weeks | half a year '
        '| five years | twenty years | a whole year | seven months | four years',
        ask='How long have you been {doing}? | Have you been {doing} for long? '
        '| When did you start {doing}? | Since when have you been {doing}?',
        answer='For {y} now. | I have been {doing} for {y}. | It has been {y}. '
        '| About {y}. | I started {y} ago. | Oh, for {y} at least.',
        remark='Wow, {y}! | {Y} is quite some time. | After {y} you must know it well. '
        '| {Y}, you must really enjoy it. | I would have stopped before {y}.',
        check='Did it get easier after {y}? | Are you not bored after {y}? '
        '| Do you still like it after {y}?',
        confirm='After {y} I like it more than ever. | No, {y} went by so fast. '
        '| Yes, {y} made a big difference. | I could go on for another {y}.',
    ),
    'why': detail(
        values='it helps me relax | it makes me laugh | it keeps me busy '
        '| it reminds me of home | it is good for me | it gives me new ideas '
        '| it makes me happy | it keeps my mind clear | it cheers me up '
        '| it lets me forget my worries',
        ask='Why do you like {doing}? | What do you enjoy about {doing}? '
        '| What makes {x} so special for you? | Why {x} of all things?',
        answer='Because {y}. | I like {doing} because {y}. | Well, {y}. '
        '| I would say {y}. | I guess {y}. | Mainly because {y}.',
        remark='I am glad {yours}. | It is great that {yours}. '
        '| I can see that {yours}. | That is a good reason. '
        '| If {yours}, you should keep going.',
        check='Did you expect that {yours}? | Is it true that {yours} every time? '
        '| Do you know why {yours}?',
        confirm='Yes, {y} every time. | I never expected it, but {y}. '
        '| I do not know why, but {y}. | It is simply true that {y}.',
    ),
}

HOME = (
    topic(
        'food',
        'eat {x}',
        'eating {x}',
        'when who where why',
        items='pizza | noodle soup | fried rice | pancakes | lentil curry | fish stew '
        '| potato salad | dumplings | mushroom pie | grilled cheese',
        ask='What do you like to eat? | What is your favorite food? '
        '| What did you have for dinner? | What food could you eat every day?',
        tell='I love to eat {x}. | My favorite food is {x}. | I had {x} for dinner. '
        '| I could eat {x} every day. | I am hungry for {x}.',
        comment='{X} always tastes good. | I have not had {x} in a while. '
        '| Now I am hungry for {x}. | My mother used to make {x}.',
    ),
    topic(
        'cooking',
        'cook {x}',
        'cooking {x}',
        'when who span why',
        items='chicken soup | vegetable stew | pasta | baked beans | roast pumpkin '
        '| tomato sauce | stuffed peppers | omelettes | spicy tofu',
        ask='Do you like to cook? | What can you cook? | What do you cook at home?',
        tell='I like to cook {x}. | I cooked {x} today. | I am learning to cook {x}. '
        '| My best dish is {x}.',
        comment='I would love a bowl of {x}. | I always burn {x}. '
        '| Homemade {x}, how lovely. | You must give me a recipe for {x}.',
    ),
    topic(
        'drinks',
        'drink {x}',
        'drinking {x}',
        'when where why who',
        items='green tea | black coffee | apple juice | hot chocolate | mint tea '
        '| lemonade | ginger tea | milk with honey',
        ask='Do you drink tea or coffee? | What do you like to drink? '
        '| What is in your cup today?',
        tell='I mostly drink {x}. | I am having a cup of {x}. | I cannot start '
        'without {x}. | My favorite drink is {x}.',
        comment='A cup of {x} would be nice now. | I have never liked {x}. '
        '| {X} keeps me awake. | I drink {x} when I have a cold.',
    ),
    topic(
        'pets',
        'look after {x}',
        'looking after {x}',
        'who span why when',
        items='a small dog | an old cat | two rabbits | a parrot | a gray kitten '
        '| a turtle | three goldfish | a lazy hamster | a puppy',
        ask='Do you have any pets? | Do you have an animal at home? '
        '| Are there any animals in your house?',
        tell='I have {x} at home. | I just got {x}. | We keep {x} at home. '
        '| I live with {x}.',
        comment='I always wanted {x}. | How cute, {x}! | A friend of mine has {x} too. '
        '| Life with {x} must be fun.',
    ),
    topic(
        'books',
        'read {x}',
        'reading {x}',
        'when span why where',
        items='detective stories | fairy tales | poems | history books | travel books '
        '| science fiction | old novels | comic books | ghost stories',
        ask='Do you like to read? | What are you reading? '
        '| What kind of books do you like?',
        tell='I love to read {x}. | I mostly read {x}. | I am reading {x} again. '
        '| My shelf is full of {x}.',
        comment='I grew up with {x}. | I should try {x} one day. '
        '| I fall asleep over {x}. | The library has a lot of {x}.',
    ),
    topic(
        'films',
        'watch {x}',
        'watching {x}',
        'when who why where',
        items='funny films | horror films | cartoons | nature films | spy films '
        '| love stories | silent films | space films | crime shows',
        ask='What films do you like? | Have you seen a good film? '
        '| What do you like to watch?',
        tell='I love to watch {x}. | I watched {x} all weekend. '
        '| I am a big fan of {x}. | Nothing beats {x}.',
        comment='I am too tired for {x}. | I saw a lot of {x} as a child. '
        '| I never get bored of {x}. | I do not know much about {x}.',
    ),
    topic(
        'music',
        'listen to {x}',
        'listening to {x}',
        'when who why span',
        items='jazz | folk songs | piano music | rock music | opera | old love songs '
        '| guitar music | drum music | choir music',
        ask='What music do you like? | Do you listen to music? '
        '| What kind of songs do you like?',
        tell='I love to listen to {x}. | I really like {x}. '
        '| I heard {x} on the radio. | I cannot live without {x}.',
        comment='I could dance to {x}. | I find {x} very soothing. '
        '| I only hear {x} on the radio. | {X} always gives me shivers.',
    ),
    topic(
        'instrument',
        'play {x}',
        'playing {x}',
        'when span who why',
        items='the piano | the violin | the flute | the drums | the guitar | the cello '
        '| the trumpet | the harp',
        ask='Do you play an instrument? | Can you play any music? '
        '| Which instrument would you like to learn?',
        tell='I play {x}. | I am learning to play {x}. | I practice {x} a lot. '
        '| I bought {x} that I had always wanted.',
        comment='I love the sound of {x}. | {X} must be hard to learn. '
        '| My father played {x}. | I gave up {x} long ago.',
    ),
    topic(
        'crafts',
        'make {x}',
        'making {x}',
        'who span why where',
        items='clay bowls | wool socks | paper birds | wooden toys | candles | baskets '
        '| quilts | greeting cards | glass beads',
        ask='Do you make things by hand? | Do you have a hobby? '
        '| What do you do with your hands?',
        tell='I make {x} as a hobby. | I like to make {x}. | I am busy making {x}. '
        '| I made {x} for my family.',
        comment='I would buy {x} from you. | I am too clumsy for {x}. '
        '| Handmade {x} are the best presents. | I once got {x} as a present.',
    ),
    topic(
        'games',
        'play {x}',
        'playing {x}',
        'who when why span',
        items='chess | card games | word games | dominoes | board games | darts '
        '| video games | table tennis',
        ask='Do you play any games? | What games do you like? '
        '| What do you play at home?',
        tell='I like to play {x}. | I am quite good at {x}. | I lost at {x} again. '
        '| We had a long night of {x}.',
        comment='I always lose at {x}. | We played {x} at school. '
        '| I would beat you at {x}. | Nobody wants to play {x} with me.',
    ),
    topic(
        'cleaning',
        'clean {x}',
        'cleaning {x}',
        'when who span',
        items='the kitchen | the windows | the garage | the cellar | the bathroom '
        '| the carpets | the balcony',
        ask='What are you up to today? | Are you busy at home? '
        '| Which housework do you have to do?',
        tell='I have to clean {x}. | I am cleaning {x}. '
        '| I spent all day cleaning {x}. | I finally cleaned {x}.',
        comment='I should clean {x} as well. | I hate cleaning {x}. '
        '| You can clean {x} for me next. | {X} can wait, I always say.',
    ),
    topic(
        'furniture',
        'shop for {x}',
        'shopping for {x}',
        'where who span',
        items='a blue sofa | a round table | a tall lamp | a soft bed | a bookshelf '
        '| a desk | an armchair | a red carpet',
        ask='Are you changing anything at home? | Do you need anything for your flat? '
        '| How is your new flat?',
        tell='I need {x} for my flat. | I am looking for {x}. | I want to buy {x}. '
        '| My flat still needs {x}.',
        comment='I bought {x} last year. | My flat is too small for {x}. '
        '| You will find {x} soon. | It is not easy to choose {x}.',
    ),
)

OUTSIDE = (
    topic(
        'weather',
        'enjoy {x}',
        'enjoying {x}',
        'who why where',
        items='the sunshine | the snow | the rain | the fog | the warm wind '
        '| the thunder | the cold air | the blue sky',
        ask='How is the weather there? | What weather do you like? '
        '| Do you like this weather?',
        tell='I really like {x} today. | I cannot get enough of {x}. '
        '| I went out because of {x}. | We are enjoying {x}.',
        comment='We had {x} here too. | I miss {x} a little. '
        '| I stay inside because of {x}. | Everybody talks about {x}.',
    ),
    topic(
        'sports',
        'do {x}',
        'doing {x}',
        'when who span where',
        items='yoga | karate | long runs | gymnastics | judo | water polo | archery '
        '| weight training',
        ask='Do you do any sports? | How do you keep fit? | What sport do you like?',
        tell='I do {x}. | I do {x} to keep fit. | I am into {x}. '
        '| I signed up for {x}.',
        comment='I am not fit enough for {x}. | I did {x} at school. '
        '| My knees are too bad for {x}. | You must be strong if you do {x}.',
    ),
    topic(
        'teams',
        'cheer for {x}',
        'cheering for {x}',
        'who span why where',
        items='the Tigers | the Blue Stars | the Wolves | the Red Lions | the Eagles '
        '| the Green Bears | the Sharks',
        ask='Did you see the match? | Which team do you like? '
        '| Do you follow any team?',
        tell='I am a fan of {x}. | I saw {x} win. | My team is {x}. '
        '| I hope {x} will win the cup.',
        comment='I think {x} got lucky. | My whole street loves {x}. '
        '| I have never seen {x} play. | {X} had a bad season.',
    ),
    topic(
        'travel',
        'travel to {x}',
        'traveling to {x}',
        'when who why span',
        items='Spain | Japan | Peru | Norway | Egypt | Canada | Greece | India | Kenya '
        '| Brazil',
        ask='Where do you like to travel? | Do you have holiday plans? '
        '| Which country do you want to see?',
        tell='I want to travel to {x}. | I just came back from {x}. '
        '| I am planning a trip to {x}. | My dream is a trip to {x}.',
        comment='I have always wanted to see {x}. | The food in {x} is great. '
        '| I have some friends in {x}. | It must be warm in {x} now.',
    ),
    topic(
        'garden',
        'grow {x}',
        'growing {x}',
        'where who span why',
        items='roses | tomatoes | herbs | sunflowers | carrots | strawberries | tulips '
        '| beans | apple trees',
        ask='Do you have a garden? | What do you grow in your garden? '
        '| Do you like plants?',
        tell='I grow {x} in my garden. | I planted {x}. | My garden is full of {x}. '
        '| I am growing {x} this year.',
        comment='Fresh {x} are wonderful. | My soil is too dry for {x}. '
        '| I tried to grow {x} once. | I could use some {x}.',
    ),
    topic(
        'work',
        'work as {x}',
        'working as {x}',
        'where span why who',
        items='a nurse | a teacher | a baker | a driver | a painter | a cook '
        '| a farmer | a carpenter | a doctor',
        ask='What do you do for a living? | What is your job? | Where do you work?',
        tell='I work as {x}. | I got a new job as {x}. | I am {x}. '
        '| I earn my money as {x}.',
        comment='I once wanted to be {x}. | It must be hard to be {x}. '
        '| We need more people like you. | My neighbor is {x} too.',
    ),
    topic(
        'school',
        'study {x}',
        'studying {x}',
        'when span why who',
        items='biology | math | French | geography | chemistry | art history | law '
        '| Latin | physics',
        ask='What do you study? | What was your best subject? '
        '| Are you taking any classes?',
        tell='I study {x}. | I am taking a class in {x}. | I have an exam in {x}. '
        '| My best subject is {x}.',
        comment='I was terrible at {x}. | I forgot all I knew about {x}. '
        '| You must be clever to study {x}. | My class in {x} was fun.',
    ),
    topic(
        'language',
        'practice {x}',
        'practicing {x}',
        'who when span why',
        items='Italian | Turkish | Polish | Korean | Arabic | Dutch | Swahili | Danish',
        ask='Do you speak another language? | Are you learning a language? '
        '| Which language would you like to learn?',
        tell='I am learning {x}. | I speak a little {x}. | I want to speak {x} well. '
        '| I signed up for lessons in {x}.',
        comment='I only know one word of {x}. | {X} has a lovely sound. '
        '| They say that {x} is not easy. | I have a book about {x}.',
    ),
    topic(
        'nature',
        'walk in {x}',
        'walking in {x}',
        'when who why span',
        items='the forest | the park | the hills | the mountains | the fields '
        '| the dunes | the valley',
        ask='Do you like nature? | Do you go for walks? | Where do you like to walk?',
        tell='I love to walk in {x}. | I went for a walk in {x}. '
        '| I spent the day in {x}. | My favorite place is in {x}.',
        comment='I got lost in {x} once. | The air in {x} is so fresh. '
        '| I wish I lived near {x}. | There are so many birds in {x}.',
    ),
    topic(
        'transport',
        'take {x}',
        'taking {x}',
        'when where why span',
        items='the bus | the train | the tram | the ferry | my bike | the night train '
        '| the cable car',
        ask='How do you get to work? | How do you get around? | Do you drive?',
        tell='I always take {x}. | I take {x} to work. | I missed {x} today. '
        '| I go everywhere if I can take {x}.',
        comment='I am always late for {x}. | I would be lost without {x}. '
        '| I never take {x}. | Sometimes I take {x} as well.',
    ),
    topic(
        'pastime',
        'go {x}',
        'going {x}',
        'when where who why',
        items='swimming | sailing | fishing | diving | rowing | skating | surfing '
        '| dancing | camping | bowling',
        ask='What do you do in your free time? | What did you do at the weekend? '
        '| How do you spend your free days?',
        tell='I like to go {x}. | I went {x} at the weekend. | I go {x} to relax. '
        '| My hobby is {x}.',
        comment='I have never gone {x}. | I am afraid of {x}. '
        '| I would go {x} with you. | I used to go {x} a lot.',
    ),
    topic(
        'presents',
        'give away {x}',
        'giving away {x}',
        'who when why',
        items='flowers | chocolate | a warm scarf | a photo album | perfume '
        '| concert tickets | a gold ring | a toy train',
        ask='What do you give people for their birthday? '
        '| Do you have an idea for a present? | What would be a good present?',
        tell='I bought {x} as a present. | I like to give {x} as a present. '
        '| I got {x} for my birthday. | I wrapped {x} today.',
        comment='Nobody ever gives me {x}. | I got {x} for my birthday too. '
        '| {X} is what I want as well. | What a good idea, {x}.',
    ),
)

TOPICS: tuple[Topic, ...] = HOME + OUTSIDE
