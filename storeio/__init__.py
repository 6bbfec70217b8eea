"""Check, explain and rebuild the store directories of Apache RocketMQ brokers."""

__version__ = "0.1.0"
