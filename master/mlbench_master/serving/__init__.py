"""HTTP server in which slow clients cannot occupy threads, and agents always get a response."""
