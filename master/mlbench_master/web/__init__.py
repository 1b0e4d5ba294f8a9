"""The web pages: templates without data, whose scripts get everything from the REST API."""
