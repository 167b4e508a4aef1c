"""
The numbers of Yang et al. (2022), by table.

Only numbers that the text prints: Figures 3 and 4 are drawings without any.
"""

TAU = {'trueskill': 0.81, '3-1-0': 0.62, '2-1-0': 0.62}  # Table 5, section 4.4.5

AMONG_JUDGES = {  # Table 4
    'fluency': 0.60,
    'knowledge': 0.62,
    'proactivity': 0.60,
    'specificity': 0.62,
    'diversity': 0.62,
    'consistency': 0.61,
    'relevance': 0.61,
    'overall': 0.63,
}

# Table 6: the groups of four, tau with people, tau among judges
_GROUPS = """
BB CR CS PL 1.00 0.61|CR CS DG PL 1.00 0.78|BB CR DG PL 1.00 0.72
BB CS DG UG 1.00 0.83|BB CS DG PL 1.00 0.70|BB DG PL UG 1.00 0.89
BB DD PL UG 1.00 0.60|BB DD DG UG 1.00 0.67|BB CR CS UG 1.00 0.96
BB CR CS DG 1.00 0.78|BB CR PL UG 1.00 0.76|BB CS PL UG 1.00 0.76
CR CS PL UG 1.00 0.61|CR CS DG UG 0.67 0.61|BB CR DG UG 0.67 0.61
BB CR DD UG 0.67 0.67|BB CS DD UG 0.67 0.61|BB DD DG PL 0.67 0.70
CR DD DG UG 0.67 0.60|BB CR DD PL 0.67 0.70|DD DG PL UG 0.67 0.61
BB CS DD PL 0.67 0.70|CS DD DG UG 0.67 0.78|CR DD DG PL 0.67 0.61
CS DG PL UG 0.67 0.60|CS DD PL UG 0.67 0.61|CR DG PL UG 0.67 0.60
BB CS DD DG 0.67 0.61|BB CR DD DG 0.67 0.67|CR DD PL UG 0.55 0.61
CR CS DD UG 0.33 0.61|CS DD DG PL 0.33 0.61|CR CS DD DG 0.33 0.61
BB CR CS DD 0.33 0.61|CR CS DD PL 0.00 0.61
"""
GROUPS = {
    tuple(sorted(cells[:-2])): (float(cells[-2]), float(cells[-1]))
    for row in _GROUPS.strip().split('\n')
    for cells in (one.split() for one in row.split('|'))
}
GROUPS_MEAN, GROUPS_ABOVE_060, GROUPS_AMONG = 0.73, 29, 0.68

SETUPS = {  # Table 7: tau, inconsistencies and relevance bonuses a game
    'bot-bot': {'tau': 0.81, 'inconsistency': 7.10, 'relevance': 12.60},
    'self-chat': {'tau': 0.24, 'inconsistency': 0.14, 'relevance': 17.14},
}

WITHOUT = {  # Table 8
    'fluency': 0.62,
    'knowledge': 0.71,
    'proactivity': 0.71,
    'specificity': 0.62,
    'diversity': 0.24,
    'consistency': 0.71,
    'relevance': 0.71,
    '(none)': 0.81,
}

VARIETY = (0.49, 0.83, 0.66, 15.7)  # Table 11, bot-bot

EXCHANGES = (5, 10, 25, 50, 100)  # Figure 4, whose 150 and 200 were not released
