#define _GNU_SOURCE
#include "answers.h"

#include <string.h>

static Dialect dialects[] = {
    {.path_part = "/chat/completions", .name = "openai_chat"},
    {.path_part = "/messages", .name = "anthropic"},
    {.path_part = "/responses", .name = "openai_responses"},
    {.path_part = ":generateContent", .name = "gemini"},
    {.path_part = ":streamGenerateContent", .name = "gemini", .streams = 1},
};
enum { DIALECTS = sizeof dialects / sizeof *dialects, CHUNK_END = 0x1e };

static void append(Answer *answer, const char *bytes, size_t length) {
  answer->bytes = allocate(answer->bytes, answer->length + length);
  memcpy(answer->bytes + answer->length, bytes, length);
  answer->length += length;
}

// In the files the time of a mark is its index, and its number is zero.
static void find_marks(Answer *answer, size_t start) {
  for (size_t at = start; at + MARK_LENGTH <= answer->length; at++) {
    uint64_t which, number;
    const char *mark = answer->bytes + at;
    if (mark[0] != 'T' || mark[1 + TIME_DIGITS] != 'N') continue;
    if (read_digits(mark + 1, TIME_DIGITS, &which)) continue;
    if (read_digits(mark + 2 + TIME_DIGITS, NUMBER_DIGITS, &number)) continue;
    answer->marks = allocate(answer->marks, sizeof(Mark) * (size_t)(answer->mark_count + 1));
    answer->marks[answer->mark_count++] = (Mark){.offset = at, .which = (int)which};
    if ((int)which >= answer->distinct) answer->distinct = (int)which + 1;
    at += MARK_LENGTH - 1;
  }
}

static void append_chunk(Answer *answer, const char *bytes, size_t length) {
  char size_line[32];
  Chunk chunk = {.start = answer->length, .first_mark = answer->mark_count};
  append(answer, size_line, (size_t)snprintf(size_line, sizeof size_line, "%zx\r\n", length));
  size_t content = answer->length;
  append(answer, bytes, length);
  find_marks(answer, content);
  append(answer, "\r\n", 2);
  chunk.end = answer->length;
  chunk.end_mark = answer->mark_count;
  answer->chunks = allocate(answer->chunks, sizeof(Chunk) * (size_t)(answer->chunk_count + 1));
  answer->chunks[answer->chunk_count++] = chunk;
}

static void read_stream(Answer *answer, const char *content, size_t length) {
  static const char head[] = "HTTP/1.1 200 OK\r\nContent-Type: text/event-stream; charset=utf-8\r\n"
                             "Cache-Control: no-cache\r\nTransfer-Encoding: chunked\r\nx-request-id: req_123\r\n\r\n";
  append(answer, head, sizeof head - 1);
  const char *end = content + length, *next;
  for (; (next = memchr(content, CHUNK_END, (size_t)(end - content))); content = next + 1)
    append_chunk(answer, content, (size_t)(next - content));
  // The head goes out with the first chunk, and what ends the body with the last.
  answer->chunks[0].start = 0;
  append(answer, "0\r\n\r\n", 5);
  answer->chunks[answer->chunk_count - 1].end = answer->length;
}

static void read_plain(Answer *answer, const char *content, size_t length) {
  char head[256];
  append(answer, head,
         (size_t)snprintf(head, sizeof head,
                          "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: %zu\r\n"
                          "x-request-id: req_123\r\n\r\n",
                          length));
  append(answer, content, length);
  find_marks(answer, 0);
}

static void read_answer(Answer *answer, void (*read)(Answer *, const char *, size_t), const char *folder,
                        const char *dialect, const char *kind) {
  char path[4096];
  size_t length;
  snprintf(path, sizeof path, "%s/%s.%s", folder, dialect, kind);
  char *content = read_whole_file(path, &length);
  read(answer, content, length);
  free(content);
}

void read_answers(const char *folder) {
  for (Dialect *dialect = dialects; dialect < dialects + DIALECTS; dialect++) {
    read_answer(&dialect->plain, read_plain, folder, dialect->name, "plain");
    read_answer(&dialect->stream, read_stream, folder, dialect->name, "stream");
    read_answer(&dialect->brief, read_stream, folder, dialect->name, "brief");
  }
}

const Dialect *dialect_of_path(const char *path, size_t length) {
  for (int index = 0; index < DIALECTS; index++)
    if (memmem(path, length, dialects[index].path_part, strlen(dialects[index].path_part))) return &dialects[index];
  return NULL;
}

void fill_marks(const Answer *answer, int first, int end, size_t origin, char *out, uint64_t *times, uint64_t number) {
  for (int index = first; index < end; index++) {
    const Mark *mark = &answer->marks[index];
    char *place = out + (mark->offset - origin);
    if (!times[mark->which]) times[mark->which] = now_ns();
    write_digits(place + 1, times[mark->which], TIME_DIGITS);
    write_digits(place + 2 + TIME_DIGITS, number, NUMBER_DIGITS);
  }
}
