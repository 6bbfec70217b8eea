"""Stores of any size as a sound broker would leave them, and what reading them costs."""
