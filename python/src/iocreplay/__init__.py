"""Logs of iocrec, the flight recorder for EPICS IOCs, from Python.

>>> import iocreplay
>>> log = iocreplay.Log("/data/logs/ioc-box-7")
>>> for put in log.puts(pv="PS:*", since="-10m"):          # doctest: +SKIP
...     print(put.time, put.user, put.pv, put.old, put.new)
>>> frame = log.values("PS:TEMP").to_pandas()              # doctest: +SKIP

The program ``iocreplay``, which comes in the same wheel, reads the logs; this module runs it and gives its rows as
objects, one after the other, however long the log. So an answer here is the one that the program gives, and needs
neither root nor the recorded machine.

A value that is not known is ``None``. What could not be read whole ends in :class:`Incomplete`, after all rows that
could be read.
"""

from iocreplay._errors import Error, Incomplete, LogWarning, NotInstalled
from iocreplay._log import Log, Rows
from iocreplay._program import version
from iocreplay._rows import Chain, Put, Scalar, Span, Value

__all__ = [
    "Chain",
    "Error",
    "Incomplete",
    "Log",
    "LogWarning",
    "NotInstalled",
    "Put",
    "Rows",
    "Scalar",
    "Span",
    "Value",
    "version",
]
