// The answers that the upstream gives: read from files, with their marks filled in for each request.
#ifndef BENCH_ANSWERS_H
#define BENCH_ANSWERS_H

#include "common.h"

// A mark in an answer: where it is, and which of the answer's marks it is. One that comes again, as in the events of
// OpenAI's Responses that repeat the whole text, is filled in as it was the first time.
typedef struct {
  size_t offset;
  int which;
} Mark;

typedef struct {
  size_t start, end;        // of its bytes, with the framing of HTTP
  int first_mark, end_mark; // of its marks
} Chunk;

typedef struct {
  char *bytes;
  size_t length;
  Mark *marks;
  int mark_count;
  Chunk *chunks;
  int chunk_count;
  int distinct; // marks, those that come again counted once
} Answer;

typedef struct {
  const char *path_part; // requests whose path has this in it
  const char *name;      // of the files
  int streams;           // every answer, whatever the request says
  Answer plain, stream, brief;
} Dialect;

// Reads NAME.plain, NAME.stream and NAME.brief of every dialect from a folder. In streams the byte 0x1e ends a chunk.
void read_answers(const char *folder);
const Dialect *dialect_of_path(const char *path, size_t length);

// Fills in the marks [first, end) of an answer whose bytes from `origin` on have been copied to `out`. `times` has a
// place for each distinct mark; a zero there is set to the time of the clock.
void fill_marks(const Answer *answer, int first, int end, size_t origin, char *out, uint64_t *times, uint64_t number);

#endif
