"""The callbacks: what they share without a library, and scripts of the real libraries."""
