"""
An agent that nobody trusts, which does what it is told.

It is written to a file of its own, which no note of the tests names.
"""

from parlai_ext.core import System

CODE = '''
import ctypes, os, random, socket, sys, time
import numpy, torch
from parlai.core.agents import Agent
from parlai.core.message import Message

class Strange(Agent):
    """
    Says what the expression gives that it heard.
    """

    def act(self):
        words = eval(self.observation['text'])
        return Message(id='strange', text=str(words), episode_done=False)

    @classmethod
    def add_cmdline_args(cls, parser, partial_opt=None):
        parser.add_argument('--search-server')
        return parser
'''


def strange_system(folder, monkeypatch, **opt):
    """
    Return a system of this agent.
    """
    (folder / 'strange_agent.py').write_text(CODE)
    monkeypatch.syspath_prepend(str(folder))
    return System('strange', {'model': 'strange_agent:Strange', **opt})
