"""One module per file kind: dtype, decode, encode, predicates. Nothing else knows the bytes."""
