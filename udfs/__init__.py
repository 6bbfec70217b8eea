"""Spark-side adapters, a few lines each around the pure functions of ``storeio``."""
