/* NVIDIA's library NVML with three GPUs, as far as the agent and the exporter ask.
 *
 * The second GPU cannot tell its energy, and the third is lost if $NVML_LOST is set. $NVML_PIDS has
 * the processes of each GPU, separated by commas, and the GPUs separated by blanks. There is no
 * driver if $NVML_NO_DRIVER is set. */
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

static int is_lost(void *gpu) { return number(gpu) == 2 && getenv("NVML_LOST"); }

int nvmlInit_v2(void) { return getenv("NVML_NO_DRIVER") ? DRIVER_NOT_LOADED : SUCCESS; }

int nvmlInitWithFlags(unsigned flags) { return nvmlInit_v2(); }

int nvmlShutdown(void) { return SUCCESS; }

int nvmlSystemGetDriverVersion(char *version, unsigned size) {
  snprintf(version, size, "550.1");
  return SUCCESS;
}

int nvmlDeviceGetCount_v2(unsigned *count) { *count = 3; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **gpu) {
  *gpu = (char *)0 + index + 1;
  return SUCCESS;
}

int nvmlDeviceGetName(void *gpu, char *name, unsigned size) {
  snprintf(name, size, "NVIDIA Test %ld", number(gpu));
  return is_lost(gpu) ? LOST : SUCCESS;
}

int nvmlDeviceGetUUID(void *gpu, char *uuid, unsigned size) {
  snprintf(uuid, size, "GPU-%ld", number(gpu));
  return SUCCESS;
}

int nvmlDeviceGetUtilizationRates(void *gpu, Utilization *percent) {
  *percent = (Utilization){25 * (number(gpu) + 1), 10};
  return SUCCESS;
}

int nvmlDeviceGetMemoryInfo(void *gpu, Memory *bytes) {
  *bytes = (Memory){8000, 6000, 2000};
  return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *gpu, unsigned *milliwatts) {
  *milliwatts = 70500;
  return is_lost(gpu) ? LOST : SUCCESS;
}

/* Each uses 2 J between two calls, whichever they are of. */
int nvmlDeviceGetTotalEnergyConsumption(void *gpu, unsigned long long *millijoules) {
  static unsigned long long used = 0;
  if (number(gpu) == 1) return NOT_SUPPORTED;
  used += 2000;
  *millijoules = 5000000250000 + used;
  return SUCCESS;
}

/* The first is limited by its power and by heat, the others are idle. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons) {
  *reasons = number(gpu) == 0 ? 0x4 | 0x40 : 0x1;
  return SUCCESS;
}

int nvmlDeviceGetComputeRunningProcesses_v3(void *gpu, unsigned *count, Process *found) {
  const char *pid = getenv("NVML_PIDS");
  unsigned room = *count;
  for (long before = number(gpu); pid && before > 0; --before) {
    pid = strchr(pid, ' ');
    if (pid) ++pid;
  }
  *count = 0;
  while (pid && *pid && *pid != ' ') {
    if (*count < room) found[*count] = (Process){atoi(pid), 500, 0, 0};
    ++*count;
    pid += strspn(pid, "0123456789");
    if (*pid == ',') ++pid;
  }
  return *count > room ? INSUFFICIENT_SIZE : SUCCESS;
}
