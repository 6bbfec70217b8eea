"""Spark-side adapters, a few lines each around the pure functions of ``storeio``.

* An audit as Spark jobs is ``checks``, an incremental one ``incremental``. A rebuild is ``rebuild``, which derives,
  and ``laying``, which writes; ``replay`` reads what salvages saved. ``memory`` gives back what a worker's task
  freed.
* ``datasource`` is ``spark.read.format("rocketmq_store")``: its ``options``, and what a query leaves out or asks for,
  which ``pushdown`` brings there and ``conditions`` evaluate. ``begins`` tells where each split truly begins,
  ``records`` and ``units`` yield batches by way of ``arrow``, and ``schemas`` say what columns these have.
"""
