#!/bin/sh
# A rank that is no Python, and waits for nobody: run as rank.py is.
touch "$4/begun-$RANK"
[ "$RANK" = "$2" ] && [ "$1" = stopped ] && kill -STOP $$
sleep 1000
:
