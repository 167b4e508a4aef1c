"""
Pickles that run code when they are read, each in a way of its own.

All that their code does is to make an empty marker file.
"""

import copyreg
import pickle
import sys

import torch

from tests.support.written import zip_of

PROTO4 = b'\x80\x04'
EXTENSION = 240


class Call:
    """
    Pickles as the call of a function.
    """

    def __init__(self, function, *args):
        self.function, self.args = function, args

    def __reduce__(self):
        return self.function, self.args


def named(module, name):
    """
    Return the pickle code of a global that is written by its name alone.
    """
    return f'c{module}\n{name}\n'.encode()


def text(words):
    """
    Return the pickle code of a string.
    """
    return coded(str(words).encode(), b'X')


def coded(data, kind=b'B'):
    """
    Return the pickle code of bytes, or of a string's bytes.
    """
    return kind + len(data).to_bytes(4, 'little') + data


def reduced(module, name, *args):
    """
    Return the pickle of a call; arguments that are bytes are pickle code themselves.
    """
    inside = b''.join(arg if isinstance(arg, bytes) else text(arg) for arg in args)
    return called(named(module, name), inside)


def called(function, inside):
    """
    Return the pickle code of a call.

    :param inside: the code of the arguments.
    """
    return function + b'(' + inside + b'tR'


def program(marker):
    return f'open({str(marker)!r}, "w").close()'


def module_on_path(marker):
    """
    Write a module that makes the marker when it is imported; return its name.
    """
    name = f'imported_{abs(hash(str(marker)))}'
    (marker.parent / f'{name}.py').write_text(program(marker) + '\nx = 0\n')
    if str(marker.parent) not in sys.path:
        sys.path.append(str(marker.parent))
    return name


def script(marker):
    path = marker.parent / f'script_{marker.name}.py'
    path.write_text(program(marker))
    return path


def touch(marker):
    return f'touch {marker}'


def getattr_chain(marker):
    os = reduced('builtins', '__import__', 'os')
    return called(reduced('builtins', 'getattr', os, 'system'), text(touch(marker)))


def partial(marker):
    system = named('posix', 'system')
    return reduced('functools', 'partial', system, touch(marker)) + b')R'


def methodcaller(marker):
    path = reduced('pathlib', 'PosixPath', str(marker))
    return called(reduced('operator', 'methodcaller', 'touch'), path)


def attrgetter(marker):
    getter = reduced('operator', 'attrgetter', 'system')
    os = reduced('importlib', 'import_module', 'os')
    return called(called(getter, os), text(touch(marker)))


def dotted(marker):
    name = b'\x8c\x05torch' + b'\x8c\x09os.system' + b'\x93'
    return PROTO4 + called(name, text(touch(marker)))


def extension(marker):
    if EXTENSION not in copyreg._inverted_registry:
        copyreg.add_extension('posix', 'system', EXTENSION)
    code = bytes([EXTENSION])
    return called(b'\x82' + code, text(touch(marker)))


def inst(marker):
    return b'(' + text(touch(marker)) + b'iposix\nsystem\n'


def obj(marker):
    # OBJ instantiates: a class whose making runs something
    popen = b'(' + named('subprocess', 'Popen')
    return popen + b'](' + text('touch') + text(marker) + b'eo'


def setstate(marker):
    """
    An object of an allowed type, whose own `__setstate__` becomes a function.
    """
    blank = named('argparse', 'Namespace') + b')\x81'
    system = b'}' + text('__setstate__') + named('posix', 'system') + b'sb'
    return blank + system + text(touch(marker)) + b'b'


def nested_pickle(marker):
    inner = pickle.dumps(Call(exec, program(marker)))
    return PROTO4 + reduced('_pickle', 'loads', coded(inner))


def nested_torch(marker):
    inner = in_zip(pickle.dumps(Call(exec, program(marker))))
    return PROTO4 + reduced('torch.storage', '_load_from_bytes', coded(inner))


def function_of_code(marker):
    import marshal

    inner = marshal.dumps(compile(program(marker), '<model>', 'exec'))
    builtins = reduced('importlib', 'import_module', 'builtins')
    names = b'}' + text('__builtins__') + builtins + b's'
    loaded = reduced('marshal', 'loads', coded(inner))
    return PROTO4 + reduced('types', 'FunctionType', loaded, names) + b')R'


def factory(marker):
    """
    A defaultdict whose factory is a function, called by the first missing key.
    """
    call = reduced('functools', 'partial', named('posix', 'system'), touch(marker))
    made = reduced('collections', 'defaultdict', call)
    getter = reduced('operator', 'itemgetter', 'missing')
    return called(getter, made)


def calling(module, name, argument):
    """
    Return the gadget that calls a function with what ``argument`` makes of the marker.
    """
    return lambda m: reduced(module, name, argument(m)), f'{module}.{name}'


# name: (the pickle that makes the marker, the first offending global)
GADGETS = {
    'system': calling('posix', 'system', touch),
    'popen': (
        lambda m: reduced(
            'subprocess', 'Popen', b'](' + text('touch') + text(m) + b'e'
        ),
        'subprocess.Popen',
    ),
    'exec': calling('builtins', 'exec', program),
    'python 2': (
        lambda m: b'\x80\x02' + reduced('__builtin__', 'eval', program(m)),
        '__builtin__.eval',
    ),
    'eval': calling('builtins', 'eval', program),
    'open': (lambda m: reduced('_io', 'open', str(m), 'w'), '_io.open'),
    'getattr': (getattr_chain, 'builtins.getattr'),
    'runpy': calling('runpy', 'run_path', script),
    'importlib': calling('importlib', 'import_module', module_on_path),
    'mere import': (lambda m: named(module_on_path(m), 'x'), 'imported_'),
    'methodcaller': (methodcaller, 'operator.methodcaller'),
    'attrgetter': (attrgetter, 'operator.attrgetter'),
    'partial': (partial, 'functools.partial'),
    'dotted': (dotted, 'torch.os.system'),
    'extension': (extension, 'the extension of code 240 (copyreg)'),
    'INST': (inst, 'posix.system'),
    'OBJ': (obj, 'subprocess.Popen'),
    'BUILD': (setstate, 'posix.system'),
    'nested pickle': (nested_pickle, '_pickle.loads'),
    'nested torch': (nested_torch, 'torch.storage._load_from_bytes'),
    'marshal': (function_of_code, 'types.FunctionType'),
    'default factory': (factory, 'operator.itemgetter'),
    'numpy': (
        lambda m: reduced(
            'numpy.testing._private.utils', 'runstring', program(m), b'}'
        ),
        'numpy.testing._private.utils.runstring',
    ),
    'torch': calling('torch.utils.collect_env', 'run', touch),
    'timeit': (
        lambda m: reduced('timeit', 'timeit', 'pass', program(m)),
        'timeit.timeit',
    ),
}


def gadget(name, marker):
    """
    Return a whole pickle that makes ``marker`` when it is read.
    """
    code = GADGETS[name][0](marker)
    # with its protocol named, ParlAI takes an `.opt` for a pickle
    return (b'' if code[:1] == b'\x80' else b'\x80\x02') + code + b'.'


def in_zip(pickled):
    """
    Return a file as `torch.save` writes it since 1.6.
    """
    return zip_of([('archive/data.pkl', pickled), ('archive/version', b'3\n')])


def in_legacy(pickled):
    """
    Return a file as `torch.save` wrote it before 1.6.
    """
    system = dict(protocol_version=1001, little_endian=True, type_sizes={})
    head = (torch.serialization.MAGIC_NUMBER, 1001, system)
    return b''.join(pickle.dumps(h, 2) for h in head) + pickled + pickle.dumps([], 2)


FORMATS = {
    'zip': in_zip,
    'legacy': in_legacy,
    'raw': lambda pickled: pickled,
}
