"""
Print the tables of the ChatMatch paper: published and measured side by side.

    python -m benchmarks.chatmatch --data FOLDER [--table groups setups …]

The paper is Yang et al. (2022). `--data` is the folder of its games and judgements as
the authors released them; `--table spot_the_bot` takes the folder of Spot The Bot
instead. docs/tournaments.md explains the tables.
"""
