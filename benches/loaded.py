"""An IOC under load (load.py), and what processes use meanwhile: what the benchmarks share."""

import glob
import json
import os
import re
import subprocess
import sys
import time

TOP = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
sys.path.insert(0, os.path.join(TOP, "tests/rig"))
from processes import PYTHON, program, start

CHAIN = 100
# Of one chain: one on dbPutField, one on dbPut, and one on each of dbProcess and recGblFwdLink for each record.
HITS = 2 * CHAIN + 2


class Ended(Exception):
    """The IOC is no more."""


class Load:
    """The IOC under load."""

    def __init__(self, directory, others=0, chain=CHAIN, environment=None, under=(), errors=os.devnull):
        """`under` is a command that starts the IOC in place of us, `errors` the file of its standard error."""
        command = [*under, PYTHON, os.path.join(TOP, "benches/load.py"), str(chain), str(others), directory]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        with open(errors, "w", encoding="utf-8") as file:
            self.process = start(command, stderr=file, env={**os.environ, **(environment or {})}, **pipes)
        self.pid = self.answer()["pid"]

    def answer(self):
        for line in self.process.stdout:
            if line.startswith("{"):
                return json.loads(line)
        raise Ended

    def say(self, command):
        try:
            self.process.stdin.write(command + "\n")
            self.process.stdin.flush()
        except BrokenPipeError:
            raise Ended from None

    def begin(self, seconds, rate=0):
        self.say(f"run {seconds} {rate}")

    def run(self, seconds, rate=0):
        self.begin(seconds, rate)
        return self.answer()

    def console(self, path=None):
        """Sets TPRO of all records and sends what the IOC prints to this file; without one, ends that."""
        self.say(f"trace {path}" if path else "trace")
        self.answer()

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


def noisy(count, scan):
    """Analog records as they come from a converter: half are raw values with noise, half are these, scaled."""
    for i in range(count // 2):
        yield f'record(calc, "RAW:{i}") {{ field(CALC, "{20000 + 37 * i}+40*(RNDM-0.5)") }}\n'
        yield (
            f'record(ai, "READ:{i}") {{ field(DTYP, "Raw Soft Channel") field(LINR, "LINEAR") field(EOFF, "-10")\n'
            f'  field(ESLO, "0.0003051850947599719") field(INP, "RAW:{i} PP") field(SCAN, "{scan}") }}\n'
        )


def stat(pid):
    """The columns of /proc/PID/stat from the third on."""
    with open(f"/proc/{pid}/stat", encoding="ascii", errors="replace") as file:
        return file.read().rsplit(")", 1)[1].split()


def clock(pid):
    """User and system time of a process so far, by its own CPU clock (CPUCLOCK_SCHED of Linux's dynamic clocks)."""
    return time.clock_gettime(~pid << 3 | 2)


def family(pid):
    """A process and all that it started, and they."""
    pids = [int(name) for name in os.listdir("/proc") if name.isdigit()]
    parents = {}
    for each in pids:
        try:
            parents[each] = int(stat(each)[1])
        except OSError:
            pass
    found = [pid]
    for each in found:
        found += [child for child, parent in parents.items() if parent == each]
    return found


def memory_kib(pid, key):
    with open(f"/proc/{pid}/status", encoding="ascii", errors="replace") as file:
        return int(re.search(rf"^{key}:\s+(\d+) kB", file.read(), re.MULTILINE).group(1))


def disk_bytes(path):
    """Bytes that the files of a directory take on disk."""
    files = [os.path.join(at, name) for at, _, names in os.walk(path) for name in names]
    return sum(os.stat(file).st_blocks * 512 for file in files)


def info(log):
    """`iocreplay info --json` of a log; empty while there is no log."""
    done = subprocess.run([program("iocreplay"), "info", log, "--json"], capture_output=True, check=False)
    return json.loads(done.stdout) if done.returncode == 0 else {}


def library():
    """The library with dbProcess that the IOC uses."""
    packages = os.path.join(os.path.dirname(os.path.dirname(PYTHON)), "lib/python3*/site-packages")
    (path,) = glob.glob(os.path.join(packages, "epicscorelibs/lib/libdbCore.so.7*"))
    return path


def cpu_name():
    with open("/proc/cpuinfo", encoding="utf-8") as file:
        return re.search(r"model name\s*:\s*(.*)", file.read()).group(1)
