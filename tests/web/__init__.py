"""The web pages, used as their reader does: in a real browser, over a real stack."""
