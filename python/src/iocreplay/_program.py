"""Runs the program, and reads what it says line by line.

Promises that the program ends when its reader does, that it is never passed to a shell, and that what it says on
standard error is neither lost nor mistaken for an answer.
"""

import json
import os
import shutil
import subprocess
import sysconfig
import tempfile
import warnings
from collections.abc import Iterator, Sequence
from typing import Any

from iocreplay._errors import Error, Incomplete, LogWarning, NotInstalled


def find() -> str:
    """Path of the program: of the environment variable IOCREPLAY, of this wheel, or on PATH."""
    if chosen := os.environ.get("IOCREPLAY"):
        return chosen
    # where pip puts programs: of this Python, of this user (--user), or beside the packages (--target)
    scripts = [sysconfig.get_path("scripts"), sysconfig.get_path("scripts", f"{os.name}_user")]
    scripts.append(os.path.join(os.path.dirname(os.path.dirname(os.path.abspath(__file__))), "bin"))
    for directory in scripts:
        beside = os.path.join(directory, "iocreplay")
        if os.access(beside, os.X_OK):
            return beside
    if on_path := shutil.which("iocreplay"):
        return on_path
    raise NotInstalled("the program iocreplay was not found; install the wheel, or set IOCREPLAY to its path")


def version() -> str:
    """The program's version.

    >>> version().count(".")
    2
    """
    done = subprocess.run([find(), "--version"], capture_output=True, text=True, check=True)
    return done.stdout.split()[-1]


def lines(arguments: Sequence[str]) -> Iterator[dict[str, Any]]:
    """Runs the program and gives the JSON object of each line.

    Raises `Error` if it refuses or fails, `Incomplete` if it gave an answer but could not read all, after the last
    line. Warns of what else it says.
    """
    # A file, not a pipe: standard error is read when the answer has ended, and the program must not wait for that.
    # An empty directory: the name of a PV must not be taken for a log that happens to lie here.
    with tempfile.TemporaryFile() as said, tempfile.TemporaryDirectory(prefix="iocreplay-") as empty:
        with subprocess.Popen(
            [find(), *arguments], stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=said, cwd=empty
        ) as process:
            assert process.stdout is not None
            given = False
            try:
                for line in process.stdout:
                    given = True
                    yield json.loads(line)
            except GeneratorExit:
                process.kill()
                raise
        said.seek(0)
        texts = said.read().decode("utf-8", "replace").splitlines()
    notices, last = texts, ""
    if process.returncode != 0:
        last = texts[-1] if texts else f"iocreplay ended with code {process.returncode}"
        notices = texts[:-1]
    for notice in notices:
        warnings.warn(notice, LogWarning, stacklevel=3)
    if process.returncode != 0:
        raise (Incomplete if given else Error)(last)
