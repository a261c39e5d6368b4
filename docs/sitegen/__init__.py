"""What makes the site of the documentation: pictures, and pages that are generated when the site is built.

``docs/generate.py`` writes what committed pages derive from the specification, and takes the pictures from here;
``pages.py`` is the script of mkdocs-gen-files, ``hooks.py`` the hooks of mkdocs.
"""
