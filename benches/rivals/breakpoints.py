"""ltrace: breakpoints that a debugger's interface (ptrace) sets on functions."""

import os
import signal
import subprocess
import time

from processes import start, wait_until

from . import Watcher

FUNCTIONS = ("dbProcess", "recGblFwdLink", "dbPut", "dbPutField")
# Calls of these between any two libraries.
CALLS = ["-f", "-ttt", "-e", "+".join(f"{function}@*" for function in FUNCTIONS)]


class Ltrace(Watcher):
    """Attached to an IOC that runs."""

    name = "ltrace, attached"
    tools = {"ltrace": "ltrace"}
    own_ioc = True

    def __init__(self, load, directory):
        self.output = os.path.join(directory, "ltrace.txt")
        command = ["ltrace", *CALLS, "-o", self.output, "-p", str(load.pid)]
        self.process = start(command, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        wait_until("ltrace attaches", lambda: all(tracer == self.process.pid for tracer in tracers(load.pid)))
        # It sets its breakpoints after that.
        time.sleep(2)

    def pids(self):
        return [self.process.pid]

    def stop(self):
        self.process.send_signal(signal.SIGINT)
        try:
            self.process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            self.process.kill()
            self.process.wait()

    def outcome(self, _result):
        return {"hits": calls(self.output), "bytes": os.stat(self.output).st_size}


class LtraceFromStart(Watcher):
    """The IOC is started by it."""

    name = "ltrace, from the start"
    tools = {"ltrace": "ltrace"}
    own_ioc = True

    def __init__(self, load, directory):
        self.output = os.path.join(directory, "ltrace.txt")
        self.process = load.process
        self.before, self.size = calls(self.output), os.stat(self.output).st_size

    @classmethod
    def under(cls, directory):
        return ["ltrace", *CALLS, "-o", os.path.join(directory, "ltrace.txt")]

    def pids(self):
        return [self.process.pid]

    def outcome(self, _result):
        return {"hits": calls(self.output) - self.before, "bytes": os.stat(self.output).st_size - self.size}


class LtraceShort(LtraceFromStart):
    """It ends where calls are nested too deep for it; this chain is short enough."""

    name = "ltrace, from the start, a chain of 20"
    chain = 20
    # The load's own call of dbPutField does not go through the table of linkage.
    hits = 2 * chain + 1


def calls(path):
    with open(path, "rb") as file:
        return sum(any(b">%s(" % name.encode() in line for name in FUNCTIONS) for line in file)


def tracers(pid):
    """Who traces the threads of a process."""
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/status", encoding="ascii", errors="replace") as file:
            yield next(int(line.split()[1]) for line in file if line.startswith("TracerPid"))
