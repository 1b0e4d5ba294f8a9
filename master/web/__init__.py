"""The web pages: shells without data, which ask the REST API for everything that they show."""
