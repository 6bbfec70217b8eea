"""What a broker of each line does at its next start: pure, from a view of the store to an outcome."""
