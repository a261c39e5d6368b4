"""Differential testing: several readings of the same bytes, held against each other.

A *reading* says of a file whether it is accepted and what is in it. Readings that share no code make different
mistakes: where two of them disagree, one is wrong, or the format's text leaves the matter open. So each disagreement is
a failure, unless ``acceptable`` declares it, and each declaration is proved by a golden file on which it occurs.

``python -m ckptspec.conformance.differential`` looks for disagreements for as long as it is told to.
"""
