// Steps the clocks of one process: to be preloaded (LD_PRELOAD). CLOCKSHIM_FILE names a file of 16 bytes, two numbers of
// nanoseconds: what is added to the wall clock, and to the monotonic one. Without malloc, locks and dlsym, because Redis
// reads clocks inside of its allocator's start.
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

extern char **environ;
static volatile int64_t none[2];
static _Atomic(volatile int64_t *) mapped;

static volatile int64_t *offsets(void) {
  volatile int64_t *known = atomic_load(&mapped);
  if (known || !environ) return known ? known : none;
  known = none;
  for (char **each = environ; *each; each++) {
    if (strncmp(*each, "CLOCKSHIM_FILE=", 15) == 0) {
      int fd = syscall(SYS_openat, AT_FDCWD, *each + 15, O_RDONLY | O_CLOEXEC, 0);
      if (fd >= 0) {
        void *memory = (void *)syscall(SYS_mmap, 0, 4096, PROT_READ, MAP_SHARED, fd, 0);
        syscall(SYS_close, fd);
        if (memory != MAP_FAILED) known = memory;
      }
    }
  }
  atomic_store(&mapped, known);
  return known;
}

int clock_gettime(clockid_t clock, struct timespec *time) {
  int failed = syscall(SYS_clock_gettime, clock, time);
  if (failed) return failed;
  int wall = clock == CLOCK_REALTIME || clock == CLOCK_REALTIME_COARSE;
  int monotonic = clock == CLOCK_MONOTONIC || clock == CLOCK_MONOTONIC_COARSE || clock == CLOCK_MONOTONIC_RAW ||
                  clock == CLOCK_BOOTTIME;
  int64_t nanos = wall ? offsets()[0] : monotonic ? offsets()[1] : 0;
  int64_t sum = time->tv_nsec + nanos % 1000000000;
  time->tv_sec += nanos / 1000000000;
  if (sum >= 1000000000) { sum -= 1000000000; time->tv_sec++; }
  if (sum < 0) { sum += 1000000000; time->tv_sec--; }
  time->tv_nsec = sum;
  return 0;
}

int gettimeofday(struct timeval *restrict time, void *restrict zone) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (time) { time->tv_sec = now.tv_sec; time->tv_usec = now.tv_nsec / 1000; }
  return 0;
}

time_t time(time_t *out) {
  struct timespec now;
  clock_gettime(CLOCK_REALTIME, &now);
  if (out) *out = now.tv_sec;
  return now.tv_sec;
}
