"""Language modelling, task 3a: AWD-LSTM on WikiText-2 to a perplexity of 70 (light: 90).

This is ``tasks.lstm`` with MLBench's hyper-parameters as defaults. Merity et al. report 68.6 on the
validation set after all epochs. This implementation has not been tried: no package registry has the
data, and the model needs a GPU.
"""

from mlbench.benchmarks.tasks import WikiText2Options
from mlbench_worker.ranks.rank_process import run
from mlbench_worker.tasks.lstm import main

if __name__ == "__main__":
    run(main, WikiText2Options)
