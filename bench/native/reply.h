// Reads one reply of HTTP/1.1, split anywhere.
#ifndef BENCH_REPLY_H
#define BENCH_REPLY_H

#include <stddef.h>
#include <stdint.h>

enum { HEAD_LIMIT = 16384 };

typedef enum {
  IN_HEAD,
  IN_BODY,
  IN_SIZE,
  IN_SIZE_EXTENSION,
  IN_CHUNK,
  AFTER_CHUNK,
  IN_TRAILER,
  COMPLETE,
  BROKEN,
} Where;

typedef struct {
  Where where;
  int status;
  int until_close;   // the body ends with the connection
  int last;          // the server will close the connection
  int64_t remaining; // of the body or of the chunk
  int trailer_line;  // characters in it
  size_t head_length;
  char head[HEAD_LIMIT + 1];
} Reply;

// Reads up to `length` bytes and returns how many it has used: it stops after each piece of the body, which is then
// *piece (NULL when there is none), and where the reply is complete.
size_t read_reply(Reply *reply, const char *bytes, size_t length, const char **piece, size_t *piece_length);

static inline void begin_reply(Reply *reply) {
  reply->where = IN_HEAD;
  reply->status = reply->until_close = reply->last = reply->trailer_line = 0;
  reply->head_length = 0;
  reply->remaining = 0;
}

#endif
