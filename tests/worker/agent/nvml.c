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

/* The first is limited by its power and by heat, the second is idle. */
int nvmlDeviceGetCurrentClocksThrottleReasons(void *gpu, unsigned long long *reasons) {
  *reasons = (char *)gpu - (char *)0 == 1 ? 0x4 | 0x40 : 0x1;
  return SUCCESS;
}
