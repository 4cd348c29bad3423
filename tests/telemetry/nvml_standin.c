/* Stand-in for libnvidia-ml.so.1. On every call it reads one word from the file that NVML_STANDIN names:
 *
 *   ok        two healthy devices
 *   no-power  the first device does not tell its power (3, not supported)
 *   no-util   utilisation is not supported, as under MIG
 *   lost      every call after the first: 15, the GPU is lost
 *   lost-inside  the same, but the devices can still be counted
 *   mismatch  every call: 18, library and driver differ, and for good in a process that has seen it
 *   hang      a call that never returns
 *   segv      a fault inside the library
 *
 * Each initialisation appends the number of its process to the file named with `.inits` behind it. */

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define NOT_SUPPORTED 3
#define LOST 15
#define MISMATCH 18

typedef void *device;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int gpu, memory; } utilization;

static char word[32];
static int refused; /* a library that was refused once stays the wrong one, whatever happens to the driver */

static int scenario(void)
{
    const char *path = getenv("NVML_STANDIN");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file || fscanf(file, "%31s", word) != 1)
        strcpy(word, "ok");
    if (file)
        fclose(file);
    if (!strcmp(word, "hang"))
        for (;;)
            pause();
    if (!strcmp(word, "segv")) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile int *)8 = 0;
    }
    if (refused || !strcmp(word, "mismatch")) {
        refused = 1;
        return MISMATCH;
    }
    return 0;
}

static int listing(void)
{
    int code = scenario();
    return code ? code : strcmp(word, "lost") ? 0 : LOST;
}

static int reading(void)
{
    int code = listing();
    return code ? code : strcmp(word, "lost-inside") ? 0 : LOST;
}

static int number(device handle) { return (int)(long)handle - 1; }

int nvmlInitWithFlags(unsigned int flags)
{
    char path[4096];
    (void)flags;
    snprintf(path, sizeof path, "%s.inits", getenv("NVML_STANDIN"));
    FILE *file = fopen(path, "a");
    if (file) {
        fprintf(file, "%d\n", (int)getpid());
        fclose(file);
    }
    return scenario();
}

int nvmlShutdown(void) { return 0; }

int nvmlDeviceGetCount_v2(unsigned int *count)
{
    *count = 2;
    return listing();
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device *handle)
{
    *handle = (device)(long)(index + 1);
    return listing();
}

int nvmlDeviceGetUUID(device handle, char *text, unsigned int length)
{
    snprintf(text, length, "GPU-%08d", number(handle));
    return reading();
}

int nvmlDeviceGetName(device handle, char *text, unsigned int length)
{
    snprintf(text, length, "Stand-in %d", number(handle));
    return reading();
}

int nvmlDeviceGetMemoryInfo(device handle, memory *out)
{
    out->total = 24ULL << 30; /* more than 32 bits hold */
    out->used = (5ULL + number(handle)) << 30;
    out->free = out->total - out->used;
    return reading();
}

int nvmlDeviceGetUtilizationRates(device handle, utilization *out)
{
    int code = reading();
    out->gpu = number(handle) ? 0 : 97;
    out->memory = 50;
    return code ? code : strcmp(word, "no-util") ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetPowerUsage(device handle, unsigned int *milliwatts)
{
    int code = reading();
    *milliwatts = number(handle) ? 95500 : 130250;
    return code ? code : strcmp(word, "no-power") || number(handle) ? 0 : NOT_SUPPORTED;
}

int nvmlDeviceGetEnforcedPowerLimit(device handle, unsigned int *milliwatts)
{
    (void)handle;
    *milliwatts = 450000;
    return reading();
}

int nvmlDeviceGetTemperature(device handle, int sensor, unsigned int *degrees)
{
    (void)sensor;
    *degrees = 61 + number(handle);
    return reading();
}
