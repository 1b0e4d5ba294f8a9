#!/bin/sh
say() { echo "{\"time\": $(date +%s.%N), $1}" >> "$MLBENCH_METRICS_FILE"; }

say '"goal": {"metric": "val_accuracy", "value": 0.8}'
for epoch in 0 1 2 3; do
  sleep 0.2
  say "\"step\": $epoch, \"metrics\": {\"epoch\": $epoch, \"val_accuracy\": 0.$((6 + epoch))}"
done
