"""Sphinx settings. The build is offline: no intersphinx, no fonts or scripts from elsewhere."""

import sys
import tomllib
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "_ext"))

with (Path(__file__).resolve().parents[1] / "pyproject.toml").open("rb") as file:
    release = tomllib.load(file)["project"]["version"]

project = "symgrad"
copyright = "the symgrad contributors"
version = release

extensions = ["myst_parser", "mathml"]
myst_enable_extensions = ["colon_fence", "deflist", "dollarmath"]
myst_heading_anchors = 3
exclude_patterns = ["_build"]
nitpicky = True
html_math_renderer = "mathml"

html_theme = "furo"
html_title = "symgrad"
html_static_path = ["_static"]
html_css_files = ["wrap.css"]


def setup(app):
    import op_table

    app.connect("source-read", op_table.fill)
