"""An IOC on a terminal, into which somebody types.

    typed.py NAME PORT DATABASE DIRECTORY

Starts itself anew on a pseudo terminal: there Python's input(), which uses readline, reads commands for iocsh, as
the shell of an IOC with readline does. Writes its process id to DIRECTORY/pid and says "ready". At a line of stdin it
types key by key: commands, a secret, and the secret once more out of the history; writes what the terminal showed to
DIRECTORY/shown, and says "typed". At the next line it ends the IOC.
"""

import os
import pty
import sys
import time

SECRET = "hunter2-is-the-password"
UP = "\x1b[A"


def ioc(name, port, database):
    import readline  # noqa: F401  (input() uses it)

    from ioc import Libraries, environment, restart_with

    restart_with(environment(name, port, []))
    libraries = Libraries(None)
    libraries.start(database, "", None, None)
    print("printed by the start", flush=True)
    while True:
        line = input("epics> ")
        if line == "exit":
            libraries.stop()
            return
        libraries.shell(line)


def read_until(terminal, word):
    shown = b""
    while word.encode() not in shown:
        shown += os.read(terminal, 1000)
    return shown.decode(errors="replace")


def main():
    if os.environ.get("ON_TERMINAL"):
        ioc(sys.argv[1], int(sys.argv[2]), sys.argv[3])
        return
    directory = sys.argv[4]
    pid, terminal = pty.fork()
    if pid == 0:
        os.environ.update(ON_TERMINAL="yes", TERM="xterm")
        os.execv(sys.executable, [sys.executable, *sys.argv])
    shown = read_until(terminal, "epics> ")
    with open(os.path.join(directory, "pid"), "w", encoding="ascii") as file:
        file.write(str(pid))
    print("ready", flush=True)
    sys.stdin.readline()

    def type_in(keys):
        for key in keys:
            os.write(terminal, key.encode())
            time.sleep(0.03)

    type_in(f"dbpf GEN:TEXT {SECRET[:8]}\n")
    shown += read_until(terminal, "epics> ")
    type_in(f"# {SECRET} and so on, until the line is longer than the terminal is wide, which is eighty columns\n")
    shown += read_until(terminal, "epics> ")
    # all keys of the line at once
    type_in(UP)
    time.sleep(0.3)
    type_in("\n")
    shown += read_until(terminal, "epics> ")
    type_in("dbpr GEN:LONG\n")
    shown += read_until(terminal, "epics> ")
    time.sleep(0.5)
    with open(os.path.join(directory, "shown"), "w", encoding="utf-8") as file:
        file.write(shown)
    print("typed", flush=True)
    sys.stdin.readline()
    type_in("exit\n")
    os.waitpid(pid, 0)


if __name__ == "__main__":
    main()
