"""Stores and outputs on other file systems than the local disk, through ``pyarrow.fs``, which is imported when needed.

``filesystem`` opens a URI, ``trouble`` tries again and gives up in time, ``listing`` lists, ``reading`` reads ranges,
``failures`` remembers what could not be read, ``writing`` uploads whole files and says when an output is complete,
``mirror`` copies a store here. Roots travel as URIs: each process opens its own connections.
"""
