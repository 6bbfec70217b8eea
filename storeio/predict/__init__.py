"""What a store's files and settings make of ``storeio.simulate``, which is pure: the verb reads, and writes nothing.

``start`` tells what brokers do at their next start, ``into`` writes the store as that leaves it, into a directory of
its own, ``retention`` forecasts what a running broker deletes. ``dead_links`` and ``timer_files`` tell what a start
finds of links to nothing and of timers.
"""
