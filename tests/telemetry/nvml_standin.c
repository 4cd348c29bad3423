/* Stand-in for libnvidia-ml.so.1. On every call it reads one word from the file that NVML_STANDIN names:
 *
 *   ok        two healthy devices without an energy counter
 *   counter N the same with counters: N millijoules, and twice that of the second device
 *   hot       the first device is held back by its power limit and by heat
 *   no-power  the first device does not tell its power (3, not supported)
 *   no-util   utilisation is not supported, as under MIG
 *   forbidden the first device's power may not be read (4, no permission)
 *   weak      the second device cannot be opened (8, insufficient power)
 *   lost-second  the second device is lost (15), the first is well
 *   no-driver every call: 9, the driver is not loaded
 *   nothing   the driver knows no device
 *   mig       the first device is divided into two instances
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
#define NO_PERMISSION 4
#define NOT_FOUND 6
#define INSUFFICIENT_POWER 8
#define NO_DRIVER 9
#define LOST 15
#define MISMATCH 18
#define INSTANCE 100 /* handles of MIG instances are numbered from here */

typedef void *device;
typedef struct { unsigned long long total, free, used; } memory;
typedef struct { unsigned int gpu, memory; } utilization;

static char word[32];
static unsigned long long argument;
static int refused; /* a library that was refused once stays the wrong one, whatever happens to the driver */

static int scenario(void)
{
    const char *path = getenv("NVML_STANDIN");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file || fscanf(file, "%31s %llu", word, &argument) < 1)
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
    if (!strcmp(word, "no-driver"))
        return NO_DRIVER;
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

static int number(device handle) { return (int)(long)handle - 1; }

static int reading(device handle)
{
    int code = listing();
    if (code)
        return code;
    return !strcmp(word, "lost-inside") || (!strcmp(word, "lost-second") && number(handle) == 1) ? LOST : 0;
}

/* What an instance does not tell, its board does. */
static int of_board(device handle)
{
    int code = reading(handle);
    return code ? code : number(handle) >= INSTANCE ? NOT_SUPPORTED : 0;
}

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
    int code = listing();
    *count = strcmp(word, "nothing") ? 2 : 0;
    return code;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned int index, device *handle)
{
    int code = listing();
    *handle = (device)(long)(index + 1);
    return code ? code : index == 1 && !strcmp(word, "weak") ? INSUFFICIENT_POWER : 0;
}

int nvmlDeviceGetUUID(device handle, char *text, unsigned int length)
{
    const char *kind = number(handle) >= INSTANCE ? "MIG" : "GPU";
    snprintf(text, length, "%s-%08d", kind, number(handle) % INSTANCE);
    return reading(handle);
}

int nvmlDeviceGetName(device handle, char *text, unsigned int length)
{
    if (number(handle) >= INSTANCE)
        snprintf(text, length, "Stand-in MIG 1g.%dgb", 5 * (number(handle) - INSTANCE + 1));
    else
        snprintf(text, length, "Stand-in %d", number(handle));
    return reading(handle);
}

int nvmlDeviceGetMemoryInfo(device handle, memory *out)
{
    out->total = 24ULL << 30; /* more than 32 bits hold */
    out->used = (5ULL + number(handle)) << 30;
    if (number(handle) >= INSTANCE) {
        out->total = 5ULL << 30;
        out->used = 1ULL << 30;
    }
    out->free = out->total - out->used;
    return reading(handle);
}

int nvmlDeviceGetUtilizationRates(device handle, utilization *out)
{
    int code = of_board(handle);
    out->gpu = number(handle) ? 0 : 97;
    out->memory = 50;
    return code ? code : !strcmp(word, "no-util") || (!strcmp(word, "mig") && !number(handle)) ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetPowerUsage(device handle, unsigned int *milliwatts)
{
    int code = of_board(handle);
    *milliwatts = number(handle) ? 95500 : 130250;
    if (code || number(handle))
        return code;
    return !strcmp(word, "no-power") ? NOT_SUPPORTED : !strcmp(word, "forbidden") ? NO_PERMISSION : 0;
}

int nvmlDeviceGetEnforcedPowerLimit(device handle, unsigned int *milliwatts)
{
    *milliwatts = 450000;
    return of_board(handle);
}

int nvmlDeviceGetTemperature(device handle, int sensor, unsigned int *degrees)
{
    (void)sensor;
    *degrees = 61 + number(handle);
    return of_board(handle);
}

int nvmlDeviceGetTotalEnergyConsumption(device handle, unsigned long long *millijoules)
{
    int code = of_board(handle);
    *millijoules = argument * (1 + number(handle));
    return code ? code : strcmp(word, "counter") ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetClockInfo(device handle, int which, unsigned int *megahertz)
{
    *megahertz = which == 2 ? 10501 : 2520;
    return of_board(handle);
}

int nvmlDeviceGetCurrentClocksThrottleReasons(device handle, unsigned long long *bits)
{
    int code = of_board(handle);
    *bits = number(handle) ? 1 : strcmp(word, "hot") ? 0 : 4 | 32; /* idle; power limit and software thermal */
    return code;
}

int nvmlDeviceGetMigMode(device handle, unsigned int *now, unsigned int *pending)
{
    int code = of_board(handle);
    *now = *pending = !strcmp(word, "mig") && !number(handle);
    return code ? code : number(handle) ? NOT_SUPPORTED : 0;
}

int nvmlDeviceGetMaxMigDeviceCount(device handle, unsigned int *count)
{
    *count = 7;
    return of_board(handle);
}

int nvmlDeviceGetMigDeviceHandleByIndex(device handle, unsigned int index, device *instance)
{
    int code = of_board(handle);
    *instance = (device)(long)(INSTANCE + index + 1);
    return code ? code : index < 2 ? 0 : NOT_FOUND;
}
