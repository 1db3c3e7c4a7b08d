// Steps the clocks of one process: to be preloaded (LD_PRELOAD). CLOCKSHIM_FILE names a file of 16 bytes, two numbers of
// nanoseconds: what is added to the wall clock, and to the monotonic one. Without malloc, locks and dlsym, because Redis
// reads clocks inside of its allocator's start.
#define _GNU_SOURCE
#include <elf.h>
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

// Go asks the kernel's own library (vDSO) for the time, past libc, and finds that library where the kernel has written it down
// for the start of the process. A copy of its tables is put there, in which the clock is the one above. Everybody else has
// found it before, or never looks.
__attribute__((constructor)) static void go(void) {
  if (offsets() == none) return;
  char **end = environ;
  while (*end) end++;
  Elf64_auxv_t *aux = (Elf64_auxv_t *)(end + 1);
  while (aux->a_type != AT_NULL && aux->a_type != AT_SYSINFO_EHDR) aux++;
  if (aux->a_type == AT_NULL) return;
  char *old = (char *)aux->a_un.a_val;
  Elf64_Ehdr *head = (Elf64_Ehdr *)old;
  Elf64_Phdr *segments = (Elf64_Phdr *)(old + head->e_phoff);
  size_t size = segments->p_filesz;
  char *copy = (char *)syscall(SYS_mmap, 0, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (segments->p_type != PT_LOAD || copy == MAP_FAILED) return;
  memcpy(copy, old, size);
  Elf64_Sym *symbols = 0;
  char *names = 0;
  for (int i = 0; i < head->e_phnum; i++) {
    if (segments[i].p_type != PT_DYNAMIC) continue;
    for (Elf64_Dyn *each = (Elf64_Dyn *)(copy + segments[i].p_offset); each->d_tag != DT_NULL; each++) {
      if (each->d_tag == DT_SYMTAB) symbols = (Elf64_Sym *)(copy + each->d_un.d_ptr);
      if (each->d_tag == DT_STRTAB) names = copy + each->d_un.d_ptr;
    }
  }
  // The names follow the symbols.
  for (Elf64_Sym *each = symbols; each && (char *)(each + 1) <= names; each++) {
    if (ELF64_ST_TYPE(each->st_info) != STT_FUNC) continue;
    int clock = strstr(names + each->st_name, "clock_gettime") != 0;
    each->st_value = (clock ? (char *)clock_gettime : old + each->st_value) - copy;
  }
  aux->a_un.a_val = (uint64_t)copy;
}
