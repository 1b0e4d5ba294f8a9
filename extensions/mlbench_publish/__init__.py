"""Publishing: runs as files, their import, and a static website of archives."""
