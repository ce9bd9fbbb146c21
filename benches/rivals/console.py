"""EPICS Base's own trace: TPRO, a line on the console for each record that is processed, without a time or a value."""

import os
import pty
import subprocess
import tty

from loaded import CHAIN
from processes import start

from . import Watcher


class Tpro(Watcher):
    """The console is a file, which the C library writes in large pieces: the best case."""

    name = "TPRO, console to a file"
    # It has no line for what ends, and none for what is put.
    hits = CHAIN

    def __init__(self, load, directory):
        self.output = os.path.join(directory, "console.txt")
        self.load = load
        self.open()

    def open(self):
        self.load.console(self.output)

    def stop(self):
        self.load.console()

    def outcome(self, _result):
        with open(self.output, "rb") as file:
            hits = sum(b"dbProcess of" in line for line in file)
        return {"hits": hits, "bytes": os.stat(self.output).st_size}


class TproTerminal(Tpro):
    """The console is a terminal, as under procServ or screen: a system call for each line, and a reader."""

    name = "TPRO, console on a terminal"

    def open(self):
        ours, theirs = pty.openpty()
        # No echo, and line ends as they are.
        tty.setraw(theirs)
        with open(self.output, "wb") as output:
            self.reader = start(["cat"], stdin=ours, stdout=output, stderr=subprocess.DEVNULL)
        self.load.console(os.ttyname(theirs))
        os.close(theirs)
        os.close(ours)

    def pids(self):
        return [self.reader.pid]

    def stop(self):
        super().stop()
        # The terminal has no other end any more.
        self.reader.wait()
