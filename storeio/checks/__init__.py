"""What is wrong with a store: arrays in, findings out; no file is opened here."""
