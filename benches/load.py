"""Runs an IOC that processes a chain of records as fast as it can, or at a given rate.

    load.py CHAIN_LENGTH OTHER_RECORDS DIRECTORY

Loads LOAD:1 ... LOAD:CHAIN_LENGTH, calc records each linked to the next by FLNK, and OTHER_RECORDS
more that do nothing. Reads commands from stdin and answers on stdout as JSON lines:

    run SECONDS RATE    puts to LOAD:1.A from a loop inside the IOC, by dbPutField, RATE times a second
                        (0: without a pause); answers {"chains", "begin", "seconds", "cpu"}: begin is
                        CLOCK_MONOTONIC, cpu is the CPU time of the loop's thread, which other load on the
                        machine hardly affects
    trace FILE          sets TPRO of the chain's records, so that Base prints a line for each that is processed, and
                        sends what the IOC prints to FILE, a line at a time if that is a terminal
    trace               ends that

The loop is Python calling one C function; its own share is below 2 % of a chain of 100.
"""

import ctypes
import json
import os
import sys
import time

# dbFldTypes.h, Base 3.16 and later: numbering inside the IOC, not the protocol's
DBR_UCHAR = 2
DBR_DOUBLE = 10
FULLY, BY_LINE = 0, 1  # _IOFBF, _IOLBF of stdio.h
# What the C library would take for a file, had it not met another one first.
BUFFER = ctypes.create_string_buffer(4096)


def database(chain, others):
    for i in range(1, chain + 1):
        follow = f'field(FLNK, "LOAD:{i + 1}")' if i < chain else ""
        yield f'record(calc, "LOAD:{i}") {{ field(CALC, "A+1") {follow} }}\n'
    for i in range(1, others + 1):
        yield f'record(calc, "OTHER:{i}") {{ }}\n'


def run(put_field, address, seconds, rate):
    value = ctypes.c_double()
    pointer = ctypes.byref(value)
    chains = 0
    begin, cpu_begin = time.monotonic(), time.thread_time()
    end = begin + seconds
    while True:
        now = time.monotonic()
        if now >= end:
            break
        if rate:
            pause = begin + chains / rate - now
            if pause > 0:
                time.sleep(pause)
        value.value = chains
        put_field(address, DBR_DOUBLE, pointer, 1)
        chains += 1
    cpu = time.thread_time() - cpu_begin
    return {"chains": chains, "begin": begin, "seconds": time.monotonic() - begin, "cpu": cpu}


def address_of(lib, field):
    address = ctypes.create_string_buffer(256)  # a dbAddr has 40 bytes
    if lib.dbNameToAddr(field.encode(), address) != 0:
        sys.exit(f"load.py: {field} is not there")
    return address


def trace(lib, chain, path):
    """Begins to print what is processed, or ends it."""
    for i in range(1, chain + 1):
        lib.dbPutField(address_of(lib, f"LOAD:{i}.TPRO"), DBR_UCHAR, ctypes.byref(ctypes.c_ubyte(bool(path))), 1)
    libc = ctypes.CDLL(None)
    console = ctypes.c_void_p.in_dll(libc, "stdout")
    libc.fflush(console)
    # Not a terminal that would become ours.
    file = os.open(path or os.devnull, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOCTTY)
    os.dup2(file, 1)
    libc.setvbuf(console, BUFFER, BY_LINE if os.isatty(file) else FULLY, ctypes.c_size_t(len(BUFFER)))
    os.close(file)


def main():
    # What the IOC prints must not get between our answers.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
    chain, others, directory = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3]
    path = os.path.join(directory, "load.db")
    with open(path, "w", encoding="ascii") as file:
        file.writelines(database(chain, others))

    os.environ.update(
        IOC="load",
        EPICS_CAS_INTF_ADDR_LIST="127.0.0.1",
        EPICS_CAS_BEACON_ADDR_LIST="127.0.0.1",
        EPICS_CAS_AUTO_BEACON_ADDR_LIST="NO",
    )
    import epicscorelibs.ioc as softioc

    softioc.start_ioc(path, extra_dbd_load=(), extra_dso_load=())
    # PyDLL keeps the interpreter's lock during a call, which saves taking it again each time.
    lib = ctypes.PyDLL(softioc.dbCore._name)
    lib.dbPutField.argtypes = [ctypes.c_void_p, ctypes.c_short, ctypes.c_void_p, ctypes.c_long]
    lib.dbPutField.restype = ctypes.c_long

    address = address_of(lib, "LOAD:1.A")
    print(json.dumps({"pid": os.getpid()}), flush=True, file=answers)
    for line in sys.stdin:
        command, *arguments = line.split()
        if command == "run":
            answer = run(lib.dbPutField, address, *map(float, arguments))
        else:
            answer = trace(lib, chain, *(arguments or [None])) or {}
        print(json.dumps(answer), flush=True, file=answers)
    os._exit(0)


if __name__ == "__main__":
    main()
