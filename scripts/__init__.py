"""Commands for people who change this project."""
