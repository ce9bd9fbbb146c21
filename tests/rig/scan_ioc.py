"""A softIoc whose events and I/O interrupts several threads request at once, from outside of its records.

    scan_ioc.py NAME PORT [--epics VERSION]

Prints "ready" when the records of scanning.db are loaded, before iocInit. Then carries out each line of stdin and
prints "done" after it:

    init               iocInit
    ask WHAT...        asks for each at the same time, from a thread of its own; prints "WHAT TID" for each.
                       WHAT is event:NAME, or io:NUMBER for the records IO:NUMBER:*
    shell COMMAND      an iocsh command

The records of I/O Intr have "Soft Channel" support, to which this program adds a function that returns their IOSCANPVT.
"""

import argparse
import ctypes
import os
import sys
import threading

from ioc import Libraries, environment, expect_zero, restart_with

HERE = os.path.dirname(os.path.abspath(__file__))
# struct dset: number, report, init, init_record, get_ioint_info
IOINT = 4
GET_IOINT_INFO = ctypes.CFUNCTYPE(ctypes.c_long, ctypes.c_int, ctypes.c_void_p, ctypes.POINTER(ctypes.c_void_p))


class Scanning:
    def __init__(self, libraries):
        self.core = libraries.core
        self.core.scanIoRequest.argtypes = [ctypes.c_void_p]
        self.core.postEvent.argtypes = [ctypes.c_void_p]
        self.core.eventNameToHandle.restype = ctypes.c_void_p
        self.interrupts = {}
        self.info = GET_IOINT_INFO(self.which)
        support = (ctypes.c_void_p * (IOINT + 1)).in_dll(libraries.standard, "devAiSoft")
        support[IOINT] = ctypes.cast(self.info, ctypes.c_void_p).value

    def which(self, _command, record, into):
        # the name is the first member of a record
        number = ctypes.string_at(record).decode().split(":")[1]
        if number not in self.interrupts:
            self.interrupts[number] = ctypes.c_void_p()
            self.core.scanIoInit(ctypes.byref(self.interrupts[number]))
        into[0] = self.interrupts[number].value
        return 0

    def ask(self, words):
        start = threading.Barrier(len(words))
        tids = [0] * len(words)

        def one(number, word):
            sort, name = word.split(":")
            tids[number] = threading.get_native_id()
            if sort == "event":
                function, argument = self.core.postEvent, self.core.eventNameToHandle(name.encode())
            else:
                function, argument = self.core.scanIoRequest, self.interrupts[name]
            start.wait()
            function(argument)

        threads = [threading.Thread(target=one, args=item) for item in enumerate(words)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        for word, tid in zip(words, tids):
            print(word, tid)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawTextHelpFormatter)
    parser.add_argument("name")
    parser.add_argument("port", type=int)
    parser.add_argument("--epics", metavar="VERSION")
    args = parser.parse_args()

    restart_with(environment(args.name, args.port, []))
    libraries = Libraries(args.epics)
    scanning = Scanning(libraries)
    libraries.load_records(os.path.join(HERE, "scanning.db"), "", None)
    print("ready", flush=True)
    for line in sys.stdin:
        word, *words = line.split()
        if word == "init":
            expect_zero("start", libraries.core.iocInit())
        elif word == "ask":
            scanning.ask(words)
        else:
            libraries.shell(" ".join(words))
        print("done", flush=True)
    libraries.stop()


if __name__ == "__main__":
    main()
