"""No training: logs steps at a steady rate, to check the recording chain."""
import sys,time
from mlbench import Tracker
a=dict(zip(sys.argv[1::2],sys.argv[2::2]))
n=int(a.get('--steps',1000)); r=float(a.get('--rate',200))
with Tracker() as t:
    t.goal("val_global_Prec@1",97.0)
    t.epoch(0); s=time.perf_counter()
    for i in range(n):
        while time.perf_counter()<s+i/r: time.sleep(max(0,s+i/r-time.perf_counter()))
        t.step(1,train_loss=1/(i+1))
    t.log({"val_global_Prec@1":98.0},step=t.steps)
print("done")
