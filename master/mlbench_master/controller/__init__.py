"""The controller: makes what is into what should be."""
