"""Is the model still writing language? Tokens, word list, four-axis score, gate and replay of old runs.

Everything here is pure and light: no torch, no numpy, and the word list is read only when a text is scored.
"""
