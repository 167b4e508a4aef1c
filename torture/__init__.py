"""
The torture suite: damage, kills, hostile input, and how much of it the program holds.

`python -m torture` runs every part and prints one table, from a checkout.
"""
