/* A scripted stand-in for libnvidia-ml.so.1, for tests on machines without a GPU.
 *
 *   FAKE_NVML_CONFIG  INI-like file, read again at every call (so edit it while running;
 *                     replace it with rename(2) to avoid torn reads)
 *   FAKE_NVML_CACHE   set: the file is read again only when it has changed, so that a
 *                     measurement of the caller isn't one of this file
 *   FAKE_NVML_LOG     one line appended per call: time pid tid function gpu action
 *   FAKE_NVML_STATE   optional folder: call counters live there and so are shared by all
 *                     processes (without it each process counts for itself)
 *
 * Config, see README.md:   [system]  [gpu]  [gpuN]  [calls]
 * An action (right-hand side in [calls], key FUNCTION or FUNCTION@GPU) is one of
 *   ok | code N | hang | block | dstate [S] | undead [S] | segv | abort | exit N
 *   slow MS [ACTION] | fail N ACTION | after N ACTION | every N ACTION
 */
#define _GNU_SOURCE
#include <ctype.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define API __attribute__((visibility("default")))
#define MAX_GPUS 64
#define MAX_MIG 8
#define MAX_TEXT 65536
#define MAX_ENTRIES 2048

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6,
       INSUFFICIENT_SIZE = 7, VERSION_MISMATCH = 25 };

typedef int ret_t;
typedef unsigned long long ull;
typedef struct device { int gpu, mig; } *dev_t_; /* mig is -1 for a whole GPU */

static struct device gpus[MAX_GPUS], migs[MAX_GPUS][MAX_MIG];
static int init_count;
static pid_t init_pid;
/* The config as it was when the current call began, cut up into its entries. */
static __thread char text[MAX_TEXT];
static __thread struct entry { const char *section, *key, *value; } entries[MAX_ENTRIES];
static __thread int entry_count;

/* ---------------------------------------------------------------- config */

static char *trim(char *s)
{
    while (isspace((unsigned char)*s))
        s++;
    char *end = s + strlen(s);
    while (end > s && isspace((unsigned char)end[-1]))
        *--end = 0;
    return s;
}

/* Each line becomes an entry; a section's own line is one with an empty key. */
static void parse_config(void)
{
    const char *section = "";
    char *line, *rest = text;
    for (entry_count = 0; (line = strsep(&rest, "\n")) && entry_count < MAX_ENTRIES;) {
        line[strcspn(line, "#;")] = 0;
        char *s = trim(line), *eq = strchr(s, '=');
        if (*s == '[') {
            s[strcspn(s, "]")] = 0;
            section = trim(s + 1);
            entries[entry_count++] = (struct entry){section, "", ""};
        } else if (eq) {
            *eq = 0;
            entries[entry_count++] = (struct entry){section, trim(s), trim(eq + 1)};
        }
    }
}

static void load_config(void)
{
    static __thread struct stat seen;
    struct stat now;
    const char *path = getenv("FAKE_NVML_CONFIG");
    if (path && getenv("FAKE_NVML_CACHE") && !stat(path, &now)) {
        if (now.st_ino == seen.st_ino && !memcmp(&now.st_mtim, &seen.st_mtim, sizeof now.st_mtim))
            return;
        seen = now;
    }
    int fd = path ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    ssize_t n = fd < 0 ? 0 : read(fd, text, sizeof text - 1);
    text[n > 0 ? n : 0] = 0;
    if (fd >= 0)
        close(fd);
    parse_config();
}

/* Copies the value of [section] key into out; 0 when it is absent. The last one wins. */
static int lookup(const char *section, const char *key, char *out, size_t size)
{
    for (int i = entry_count - 1; i >= 0; i--)
        if (!strcmp(entries[i].key, key) && !strcmp(entries[i].section, section)) {
            snprintf(out, size, "%s", entries[i].value);
            return 1;
        }
    return 0;
}

/* [gpuN] first, then the [gpu] defaults. */
static int gpu_text(int gpu, const char *key, char *out, size_t size)
{
    char section[16];
    snprintf(section, sizeof section, "gpu%d", gpu);
    return lookup(section, key, out, size) || lookup("gpu", key, out, size);
}

static int gpu_number(int gpu, const char *key, ull fallback, ull *out)
{
    char value[64];
    *out = fallback;
    if (!gpu_text(gpu, key, value, sizeof value))
        return OK;
    if (!strcmp(value, "na"))
        return NOT_SUPPORTED;
    *out = strtoull(value, NULL, 0);
    return OK;
}

static int gpu_count(void)
{
    char value[32], section[16];
    if (lookup("system", "count", value, sizeof value))
        return atoi(value);
    int n = 0;
    for (;; n++) { /* no count given: as many as there are [gpuN] sections */
        snprintf(section, sizeof section, "gpu%d", n);
        if (n >= MAX_GPUS || !lookup(section, "", value, sizeof value))
            return n;
    }
}

static int mig_count(int gpu)
{
    ull n;
    gpu_number(gpu, "mig_devices", 0, &n);
    return n > MAX_MIG ? MAX_MIG : (int)n;
}

/* ---------------------------------------------------------------- log and counters */

static void log_call(const char *name, int gpu, const char *action)
{
    const char *path = getenv("FAKE_NVML_LOG");
    if (!path)
        return;
    char line[256];
    struct timespec t;
    clock_gettime(CLOCK_REALTIME, &t);
    int n = snprintf(line, sizeof line, "%ld.%06ld %d %ld %s %d %s\n", (long)t.tv_sec,
                     t.tv_nsec / 1000, getpid(), syscall(SYS_gettid), name, gpu, action);
    int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
    if (fd >= 0 && write(fd, line, n) < 0) { /* a lost line is no reason to fail */ }
    if (fd >= 0)
        close(fd);
}

/* How often this key was asked for so far, this time included. */
static long count_call(const char *key)
{
    static struct { char key[80]; long n; } table[256];
    static volatile char lock;
    const char *dir = getenv("FAKE_NVML_STATE");
    long n = 0;
    if (dir) { /* one byte per call: the file's size is the count */
        char path[512];
        struct stat st;
        snprintf(path, sizeof path, "%s/%s", dir, key);
        int fd = open(path, O_WRONLY | O_APPEND | O_CREAT | O_CLOEXEC, 0666);
        if (fd >= 0 && write(fd, ".", 1) == 1 && !fstat(fd, &st))
            n = (long)st.st_size;
        if (fd >= 0)
            close(fd);
        return n;
    }
    while (__atomic_test_and_set(&lock, __ATOMIC_ACQUIRE))
        sched_yield();
    for (int i = 0; i < 256; i++) {
        if (!table[i].key[0])
            snprintf(table[i].key, sizeof table[i].key, "%s", key);
        if (!strcmp(table[i].key, key)) {
            n = ++table[i].n;
            break;
        }
    }
    __atomic_clear(&lock, __ATOMIC_RELEASE);
    return n;
}

/* ---------------------------------------------------------------- misbehaviour */

static void sleep_forever(void)
{
    for (;;)
        pause();
}

/* The whole process goes deaf to everything but SIGKILL. */
static void ignore_signals(void)
{
    sigset_t all;
    sigfillset(&all);
    pthread_sigmask(SIG_BLOCK, &all, NULL);
    for (int s = 1; s < 32; s++) /* other threads, too */
        if (s != SIGCHLD)
            signal(s, SIG_IGN);
}

static void block_signals_forever(void)
{
    ignore_signals();
    sleep_forever();
}

/* The real "D" state (disk sleep) of a thread stuck in the kernel: a vfork parent waits for
 * its child there. SIGTERM does nothing, SIGKILL still ends it. 0 seconds = forever. */
static void uninterruptible(unsigned seconds)
{
    ignore_signals();
    if (vfork() == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (seconds)
            syscall(SYS_nanosleep, &(struct timespec){seconds, 0}, NULL);
        else
            for (;;)
                syscall(SYS_pause);
        _exit(0);
    }
}

/* Outlives SIGKILL for `seconds`, as a thread stuck in a broken driver does: a tracer holds
 * the dying thread at its exit stop, so that waitpid() on the process keeps waiting. */
static void undead(unsigned seconds)
{
    pid_t me = (pid_t)syscall(SYS_gettid);
    int ready[2];
    char byte;
    if (pipe2(ready, O_CLOEXEC))
        return;
    pid_t tracer = fork();
    if (tracer == 0) {
        int status;
        setsid();
        for (int fd = 0; fd < 1024; fd++) /* hold none of the caller's pipes open */
            if (fd != ready[1])
                close(fd);
        usleep(20000); /* let the caller allow us first */
        long rc = ptrace(PTRACE_SEIZE, me, 0, PTRACE_O_TRACEEXIT);
        byte = rc ? 'n' : 'y';
        if (write(ready[1], &byte, 1) < 0 || rc)
            _exit(1);
        close(ready[1]);
        while (waitpid(me, &status, __WALL) == me && WIFSTOPPED(status)) {
            if (status >> 8 == (SIGTRAP | PTRACE_EVENT_EXIT << 8)) {
                sleep(seconds);
                _exit(0); /* letting go lets it die */
            }
            ptrace(PTRACE_CONT, me, 0, status >> 16 ? 0 : WSTOPSIG(status));
        }
        _exit(0);
    }
    prctl(PR_SET_PTRACER, tracer);
    close(ready[1]);
    if (read(ready[0], &byte, 1) != 1 || byte != 'y')
        log_call("undead", -1, "no ptrace here: plain block instead");
    block_signals_forever();
}

/* Performs an action and gives the code to return; OK means "now do the real work". */
static ret_t perform(char *action, long nth)
{
    char *word = strsep(&action, " \t"), *number = "";
    if (!strcmp(word, "ok"))
        return OK;
    if (action) {
        action = trim(action);
        number = action;
    }
    long n = strtol(number, &action, 0);
    action = trim(action);

    if (!strcmp(word, "code"))
        return (ret_t)n;
    if (!strcmp(word, "hang"))
        sleep_forever();
    if (!strcmp(word, "block"))
        block_signals_forever();
    if (!strcmp(word, "dstate"))
        uninterruptible((unsigned)n);
    if (!strcmp(word, "undead"))
        undead(n ? (unsigned)n : 60);
    if (!strcmp(word, "segv")) {
        signal(SIGSEGV, SIG_DFL);
        *(volatile int *)8 = 1;
    }
    if (!strcmp(word, "abort"))
        abort();
    if (!strcmp(word, "exit"))
        _exit((int)n);
    if (!strcmp(word, "slow")) {
        struct timespec t = {n / 1000, n % 1000 * 1000000};
        while (nanosleep(&t, &t) && errno == EINTR) { }
        return *action ? perform(action, nth) : OK;
    }
    if (!strcmp(word, "fail") && nth <= n)
        return perform(*action ? action : (char[]){"code 999"}, nth);
    if (!strcmp(word, "after") && nth > n)
        return perform(action, nth);
    if (!strcmp(word, "every") && n > 0 && nth % n == 0)
        return perform(action, nth);
    return OK;
}

/* Every exported function begins here. */
static ret_t begin(const char *name, int gpu)
{
    char key[80], action[160] = "ok";
    load_config();
    snprintf(key, sizeof key, "%s@%d", name, gpu);
    if (gpu < 0 || !lookup("calls", key, action, sizeof action)) {
        snprintf(key, sizeof key, "%s", name);
        if (!lookup("calls", key, action, sizeof action))
            lookup("calls", "*", action, sizeof action);
    }
    if (!action[0])
        strcpy(action, "ok");
    long nth = count_call(gpu < 0 ? name : (snprintf(key, sizeof key, "%s@%d", name, gpu), key));
    log_call(name, gpu, action);
    return perform(action, nth);
}

static ret_t begin_initialized(const char *name, int gpu)
{
    ret_t r = begin(name, gpu);
    if (r)
        return r;
    if (!init_count)
        return UNINITIALIZED;
    return init_pid == getpid() ? OK : begin("after_fork", -1); /* scripted, ok by default */
}

static int valid(dev_t_ d)
{
    return (d >= gpus && d < gpus + MAX_GPUS) ||
           (d >= &migs[0][0] && d < &migs[0][0] + MAX_GPUS * MAX_MIG);
}

/* A stale or NULL handle is what made the real library crash: script it as bad_handle. */
static ret_t begin_device(const char *name, dev_t_ d)
{
    ret_t r = begin_initialized(name, valid(d) ? d->gpu : -1);
    if (r || valid(d))
        return r;
    r = begin("bad_handle", -1);
    return r ? r : INVALID_ARGUMENT;
}

#define BEGIN do { ret_t r_ = begin_initialized(__func__, -1); if (r_) return r_; } while (0)
#define BEGIN_DEVICE(d) do { ret_t r_ = begin_device(__func__, d); if (r_) return r_; } while (0)

static ret_t put_text(char *out, unsigned size, const char *value)
{
    if (strlen(value) + 1 > size)
        return INSUFFICIENT_SIZE;
    strcpy(out, value);
    return OK;
}

static ret_t put_number(dev_t_ d, const char *key, ull fallback, unsigned *out)
{
    ull n;
    ret_t r = gpu_number(d->gpu, key, fallback, &n);
    if (!r)
        *out = (unsigned)n;
    return r;
}

/* ---------------------------------------------------------------- start and stop */

static ret_t start(const char *name)
{
    ret_t r = begin(name, -1);
    if (r)
        return r;
    for (int g = 0; g < MAX_GPUS; g++) {
        gpus[g] = (struct device){g, -1};
        for (int m = 0; m < MAX_MIG; m++)
            migs[g][m] = (struct device){g, m};
    }
    init_count++;
    init_pid = getpid();
    return OK;
}

API ret_t nvmlInit(void) { return start(__func__); } /* torch calls this one */
API ret_t nvmlInit_v2(void) { return start(__func__); }
API ret_t nvmlInitWithFlags(unsigned flags) { (void)flags; return start(__func__); }

API ret_t nvmlShutdown(void)
{
    BEGIN;
    init_count--;
    return OK;
}

API const char *nvmlErrorString(ret_t code)
{
    static __thread char message[40];
    begin(__func__, -1);
    snprintf(message, sizeof message, "fake NVML error %d", code);
    return message;
}

/* ---------------------------------------------------------------- the system */

static ret_t system_text(const char *key, const char *fallback, char *out, unsigned size)
{
    char value[96];
    return put_text(out, size, lookup("system", key, value, sizeof value) ? value : fallback);
}

API ret_t nvmlSystemGetDriverVersion(char *out, unsigned size)
{
    BEGIN;
    return system_text("driver", "580.82.07", out, size);
}

API ret_t nvmlSystemGetNVMLVersion(char *out, unsigned size)
{
    BEGIN;
    return system_text("nvml", "13.580.82.07", out, size);
}

API ret_t nvmlSystemGetCudaDriverVersion_v2(int *out)
{
    char value[32];
    BEGIN;
    *out = lookup("system", "cuda", value, sizeof value) ? atoi(value) : 13000;
    return OK;
}

API ret_t nvmlSystemGetCudaDriverVersion(int *out)
{
    char value[32];
    BEGIN;
    *out = lookup("system", "cuda", value, sizeof value) ? atoi(value) : 13000;
    return OK;
}

API ret_t nvmlDeviceGetCount_v2(unsigned *count)
{
    BEGIN;
    *count = (unsigned)gpu_count();
    return OK;
}

/* ---------------------------------------------------------------- finding a device */

static void uuid_of(dev_t_ d, char *out, size_t size)
{
    char key[24];
    if (d->mig < 0) {
        if (!gpu_text(d->gpu, "uuid", out, size))
            snprintf(out, size, "GPU-%08x-0000-4000-8000-%012x", 0xfa000000u + d->gpu, d->gpu);
    } else {
        snprintf(key, sizeof key, "mig_uuid%d", d->mig);
        if (!gpu_text(d->gpu, key, out, size))
            snprintf(out, size, "MIG-%08x-0000-5000-8000-%012x", 0xfa000000u + d->gpu, d->mig);
    }
}

static void pci_of(int gpu, char *out, size_t size)
{
    if (!gpu_text(gpu, "pci", out, size))
        snprintf(out, size, "00000000:%02X:00.0", 0x10 + gpu);
}

API ret_t nvmlDeviceGetHandleByIndex_v2(unsigned index, dev_t_ *out)
{
    ret_t r = begin_initialized(__func__, index < MAX_GPUS ? (int)index : -1);
    if (r)
        return r;
    if (index >= (unsigned)gpu_count())
        return INVALID_ARGUMENT;
    *out = &gpus[index];
    return OK;
}

API ret_t nvmlDeviceGetHandleByUUID(const char *uuid, dev_t_ *out)
{
    char have[96];
    BEGIN;
    for (int g = 0; g < gpu_count() && g < MAX_GPUS; g++)
        for (int m = -1; m < mig_count(g); m++) {
            dev_t_ d = m < 0 ? &gpus[g] : &migs[g][m];
            uuid_of(d, have, sizeof have);
            if (!strcmp(have, uuid)) {
                *out = d;
                return OK;
            }
        }
    return NOT_FOUND; /* full UUIDs only: the real one takes no prefixes either */
}

API ret_t nvmlDeviceGetHandleByPciBusId_v2(const char *pci, dev_t_ *out)
{
    char have[32];
    BEGIN;
    for (int g = 0; g < gpu_count() && g < MAX_GPUS; g++) {
        pci_of(g, have, sizeof have);
        size_t skip = strlen(have) > strlen(pci) ? strlen(have) - strlen(pci) : 0;
        if (!strcasecmp(have + skip, pci)) { /* "0000:17:00.0" fits "00000000:17:00.0" */
            *out = &gpus[g];
            return OK;
        }
    }
    return NOT_FOUND;
}

API ret_t nvmlDeviceGetIndex(dev_t_ d, unsigned *out)
{
    BEGIN_DEVICE(d);
    *out = (unsigned)(d->mig < 0 ? d->gpu : d->mig);
    return OK;
}

API ret_t nvmlDeviceGetMinorNumber(dev_t_ d, unsigned *out)
{
    BEGIN_DEVICE(d);
    return put_number(d, "minor", (ull)d->gpu, out); /* /dev/nvidiaN; not always the index */
}

API ret_t nvmlDeviceGetName(dev_t_ d, char *out, unsigned size)
{
    char value[128];
    BEGIN_DEVICE(d);
    return put_text(out, size, gpu_text(d->gpu, "name", value, sizeof value) ? value : "Fake GPU");
}

API ret_t nvmlDeviceGetUUID(dev_t_ d, char *out, unsigned size)
{
    char value[96];
    BEGIN_DEVICE(d);
    uuid_of(d, value, sizeof value);
    return put_text(out, size, value);
}

struct pci_info {
    char legacy[16];
    unsigned domain, bus, device, id, subsystem;
    char bus_id[32];
};

API ret_t nvmlDeviceGetPciInfo_v3(dev_t_ d, struct pci_info *out)
{
    char value[32];
    BEGIN_DEVICE(d);
    memset(out, 0, sizeof *out);
    pci_of(d->gpu, value, sizeof value);
    sscanf(value, "%x:%x:%x", &out->domain, &out->bus, &out->device);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", value);
    snprintf(out->legacy, sizeof out->legacy, "%04X:%02X:%02X.0", out->domain & 0xffff,
             out->bus & 0xff, out->device & 0xff);
    return OK;
}

/* ---------------------------------------------------------------- readings */

static int partitioned(dev_t_ d)
{
    char value[16];
    return d->mig >= 0 || (gpu_text(d->gpu, "mig", value, sizeof value) && !strcmp(value, "on"));
}

API ret_t nvmlDeviceGetUtilizationRates(dev_t_ d, unsigned out[2])
{
    BEGIN_DEVICE(d);
    if (partitioned(d))
        return NOT_SUPPORTED; /* as on real partitioned cards */
    ret_t r = put_number(d, "util", 0, &out[0]);
    return r ? r : put_number(d, "membus_util", 0, &out[1]);
}

static ret_t memory_of(dev_t_ d, ull *total, ull *used, ull *reserved)
{
    ret_t r = gpu_number(d->gpu, "mem_total", 80ull << 30, total);
    gpu_number(d->gpu, "mem_used", 0, used);
    gpu_number(d->gpu, "mem_reserved", 0, reserved);
    return r;
}

API ret_t nvmlDeviceGetMemoryInfo(dev_t_ d, ull out[3]) /* total, free, used */
{
    ull total, used, reserved;
    BEGIN_DEVICE(d);
    ret_t r = memory_of(d, &total, &used, &reserved);
    if (r)
        return r;
    out[0] = total;
    out[2] = used + reserved; /* version 1 counts the driver's own share as used */
    out[1] = total - out[2];
    return OK;
}

#ifndef FAKE_OLD_DRIVER
struct memory_v2 { unsigned version; ull total, reserved, free, used; };

API ret_t nvmlDeviceGetMemoryInfo_v2(dev_t_ d, struct memory_v2 *out)
{
    ull total, used, reserved;
    BEGIN_DEVICE(d);
    if (out->version != (sizeof *out | 2u << 24))
        return VERSION_MISMATCH;
    ret_t r = memory_of(d, &total, &used, &reserved);
    if (r)
        return r;
    *out = (struct memory_v2){out->version, total, reserved, total - used - reserved, used};
    return OK;
}

struct temperature_v1 { unsigned version; int sensor, celsius; };

API ret_t nvmlDeviceGetTemperatureV(dev_t_ d, struct temperature_v1 *out)
{
    BEGIN_DEVICE(d);
    if (out->version != (sizeof *out | 1u << 24))
        return VERSION_MISMATCH;
    return out->sensor ? INVALID_ARGUMENT : put_number(d, "temp", 40, (unsigned *)&out->celsius);
}
#endif

API ret_t nvmlDeviceGetTemperature(dev_t_ d, int sensor, unsigned *out)
{
    BEGIN_DEVICE(d);
    return sensor ? INVALID_ARGUMENT : put_number(d, "temp", 40, out);
}

API ret_t nvmlDeviceGetPowerUsage(dev_t_ d, unsigned *milliwatts)
{
    BEGIN_DEVICE(d);
    return put_number(d, "power_mw", 70000, milliwatts);
}

API ret_t nvmlDeviceGetEnforcedPowerLimit(dev_t_ d, unsigned *milliwatts)
{
    BEGIN_DEVICE(d);
    return put_number(d, "power_limit_mw", 700000, milliwatts);
}

API ret_t nvmlDeviceGetClockInfo(dev_t_ d, int kind, unsigned *mhz)
{
    static const char *keys[] = {"clock_graphics", "clock_sm", "clock_mem", "clock_video"};
    BEGIN_DEVICE(d);
    return kind < 0 || kind > 3 ? INVALID_ARGUMENT : put_number(d, keys[kind], 345, mhz);
}

struct field {
    unsigned id, scope;
    long long timestamp, latency;
    int type;
    ret_t code;
    union { ull all; unsigned ui; } value;
};

API ret_t nvmlDeviceGetFieldValues(dev_t_ d, int count, struct field *f)
{
    BEGIN_DEVICE(d);
    for (; count-- > 0; f++) { /* the call succeeds; each field has its own code */
        f->type = 1; /* unsigned int */
        f->value.all = 0;
        f->code = f->id == 185 ? put_number(d, "power_mw", 70000, &f->value.ui)
                : f->id == 186 ? put_number(d, "power_instant_mw", 70000, &f->value.ui)
                : NOT_SUPPORTED;
    }
    return OK;
}

/* ---------------------------------------------------------------- MIG */

API ret_t nvmlDeviceGetMigMode(dev_t_ d, unsigned *current, unsigned *pending)
{
    char value[16] = "na";
    BEGIN_DEVICE(d);
    gpu_text(d->gpu, "mig", value, sizeof value);
    if (!strcmp(value, "na"))
        return NOT_SUPPORTED; /* a card that cannot be partitioned */
    *current = !strcmp(value, "on");
    *pending = *current;
    if (gpu_text(d->gpu, "mig_pending", value, sizeof value))
        *pending = !strcmp(value, "on");
    return OK;
}

API ret_t nvmlDeviceGetMaxMigDeviceCount(dev_t_ d, unsigned *out)
{
    BEGIN_DEVICE(d);
    *out = partitioned(d) ? 7 : 0;
    return OK;
}

API ret_t nvmlDeviceGetMigDeviceHandleByIndex(dev_t_ d, unsigned index, dev_t_ *out)
{
    BEGIN_DEVICE(d);
    if (d->mig >= 0 || index >= 7)
        return INVALID_ARGUMENT;
    if (index >= (unsigned)mig_count(d->gpu))
        return NOT_FOUND; /* the slots may be sparse: callers go on to the next index */
    *out = &migs[d->gpu][index];
    return OK;
}

API ret_t nvmlDeviceGetDeviceHandleFromMigDeviceHandle(dev_t_ d, dev_t_ *out)
{
    BEGIN_DEVICE(d);
    if (d->mig < 0)
        return INVALID_ARGUMENT;
    *out = &gpus[d->gpu];
    return OK;
}

API ret_t nvmlDeviceIsMigDeviceHandle(dev_t_ d, unsigned *out)
{
    BEGIN_DEVICE(d);
    *out = d->mig >= 0;
    return OK;
}

API ret_t nvmlDeviceGetGpuInstanceId(dev_t_ d, unsigned *out)
{
    BEGIN_DEVICE(d);
    if (d->mig < 0)
        return NOT_SUPPORTED;
    *out = (unsigned)d->mig + 7; /* never equal to the index, to catch mix-ups */
    return OK;
}

API ret_t nvmlDeviceGetComputeInstanceId(dev_t_ d, unsigned *out)
{
    BEGIN_DEVICE(d);
    if (d->mig < 0)
        return NOT_SUPPORTED;
    *out = 0;
    return OK;
}

/* ---------------------------------------------------------------- processes */

struct process { unsigned pid; ull memory; unsigned gi, ci; };

API ret_t nvmlDeviceGetComputeRunningProcesses_v3(dev_t_ d, unsigned *count, struct process *out)
{
    char value[256] = "";
    unsigned have = 0, room = *count;
    BEGIN_DEVICE(d);
    gpu_text(d->gpu, "processes", value, sizeof value); /* pid:bytes, separated by spaces */
    for (char *rest = value, *item; (item = strsep(&rest, " \t"));) {
        if (!*item)
            continue;
        char *colon = strchr(item, ':');
        if (have < room && out)
            out[have] = (struct process){(unsigned)atoi(item),
                                         colon ? strtoull(colon + 1, NULL, 0) : 0, ~0u, ~0u};
        have++;
    }
    *count = have;
    return have > room ? INSUFFICIENT_SIZE : OK;
}
