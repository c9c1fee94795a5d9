#define _GNU_SOURCE
#include "reply.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static void understand_head(Reply *reply) {
  reply->status = reply->head_length > 12 ? atoi(reply->head + 9) : 0;
  if (reply->status == 100) {
    begin_reply(reply);
    return;
  }
  const char *coding = strcasestr(reply->head, "\ntransfer-encoding:");
  const char *line = strcasestr(reply->head, "\ncontent-length:");
  reply->last = strcasestr(reply->head, "\nconnection: close") != NULL;
  reply->where = IN_BODY;
  if (coding && strcasestr(coding, "chunked")) {
    reply->where = IN_SIZE;
    reply->remaining = 0;
  } else if (line) {
    reply->remaining = atoll(line + 16);
    if (!reply->remaining) reply->where = COMPLETE;
  } else {
    reply->until_close = 1;
  }
}

static size_t read_head(Reply *reply, const char *bytes, size_t length) {
  size_t before = reply->head_length, room = HEAD_LIMIT - before, taken = length < room ? length : room;
  memcpy(reply->head + before, bytes, taken);
  size_t known = before + taken, overlap = before < 3 ? before : 3;
  char *end = memmem(reply->head + before - overlap, taken + overlap, "\r\n\r\n", 4);
  if (!end) {
    reply->head_length = known;
    if (known == HEAD_LIMIT) reply->where = BROKEN;
    return taken;
  }
  reply->head_length = (size_t)(end + 4 - reply->head);
  size_t used = reply->head_length - before;
  reply->head[reply->head_length] = 0;
  understand_head(reply);
  return used;
}

static void read_size_digit(Reply *reply, unsigned char character) {
  if (character == '\n') reply->where = reply->remaining ? IN_CHUNK : IN_TRAILER;
  else if (character == ';') reply->where = IN_SIZE_EXTENSION;
  else if (isxdigit(character)) {
    int digit = isdigit(character) ? character - '0' : tolower(character) - 'a' + 10;
    reply->remaining = reply->remaining * 16 + digit;
  } else if (character != '\r' && character != ' ') reply->where = BROKEN;
}

static void read_framing(Reply *reply, char character) {
  switch (reply->where) {
  case IN_SIZE: read_size_digit(reply, (unsigned char)character); break;
  case IN_SIZE_EXTENSION:
    if (character == '\n') reply->where = reply->remaining ? IN_CHUNK : IN_TRAILER;
    break;
  case AFTER_CHUNK:
    if (character == '\n') reply->where = IN_SIZE;
    break;
  case IN_TRAILER:
    if (character == '\n' && !reply->trailer_line) reply->where = COMPLETE;
    reply->trailer_line = character == '\n' ? 0 : reply->trailer_line + (character != '\r');
    break;
  default: reply->where = BROKEN;
  }
}

static size_t read_piece(Reply *reply, const char *bytes, size_t length, const char **piece, size_t *piece_length) {
  size_t taken = length;
  if (!reply->until_close) {
    if ((int64_t)taken > reply->remaining) taken = (size_t)reply->remaining;
    reply->remaining -= (int64_t)taken;
    if (!reply->remaining) reply->where = reply->where == IN_CHUNK ? AFTER_CHUNK : COMPLETE;
  }
  *piece = bytes;
  *piece_length = taken;
  return taken;
}

size_t read_reply(Reply *reply, const char *bytes, size_t length, const char **piece, size_t *piece_length) {
  size_t used = 0;
  *piece = NULL;
  while (used < length && reply->where != COMPLETE && reply->where != BROKEN) {
    if (reply->where == IN_HEAD) used += read_head(reply, bytes + used, length - used);
    else if (reply->where == IN_BODY || reply->where == IN_CHUNK)
      return used + read_piece(reply, bytes + used, length - used, piece, piece_length);
    else read_framing(reply, bytes[used++]);
  }
  return used;
}
