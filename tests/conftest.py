"""What holds for all tests: none reads or writes the kernels that the user keeps on disk."""

import os

os.environ["SYMGRAD_CACHE"] = "0"
