"""
Topics outside the house.
"""

from parlai_ext.mini.topics import topic

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
