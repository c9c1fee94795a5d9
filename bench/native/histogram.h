// A histogram of nanoseconds: 64 buckets for each power of two, so that a quantile is right to 1.6 %.
#ifndef BENCH_HISTOGRAM_H
#define BENCH_HISTOGRAM_H

#include <stdint.h>

enum { STEPS = 64, POWERS = 58 };

typedef struct {
  uint64_t count;
  uint32_t buckets[POWERS * STEPS];
} Histogram;

static inline void add_to_histogram(Histogram *histogram, uint64_t value) {
  int bucket = (int)value;
  if (value >= STEPS) {
    int power = 63 - __builtin_clzll(value);
    bucket = (power - 5) * STEPS + (int)(value >> (power - 6)) % STEPS;
  }
  histogram->count++;
  histogram->buckets[bucket]++;
}

// The value below which this share of the values is.
static inline uint64_t quantile(const Histogram *histogram, double share) {
  uint64_t below = 0, wanted = (uint64_t)(share * (double)histogram->count);
  for (int bucket = 0; bucket < POWERS * STEPS; bucket++) {
    below += histogram->buckets[bucket];
    if (below <= wanted) continue;
    return bucket < STEPS ? (uint64_t)bucket : (uint64_t)(STEPS + bucket % STEPS) << (bucket / STEPS - 1);
  }
  return 0;
}

#endif
