"""
A WordNet of two synsets in Princeton's file format, written by hand (wndb(5WN)).
"""

PARTS = {'noun': 'n', 'verb': 'v', 'adj': 'a', 'adv': 'r'}
# the synsets of a part of speech, each a list of words
SYNSETS = {'noun': [['car', 'auto'], ['dog']]}


def write_wordnet(folder):
    """
    Write the files of a WordNet in which 'car' and 'auto' are synonyms.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for part, letter in PARTS.items():
        data, index = '  1 a licence would stand here  \n', ''
        for words in SYNSETS.get(part, []):
            offset = f'{len(data):08}'
            listed = ' '.join(f'{word} 0' for word in words)
            data += f'{offset} 03 {letter} {len(words):02x} {listed} 000 | a gloss  \n'
            for word in words:
                index += f'{word} {letter} 1 0 1 0 {offset}  \n'
        (folder / f'data.{part}').write_text(data)
        (folder / f'index.{part}').write_text(index)
        (folder / f'{part}.exc').write_text('')
    return folder
