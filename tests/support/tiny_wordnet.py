"""
A WordNet of one synset in Princeton's file format, written by hand (wndb(5WN)).
"""

# the synset begins at byte 30
DATA = '  1 a licence would be here  \n00000030 03 n 02 car 0 auto 0 000 | a gloss  \n'
INDEX = 'auto n 1 0 1 0 00000030  \ncar n 1 0 1 0 00000030  \n'


def write_wordnet(folder):
    """
    Write the files of a WordNet in which 'car' and 'auto' are synonyms.
    """
    folder.mkdir(parents=True, exist_ok=True)
    for part in ('noun', 'verb', 'adj', 'adv'):
        is_noun = part == 'noun'
        (folder / f'data.{part}').write_text(DATA if is_noun else '')
        (folder / f'index.{part}').write_text(INDEX if is_noun else '')
        (folder / f'{part}.exc').write_text('')
    return folder
