"""
ChatMatch (Yang et al. 2022): what the two sides of a game did, in seven dimensions.
"""
