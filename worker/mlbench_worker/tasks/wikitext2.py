"""Language modelling, task 3a: AWD-LSTM on WikiText-2 to a perplexity of 70 (light: 90).

It is ``tasks.lstm`` with MLBench's hyper-parameters as its defaults. Merity et al. report
68.6 on the validation set after all epochs. No trial was made here: no package registry has the
data, and the model is made for a GPU.
"""

from mlbench.benchmarks.tasks import WikiText2Options
from mlbench_worker.ranks.process import run
from mlbench_worker.tasks.lstm import main

if __name__ == "__main__":
    run(main, WikiText2Options)
