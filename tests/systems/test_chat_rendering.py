"""
Chat templates are rendered as transformers does, and cost no more than a little.
"""

import os
from pathlib import Path
from types import SimpleNamespace

import pytest
import transformers

from parlai_ext.systems.chat import rendering
from parlai_ext.systems.chat.rendering import (
    TODAY,
    TemplateProblem,
    fix_date,
    render_chat,
)
from tests.support.family_hf import TEMPLATE, make_tokenizer
from tests.support.forked import said_in_child

SMOL = Path('/tmp/models/smollm2-135m-q4')
MESSAGES = [
    {'role': 'system', 'content': 'Be kind.'},
    {'role': 'user', 'content': 'tea? \u2028 \U0001f600 <b>&amp;</b> \ud83d'},
    {'role': 'assistant', 'content': ' warm\n'},
    {'role': 'user', 'content': 'rain'},
]


@pytest.fixture(scope='module')
def tokenizer():
    return make_tokenizer(['tea', 'rain'])


def rendered(tokenizer, template, **more):
    return render_chat(
        tokenizer, MESSAGES, template, add_generation_prompt=True, more=more
    )


@pytest.mark.parametrize(
    'template',
    [
        TEMPLATE,
        '{{ messages | tojson }}',
        '{%- for m in messages -%}\n  {% generation %}{{ m.content | trim }}'
        '{% endgeneration %}\n{% if loop.last %}{% break %}{% endif %}{% endfor %}',
        '{% set ns = namespace(n=0) %}{% for m in messages %}{% set ns.n = ns.n + 1 %}'
        '{% endfor %}{{ ns.n }}{{ eos_token }}{{ extra }}{{ add_generation_prompt }}',
        fix_date('{{ strftime_now("%d %b %Y") }}', TODAY),
    ],
)
@pytest.mark.parametrize('opens', [True, False])
def test_a_text_is_that_of_transformers(template, opens, tokenizer):
    text = render_chat(
        tokenizer,
        MESSAGES,
        template,
        add_generation_prompt=opens,
        more={'extra': [1, 'x']},
    )
    assert text == tokenizer.apply_chat_template(
        MESSAGES,
        chat_template=template,
        tokenize=False,
        add_generation_prompt=opens,
        extra=[1, 'x'],
    )


@pytest.mark.skipif(not SMOL.is_dir(), reason='smollm2-135m-q4 is not on this machine')
def test_a_real_template_gives_the_text_of_transformers():
    real = transformers.AutoTokenizer.from_pretrained(SMOL)
    template = real.get_chat_template()
    assert rendered(real, template) == real.apply_chat_template(
        MESSAGES, tokenize=False, add_generation_prompt=True
    )


def test_a_template_that_refuses_or_fails_is_told_apart(tokenizer):
    with pytest.raises(TemplateProblem, match='^no tea$') as caught:
        rendered(tokenizer, "{{ raise_exception('no tea') }}")
    assert caught.value.kind == 'TemplateError'
    with pytest.raises(TemplateProblem) as caught:
        rendered(tokenizer, '{% for %}')
    assert caught.value.kind == 'TemplateSyntaxError'


LOOP = '{% for a in range(99999) %}' * 3 + '{% endfor %}' * 3
DOUBLED = (
    '{% set ns = namespace(x="ab") %}{% for i in range(60) %}'
    '{% set ns.x = ns.x ~ ns.x %}{% endfor %}'
)


@pytest.mark.parametrize(
    'template',
    [
        LOOP,
        DOUBLED,
        "{{ 'a' * 20000000000 }}",
        "{{ 'a' * 20000000 }}",
        "{{ '{:>99999999999}'.format(1) }}",
    ],
)
def test_a_template_that_costs_without_end_is_stopped(template, tokenizer, monkeypatch):
    assert rendered(tokenizer, '{{ bos_token }}')  # the process is there
    monkeypatch.setattr(rendering, 'SECONDS', 1)
    with pytest.raises(TemplateProblem) as caught:
        rendered(tokenizer, template)
    assert '\n' not in str(caught.value)
    monkeypatch.undo()
    assert rendered(tokenizer, '{{ bos_token }}') == '<s>'  # for the next one


@pytest.mark.slow
def test_the_process_may_be_killed_and_a_fork_has_its_own(tokenizer):
    assert rendered(tokenizer, 'a') == 'a'
    before, _ = rendering._renderer(os.getpid())
    before.kill()
    before.wait()
    assert rendered(tokenizer, 'b') == 'b'
    before, _ = rendering._renderer(os.getpid())
    assert said_in_child(lambda: rendered(tokenizer, 'c')) == 'c'
    assert rendered(tokenizer, 'd') == 'd'
    assert rendering._renderer(os.getpid())[0] is before


def test_an_interrupted_question_leaves_no_answer_for_the_next(tokenizer, monkeypatch):
    def interrupted(*args):
        raise KeyboardInterrupt

    assert rendered(tokenizer, 'a') == 'a'
    process, channel = rendering._renderer(os.getpid())
    told = SimpleNamespace(sendall=channel.sendall, settimeout=channel.settimeout)
    told.makefile = interrupted
    monkeypatch.setattr(rendering, '_renderer', lambda _: (process, told))
    with pytest.raises(KeyboardInterrupt):
        rendered(tokenizer, 'b')
    monkeypatch.undo()
    assert rendered(tokenizer, 'c') == 'c'
