"""Debian's packages of any suite and architecture, fetched and unpacked without touching the host's own."""

import os
import pathlib
import re
import subprocess
import sys
import tempfile

CACHE = pathlib.Path(os.environ.get("IOCREC_CACHE") or pathlib.Path.home() / ".cache/iocrec")


def fail(message):
    """Ends the program with a message."""
    raise SystemExit(f"{sys.argv[0]}: {message}")


def run(command, **options):
    """Runs a command and returns its stdout; ends the program with its last lines if it fails."""
    done = subprocess.run(command, text=True, capture_output=True, check=False, **options)
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()[-4:]
        fail(f"{' '.join(map(str, command[:4]))} ...: {'; '.join(lines)}")
    return done.stdout


class Archive:
    """One suite and architecture of Debian's archive, with package lists and files of its own."""

    def __init__(self, suite, debian):
        self.root = CACHE / "apt" / f"{suite}-{debian}"
        self.configuration = self.root / "apt.conf"
        if self.configuration.exists():
            return
        for part in ("lists/partial", "archives/partial", "sources.list.d"):
            (self.root / part).mkdir(parents=True, exist_ok=True)
        (self.root / "status").touch()
        # the mirror that this machine takes its own Debian packages from
        targets = run(["apt-get", "indextargets", "--format", "$(ORIGIN) $(REPO_URI) $(SUITE)", "Created-By: Packages"])
        mirror = next(
            (
                line.split()[1]
                for line in targets.splitlines()
                if line.startswith("Debian ") and "security" not in line and "updates" not in line
            ),
            None,
        )
        if mirror is None:
            fail("this machine's apt knows no Debian archive; run apt-get update")
        keys = "/usr/share/keyrings/debian-archive-keyring.gpg"
        (self.root / "sources.list").write_text(f"deb [signed-by={keys}] {mirror} {suite} main\n")
        writing = self.root / "apt.conf.new"
        writing.write_text(f'''
APT::Architecture "{debian}";
APT::Architectures "{debian}";
APT::Get::List-Cleanup "false";
Acquire::Languages "none";
Acquire::Check-Valid-Until "false";
Dir::State::status "{self.root}/status";
Dir::State::lists "{self.root}/lists";
Dir::Cache "{self.root}";
Dir::Etc::sourcelist "{self.root}/sources.list";
Dir::Etc::sourceparts "{self.root}/sources.list.d";
''')
        run(["apt-get", "-c", writing, "-qq", "update"])
        writing.rename(self.configuration)

    def names(self, pattern):
        """Kernel packages whose names match, the highest version last."""
        every = run(["apt-cache", "-c", self.configuration, "pkgnames", "linux-image-"]).split()
        found = [name for name in every if re.fullmatch(pattern, name)]
        return sorted(found, key=lambda name: [int(number) for number in re.findall(r"\d+", name)])

    def unpacked(self, package):
        """A directory with a package's files, unpacked once."""
        place = self.root / "unpacked" / package
        if not place.exists():
            with tempfile.TemporaryDirectory(dir=self.root) as work:
                run(
                    ["apt-get", "-c", self.configuration, "-qq", "-o", "APT::Sandbox::User=root", "download", package],
                    cwd=work,
                )
                (fetched,) = pathlib.Path(work).glob("*.deb")
                run(["dpkg-deb", "-x", fetched, f"{work}/files"])
                place.parent.mkdir(exist_ok=True)
                os.rename(f"{work}/files", place)
        return place
