/* A driver's library NVML with two GPUs, as far as the agent asks: the second is lost if $NVML_LOST
 * is set, and without a driver all are if $NVML_NO_DRIVER is. */
#include <stdio.h>
#include <stdlib.h>

enum { SUCCESS = 0, DRIVER_NOT_LOADED = 9, LOST = 15 };

int nvmlInit_v2(void) { return getenv("NVML_NO_DRIVER") ? DRIVER_NOT_LOADED : SUCCESS; }

int nvmlShutdown(void) { return SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) {
  *gpu = (char *)0 + index + 1;
  return SUCCESS;
}

int nvmlDeviceGetName(void *gpu, char *name, unsigned size) {
  long number = (char *)gpu - (char *)0 - 1;
  if (number == 1 && getenv("NVML_LOST")) return LOST;
  snprintf(name, size, "NVIDIA Test %ld", number);
  return SUCCESS;
}

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
  snprintf(version, size, "550.1");
  return SUCCESS;
}

/* One process computes on each: those of $NVML_PIDS. */
struct process { unsigned pid; unsigned long long memory; unsigned instance, compute_instance; };

int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *count, struct process *all) {
  unsigned pids[2] = {0, 0};
  if (getenv("NVML_PIDS")) sscanf(getenv("NVML_PIDS"), "%u %u", &pids[0], &pids[1]);
  all[0].pid = pids[(char *)gpu - (char *)0 - 1];
  *count = 1;
  return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *gpu, unsigned rates[2]) {
  rates[0] = 50 * ((char *)gpu - (char *)0);
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *gpu, unsigned long long memory[3]) {
  (void)gpu;
  memory[0] = 800, memory[1] = 700, memory[2] = 100;
  return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts) {
  if ((char *)gpu - (char *)0 == 2 && getenv("NVML_LOST")) return LOST;
  *milliwatts = 70000;
  return SUCCESS;
}

/* Each uses 2 J between two calls, whichever they are of. */
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoules) {
  static unsigned long long used = 0;
  used += 2000;
  *millijoules = 5000 * ((char *)gpu - (char *)0) + used;
  return SUCCESS;
}

/* The first is limited by its power and by heat, the second is idle. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons) {
  *reasons = (char *)gpu - (char *)0 == 1 ? 0x4 | 0x40 : 0x1;
  return SUCCESS;
}
