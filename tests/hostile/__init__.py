"""Tests against hostile or failing clients, commands, agents and disks; one test per finding."""
