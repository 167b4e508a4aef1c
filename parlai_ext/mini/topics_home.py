"""
Topics around the house.
"""

from parlai_ext.mini.topics import topic

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
