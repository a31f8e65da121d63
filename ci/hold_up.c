/* Holds threads up at random, in the places where an operating system seldom does: when they
 * allocate, read the clock, or enter the kernel. A test binary that is loaded with it meets races
 * that plain runs seldom meet. `ci/steady.sh` does that.
 *
 *     cc -O2 -shared -fPIC -o hold_up.so ci/hold_up.c
 *     HOLD_EVERY=1000 HOLD_MICROS=4000 LD_PRELOAD=./hold_up.so target/debug/deps/it-...
 *
 * HOLD_EVERY: one in so many allocations; readings of the clock count 20 times, entries into the
 * kernel 100 times. HOLD_MICROS: for how many microseconds at most. For Linux with glibc. */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdlib.h>
#include <time.h>

extern void *__libc_malloc(size_t);
extern void __libc_free(void *);

static long (*real_syscall)(long, ...);
static int (*real_clock_gettime)(clockid_t, struct timespec *);
static uint64_t every = 1000, micros = 4000;
/* Initial-exec, because other models allocate. */
static __thread uint64_t random_state __attribute__((tls_model("initial-exec")));
static __thread int inside __attribute__((tls_model("initial-exec")));
static int ready;

__attribute__((constructor)) static void begin(void) {
  const char *text = getenv("HOLD_EVERY");
  if (text) every = strtoull(text, 0, 10);
  text = getenv("HOLD_MICROS");
  if (text) micros = strtoull(text, 0, 10);
  real_syscall = (long (*)(long, ...))dlsym(RTLD_NEXT, "syscall");
  real_clock_gettime = (int (*)(clockid_t, struct timespec *))dlsym(RTLD_NEXT, "clock_gettime");
  ready = every > 0 && micros > 0;
}

static uint64_t next_random(void) {
  if (random_state == 0) {
    struct timespec now;
    real_clock_gettime(CLOCK_MONOTONIC, &now);
    random_state = ((uint64_t)now.tv_nsec << 20 ^ (uintptr_t)&random_state) | 1;
  }
  /* Marsaglia, "Xorshift RNGs", 2003. */
  random_state ^= random_state << 13;
  random_state ^= random_state >> 7;
  random_state ^= random_state << 17;
  return random_state;
}

static void hold_up(uint64_t weight) {
  if (!ready || inside) return;
  int error = errno;
  inside = 1;
  if ((next_random() >> 11) % (every / weight + 1) == 0) {
    uint64_t nanos = (next_random() >> 11) % (micros * 1000);
    struct timespec pause = {nanos / 1000000000, nanos % 1000000000};
    nanosleep(&pause, 0);
  }
  inside = 0;
  errno = error;
}

void *malloc(size_t size) {
  hold_up(1);
  return __libc_malloc(size);
}

void free(void *block) {
  __libc_free(block);
  hold_up(1);
}

int clock_gettime(clockid_t clock, struct timespec *now) {
  if (!real_clock_gettime) begin();
  hold_up(20);
  int status = real_clock_gettime(clock, now);
  hold_up(20);
  return status;
}

/* Rust's standard library waits with futexes through this one. */
long syscall(long number, ...) {
  if (!real_syscall) begin();
  va_list list;
  va_start(list, number);
  long a = va_arg(list, long), b = va_arg(list, long), c = va_arg(list, long);
  long d = va_arg(list, long), e = va_arg(list, long), f = va_arg(list, long);
  va_end(list);
  hold_up(100);
  long result = real_syscall(number, a, b, c, d, e, f);
  hold_up(100);
  return result;
}
