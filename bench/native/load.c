// A load generator for JSON and for streams of server-sent events. One thread, epoll, connections that are kept.
//
//   load --port P --path /v1/messages --body FILE [--header 'name: value']... --connections N --seconds S
//
// FILE is the request; its text N0000000000 becomes a new number with every request, which every mark of the answer
// must carry (see common.h). An answer is good if its status is 200, it has as many marks as --marks says, in the order
// in which they were sent, and all of the texts given with --expect.
//
// It prints two lines: "window" when the measured time begins, and the figures as JSON at its end.
#define _GNU_SOURCE
#include <errno.h>
#include <getopt.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <signal.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include "common.h"
#include "histogram.h"
#include "reply.h"

enum { EXPECTED = 8, EXPECTED_LENGTH = 48, KEPT = 64, EVENTS = 512, READ_SIZE = 1 << 17 };
static const uint64_t MILLISECOND = 1000000, PAUSE_AFTER_ERROR = 20 * 1000000;

static struct {
  int port, connections, marks;
  double seconds, warm_up, ramp, longest;
  uint64_t least_requests, least_marks;
  double late;
  const char *path, *body, *expected[EXPECTED];
  int expected_count;
  char headers[8192];
} options = {.path = "/", .connections = 1, .marks = 1, .seconds = 2};

typedef struct Connection {
  int fd, busy;
  size_t sent;
  char digits[NUMBER_DIGITS];
  uint64_t number, begun, last_mark_time, last_mark_seen, start_at;
  int marks, body_seen;
  unsigned expected_seen;
  size_t kept; // the end of the last piece, in which a mark or a text may have begun
  char tail[KEPT];
  struct Connection *next_waiting;
  Reply reply;
} Connection;

static struct {
  uint64_t requests, errors, bad, marks, late;
  Histogram whole, first_byte, first_mark, transit, gap;
} figures;

static int epoll, measuring;
static Connection *connections, *first_waiting, *last_waiting;
static char *request, first_error[400];
static size_t request_length, number_offset;
static uint64_t next_number = 1;

static void make_request(void) {
  size_t body_length;
  char *body = read_whole_file(options.body, &body_length);
  request = allocate(NULL, body_length + sizeof options.headers + 1024);
  int head = sprintf(request,
                     "POST %s HTTP/1.1\r\nHost: 127.0.0.1:%d\r\nContent-Type: application/json\r\n%s"
                     "Content-Length: %zu\r\n\r\n",
                     options.path, options.port, options.headers, body_length);
  memcpy(request + head, body, body_length);
  request_length = (size_t)head + body_length;
  char *number = memmem(request, request_length, "N0000000000", 1 + NUMBER_DIGITS);
  if (!number) fail("the request has no number to change");
  number_offset = (size_t)(number + 1 - request);
  free(body);
}

static void open_connection(Connection *connection) {
  int on = 1;
  connection->fd = socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK, 0);
  if (connection->fd < 0) {
    perror("socket");
    exit(1);
  }
  setsockopt(connection->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  struct sockaddr_in address = {
      .sin_family = AF_INET, .sin_port = htons((uint16_t)options.port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
  if (connect(connection->fd, (struct sockaddr *)&address, sizeof address) && errno != EINPROGRESS) {
    perror("connect");
    exit(1);
  }
  struct epoll_event event = {.events = EPOLLIN | EPOLLOUT | EPOLLET, .data.ptr = connection};
  epoll_ctl(epoll, EPOLL_CTL_ADD, connection->fd, &event);
}

static void close_connection(Connection *connection) {
  if (connection->fd >= 0) close(connection->fd);
  connection->fd = -1;
}

static void send_request(Connection *connection) {
  while (connection->sent < request_length) {
    // Before the number, the number, behind it: what has been sent of them is skipped.
    struct iovec parts[] = {{request, number_offset},
                            {connection->digits, NUMBER_DIGITS},
                            {request + number_offset + NUMBER_DIGITS, request_length - number_offset - NUMBER_DIGITS}};
    size_t skip = connection->sent;
    for (struct iovec *part = parts; part < parts + 3; part++) {
      size_t gone = skip < part->iov_len ? skip : part->iov_len;
      part->iov_base = (char *)part->iov_base + gone;
      part->iov_len -= gone;
      skip -= gone;
    }
    struct msghdr message = {.msg_iov = parts, .msg_iovlen = 3};
    ssize_t count = sendmsg(connection->fd, &message, MSG_NOSIGNAL);
    if (count < 0) return; // no room yet, or reading will tell
    connection->sent += (size_t)count;
  }
}

static void begin_request(Connection *connection) {
  connection->busy = 1;
  connection->sent = connection->kept = 0;
  connection->marks = connection->body_seen = 0;
  connection->expected_seen = 0;
  connection->last_mark_time = connection->last_mark_seen = 0;
  connection->number = next_number++;
  write_digits(connection->digits, connection->number, NUMBER_DIGITS);
  begin_reply(&connection->reply);
  connection->begun = now_ns();
  if (connection->fd < 0) open_connection(connection);
  send_request(connection);
}

static void begin_later(Connection *connection) {
  connection->start_at = now_ns() + PAUSE_AFTER_ERROR;
  connection->next_waiting = NULL;
  if (last_waiting) last_waiting->next_waiting = connection;
  else first_waiting = connection;
  last_waiting = connection;
}

static void keep_first_error(const Connection *connection, const char *what) {
  if (first_error[0]) return;
  snprintf(first_error, sizeof first_error, "%s, status %d, %d marks of %d, texts seen %#x", what,
           connection->reply.status, connection->marks, options.marks, connection->expected_seen);
}

static int is_good(const Connection *connection) {
  return connection->marks == options.marks && connection->expected_seen == (1u << options.expected_count) - 1;
}

static void end_request(Connection *connection, int arrived) {
  connection->busy = 0;
  int answered = arrived && connection->reply.status == 200;
  if (!answered) keep_first_error(connection, arrived ? "refused" : "connection lost");
  else if (!is_good(connection)) keep_first_error(connection, "bad answer");
  if (measuring) {
    figures.requests += answered;
    figures.errors += !answered;
    figures.bad += answered && !is_good(connection);
    if (answered) add_to_histogram(&figures.whole, now_ns() - connection->begun);
  }
  if (!answered || connection->reply.last) close_connection(connection);
  if (answered) begin_request(connection);
  else begin_later(connection);
}

static void see_mark(Connection *connection, uint64_t time, uint64_t number, uint64_t now) {
  // A mark that is not newer than the last one repeats what was said (the events that end a text do).
  if (number != connection->number || time <= connection->last_mark_time) return;
  if (measuring) {
    uint64_t transit = now > time ? now - time : 0;
    figures.marks++;
    figures.late += options.late > 0 && (double)transit > options.late * 1e6;
    add_to_histogram(&figures.transit, transit);
    if (connection->last_mark_seen) add_to_histogram(&figures.gap, now - connection->last_mark_seen);
    else add_to_histogram(&figures.first_mark, now - connection->begun);
  }
  connection->marks++;
  connection->last_mark_time = time;
  connection->last_mark_seen = now;
}

static void see_marks(Connection *connection, const char *text, size_t length, uint64_t now) {
  const char *end = text + length;
  while ((text = memchr(text, 'T', (size_t)(end - text))) && end - text >= MARK_LENGTH) {
    uint64_t time, number;
    if (!read_digits(text + 1, TIME_DIGITS, &time) && text[1 + TIME_DIGITS] == 'N' &&
        !read_digits(text + 2 + TIME_DIGITS, NUMBER_DIGITS, &number)) {
      see_mark(connection, time, number, now);
      text += MARK_LENGTH;
    } else {
      text++;
    }
  }
}

static void see_expected(Connection *connection, const char *text, size_t length) {
  for (int index = 0; index < options.expected_count; index++)
    if (!(connection->expected_seen & 1u << index) &&
        memmem(text, length, options.expected[index], strlen(options.expected[index])))
      connection->expected_seen |= 1u << index;
}

// Looks at a piece together with the end of the one before. A whole mark in that end is seen twice, and counts once.
static void see_piece(Connection *connection, const char *piece, size_t length, uint64_t now) {
  static char text[KEPT + READ_SIZE];
  if (!connection->body_seen && measuring) add_to_histogram(&figures.first_byte, now - connection->begun);
  connection->body_seen = 1;
  memcpy(text, connection->tail, connection->kept);
  memcpy(text + connection->kept, piece, length);
  length += connection->kept;
  see_marks(connection, text, length, now);
  see_expected(connection, text, length);
  connection->kept = length < EXPECTED_LENGTH ? length : EXPECTED_LENGTH;
  memcpy(connection->tail, text + length - connection->kept, connection->kept);
}

// Returns whether the connection goes on.
static int take(Connection *connection, const char *bytes, size_t length) {
  uint64_t now = now_ns();
  while (length) {
    const char *piece;
    size_t piece_length, used = read_reply(&connection->reply, bytes, length, &piece, &piece_length);
    if (piece) see_piece(connection, piece, piece_length, now);
    bytes += used;
    length -= used;
    if (connection->reply.where == COMPLETE && !length) {
      end_request(connection, 1);
      return connection->fd >= 0;
    }
    if (connection->reply.where == COMPLETE || connection->reply.where == BROKEN) {
      end_request(connection, 0);
      return 0;
    }
  }
  return 1;
}

static void receive(Connection *connection) {
  static char bytes[READ_SIZE];
  for (;;) {
    ssize_t count = recv(connection->fd, bytes, sizeof bytes, 0);
    if (count < 0 && errno == EAGAIN) return;
    if (count <= 0) {
      close_connection(connection);
      // A server may close a connection that is kept; the next request opens another.
      int arrived = connection->reply.where == IN_BODY && connection->reply.until_close;
      if (connection->busy) end_request(connection, arrived);
      return;
    }
    if (!take(connection, bytes, (size_t)count) || (size_t)count < sizeof bytes) return;
  }
}

static int begin_waiting(uint64_t now, int started, uint64_t start, int *wait) {
  uint64_t step = (uint64_t)(options.ramp * 1e9) / (uint64_t)options.connections, next = 0;
  while (started < options.connections && start + step * (uint64_t)started <= now)
    begin_request(&connections[started++]);
  while (first_waiting && first_waiting->start_at <= now) {
    Connection *connection = first_waiting;
    first_waiting = connection->next_waiting;
    if (!first_waiting) last_waiting = NULL;
    begin_request(connection);
  }
  if (started < options.connections) next = start + step * (uint64_t)started;
  if (first_waiting && (!next || first_waiting->start_at < next)) next = first_waiting->start_at;
  if (next && (int)((next - now) / MILLISECOND) + 1 < *wait) *wait = (int)((next - now) / MILLISECOND) + 1;
  return started;
}

static int enough(double elapsed) {
  if (elapsed < options.seconds) return 0;
  if (elapsed >= options.longest) return 1;
  return figures.requests >= options.least_requests && figures.marks >= options.least_marks;
}

// Runs until there is enough, and returns how many seconds were measured.
static double run(void) {
  uint64_t start = now_ns(), window = start + (uint64_t)(options.warm_up * 1e9);
  struct epoll_event events[EVENTS];
  for (int started = 0;;) {
    uint64_t now = now_ns();
    if (!measuring && now >= window) {
      measuring = 1;
      window = now;
      printf("window\n");
      fflush(stdout);
    }
    if (measuring && enough((double)(now - window) / 1e9)) return (double)(now - window) / 1e9;
    int wait = 10;
    started = begin_waiting(now, started, start, &wait);
    int ready = epoll_wait(epoll, events, EVENTS, wait);
    for (int index = 0; index < ready; index++) {
      Connection *connection = events[index].data.ptr;
      if (connection->fd < 0) continue;
      if (events[index].events & EPOLLOUT && connection->busy) send_request(connection);
      if (events[index].events & (EPOLLIN | EPOLLHUP | EPOLLERR)) receive(connection);
    }
  }
}

static void print_times(const char *name, const Histogram *histogram) {
  printf(",\"%s_p50\":%.4f,\"%s_p99\":%.4f", name, (double)quantile(histogram, 0.5) / 1e6, name,
         (double)quantile(histogram, 0.99) / 1e6);
}

static void print_figures(double seconds, int open) {
  printf("{\"seconds\":%.4f,\"requests\":%llu,\"errors\":%llu,\"bad\":%llu,\"marks\":%llu,\"late\":%llu,\"open\":%d",
         seconds, (unsigned long long)figures.requests, (unsigned long long)figures.errors,
         (unsigned long long)figures.bad, (unsigned long long)figures.marks, (unsigned long long)figures.late, open);
  print_times("whole", &figures.whole);
  print_times("first_byte", &figures.first_byte);
  print_times("first_mark", &figures.first_mark);
  print_times("transit", &figures.transit);
  print_times("gap", &figures.gap);
  printf(",\"first_error\":\"%s\"}\n", first_error);
  fflush(stdout);
}

static void add_header(const char *line) {
  size_t used = strlen(options.headers);
  snprintf(options.headers + used, sizeof options.headers - used, "%s\r\n", line);
}

static void add_expected(const char *text) {
  if (options.expected_count == EXPECTED || strlen(text) > EXPECTED_LENGTH) fail("too much is expected");
  options.expected[options.expected_count++] = text;
}

static void read_options(int count, char **arguments) {
  static const struct option names[] = {
      {"port", 1, 0, 'p'},        {"path", 1, 0, 'u'},    {"body", 1, 0, 'b'},
      {"header", 1, 0, 'H'},      {"expect", 1, 0, 'e'},  {"marks", 1, 0, 'm'},
      {"connections", 1, 0, 'c'}, {"seconds", 1, 0, 's'}, {"warm-up", 1, 0, 'w'},
      {"ramp", 1, 0, 'r'},        {"longest", 1, 0, 'l'}, {"least-requests", 1, 0, 'R'},
      {"late", 1, 0, 'L'},        {"least-marks", 1, 0, 'M'}, {0}};
  int name;
  while ((name = getopt_long(count, arguments, "", names, NULL)) != -1) {
    switch (name) {
    case 'p': options.port = atoi(optarg); break;
    case 'u': options.path = optarg; break;
    case 'b': options.body = optarg; break;
    case 'H': add_header(optarg); break;
    case 'e': add_expected(optarg); break;
    case 'm': options.marks = atoi(optarg); break;
    case 'c': options.connections = atoi(optarg); break;
    case 's': options.seconds = atof(optarg); break;
    case 'w': options.warm_up = atof(optarg); break;
    case 'r': options.ramp = atof(optarg); break;
    case 'l': options.longest = atof(optarg); break;
    case 'L': options.late = atof(optarg); break;
    case 'R': options.least_requests = strtoull(optarg, NULL, 10); break;
    case 'M': options.least_marks = strtoull(optarg, NULL, 10); break;
    default: exit(2);
    }
  }
  if (!options.body || !options.port || options.connections < 1) fail("--port and --body are needed");
}

int main(int count, char **arguments) {
  read_options(count, arguments);
  signal(SIGPIPE, SIG_IGN);
  allow_many_files();
  make_request();
  epoll = epoll_create1(0);
  connections = calloc((size_t)options.connections, sizeof(Connection));
  if (!connections) fail("out of memory");
  for (int index = 0; index < options.connections; index++) connections[index].fd = -1;
  double seconds = run();
  int open = 0; // answers that are under way
  for (int index = 0; index < options.connections; index++) {
    open += connections[index].busy && connections[index].body_seen;
    close_connection(&connections[index]);
  }
  print_figures(seconds, open);
  return 0;
}
