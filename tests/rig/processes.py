"""IOCs, clients and recorders as child processes, for the demo and the benchmarks.

Children die with the process that started them, whatever ends it.
"""

import ctypes
import json
import os
import signal
import subprocess
import sys
import time

HERE = os.path.dirname(os.path.abspath(__file__))
TOP = os.path.dirname(os.path.dirname(HERE))
PYTHON = os.environ.get("IOCREC_PYTHON", os.path.join(TOP, ".venv/bin/python"))
PR_SET_PDEATHSIG = 1  # linux/prctl.h
LIBC = ctypes.CDLL(None)


def die_with_parent():
    """Runs in the child, between fork and exec."""
    LIBC.prctl(PR_SET_PDEATHSIG, signal.SIGKILL)


def start(command, **options):
    return subprocess.Popen(command, preexec_fn=die_with_parent, text=True, **options)


def program(name):
    """Path of a release binary; cargo says where it is built to. $IOCREC names another one of the agent."""
    if name == "iocrec" and os.environ.get("IOCREC"):
        return os.path.abspath(os.environ["IOCREC"])
    target = os.environ.get("CARGO_TARGET_DIR", os.path.join(TOP, "target"))
    path = os.path.join(target, "release", name)
    if not os.path.exists(path):
        sys.exit(f"{path} is missing; run: make build")
    return path


def wait_until(what, condition, seconds=30):
    """Waits for a condition, or ends the program saying what did not happen."""
    end = time.monotonic() + seconds
    while not condition():
        if time.monotonic() > end:
            sys.exit(f"waited {seconds} s in vain: {what}")
        time.sleep(0.02)


def shared_library(source, directory, *options):
    """Compiles a library with subroutines for records (`routines` of Ioc); its path."""
    include = subprocess.run(
        [PYTHON, "-c", "from epicscorelibs import path; print(path.include_path)"],
        check=True, capture_output=True, text=True,
    ).stdout.strip()  # fmt: skip
    library = os.path.join(directory, os.path.basename(source).replace(".c", ".so"))
    folders = [f"-I{os.path.join(include, *more)}" for more in ((), ("os", "Linux"), ("compiler", "gcc"))]
    command = ["gcc", "-shared", "-fPIC", "-O0", "-w", *options, *folders, "-o", library, source]
    subprocess.run(command, check=True)
    return library


class Ioc:
    """A running softIoc (ioc.py)."""

    def __init__(self, name, port, database, find=(), macros="", log=subprocess.DEVNULL, access=None, routines=None):
        command = [PYTHON, os.path.join(HERE, "ioc.py"), name, str(port), database, "--macros", macros]
        if find:
            command += ["--find", ",".join(map(str, find))]
        if access:
            command += ["--access", access]
        if routines:
            command += ["--routines", routines]
        self.process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=log)
        self.pid = self.process.pid
        self.expect("ready")

    def expect(self, word):
        lines = []
        for line in self.process.stdout:
            if line.rstrip() == word:
                return lines
            lines.append(line)
        sys.exit(f"the IOC ended: {lines}")

    def command(self, line):
        """Carries out an iocsh command; returns what it printed."""
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        return self.expect("done")

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Client:
    """A running client (client.py); library is libca or caproto."""

    def __init__(self, library, ports, user=None, uid=None, host=None):
        command = [PYTHON, os.path.join(HERE, "client.py"), library, ",".join(map(str, ports))]
        for option, value in (("--user", user), ("--uid", uid), ("--host", host)):
            if value is not None:
                command += [option, str(value)]
        self.process = start(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
        self.who = json.loads(self.process.stdout.readline())

    def ask(self, **command):
        self.process.stdin.write(json.dumps(command) + "\n")
        self.process.stdin.flush()
        answer = json.loads(self.process.stdout.readline())
        if "error" in answer:
            sys.exit(f"client: {command}: {answer['error']}")
        return answer

    def connect(self, pv):
        return self.ask(do="connect", pv=pv)["address"]

    def put(self, pv, dbr, value, notify=False):
        return self.ask(do="put", pv=pv, dbr=dbr, value=value, notify=notify)["status"]

    def get(self, pv):
        return self.ask(do="get", pv=pv)["value"]

    def stop(self):
        self.process.stdin.close()
        self.process.wait()


class Recorder:
    """A running `iocrec record`, of these processes, into this directory."""

    def __init__(self, log, pids, *options):
        command = [program("iocrec"), "record", "--dir", log, *options]
        for pid in pids:
            command += ["--pid", str(pid)]
        self.errors = log + ".stderr"
        with open(self.errors, "w", encoding="utf-8") as errors:
            self.process = start(command, stderr=errors)
        self.pid = self.process.pid
        # It says so for each IOC once it has its probes in place.
        wait_until("the recorder records", lambda: self.messages().count("recording ") >= len(pids))

    def messages(self):
        """Its stderr so far; ends the program if the recorder has ended."""
        with open(self.errors, encoding="utf-8") as errors:
            text = errors.read()
        if self.process.poll() is not None:
            sys.exit(f"the recorder ended with exit code {self.process.returncode}: {text}")
        return text

    def stop(self):
        self.process.send_signal(signal.SIGTERM)
        if self.process.wait() != 0:
            sys.exit(f"the recorder failed with exit code {self.process.returncode}")
