"""The commands of ``storeio``, one module each: options in, text and JSON out; the work is done elsewhere.

``storeio.cli`` finds them by name. ``options``, ``console``, ``outputs`` and ``examples`` are what they have in common;
``inspect_options`` are so many that they have a module.
"""
