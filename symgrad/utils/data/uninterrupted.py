"""Loaded by the fork server alone: from then on it, and each worker from its first moment, leaves Ctrl-C to the main process.

`multiprocessing` gives a new process the handlers which the server had after loading its modules, so nothing else can be early enough.
"""

import signal

signal.signal(signal.SIGINT, signal.SIG_IGN)
