"""Two stores side by side: where their logs differ, up to where they agree, what each alone holds.

``node`` audits both, ``logs`` compares them byte by byte, ``model`` is what came of it.
"""
