"""Entry points for spark-submit: parse arguments, start a session, wire, write the result."""
