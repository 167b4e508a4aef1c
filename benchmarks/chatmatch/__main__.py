"""
Print the tables: `python -m benchmarks.chatmatch --data FOLDER --table …`.
"""

import sys

from benchmarks.chatmatch.command import ChatmatchTables

if __name__ == '__main__':
    parser = ChatmatchTables.parser('python -m benchmarks.chatmatch')
    ChatmatchTables.execute(vars(parser.parse_args(sys.argv[1:])))
