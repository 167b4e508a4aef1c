"""
Numbers of the house that should only fall, measured from its source.

    python -m tests.house.measures          # print them beside those of ratchets.yaml

`make lint` runs this: a number above the recorded one fails, and so does one far below,
until the recorded one is lowered.
"""

import ast
import io
import subprocess
import sys
import tokenize
from collections import Counter
from pathlib import Path

import yaml

ROOT = Path(__file__).parents[2]
RECORDED = Path(__file__).with_name('ratchets.yaml')
PRODUCT = ('parlai_ext', 'agents', 'tasks', 'worlds', 'zoo_configs', 'parlai_internal')
DEVELOPMENT = ('benchmarks', 'torture')
BESIDE = ('agents', 'tasks', 'worlds', 'zoo_configs')  # they install in parlai_ext
LAYOUT = {
    tokenize.COMMENT,
    tokenize.NL,
    tokenize.NEWLINE,
    tokenize.INDENT,
    tokenize.DEDENT,
    tokenize.ENDMARKER,
}
MOST_SIBLINGS = 12  # modules of the house that a module should import at most
LONG = 45  # lines of a function
SLACK = 0.01  # a number may fall by this share before the recorded one must follow
Function = ast.FunctionDef | ast.AsyncFunctionDef


def sources(*tops):
    """
    Yield the Python files below some folders of the root, with their text.
    """
    for top in tops:
        for path in sorted((ROOT / top).rglob('*.py')):
            yield path, path.read_text('utf-8')


def code_tokens(text):
    """
    Return the tokens of a module without comments, docstrings and layout.
    """
    documented = {
        line
        for node in ast.walk(ast.parse(text))
        if isinstance(node, Function | ast.ClassDef | ast.Module)
        for line in docstring_lines(node)
    }
    return sum(
        token.type not in LAYOUT and token.start[0] not in documented
        for token in tokenize.generate_tokens(io.StringIO(text).readline)
    )


def docstring_lines(node):
    """
    Return the numbers of the lines of a docstring.
    """
    if ast.get_docstring(node, clean=False) is None:
        return range(0)
    return range(node.body[0].lineno, node.body[0].end_lineno + 1)


def weight(*tops):
    """
    Return the code tokens of all files below some folders.
    """
    return sum(code_tokens(text) for _, text in sources(*tops))


def siblings(text):
    """
    Return how many modules of the house a module imports.
    """
    names = set()
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.ImportFrom) and node.module:
            names.add(node.module)
        elif isinstance(node, ast.Import):
            names |= {alias.name for alias in node.names}
    return sum(name.split('.')[0] == 'parlai_ext' for name in names)


def functions(text):
    """
    Yield all functions of a module.
    """
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, Function):
            yield node


def code_lines(function):
    """
    Return the lines of a function without its docstring.
    """
    documented = len(docstring_lines(function))
    return function.end_lineno - function.lineno + 1 - documented


def shared_public_names():
    """
    Return how many public functions and classes have names in several modules.
    """
    counts = Counter(
        node.name
        for _, text in sources(*PRODUCT)
        for node in ast.parse(text).body
        if isinstance(node, Function | ast.ClassDef) and not node.name.startswith('_')
    )
    return sum(count > 1 for count in counts.values())


def untyped_mappings():
    """
    Return how many parameters and results of public functions are mappings to anything.
    """
    count = 0
    for _, text in sources(*PRODUCT):
        for function in functions(text):
            if function.name.startswith('_'):
                continue
            arguments = [*function.args.args, *function.args.kwonlyargs]
            for annotation in (*(a.annotation for a in arguments), function.returns):
                shown = ast.unparse(annotation) if annotation else ''
                count += 'apping[str, Any]' in shown or 'dict[str, Any]' in shown
    return count


def called_once():
    """
    Return how many private functions of modules are named exactly once beside their
    definition.
    """
    count = 0
    for _, text in sources(*PRODUCT):
        tree = ast.parse(text)
        private = {
            node.name
            for node in tree.body
            if isinstance(node, Function) and node.name.startswith('_')
        }
        uses = Counter(
            node.id
            for node in ast.walk(tree)
            if isinstance(node, ast.Name) and node.id in private
        )
        count += sum(uses[name] == 1 for name in private)
    return count


def loaded_modules():
    """
    Return how many modules of the house a dry run of the demo loads.
    """
    program = (
        "import sys, runpy\nsys.argv[1:] = ['evaluate_systems', '--config', 'demo', "
        f"'--dry-run', '--run-dir', {str(ROOT / 'build' / 'no-run')!r}]\n"
        "try:\n    runpy.run_module('parlai_ext', run_name='__main__')\nfinally:\n"
        "    print(sum(n.split('.')[0] == 'parlai_ext' for n in sys.modules))"
    )
    done = subprocess.run(
        [sys.executable, '-W', 'ignore', '-c', program],
        capture_output=True,
        text=True,
        check=True,
    )
    return int(done.stdout.rstrip().split('\n')[-1])


def measured():
    """
    Return all numbers by name.
    """
    product = list(sources(*PRODUCT))
    return {
        'tokens_product': weight(*PRODUCT),
        'tokens_tests': weight('tests'),
        'tokens_development': weight(*DEVELOPMENT),
        'modules_with_many_siblings': sum(
            siblings(text) > MOST_SIBLINGS for _, text in product
        ),
        'most_siblings': max(siblings(text) for _, text in product),
        'long_functions': sum(
            code_lines(one) > LONG for _, text in product for one in functions(text)
        ),
        'private_functions_called_once': called_once(),
        'public_names_in_several_modules': shared_public_names(),
        'untyped_mappings': untyped_mappings(),
        'modules_loaded_by_evaluate_systems': loaded_modules(),
    }


def faults(now, recorded):
    """
    Return a line for each number that rose, and for each that fell and is not recorded.
    """
    lines = []
    if set(now) != set(recorded):
        lines.append(f'{RECORDED.name}: other names: {set(now) ^ set(recorded)}')
    for name in now.keys() & recorded.keys():
        if now[name] > recorded[name]:
            lines.append(f'{name} rose from {recorded[name]} to {now[name]}')
        elif now[name] < recorded[name] * (1 - SLACK):
            lines.append(
                f'{name} fell from {recorded[name]} to {now[name]}: write that into '
                f'{RECORDED.relative_to(ROOT)}'
            )
    return lines


def main():
    recorded = yaml.safe_load(RECORDED.read_text('utf-8'))
    now = measured()
    for name, value in now.items():
        print(f'{name:35} {value:>8} of {recorded.get(name)}')
    lines = faults(now, recorded)
    print(*lines, sep='\n', file=sys.stderr)
    sys.exit(bool(lines))


if __name__ == '__main__':
    main()
