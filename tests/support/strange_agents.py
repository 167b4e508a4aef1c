"""
Agents that nobody trusts, each with one deed before its replies.

They are written to a file of their own, which no note of the tests names.
"""

from parlai_ext.core.nouns import System

CODE = '''
import ctypes, os, random, socket, sys, time
import numpy, torch
from parlai.core.agents import Agent
from parlai.core.message import Message

class Strange(Agent):
    """
    Does its deed, and says what it heard.
    """

    def act(self):
        deed = self.opt['fixed_response']
        words = eval(deed)
        return Message(id='strange', text=str(words), episode_done=False)

    @classmethod
    def add_cmdline_args(cls, parser, partial_opt=None):
        parser.add_argument('--fixed-response', default='')
        return parser
'''


def strange_system(folder, monkeypatch, deed, name='strange'):
    """
    Return a system that nobody trusts, which says what an expression gives.
    """
    (folder / 'strange_agent.py').write_text(CODE)
    monkeypatch.syspath_prepend(str(folder))
    return System(name, {'model': 'strange_agent:Strange', 'fixed_response': deed})
