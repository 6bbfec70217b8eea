"""One module per file kind: dtype, decode, encode, predicates. Nothing else knows the bytes.

``commitlog`` with ``properties``, ``consumequeue`` with ``queueext``, ``batchqueue``, ``index``, ``checkpoint``; and
tables of JSON: ``fastjson`` reads all that brokers do, ``plainjson`` what they write, fast, and ``oddities`` says
what they do not.
"""
