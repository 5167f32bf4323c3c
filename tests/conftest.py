"""What holds for all tests: none reads or writes the kernels that the user keeps on disk, and a run is like the one before.

`--hypothesis-profile default` lets Hypothesis draw examples of its own.
"""

import os

from hypothesis import HealthCheck, settings

os.environ["SYMGRAD_CACHE"] = "0"
settings.register_profile("repeatable", derandomize=True, deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("repeatable")
