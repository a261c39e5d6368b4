"""Self-contained HTML pages: the shell that all of them share, and the pages themselves."""

from .page import embed, page, resource, safe

__all__ = ["embed", "page", "resource", "safe"]
