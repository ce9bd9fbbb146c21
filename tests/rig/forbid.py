"""Runs a command with some system calls refused by seccomp, as containers do.

    forbid.py CALL=ERRNO[,CALL=ERRNO...] COMMAND [ARGUMENT...]

CALL is bpf, perf_event_open, process_vm_readv, setns, socket-packet or socket-netlink (only sockets of these families).
ERRNO is a name such as EPERM.
"""

import ctypes
import errno
import os
import platform
import struct
import sys

# arch/x86/entry/syscalls/syscall_64.tbl, include/uapi/asm-generic/unistd.h
CALLS = {
    "x86_64": {"bpf": 321, "perf_event_open": 298, "process_vm_readv": 310, "setns": 308, "socket": 41},
    "aarch64": {"bpf": 280, "perf_event_open": 241, "process_vm_readv": 270, "setns": 268, "socket": 198},
}[platform.machine()]
FAMILIES = {"packet": 17, "netlink": 16}
PR_SET_NO_NEW_PRIVS = 38
PR_SET_SECCOMP = 22
SECCOMP_MODE_FILTER = 2
LOAD, EQUAL, RETURN = 0x20, 0x15, 0x06  # linux/bpf_common.h: BPF_LD|BPF_W|BPF_ABS, BPF_JMP|BPF_JEQ|BPF_K, BPF_RET
ALLOW, ERROR = 0x7FFF0000, 0x00050000  # linux/seccomp.h
NUMBER, FIRST_ARGUMENT = 0, 16  # offsets in struct seccomp_data


def instruction(code, yes, no, k):
    return struct.pack("HBBI", code, yes, no, k)


def main():
    program = b""
    for rule in sys.argv[1].split(","):
        call, name = rule.split("=")
        refuse = instruction(RETURN, 0, 0, ERROR | getattr(errno, name))
        program += instruction(LOAD, 0, 0, NUMBER)
        call, _, family = call.partition("-")
        if family:
            program += instruction(EQUAL, 0, 3, CALLS[call])
            program += instruction(LOAD, 0, 0, FIRST_ARGUMENT) + instruction(EQUAL, 0, 1, FAMILIES[family])
        else:
            program += instruction(EQUAL, 0, 1, CALLS[call])
        program += refuse
    program += instruction(RETURN, 0, 0, ALLOW)
    code = ctypes.create_string_buffer(program, len(program))
    filter_ = struct.pack("HxxxxxxP", len(program) // 8, ctypes.addressof(code))
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0:
        sys.exit(f"no_new_privs: {os.strerror(ctypes.get_errno())}")
    if libc.prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, filter_, 0, 0) != 0:
        sys.exit(f"seccomp: {os.strerror(ctypes.get_errno())}")
    os.execvp(sys.argv[2], sys.argv[2:])


main()
