"""
Write a ParlAI model as safetensors, a format that no reader has to trust.
"""

import json
import os
import shutil
from contextlib import ExitStack
from filecmp import cmp
from pathlib import Path

from parlai_ext.commands.command import Command
from parlai_ext.core import DATA_ERRORS, JsonObject, UserError, frozen, optional
from parlai_ext.engines import is_zoo_path, local_path
from parlai_ext.files import missing_file
from parlai_ext.isolation.policy import note_trust, trusted_hashes
from parlai_ext.store import LOCK, staged_folder
from parlai_ext.systems import zoo
from parlai_ext.view.page import print_report

SUFFIX = '.safetensors'
# suffixes of files that belong to a model; `.dict.opt` is read by nobody
COMPANIONS = ('.dict', '.codecs', '.candidates')
DICTIONARY_SUFFIXES = ('', '.codecs', '-vocab.json', '-merges.txt')


@frozen
class ConvertOptions:
    """
    The model that is read, and the one that is written.
    """

    model_file: str | None = optional(help='the model: a path, or zoo:… on disk')
    output: str | None = optional(help='the new model file: NAME.safetensors')


@frozen
class Converted:
    """
    What was written, what was left out, and the sizes before and after.
    """

    output: Path
    companions: tuple[str, ...]
    dropped: tuple[str, ...]
    n_tensors: int
    bytes_before: int
    bytes_after: int


class ConvertModel(Command):
    """
    Write a model's weights as safetensors, with its options and dictionary beside.

    The weights are read back and compared bit by bit before the files get their names.
    """

    declares = (ConvertOptions, '--trust-model-code', '--datapath')

    def run(self) -> object:
        """
        Convert the model, print what was written, and return that.
        """
        given = self.options(ConvertOptions)
        source = existing_model(given.model_file)
        name = given.output
        if not name or not name.endswith(SUFFIX):
            instead = f', not {name}' if name else ''
            raise UserError(f'--output: NAME{SUFFIX} is needed{instead}')
        output = Path(name)
        parent = output.absolute().parent
        if not parent.is_dir():
            raise UserError(f'--output: there is no folder {parent}')
        flag = '--trust-model-code'
        named = self.machine.trust_model_code
        trusted = [str(existing_model(path, flag)) for path in named]
        note_trust(trusted)
        result = convert(source, output)
        print_report('converted', result=result, trusted=trusted_hashes(trusted))
        return result


def existing_model(path: str | None, option: str = '--model-file') -> Path:
    """
    Return the path of the model file that an option names.

    :raises UserError: when it is not on disk.
    """
    if not path:
        raise UserError(f'{option} is needed')
    if is_zoo_path(path):
        zoo.require_in_zoo(path)
    file = local_path(path)
    if is_zoo_path(path) and not file.is_file() and zoo.needed_downloads(path):
        fetch = f'parlai check_roster --download --add-target it={path}'
        raise UserError(f'{option}: {path} is not on disk; download it first: {fetch}')
    if not file.is_file():
        raise UserError(f'{option}: {missing_file(str(file))}')
    return file


def convert(source: Path, output: Path) -> Converted:
    """
    Write ``output`` and its companions, all or none of them.

    The same model gives the same bytes. So a file that is there already, with these
    bytes, is left where it is: a conversion that was killed can be run again.
    """
    from parlai_ext.systems.safe.load import (
        check_model_files,
        convert_states,
        guarded,
        read_opt,
    )

    with staged_folder(output, becomes_target=False) as scratch, guarded({}):
        check_model_files(source)
        dropped, n_tensors = convert_states(source, scratch / output.name)
        opt = read_opt(f'{source}.opt') if Path(f'{source}.opt').is_file() else None
        # safetensors would let nobody else read it
        shutil.copymode(source, scratch / output.name)
        copied = files_beside(source, opt)
        for suffix, path in copied.items():
            shutil.copyfile(path, scratch / f'{output.name}{suffix}')
        if opt is not None:
            text = moved_options(opt, source, output, set(copied))
            (scratch / f'{output.name}.opt').write_text(text, 'utf-8', newline='\n')
        beside = publish(scratch, output)
    return Converted(
        output,
        tuple(beside),
        tuple(dropped),
        n_tensors,
        source.stat().st_size,
        output.stat().st_size,
    )


def files_beside(source: Path, opt: JsonObject | None) -> dict[str, Path]:
    """
    Return the files beside a model that belong to it, by the end of their names.
    """
    files = {}
    for path in sorted(source.parent.iterdir()):
        suffix = path.name.removeprefix(source.name)
        ours = path.name != suffix and suffix.startswith(COMPANIONS)
        if ours and path.is_file() and suffix != '.dict.opt':
            files[suffix] = path
    dictionary = str((opt or {}).get('dict_file') or '')
    if '.dict' not in files and dictionary:
        dictionary = str(local_path(dictionary))
        for end in DICTIONARY_SUFFIXES:
            if Path(f'{dictionary}{end}').is_file():
                files.setdefault(f'.dict{end}', Path(f'{dictionary}{end}'))
    return files


def moved_options(
    opt: JsonObject, source: Path, output: Path, suffixes: set[str]
) -> str:
    """
    Return the model's options as JSON, with paths of copied files changed to the new
    place.

    ParlAI looks for a dictionary under the model's own name when the options name none.

    :param suffixes: of the copied files, what follows the model's path in their names
        (``.dict``).
    :raises UserError: for options that JSON cannot hold.
    """
    dropped = {'model_file', 'dict_file'} if '.dict' in suffixes else {'model_file'}
    kept = {key: value for key, value in opt.items() if key not in dropped}
    old_paths = {str(opt.get('model_file') or source), str(source)}
    old_paths |= {str(source.absolute()), str(source.resolve())}
    for key, value in kept.items():
        for old_path in old_paths:
            if isinstance(value, str) and value.removeprefix(old_path) in suffixes:
                kept[key] = f'{output.absolute()}{value.removeprefix(old_path)}'
    try:
        return json.dumps(kept, indent=4) + '\n'  # as ParlAI writes them
    except DATA_ERRORS as e:
        problem = 'options that JSON cannot hold'
        raise UserError(f'{source}.opt: {problem}: {e}') from None


def publish(scratch: Path, output: Path) -> list[str]:
    """
    Move the finished files to their names, the weights last. Return the other names.

    :raises UserError: when another file has one of the names; then none is moved.
    """
    names = sorted(p.name for p in scratch.iterdir() if p.name != LOCK)
    names.sort(key=lambda name: name == output.name)
    # ParlAI would read these two beside the model, whatever else it has
    taken = [*names, f'{output.name}.opt', f'{output.name}.dict']
    there = [name for name in taken if os.path.lexists(output.parent / name)]
    for name in there:
        target = output.parent / name
        is_ours = name in names and target.is_file()
        if not (is_ours and cmp(scratch / name, target, shallow=False)):
            raise UserError(f'--output: {target} exists; it is not overwritten')
    with ExitStack() as on_failure:
        for name in names:
            if name not in there:
                with open(scratch / name, 'rb') as file:
                    os.fsync(file.fileno())
                os.rename(scratch / name, output.parent / name)
                on_failure.callback((output.parent / name).unlink, missing_ok=True)
        on_failure.pop_all()
    return names[:-1]
