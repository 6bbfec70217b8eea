"""Bytes of a store's files, for ``storeio.scan``, which opens stores, and for those who read more than a range.

``local_listing`` lists a directory of this machine, ``local_files`` reads its files and ``holes`` tells what of them
was never written. ``nearby`` keeps what lies around a small read, ``around`` gives zeros for blocks that a disk does
not give. ``many_files`` reads many small files in one call, ``pieces`` tells which units belong where in them.
"""
