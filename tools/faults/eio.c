/* A disk that fails: preloaded, it refuses the n-th write below FAULTS_ROOT with EIO, whoever in the family of
   processes makes it. Python's audit hooks see files being opened; this sees every write of SQLite and git too. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/types.h>
#include <unistd.h>

static _Atomic long *count; /* shared by all processes */
static const char *root;
static long at;

__attribute__((constructor)) static void begin(void) {
    const char *file = getenv("FAULTS_COUNT");
    root = getenv("FAULTS_ROOT");
    at = atol(getenv("FAULTS_AT") ? getenv("FAULTS_AT") : "0");
    int handle = file && root ? open(file, O_RDWR | O_CREAT | O_CLOEXEC, 0600) : -1;
    if (handle < 0 || ftruncate(handle, sizeof(long)) != 0) return;
    void *shared = mmap(NULL, sizeof(long), PROT_READ | PROT_WRITE, MAP_SHARED, handle, 0);
    if (shared != MAP_FAILED) count = shared;
    close(handle);
}

static int fails(int handle) {
    char link[64], path[PATH_MAX];
    if (!count) return 0;
    snprintf(link, sizeof link, "/proc/self/fd/%d", handle);
    ssize_t length = readlink(link, path, sizeof path - 1);
    if (length < 0 || strncmp(path, root, strlen(root)) != 0) return 0;
    if (++*count != at) return 0;
    errno = EIO;
    return 1;
}

#define REAL(name) ((__typeof__(&name))dlsym(RTLD_NEXT, #name))

ssize_t write(int handle, const void *bytes, size_t size) {
    return fails(handle) ? -1 : REAL(write)(handle, bytes, size);
}
ssize_t pwrite(int handle, const void *bytes, size_t size, off_t where) {
    return fails(handle) ? -1 : REAL(pwrite)(handle, bytes, size, where);
}
ssize_t pwrite64(int handle, const void *bytes, size_t size, off64_t where) {
    return fails(handle) ? -1 : REAL(pwrite64)(handle, bytes, size, where);
}
int fsync(int handle) { return fails(handle) ? -1 : REAL(fsync)(handle); }
int fdatasync(int handle) { return fails(handle) ? -1 : REAL(fdatasync)(handle); }
