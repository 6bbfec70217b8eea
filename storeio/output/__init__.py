"""What is written outside of stores: whole or not at all, and only where people said.

``targets`` looks at the places that they name. ``staging`` writes a new directory beside its place, ``whole_file`` a
single file, both under the names of ``partials`` as long as they are not whole. ``publishing`` gives the result of a
rebuild its name, on a local disk or below a URI.
"""
