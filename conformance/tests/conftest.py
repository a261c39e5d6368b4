"""The other project is not part of this suite: test_plugin runs it as its authors would."""

collect_ignore = ["other_project"]
