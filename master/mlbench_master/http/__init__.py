"""HTTP: bodies of requests, errors, access, and the answers that the original client alone gets."""
