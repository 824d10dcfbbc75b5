/* Loaded in front of the C library: calls that write to files below one folder fail when told to.

   FAULT_BELOW    the folder; nothing fails without it
   FAULT_AT       the call that fails, counted from 1; 0 or none for none
   FAULT_ERRNO    what it fails with
   FAULT_STICKY   1 where every later call fails too
   FAULT_REPORT   a file that gets a line for each call that failed, and one with the number of
                  all calls at the end

   A program may set the same for itself by fault_arm(). */

#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <unistd.h>

static const char *below;
static const char *report;
static long at, calls, refused, nameless;
static int error_number = ENOSPC, sticky;

void fault_arm(long n, int number, int keep) {
    at = n, error_number = number, sticky = keep, calls = refused = nameless = 0;
}

long fault_calls(void) { return calls; }

long fault_refused(void) { return refused; }

/* Of these, those where SQLite tells no full disk from a broken one: all that are no write, and
   those to the index of a log. */
long fault_nameless(void) { return nameless; }

__attribute__((constructor)) static void begin(void) {
    const char *value;
    below = getenv("FAULT_BELOW");
    report = getenv("FAULT_REPORT");
    if ((value = getenv("FAULT_ERRNO"))) error_number = atoi(value);
    if ((value = getenv("FAULT_STICKY"))) sticky = atoi(value);
    if ((value = getenv("FAULT_AT"))) at = atol(value);
}

static void tell(const char *first, const char *second) {
    char line[PATH_MAX + 64];
    int length = snprintf(line, sizeof line, "%s %s\n", first, second);
    int file = syscall(SYS_openat, AT_FDCWD, report, O_WRONLY | O_CREAT | O_APPEND, 0600);
    syscall(SYS_write, file, line, (size_t)length);
    syscall(SYS_close, file);
}

__attribute__((destructor)) static void end(void) {
    char number[32];
    snprintf(number, sizeof number, "%ld", calls);
    if (report) tell("calls", number);
}

static int fails(const char *function, int descriptor) {
    char link[64], path[PATH_MAX];
    ssize_t length;
    long call;
    if (!at || !below) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", descriptor);
    length = readlink(link, path, sizeof path - 1);
    if (length < 0) return 0;
    path[length] = 0;
    /* (a folder whose name only begins alike is another one) */
    if (strncmp(path, below, strlen(below)) != 0) return 0;
    if (path[strlen(below)] && path[strlen(below)] != '/') return 0;
    call = __sync_add_and_fetch(&calls, 1);
    if (call != at && !(sticky && call > at)) return 0;
    __sync_add_and_fetch(&refused, 1);
    if (!strstr(function, "write") || (length > 4 && !strcmp(path + length - 4, "-shm")))
        __sync_add_and_fetch(&nameless, 1);
    if (report) tell(function, path);
    errno = error_number;
    return 1;
}

#define IN_FRONT(type, name, parameters, arguments)                       \
    type name parameters {                                                \
        static type(*real) parameters;                                    \
        if (fails(#name, descriptor)) return -1;                          \
        if (!real) real = (type(*) parameters)dlsym(RTLD_NEXT, #name);    \
        return real arguments;                                            \
    }

IN_FRONT(ssize_t, write, (int descriptor, const void *from, size_t size), (descriptor, from, size))
IN_FRONT(ssize_t, pwrite, (int descriptor, const void *from, size_t size, off_t place),
         (descriptor, from, size, place))
IN_FRONT(ssize_t, pwrite64, (int descriptor, const void *from, size_t size, off64_t place),
         (descriptor, from, size, place))
/* Nobody cuts the power: what was written is there without waiting for the disk. */
int fsync(int descriptor) { return fails("fsync", descriptor) ? -1 : 0; }
int fdatasync(int descriptor) { return fails("fdatasync", descriptor) ? -1 : 0; }

IN_FRONT(int, ftruncate, (int descriptor, off_t size), (descriptor, size))
IN_FRONT(int, ftruncate64, (int descriptor, off64_t size), (descriptor, size))
