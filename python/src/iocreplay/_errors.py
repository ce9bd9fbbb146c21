"""What can go wrong."""


class Error(Exception):
    """The program could not answer; the text is its line of standard error."""


class Incomplete(Error):
    """All rows that could be read were given, but something of the log could not be read; the text says what."""


class NotInstalled(Error):
    """The program is not where the wheel puts it, and not on PATH."""


class LogWarning(UserWarning):
    """A line that the program says beside its answer: a gap, damage, a clock set back, nothing found and why."""
