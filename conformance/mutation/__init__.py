"""Mutation of the project itself: does the suite notice when a check is missing, or wrong?

Every place that emits a finding for a rule, or refuses what a writer is given, is taken out once, and once has its
condition turned into its opposite; a case or a test must fail each time. Finer changes of all conditions show where
cases on the boundary are missing. ``python -m ckptspec.conformance.mutation`` runs all that.

``sources`` has the modules and swaps code, ``tracing`` finds the sites of the rules, ``guards`` their conditions,
``mutants`` makes the changes, ``running`` tries them, ``campaign`` is all of it together; ``equivalents`` lists what
survives because it does the same.
"""
