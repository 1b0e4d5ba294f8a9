/* A driver's library NVML with three GPUs, as far as the exporter asks: the first can tell
 * everything, the second no energy, the third nothing of its power once $NVML_LOST is set.
 * $NVML_PIDS names the processes, separated by commas, that use the first. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { SUCCESS = 0, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7, DRIVER_NOT_LOADED = 9, LOST = 15 };

typedef struct { unsigned gpu, memory; } Utilization;
typedef struct { unsigned long long total, free, used; } Memory;
typedef struct {
  unsigned pid;
  unsigned long long memory;
  unsigned gpu_instance, compute_instance;
} Process;

static long number(void *gpu) { return (char *)gpu - (char *)0 - 1; }

int nvmlInitWithFlags(unsigned flags) { return getenv("NVML_NO_DRIVER") ? DRIVER_NOT_LOADED : SUCCESS; }

int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) {
  *gpu = (char *)0 + index + 1;
  return SUCCESS;
}

int nvmlDeviceGetUUID(void *gpu, char *uuid, unsigned size) {
  snprintf(uuid, size, "GPU-%ld", number(gpu));
  return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *gpu, Utilization *percent) {
  *percent = (Utilization){35, 10};
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *gpu, Memory *bytes) {
  *bytes = (Memory){8000, 6000, 2000};
  return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts) {
  *milliwatts = 70500;
  return number(gpu) == 2 && getenv("NVML_LOST") ? LOST : SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoules) {
  *millijoules = 5000000250000;
  return number(gpu) == 1 ? NOT_SUPPORTED : SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *count, Process *found) {
  const char *pids = getenv("NVML_PIDS");
  unsigned room = *count;
  *count = 0;
  if (number(gpu) != 0 || !pids) return SUCCESS;
  for (const char *pid = pids; pid; pid = strchr(pid, ',') ? strchr(pid, ',') + 1 : NULL) {
    if (*count < room) found[*count] = (Process){atoi(pid), 500, 0, 0};
    ++*count;
  }
  return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}
