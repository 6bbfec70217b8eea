"""The compiled loops: arrays in, arrays out. Each checks every bound before it reads."""
