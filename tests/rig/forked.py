"""A process that was forked and has started no program, of a user and with a name of its choice.

usage: forked.py UID NAME

Prints `ready` once it has both. It ends with this one.
"""

import ctypes
import os
import sys
import time

PR_SET_PDEATHSIG, PR_SET_NAME, SIGKILL = 1, 15, 9

os.setuid(int(sys.argv[1]))
if os.fork():
    os.wait()
else:
    libc = ctypes.CDLL(None)
    libc.prctl(PR_SET_PDEATHSIG, SIGKILL)
    libc.prctl(PR_SET_NAME, sys.argv[2].encode())
    print("ready", flush=True)
    time.sleep(600)
