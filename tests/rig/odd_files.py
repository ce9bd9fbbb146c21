"""A process that maps files as an attacker, or bad luck, would have them.

    odd_files.py hung DIR      a library on a file system whose server takes each read and never answers
    odd_files.py silent DIR    the same, but nothing that is asked is even taken
    odd_files.py sparse DIR    ELF files of some kilobytes that claim gigabytes of symbols
    odd_files.py locked DIR    maps a file of a server that takes ten seconds to answer, its memory locked (Linux 6.9)
    odd_files.py flood DIR     small ELF files without a name, thousands of them, one after the other

Prints "ready" when it has the files mapped (executable), or why it can't on stderr, and stays until stdin ends.
The file system is one of FUSE, spoken here as linux/fuse.h has it, and mounted for this process alone.
"""

import ctypes
import mmap
import os
import struct
import sys
import threading
import time

libc = ctypes.CDLL(None, use_errno=True)

CLONE_NEWNS = 0x20000
MS_REC_PRIVATE = 0x4000 | 0x40000
INIT, LOOKUP, GETATTR, OPEN, READ, FLUSH = 26, 1, 3, 14, 15, 25
NO_REPLY = (2, 36, 42)  # FORGET, INTERRUPT, BATCH_FORGET
ENOSYS = -38
SIZE = 1 << 20


def check(done, what):
    if done != 0:
        sys.exit(f"{what}: {os.strerror(ctypes.get_errno())}")


def attributes(node):
    mode, size = (0o40755, 4096) if node == 1 else (0o100755, SIZE)
    return struct.pack("<QQQQQQIIIIIIIIII", node, size, size // 512, 1, 1, 1, 0, 0, 0, mode, 1, 0, 0, 0, 4096, 0)


def answer(opcode, node):
    """What is answered, and whether at all."""
    if opcode == INIT:
        return struct.pack("<IIIIHHIIHHI7I", 7, 31, 4096, 0, 8, 8, 4096, 1, 1, 0, 0, *[0] * 7)
    if opcode == LOOKUP:
        return struct.pack("<QQQQII", 2, 0, 3600, 3600, 0, 0) + attributes(2)
    if opcode == GETATTR:
        return struct.pack("<QII", 3600, 0, 0) + attributes(node)
    if opcode == OPEN:
        return struct.pack("<QII", 1, 0, 0)
    return None


def serve(device, never, stop):
    while True:
        request = os.read(device, 1 << 17)
        _, opcode, unique, node = struct.unpack_from("<IIQQ", request)
        if opcode in NO_REPLY or opcode in never:
            continue
        body = answer(opcode, node)
        error = 0 if body is not None else ENOSYS
        body = body or b""
        os.write(device, struct.pack("<IiQ", 16 + len(body), error, unique) + body)
        if stop and opcode == OPEN:
            return


def mount(directory):
    device = os.open("/dev/fuse", os.O_RDWR)
    check(libc.unshare(CLONE_NEWNS), "a mount namespace")
    check(libc.mount(b"none", b"/", None, MS_REC_PRIVATE, None), "private mounts")
    options = f"fd={device},rootmode=40000,user_id=0,group_id=0,allow_other".encode()
    check(libc.mount(b"odd", directory.encode(), b"fuse", 0, options), "a FUSE file system")
    return device


def map_code(descriptor, size=4096):
    return mmap.mmap(descriptor, size, mmap.MAP_PRIVATE, mmap.PROT_READ | mmap.PROT_EXEC)


def hung(directory, silent):
    # mounted by this thread; what it maps is looked at in its namespace
    device = mount(directory)
    # a process of its own: when it is killed, the kernel gives up what waits for it
    if os.fork() == 0:
        serve(device, (READ, FLUSH), silent)
        time.sleep(3600)
        os._exit(0)
    os.close(device)
    descriptor = os.open(os.path.join(directory, "libdbCore.so"), os.O_RDONLY)
    return [map_code(descriptor, SIZE), descriptor]


# linux/fuse.h: FUSE_INIT_EXT; FUSE_DIRECT_IO_ALLOW_MMAP in the second word; FOPEN_DIRECT_IO and _PARALLEL_DIRECT_WRITES
INIT_EXTENDED, ALLOW_MMAP, DIRECT = 1 << 30, 1 << 4, 1 | 1 << 6
WRITE = 16
LOCKED = 10.0


def locked(directory):
    device = mount(directory)
    if os.fork() == 0:
        while True:
            _, opcode, unique, node = struct.unpack_from("<IIQQ", request := os.read(device, 1 << 17))
            if opcode in NO_REPLY:
                continue
            body = answer(opcode, node)
            if opcode == INIT:
                body = struct.pack("<IIIIHHIIHHII16x", 7, 39, 4096, INIT_EXTENDED, 8, 8, 4096, 1, 1, 0, ALLOW_MMAP, 0)
            elif opcode == OPEN:
                body = struct.pack("<QII", 1, DIRECT, 0)
            elif opcode == WRITE:
                time.sleep(0.4)
                # said here: whoever is locked may not come to say it
                print("ready", flush=True)
                time.sleep(LOCKED)
                body = struct.pack("<II", len(request) - 80, 0)
            error = 0 if body is not None else ENOSYS
            os.write(device, struct.pack("<IiQ", 16 + len(body or b""), error, unique) + (body or b""))
    os.close(device)
    descriptor = os.open(os.path.join(directory, "x"), os.O_RDWR)
    # a shared mapping waits for the end of direct writes, with the lock of the memory held
    threading.Thread(target=os.pwrite, args=(descriptor, b"x" * 4096, 0), daemon=True).start()
    time.sleep(0.2)
    return [descriptor, mmap.mmap(descriptor, 4096, mmap.MAP_SHARED, mmap.PROT_READ)]


def elf(symbols):
    """The head of a shared library whose one table of symbols has so many bytes."""
    head = b"\x7fELF" + bytes([2, 1, 1]) + bytes(9)
    head += struct.pack("<HHIQQQIHHHHHH", 3, 62, 1, 0, 64, 4096, 0, 64, 56, 1, 64, 3, 0)
    head += struct.pack("<IIQQQQQQ", 1, 5, 0, 0, 0, 8192, 8192, 4096)
    head = head.ljust(4096, b"\0")
    none = bytes(64)
    # .dynsym, its names behind it
    table = struct.pack("<IIQQQQIIQQ", 0, 11, 2, 0, 8192, symbols, 2, 1, 8, 24)
    names = struct.pack("<IIQQQQIIQQ", 0, 3, 2, 0, 8192 + symbols, symbols, 0, 0, 1, 0)
    return (head + none + table + names).ljust(8192, b"\0")


def sparse(directory):
    kept = []
    for number, symbols in enumerate([1400 << 20, 3 << 20]):
        path = os.path.join(directory, f"sparse{number}.so")
        with open(path, "wb") as file:
            file.write(elf(symbols))
            file.truncate(8192 + 2 * symbols)
        descriptor = os.open(path, os.O_RDONLY)
        kept.append(map_code(descriptor))
    # claims more sections than there are
    path = os.path.join(directory, "sections.so")
    content = bytearray(elf(1 << 20))
    struct.pack_into("<H", content, 60, 65279)
    with open(path, "wb") as file:
        file.write(content)
        file.truncate(2800 << 20)
    kept.append(map_code(os.open(path, os.O_RDONLY)))
    return kept


def flood():
    number = 0
    while True:
        maps = []
        for _ in range(50):
            number += 1
            descriptor = os.memfd_create(f"odd{number}")
            os.write(descriptor, elf(2400) + number.to_bytes(8, "little") * 1000)
            maps.append(map_code(descriptor))
            os.close(descriptor)
        # the size changes, so that it is looked at again
        maps.append(mmap.mmap(-1, (number % 1000 + 1) * 4096))
        time.sleep(0.1)
        for mapped in maps:
            mapped.close()


def main():
    kind, directory = sys.argv[1:]
    os.makedirs(directory, exist_ok=True)
    kept = None
    if kind in ("hung", "silent"):
        kept = hung(directory, kind == "silent")
    elif kind == "locked":
        kept = locked(directory)
    elif kind == "sparse":
        kept = sparse(directory)
    else:
        threading.Thread(target=flood, daemon=True).start()
    print("ready", flush=True)
    sys.stdin.read()
    # not in order: what is mapped may never answer
    os.killpg(0, 9)
    return kept


main()
