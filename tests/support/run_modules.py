"""Load modules and run them, one line of JSON after the other: [name, text, inputs, outputs], or [name, path of a .sgx file].

Answers with lines: the name before, and what came of it after. A process that dies has named the module which killed it.
"""

import json
import resource
import sys

import numpy as np

import symgrad as sg
from symgrad.compiler.export.stablehlo import Loaded
from symgrad.errors import FileError
from symgrad.ops.spec import Meta


def run(text, inputs, outputs):
    metas = [[Meta(tuple(shape), np.dtype(dtype)) for shape, dtype in typed] for typed in (inputs, outputs)]
    program = Loaded(text, *metas)
    found = program([np.ones(m.shape, m.dtype) for m in metas[0]])
    assert [(x.shape, x.dtype) for x in found] == [(m.shape, m.dtype) for m in metas[1]]


def outcome(what):
    try:
        if len(what) == 1:
            sg.load_compiled(what[0])(sg.ones(2))
        else:
            run(*what)
    except FileError as error:
        return f"refused {str(error)[:200]!r}"
    except RuntimeError as error:
        return f"out of memory {str(error)[:200]!r}" if "RESOURCE_EXHAUSTED" in str(error) else f"failed {str(error)[:300]!r}"
    except Exception as error:
        return f"failed {type(error).__name__} {str(error)[:300]!r}"
    return "ran"


if __name__ == "__main__":
    resource.setrlimit(resource.RLIMIT_AS, (2**34, 2**34))
    for line in sys.stdin:
        name, *what = json.loads(line)
        print(name, flush=True)
        print(outcome(what), flush=True)
