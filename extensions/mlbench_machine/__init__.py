"""Care of a stack on one machine: backups of its home folder, and a service of systemd."""
