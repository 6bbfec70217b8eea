"""What is wrong with a store: arrays in, findings out; no file is opened here.

``storeio.audit`` says when which is asked.

* The listing: ``layout``; how index files are built: ``index_shape``, and in which order they are: ``index_names``.
* One split's records: ``glance`` first, then ``marks`` and ``rare`` values; against units of queues ``queue_units``
  (``beside``, ``ext_units``, ``deliver_times``), of batch and light queues ``log_order``; against the index
  ``index_content``, which takes the units of its ``index_stretch``, tells ``index_events``, and leaves the ends of
  splits to ``index_border``.
* One index file: ``index_structure``, of a damaged one ``index_damage``, both on ``index_bytes``.
* All of the log: ``segments`` tell where it ends, and ``bands`` what lies where; ``numbering`` judges each queue by
  its ``runs``, of which few may be ``astray``, and knows those that have ``begun_again``; ``uncovered`` are units that
  no record implies (``leftover``), but for ``stand_ins``, and ``batch_numbers`` those that they have in batch queues;
  ``index_finish`` and ``index_outside`` end the index, ``tail`` tells what the log has lost, ``checkpoint`` comes last.
* Means: ``queue_files``, ``unit_groups`` and ``locate`` for units, ``ranges`` of numbers, ``packed`` and ``columns``
  for many queues, ``places`` of segments.
"""
