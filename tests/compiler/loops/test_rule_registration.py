"""autodiff/ is below loops/ and does not import it: importing any module of the compiler registers the rules of loops and branches."""

import subprocess
import sys

import pytest

CODE = """
from symgrad.compiler.autodiff.{module} import {name}
from symgrad.compiler.ir.graph import Graph

graph = Graph.parse('''graph(%x: float64[], %t: bool[]) {{
  %2 = cond(%t, %x; false=graph(%x0: float64[]) {{
    return %x0
  }}, true=graph(%x0: float64[]) {{
    %1 = sin(%x0) : float64[]
    return %1
  }}) : (float64[],)
  %3 = %2[0] : float64[]
  return %3
}}''')
print({name}({call}))
"""


@pytest.mark.parametrize(
    ("module", "name", "call", "line"),
    [
        ("pull", "vjp", "graph", "%2 = cos(%w0) : float64[]"),
        ("forward", "jvp", "graph", "%3 = cos(%w0) : float64[]"),
        ("batch", "batch", "graph, [0], 3", "%1 = sin(%x0) : float64[3]"),
    ],
)
def test_a_fresh_process_transforms_branches(module, name, call, line):
    code = CODE.format(module=module, name=name, call=call)
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert line in done.stdout, done.stderr
