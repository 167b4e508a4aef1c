"""
Takes from this process what code of others could do harm with: the network, files but
to read them, and other processes.

Linux enforces it by Landlock and seccomp, whatever code runs, for the process and all
that it starts, and for good.
"""

import ctypes
import os
import platform
import struct
from collections.abc import Iterable, Sequence
from glob import glob

C_LIBRARY = ctypes.CDLL(None)  # for what Python has no name for
# what may not be enforced, in words; by the version of Landlock that does it whole
NETWORK = 'no network'
LIMITS = {
    "no reading of other processes' keys": 1,
    'no writing': 3,
    'no signals to other processes': 6,
}
# Landlock (linux/landlock.h): system calls, and rights by the version they came with
CREATE_RULESET, ADD_RULE, RESTRICT_SELF = 444, 445, 446
VERSION = 1  # asks for the version of the kernel
WRITING = (1 << 1) | sum(1 << right for right in range(4, 13))  # remove, make, write
MOVING, TRUNCATING = 1 << 13, 1 << 14  # since versions 2 and 3
IN_FILE = (1 << 1) | TRUNCATING  # of these, what a file has that is no folder
TCP = 0b11  # bind and connect, since version 4
SCOPES = 0b11  # abstract sockets and signals of processes outside, since version 6
PATH_RULE, PORT_RULE = 1, 2
CONNECT = 1 << 1
DEVICES = ('/dev/null', '/dev/nvidia*', '/dev/kfd', '/dev/dri/*')

# seccomp (linux/seccomp.h): by machine, its name in the kernel, and the numbers of
# socket, of prlimit, and of what is refused: ptrace, process_vm_readv and
# process_vm_writev; memory, semaphores and messages of System V, which outlive a
# process; and keys that the kernel keeps for the user
MACHINES = {
    'x86_64': (
        0xC000003E,
        41,
        302,
        (101, 310, 311, *range(29, 32), *range(64, 72), 220, *range(248, 251)),
    ),
    'aarch64': (
        0xC00000B7,
        198,
        261,
        (117, 270, 271, *range(186, 198), *range(217, 220)),
    ),
}
IO_URING = 425, 426, 427  # which would open sockets, too
NO_NEW_PRIVILEGES, SECCOMP, FILTER = 38, 22, 2  # of prctl(2)
LOAD, EQUAL, AT_LEAST, RETURN, MASK = 0x20, 0x15, 0x35, 0x06, 0x54
ALLOW, REFUSE = 0x7FFF0000, 0x00050000 | 13  # as a file that one may not open
OTHER_NUMBERS = 0x40000000  # of x86_64: another way to the same calls
NUMBER, MACHINE, FIRST, SECOND = 0, 4, 16, 24  # where a filter finds what is asked for
INTERNET, STREAM, KINDS = (2, 10), 1, 0xF  # families of addresses; a kind of socket

# capabilities(7): the version of their form; of root's, those to read files are kept
FORM = 0x20080522
READ_FILES = 0b110


_is_confined = False


def is_confined() -> bool:
    """
    True if this process has been confined.
    """
    return _is_confined


def confine(writable: Iterable[str], ports: Sequence[int]) -> list[str]:
    """
    Confine this process to reading files, and writing in these folders.

    :param ports: of TCP, to which it may connect.
    :returns: what this kernel does not enforce, in words.
    """
    global _is_confined
    _is_confined = True
    C_LIBRARY.prctl(NO_NEW_PRIVILEGES, 1, 0, 0, 0)
    for kept in (READ_FILES, 0):  # the first fails without them
        sets = struct.pack('=6I', kept, kept, 0, 0, 0, 0)
        if C_LIBRARY.capset(struct.pack('=Ii', FORM, 0), sets) == 0:
            break
    version = _limit_files_and_ports(writable, ports)
    missing = [limit for limit, since in LIMITS.items() if version < since]
    if not _refuse_calls(bool(ports)) or (ports and version < 4):
        missing.append(NETWORK)
    return missing


def _limit_files_and_ports(writable: Iterable[str], ports: Sequence[int]) -> int:
    """
    Limit the files and processes that may be changed, and ports.

    :returns: the version of Landlock that does it, 0 if none does.
    """
    version = C_LIBRARY.syscall(CREATE_RULESET, None, 0, VERSION)
    if version < 1:
        return 0
    files = WRITING | MOVING * (version >= 2) | TRUNCATING * (version >= 3)
    fields = [files, *[TCP] * (version >= 4), *[SCOPES] * (version >= 6)]
    attributes = struct.pack(f'={len(fields)}Q', *fields)
    rules = C_LIBRARY.syscall(CREATE_RULESET, attributes, len(attributes), 0)
    if rules < 0:
        return 0
    for path in (*writable, *(path for name in DEVICES for path in glob(name))):
        handle = os.open(path, os.O_PATH | os.O_CLOEXEC)
        rights = files if os.path.isdir(path) else files & IN_FILE
        C_LIBRARY.syscall(
            ADD_RULE, rules, PATH_RULE, struct.pack('=Qi', rights, handle), 0
        )
        os.close(handle)
    for port in ports if version >= 4 else ():
        C_LIBRARY.syscall(
            ADD_RULE, rules, PORT_RULE, struct.pack('=QQ', CONNECT, port), 0
        )
    return 0 if C_LIBRARY.syscall(RESTRICT_SELF, rules, 0) else version


def _refuse_calls(connects: bool) -> bool:
    """
    Return whether seccomp refuses sockets, and looking into other processes.

    :param connects: leave out streams over the internet.
    """
    machine = MACHINES.get(platform.machine())
    if machine is None:
        return False
    name, socket, limits, calls = machine
    refuse, allow = (RETURN, 0, 0, REFUSE), (RETURN, 0, 0, ALLOW)
    # of each step: how many of the next ones are left out, if it holds and if not
    steps = [
        (LOAD, 0, 0, MACHINE),
        (EQUAL, 1, 0, name),
        refuse,
        (LOAD, 0, 0, NUMBER),
        (AT_LEAST, 0, 1, OTHER_NUMBERS),
        refuse,
    ]
    for number in (*calls, *IO_URING):
        steps += [(EQUAL, 0, 1, number), refuse]
    steps += [
        (EQUAL, 0, 4, limits),
        (LOAD, 0, 0, FIRST),
        (EQUAL, 0, 1, 0),  # its own limits, not those of another process
        allow,
        refuse,
        (EQUAL, 1, 0, socket),
        allow,
    ]
    if connects:
        steps += [
            (LOAD, 0, 0, FIRST),
            (EQUAL, 1, 0, INTERNET[0]),
            (EQUAL, 0, 4, INTERNET[1]),
            (LOAD, 0, 0, SECOND),
            (MASK, 0, 0, KINDS),
            (EQUAL, 0, 1, STREAM),
            allow,
        ]
    steps.append(refuse)
    program = b''.join(struct.pack('=HBBI', *step) for step in steps)
    buffer = ctypes.create_string_buffer(program)
    pointer = struct.pack('@HP', len(program) // 8, ctypes.addressof(buffer))
    return bool(C_LIBRARY.prctl(SECCOMP, FILTER, pointer) == 0)
