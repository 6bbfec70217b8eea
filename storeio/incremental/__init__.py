"""Audits that take over what earlier ones said of parts that have not changed since."""
