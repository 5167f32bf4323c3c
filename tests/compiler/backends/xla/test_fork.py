"""A process that was forked after XLA had started is told so, and does not hang."""

import subprocess
import sys

SCRIPT = """
import os, warnings
import symgrad as sg
warnings.simplefilter("ignore")
known = sg.compile(lambda x: x + 1, backend="xla")
known(sg.ones(2))
pid = os.fork()
if pid:
    sys_status = os.waitpid(pid, 0)[1]
    raise SystemExit(os.waitstatus_to_exitcode(sys_status))
try:
    sg.compile(lambda x: x * 2, backend="xla")(sg.ones(2))
except RuntimeError as error:
    assert "forked after XLA had started" in str(error), error
    assert sg.compile(lambda x: x * 2, backend="numpy")(sg.ones(2)).tolist() == [2, 2]
    os._exit(7)
os._exit(1)
"""


def test_new_kernels_after_a_fork_are_refused():
    done = subprocess.run([sys.executable, "-P", "-c", SCRIPT], capture_output=True, text=True, timeout=100)
    assert done.returncode == 7, done.stderr[-500:]
