// What the upstream and the load generator share: the clock, and the mark that every piece of text carries.
#ifndef BENCH_COMMON_H
#define BENCH_COMMON_H

#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/resource.h>
#include <time.h>

// A mark is T, 19 digits, N, 10 digits. The upstream writes into it when it was sent (nanoseconds of the monotonic
// clock, which both programs read) and the number that it found in the request; so the load generator knows how long a
// piece was under way, and that it answers this request and no other.
enum { TIME_DIGITS = 19, NUMBER_DIGITS = 10, MARK_LENGTH = 2 + TIME_DIGITS + NUMBER_DIGITS };

static inline uint64_t now_ns(void) {
  struct timespec time;
  clock_gettime(CLOCK_MONOTONIC, &time);
  return (uint64_t)time.tv_sec * 1000000000ull + (uint64_t)time.tv_nsec;
}

static inline void write_digits(char *out, uint64_t value, int digits) {
  for (int place = digits - 1; place >= 0; place--, value /= 10) out[place] = (char)('0' + value % 10);
}

// Reads exactly so many digits; -1 if there is anything else among them.
static inline int read_digits(const char *in, int digits, uint64_t *value) {
  uint64_t read = 0;
  for (int place = 0; place < digits; place++) {
    if (in[place] < '0' || in[place] > '9') return -1;
    read = read * 10 + (uint64_t)(in[place] - '0');
  }
  *value = read;
  return 0;
}

_Noreturn static inline void fail(const char *why) {
  fprintf(stderr, "%s\n", why);
  exit(1);
}

static inline void *allocate(void *old, size_t size) {
  void *memory = realloc(old, size);
  if (!memory) fail("out of memory");
  return memory;
}

static inline char *read_whole_file(const char *path, size_t *length) {
  FILE *file = fopen(path, "rb");
  if (!file || fseek(file, 0, SEEK_END)) {
    perror(path);
    exit(1);
  }
  *length = (size_t)ftell(file);
  rewind(file);
  char *content = allocate(NULL, *length + 1);
  if (fread(content, 1, *length, file) != *length) {
    perror(path);
    exit(1);
  }
  content[*length] = 0;
  fclose(file);
  return content;
}

static inline void allow_many_files(void) {
  struct rlimit limit;
  getrlimit(RLIMIT_NOFILE, &limit);
  limit.rlim_cur = limit.rlim_max;
  setrlimit(RLIMIT_NOFILE, &limit);
}

#endif
