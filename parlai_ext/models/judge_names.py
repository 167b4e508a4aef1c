"""
Names of judges: wherever a judge's model file is expected, other models may be named.

    smollm2-135m-q4[,k=v…]            a model of the catalogue: an ext:hf
    /path/to/model, zoo:…             a ParlAI model file
    hf:REPOSITORY[@REVISION][,k=v…]   an ext:hf; so is a Hugging Face model's folder
    http://HOST/v1[,remote_model=NAME…]  an endpoint: an ext:remote (chat models only)
    agent:CLASS[,key=value…]          as for --add-target: agent:hugging_face/dialogpt
    FILE.yaml, FILE.json              `name` and `opt` of a system
"""

import os

from parlai_ext.core import System, UserError
from parlai_ext.files.model_cards import is_model_name
from parlai_ext.files.roster_file import parse_target
from parlai_ext.systems import hub

HF, AGENT = 'hf:', 'agent:'
ENDPOINTS = ('http://', 'https://')


def judge_system(name: str) -> System:
    """
    Return the judge of this name as a system.

    :raises UserError: if its options or its file are wrong.
    """
    head, comma, options = name.partition(',')
    spec = ''
    if head.startswith(HF):
        repo, at, revision = head.removeprefix(HF).partition('@')
        pinned = f',hf_revision={revision}' if at else ''
        spec = f'judge={AGENT}{hub.AGENT},hf_model={repo}{pinned}{comma}{options}'
    elif is_model_name(head):
        spec = f'judge={AGENT}{hub.AGENT},hf_model={head}{comma}{options}'
    elif head.startswith(ENDPOINTS):
        spec = f'judge={AGENT}ext:remote,remote_url={name}'
    elif head.startswith(AGENT):
        spec = f'judge={name}'
    elif name.endswith(('.yaml', '.yml', '.json')) and os.path.isfile(name):
        spec = name
    elif os.path.isfile(os.path.join(name, 'config.json')):
        return System('judge', {'model': hub.AGENT, 'hf_model': name})
    if not spec:
        return System('judge', {'model_file': name})
    try:
        return System('judge', parse_target(spec)[0].opt)
    except UserError as error:
        problem = str(error).replace(f'--add-target {spec}', f'judge {name}')
        raise UserError(problem) from None
