"""Runs an IOC that processes a chain of records as fast as it can, or at a given rate.

    load.py CHAIN_LENGTH OTHER_RECORDS DIRECTORY

Loads LOAD:1 ... LOAD:CHAIN_LENGTH, calc records each linked to the next by FLNK, and OTHER_RECORDS
more that do nothing. Reads commands from stdin and answers on stdout as JSON lines:

    run SECONDS RATE    puts to LOAD:1.A from a loop inside the IOC, by dbPutField, RATE times a second
                        (0: without a pause); answers {"chains", "begin", "seconds", "cpu"}: begin is
                        CLOCK_MONOTONIC, cpu is the CPU time of the loop's thread, which other load on the
                        machine hardly affects

The loop is Python calling one C function; its own share is below 2 % of a chain of 100.
"""

import ctypes
import json
import os
import sys
import time

DBR_DOUBLE = 10  # dbFldTypes.h, Base 3.16 and later: numbering inside the IOC, not the protocol's


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


def main():
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
    address = ctypes.create_string_buffer(256)  # a dbAddr has 40 bytes
    if lib.dbNameToAddr(b"LOAD:1.A", address) != 0:
        sys.exit("load.py: LOAD:1.A is not there")
    lib.dbPutField.argtypes = [ctypes.c_void_p, ctypes.c_short, ctypes.c_void_p, ctypes.c_long]
    lib.dbPutField.restype = ctypes.c_long

    print(json.dumps({"pid": os.getpid()}), flush=True)
    for line in sys.stdin:
        _, seconds, rate = line.split()
        print(json.dumps(run(lib.dbPutField, address, float(seconds), float(rate))), flush=True)
    os._exit(0)


if __name__ == "__main__":
    main()
