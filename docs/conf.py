"""Settings of Sphinx, which makes one site of the pages here and of the docstrings: ``docs/index.md`` is its start."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from sphinx.application import Sphinx

ROOT = Path(__file__).parent.parent
sys.path.insert(0, str(ROOT))

from storeio import __version__  # noqa: E402

project = "storeio"
release = __version__
author = "the storeio authors"

extensions = ["myst_parser", "sphinx.ext.autodoc", "sphinx.ext.napoleon"]
source_suffix = {".md": "markdown"}
exclude_patterns = ["LICENSE"]
html_theme = "alabaster"  # comes with Sphinx
html_theme_options = {"body_max_width": "none", "page_width": "72rem"}
html_show_sphinx = False
html_show_copyright = False
pygments_style = "default"

myst_heading_anchors = 3  # pages link to each other's headings, as on a code host

autodoc_typehints = "signature"
autodoc_member_order = "bysource"
autodoc_default_options = {"undoc-members": True}
python_maximum_signature_line_length = 100
napoleon_numpy_docstring = False

LINK = re.compile(r"\[([^\]\n]+)\]\(((?:\.\./)+[^)\s]*)\)")


def outside_as_code(app: Sphinx, name: str, source: list[str]) -> None:
    """Make links to files of the repository that are no pages into their paths: the site does not hold them."""
    folder = (Path(app.srcdir) / name).parent

    def shown(link: re.Match[str]) -> str:
        target = (folder / link.group(2).partition("#")[0]).resolve()
        if target.is_relative_to(Path(app.srcdir).resolve()):
            return link.group()
        return f"{link.group(1)} (`{target.relative_to(ROOT)}`)"

    source[0] = LINK.sub(shown, source[0])


def setup(app: Sphinx) -> None:
    """Connect the above."""
    app.connect("source-read", outside_as_code)
