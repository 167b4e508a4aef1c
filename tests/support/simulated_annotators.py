"""
Annotators who prefer some systems: they know which system is behind an item, which no
reader of a page can.
"""

import json
import math
import random
import re

from tests.support.written import json_in, written


def read_key(run):
    """
    Return the key of a rating set as JSON data.
    """
    return json_in(run / 'people' / 'rating' / 'key.json')


def page_data(path):
    """
    Return what the script of a rating page reads.
    """
    text = path.read_text('utf-8')
    return json.loads(re.search(r'id="data">(.*?)</script>', text)[1])


def simulated_answer(key, item, strengths, rng):
    """
    Return the answer of an annotator: of a pair by Bradley-Terry with these strengths,
    of a dialogue the strength with normal noise, rounded to a label.
    """
    systems = [dialogue['system'] for dialogue in key['items'][item]]
    if key['kind'] == 'pair':
        odds = math.exp(strengths[systems[1]] - strengths[systems[0]])
        return 'a' if rng.random() < 1 / (1 + odds) else 'b'
    most = len(key['questions'][0]['answers'])
    value = round(strengths[systems[0]] + rng.gauss(0, 0.7))
    return str(min(most, max(1, value)))


def answers_file(folder, key, name, strengths, **changed):
    """
    Write the file that a page would save after one annotator answered everything.
    """
    rng = random.Random(name)
    answers = []
    for item in key['items']:
        left = rng.choice('ab')
        for question in key['questions']:
            answer = simulated_answer(key, item, strengths, rng)
            row = {'item': item, 'dimension': question['dimension'], 'answer': answer}
            answers.append({**row, 'left': left, 'seconds': 1.5})
    data = {
        'format': 'parlai_ext ratings',
        'rating_set': key['rating_set'],
        'page': 1,
        'annotator': name,
        'saved': 1.0,
        'answers': answers,
    }
    return written(folder, f'{name}.json', {**data, **changed})


def scores_by_system(ranking):
    return {standing.system: standing.score for standing in ranking.standings}


def ranked_names(ranking):
    """
    Return the systems of a ranking by people, the best first.
    """
    standings = sorted(ranking.standings, key=lambda standing: standing.rank)
    return [standing.system for standing in standings]
