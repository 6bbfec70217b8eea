"""An audit as one HTML file: ``render_page`` and what goes into it.

``render`` makes the page, ``maps`` the shapes that it draws, and ``past`` is what earlier audits said.
"""

from storeio.report.page.past import Past, Run, Sighting, past_of
from storeio.report.page.render import Start, StorePage, render_page, start_of

__all__ = ["Past", "Run", "Sighting", "Start", "StorePage", "past_of", "render_page", "start_of"]
