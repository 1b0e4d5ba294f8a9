"""Log as MLPerf wants it, without training anything."""

import time

from mlperf_logging import mllog

log = mllog.get_mllogger()
log.event(key="submission_benchmark", value="resnet")
log.event(key="global_batch_size", value=96)
log.event(key="opt_base_learning_rate", value=0.1)
log.event(key="target_accuracy", value=0.75)
log.start(key="run_start")
for epoch in range(1, 61):
    log.start(key="epoch_start", metadata={"epoch_num": epoch})
    time.sleep(0.1)
    log.event(key="tracked_stats", value={"train_loss": 1 / epoch}, metadata={"step": 15 * epoch})
    log.start(key="eval_start", metadata={"epoch_num": epoch})
    accuracy = 1 - 0.5**epoch
    log.event(key="eval_accuracy", value=accuracy, metadata={"samples_count": 1440 * epoch})
    log.end(key="eval_stop", metadata={"epoch_num": epoch})
    log.end(key="epoch_stop", metadata={"epoch_num": epoch})
log.end(key="run_stop", metadata={"status": "success"})
