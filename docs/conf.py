"""Sphinx: Markdown pages, the version of the package."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from metrana import __version__

project = "metrana"
version = release = __version__
copyright = "the metrana authors"

extensions = ["myst_parser", "sphinx.ext.autodoc"]
exclude_patterns = ["_build"]
myst_heading_anchors = 3

autodoc_member_order = "bysource"
autodoc_typehints = "signature"

html_title = f"metrana {__version__}"
html_show_sphinx = False
html_show_copyright = False
