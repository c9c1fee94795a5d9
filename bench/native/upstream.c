// upstream PORT FOLDER: a model server that answers at once, or at the pace that the model's name asks for.
//
// It speaks OpenAI's Chat Completions and Responses, Anthropic's Messages and Gemini, with the answers in FOLDER
// (answers.h). A stream goes out in one piece, or, for a model whose name ends in -d10, a chunk every ten milliseconds; it is short if
// the name has -brief in it. The number in the request (N and ten digits) goes into every mark of the answer. Port 0
// takes a free one; the port is printed. One thread, epoll.
#define _GNU_SOURCE
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

#include "answers.h"

typedef struct {
  char *bytes;
  size_t length, capacity;
} Buffer;

typedef struct Connection {
  int fd;
  Buffer in, out;
  size_t sent;           // of `out`
  int waits_for_writing; // epoll tells when there is room
  int closed;            // freed once it is in no queue
  // The stream under way, if any.
  const Answer *stream;
  int next_chunk;
  uint64_t *times, number, delay, due;
  int queued;
  struct Connection *next_queued;
} Connection;

// Streams of one pace are due in the order in which they were queued, so that the first is always the next.
typedef struct {
  uint64_t delay;
  Connection *first, *last;
} Queue;

enum { PACES = 16, EVENTS = 512, KEPT_BUFFER = 16384 };
static Queue queues[PACES];
static int queue_count, epoll;

static void reserve(Buffer *buffer, size_t more) {
  if (buffer->length + more <= buffer->capacity) return;
  buffer->capacity = (buffer->length + more) * 2;
  buffer->bytes = allocate(buffer->bytes, buffer->capacity);
}

// Thousands of connections that wait should cost little.
static void release_if_large(Buffer *buffer) {
  buffer->length = 0;
  if (buffer->capacity <= KEPT_BUFFER) return;
  free(buffer->bytes);
  *buffer = (Buffer){0};
}

static char *extend(Buffer *buffer, const char *bytes, size_t length) {
  reserve(buffer, length);
  char *place = buffer->bytes + buffer->length;
  memcpy(place, bytes, length);
  buffer->length += length;
  return place;
}

static void free_connection(Connection *connection) {
  if (!connection->closed) close(connection->fd);
  connection->closed = 1;
  if (connection->queued) return;
  free(connection->in.bytes);
  free(connection->out.bytes);
  free(connection->times);
  free(connection);
}

static void watch(Connection *connection, int for_writing) {
  if (connection->waits_for_writing == for_writing) return;
  struct epoll_event event = {.events = EPOLLIN | (for_writing ? EPOLLOUT : 0), .data.ptr = connection};
  epoll_ctl(epoll, EPOLL_CTL_MOD, connection->fd, &event);
  connection->waits_for_writing = for_writing;
}

// -1 if the client is gone, here and below.
static int flush(Connection *connection) {
  Buffer *out = &connection->out;
  while (connection->sent < out->length) {
    ssize_t count = send(connection->fd, out->bytes + connection->sent, out->length - connection->sent, MSG_NOSIGNAL);
    if (count < 0) {
      if (errno != EAGAIN) return -1;
      watch(connection, 1);
      return 0;
    }
    connection->sent += (size_t)count;
  }
  connection->sent = 0;
  release_if_large(out);
  watch(connection, 0);
  return 0;
}

static void enqueue(Connection *connection) {
  Queue *queue = queues;
  while (queue < queues + queue_count && queue->delay != connection->delay) queue++;
  if (queue == queues + queue_count) {
    if (queue_count == PACES) fail("too many paces");
    queue_count++;
    queue->delay = connection->delay;
  }
  connection->next_queued = NULL;
  connection->queued = 1;
  if (queue->last) queue->last->next_queued = connection;
  else queue->first = connection;
  queue->last = connection;
}

static void put_next_chunk(Connection *connection) {
  const Answer *answer = connection->stream;
  const Chunk *chunk = &answer->chunks[connection->next_chunk++];
  char *out = extend(&connection->out, answer->bytes + chunk->start, chunk->end - chunk->start);
  fill_marks(answer, chunk->first_mark, chunk->end_mark, chunk->start, out, connection->times, connection->number);
}

static int answer_at_once(Connection *connection, const Answer *answer, uint64_t number) {
  uint64_t times[4096] = {0};
  if (answer->distinct > 4096) fail("too many marks");
  char *out = extend(&connection->out, answer->bytes, answer->length);
  fill_marks(answer, 0, answer->mark_count, 0, out, times, number);
  return flush(connection);
}

static int begin_stream(Connection *connection, const Answer *answer, uint64_t number, uint64_t delay) {
  connection->times = allocate(connection->times, sizeof(uint64_t) * (size_t)(answer->distinct + 1));
  memset(connection->times, 0, sizeof(uint64_t) * (size_t)(answer->distinct + 1));
  connection->stream = answer;
  connection->number = number;
  connection->delay = delay;
  connection->next_chunk = 0;
  connection->due = now_ns() + delay;
  put_next_chunk(connection);
  enqueue(connection);
  return flush(connection);
}

// The value of a member of the document itself, not of an object within; NULL if there is none. `key` has its quotes.
static const char *value_of(const char *body, size_t length, const char *key) {
  int depth = 0;
  for (const char *at = body, *end = body + length; at < end; at++) {
    if (*at == '{' || *at == '[') depth++;
    if (*at == '}' || *at == ']') depth--;
    if (*at != '"') continue;
    const char *start = at++;
    for (; at < end && *at != '"'; at++) at += *at == '\\';
    if (depth != 1 || (size_t)(at + 1 - start) != strlen(key) || memcmp(start, key, strlen(key))) continue;
    const char *value = at + 1 + strspn(at + 1, " ");
    if (*value == ':') return value + 1 + strspn(value + 1, " ");
  }
  return NULL;
}

// The rest of the model's name from this text on; NULL if the name does not have it. Gemini has the model in the path.
static const char *in_model(const char *path, const char *body, size_t length, const char *text) {
  const char *model = value_of(body, length, "\"model\"");
  if (!model && (model = strstr(path, "/models/"))) model += strlen("/models");
  if (!model) return NULL;
  return memmem(model, 1 + strcspn(model + 1, "\": \r"), text, strlen(text));
}

static uint64_t number_of_request(const char *body, size_t length) {
  const char *at = body, *end = body + length;
  uint64_t number;
  while ((at = memmem(at, (size_t)(end - at), "N0", 2)) && at + 1 + NUMBER_DIGITS <= end) {
    if (!read_digits(at + 1, NUMBER_DIGITS, &number)) return number;
    at++;
  }
  return 0;
}

static int answer_request(Connection *connection, const char *head, size_t head_length, const char *body,
                          size_t length) {
  static const char models[] = "HTTP/1.1 200 OK\r\nContent-Type: application/json\r\nContent-Length: 75\r\n\r\n"
                               "{\"object\":\"list\",\"data\":"
                               "[{\"id\":\"gpt-4o-mini\",\"object\":\"model\",\"created\":1}]}";
  static const char unknown[] = "HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n";
  const char *line_end = memchr(head, '\r', head_length);
  const Dialect *dialect = dialect_of_path(head, (size_t)(line_end - head));
  if (!dialect || memcmp(head, "POST", 4)) {
    int listing = !memcmp(head, "GET", 3);
    extend(&connection->out, listing ? models : unknown, listing ? sizeof models - 1 : sizeof unknown - 1);
    return flush(connection);
  }
  const char *streamed = value_of(body, length, "\"stream\"");
  uint64_t number = number_of_request(body, length);
  if (!dialect->streams && (!streamed || *streamed != 't')) return answer_at_once(connection, &dialect->plain, number);
  const Answer *stream = in_model(head, body, length, "-brief") ? &dialect->brief : &dialect->stream;
  const char *pace = in_model(head, body, length, "-d");
  if (!pace) return answer_at_once(connection, stream, number);
  return begin_stream(connection, stream, number, strtoull(pace + 2, NULL, 10) * 1000000ull);
}

// Joins a chunked body in place. The length of the whole request, or 0 while it is not all there.
static size_t join_chunks(Buffer *in, size_t head_length, size_t *body_length) {
  size_t at = head_length, whole = 0;
  for (size_t next = head_length; !whole;) {
    const char *line_end = memmem(in->bytes + next, in->length - next, "\r\n", 2);
    if (!line_end) return 0;
    size_t size = strtoul(in->bytes + next, NULL, 16);
    next = (size_t)(line_end + 2 - in->bytes) + size + 2;
    if (next > in->length) return 0;
    if (!size) whole = next;
  }
  for (size_t next = head_length;;) {
    const char *line_end = memmem(in->bytes + next, in->length - next, "\r\n", 2);
    size_t size = strtoul(in->bytes + next, NULL, 16);
    if (!size) break;
    memmove(in->bytes + at, line_end + 2, size);
    at += size;
    next = (size_t)(line_end + 2 - in->bytes) + size + 2;
  }
  *body_length = at - head_length;
  return whole;
}

// Answers whatever is there as a whole, one request after the other.
static int answer_requests(Connection *connection) {
  Buffer *in = &connection->in;
  while (!connection->stream && in->length) {
    reserve(in, 1);
    in->bytes[in->length] = 0;
    char *head_end = memmem(in->bytes, in->length, "\r\n\r\n", 4);
    if (!head_end) return 0;
    size_t head_length = (size_t)(head_end + 4 - in->bytes), whole = head_length, body_length = 0;
    *head_end = 0; // the headers are searched as a string
    const char *length_line = strcasestr(in->bytes, "\ncontent-length:");
    int chunked = !length_line && strcasestr(in->bytes, "\ntransfer-encoding:");
    *head_end = '\r';
    if (length_line) {
      body_length = strtoul(length_line + 16, NULL, 10);
      whole = head_length + body_length;
    } else if (chunked) {
      whole = join_chunks(in, head_length, &body_length);
    }
    if (!whole || whole > in->length) return 0;
    int gone = answer_request(connection, in->bytes, head_length, in->bytes + head_length, body_length);
    in->length -= whole;
    memmove(in->bytes, in->bytes + whole, in->length);
    if (!in->length) release_if_large(in);
    if (gone) return -1;
  }
  return 0;
}

static int receive(Connection *connection) {
  Buffer *in = &connection->in;
  for (;;) {
    reserve(in, 8192);
    size_t room = in->capacity - in->length;
    ssize_t count = recv(connection->fd, in->bytes + in->length, room, 0);
    if (count == 0 || (count < 0 && errno != EAGAIN)) return -1;
    if (count > 0) in->length += (size_t)count;
    if (count < (ssize_t)room) break;
  }
  return answer_requests(connection);
}

// The next chunk of a stream that is due; at its end, the request that may have come meanwhile.
static void go_on(Connection *connection, uint64_t now) {
  put_next_chunk(connection);
  int over = connection->next_chunk == connection->stream->chunk_count;
  if (over) connection->stream = NULL;
  int gone = flush(connection);
  if (over && !gone) gone = answer_requests(connection);
  if (gone) {
    free_connection(connection);
  } else if (!over) {
    connection->due += connection->delay;
    if (connection->due < now) connection->due = now;
    enqueue(connection);
  }
}

static void send_what_is_due(void) {
  uint64_t now = now_ns();
  for (Queue *queue = queues; queue < queues + queue_count; queue++) {
    while (queue->first && queue->first->due <= now) {
      Connection *connection = queue->first;
      queue->first = connection->next_queued;
      if (!queue->first) queue->last = NULL;
      connection->queued = 0;
      if (connection->closed) free_connection(connection);
      else go_on(connection, now);
    }
  }
}

static int milliseconds_until_due(void) {
  int soonest = -1;
  uint64_t now = now_ns();
  for (Queue *queue = queues; queue < queues + queue_count; queue++) {
    if (!queue->first) continue;
    int wait = queue->first->due <= now ? 0 : (int)((queue->first->due - now + 999999) / 1000000);
    if (soonest < 0 || wait < soonest) soonest = wait;
  }
  return soonest;
}

static void accept_all(int listener) {
  int fd, on = 1;
  while ((fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK)) >= 0) {
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    Connection *connection = allocate(NULL, sizeof *connection);
    *connection = (Connection){.fd = fd};
    struct epoll_event event = {.events = EPOLLIN, .data.ptr = connection};
    epoll_ctl(epoll, EPOLL_CTL_ADD, fd, &event);
  }
}

static int listen_on(int port) {
  int listener = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0), on = 1;
  setsockopt(listener, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  socklen_t size = sizeof address;
  if (bind(listener, (struct sockaddr *)&address, size) || listen(listener, 4096)) {
    perror("listen");
    exit(1);
  }
  getsockname(listener, (struct sockaddr *)&address, &size);
  printf("%d\n", ntohs(address.sin_port));
  fflush(stdout);
  return listener;
}

int main(int count, char **arguments) {
  if (count != 3) {
    fprintf(stderr, "usage: upstream PORT FOLDER\n");
    return 2;
  }
  signal(SIGPIPE, SIG_IGN);
  allow_many_files();
  read_answers(arguments[2]);
  epoll = epoll_create1(0);
  int listener = listen_on(atoi(arguments[1]));
  struct epoll_event event = {.events = EPOLLIN, .data.ptr = NULL}, events[EVENTS];
  epoll_ctl(epoll, EPOLL_CTL_ADD, listener, &event);
  for (;;) {
    int ready = epoll_wait(epoll, events, EVENTS, milliseconds_until_due());
    for (int index = 0; index < ready; index++) {
      Connection *connection = events[index].data.ptr;
      if (!connection) {
        accept_all(listener);
        continue;
      }
      int gone = events[index].events & EPOLLOUT ? flush(connection) : 0;
      if (!gone && events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) gone = receive(connection);
      if (gone) free_connection(connection);
    }
    send_what_is_due();
  }
}
