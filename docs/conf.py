"""The build of the site: `.venv/bin/sphinx-build -W docs target/site`."""

import pathlib
import sys

import riesz
from riesz import _core

sys.path.insert(0, str(pathlib.Path(__file__).parent))
import command_line

command_line.write()  # reference/command-line.md, which git ignores

project = "riesz"
author = "the riesz authors"
copyright = "the riesz authors"
release = version = riesz.__version__

extensions = ["sphinx.ext.autodoc", "sphinx.ext.napoleon", "sphinx.ext.intersphinx", "myst_nb"]
# Every page with code is run when the site is built; a page that fails fails the build.
nb_execution_mode = "force"
nb_execution_raise_on_error = True
nb_execution_timeout = 600  # per cell; other programs may share the cores
nb_merge_streams = True
myst_enable_extensions = ["dollarmath", "substitution"]
myst_substitutions = {"kernels": f"```text\n{_core.kernel_help()}\n```"}
autodoc_member_order = "bysource"
autodoc_typehints = "none"
autodoc_class_signature = "mixed"
napoleon_google_docstring = False
suppress_warnings = ["intersphinx.external", "mystnb.unknown_mime_type"]

html_theme = "furo"
html_title = f"riesz {release}"
html_static_path = ["_static"]
html_css_files = ["site.css"]
exclude_patterns = ["requirements.txt"]
