/*
 * floor: what any RESP front end on this machine must at least spend.
 *
 * A server with one thread and one epoll instance that answers every command with the same bulk string and has no
 * backend: one read, a count of the commands in it, one write. A proxy cannot cost less than this, so its CPU time per
 * command is told as a multiple of the floor's.
 *
 * cc -O2 -o floor floor.c && ./floor PORT [BYTES-OF-THE-REPLY]
 *
 * It understands arrays of bulk strings only and trusts its client: for measuring, on the loopback interface.
 */
#define _GNU_SOURCE
#include <arpa/inet.h>
#include <errno.h>
#include <netinet/tcp.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>
#include <unistd.h>

enum { MAX_FD = 1 << 17, MAX_EVENTS = 256, IN_BYTES = 1 << 16, OUT_BYTES = 1 << 20 };

/* Where one connection stands within its current command. */
struct scanner {
    enum { HEADER, ARRAY_LENGTH, BULK_LENGTH, BULK } state;
    long number;    /* digits read so far of the length */
    long arguments; /* arguments still to come */
    long bulk;      /* bytes of the argument still to come, with its CRLF */
};

static struct scanner scanners[MAX_FD];
static char in[IN_BYTES], out[OUT_BYTES];
static char reply[OUT_BYTES / 2];
static size_t reply_bytes;

/* end_of_line takes the length that has just been read. */
static void end_of_line(struct scanner *s) {
    if (s->state == ARRAY_LENGTH) {
        s->arguments = s->number;
        s->state = HEADER;
    } else {
        s->bulk = s->number + 2;
        s->state = BULK;
    }
}

/* count_commands returns how many commands end within the n bytes at b. */
static int count_commands(struct scanner *s, const char *b, long n) {
    int commands = 0;
    for (long i = 0; i < n;) {
        if (s->state == BULK) {
            long k = s->bulk < n - i ? s->bulk : n - i;
            s->bulk -= k;
            i += k;
            if (s->bulk == 0) {
                s->state = HEADER;
                if (--s->arguments == 0)
                    commands++;
            }
            continue;
        }
        char c = b[i++];
        if (s->state == HEADER) {
            s->number = 0;
            s->state = c == '*' ? ARRAY_LENGTH : BULK_LENGTH;
        } else if (c == '\n') {
            end_of_line(s);
        } else if (c >= '0' && c <= '9') {
            s->number = s->number * 10 + (c - '0');
        }
    }
    return commands;
}

/* answer writes one reply for each of the commands; false: the connection is of no use any more. */
static int answer(int fd, int commands) {
    size_t n = 0;
    for (int i = 0; i < commands; i++) {
        if (n + reply_bytes > sizeof out)
            return 0;
        memcpy(out + n, reply, reply_bytes);
        n += reply_bytes;
    }
    return n == 0 || write(fd, out, n) == (ssize_t)n;
}

static void serve(int fd) {
    ssize_t n = read(fd, in, sizeof in);
    if (n < 0 && (errno == EAGAIN || errno == EINTR))
        return;
    if (n <= 0 || !answer(fd, count_commands(&scanners[fd], in, n)))
        close(fd);
}

static void watch(int ep, int fd) {
    struct epoll_event e = {.events = EPOLLIN, .data.fd = fd};
    if (epoll_ctl(ep, EPOLL_CTL_ADD, fd, &e) != 0)
        close(fd);
}

static void welcome(int ep, int listener) {
    int one = 1, fd = accept4(listener, NULL, NULL, SOCK_NONBLOCK);
    if (fd < 0)
        return;
    if (fd >= MAX_FD) {
        close(fd);
        return;
    }
    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &one, sizeof one);
    memset(&scanners[fd], 0, sizeof scanners[fd]);
    watch(ep, fd);
}

static int listen_on(int port) {
    int one = 1, fd = socket(AF_INET, SOCK_STREAM, 0);
    struct sockaddr_in a = {
        .sin_family = AF_INET, .sin_port = htons(port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
    if (fd < 0 || bind(fd, (void *)&a, sizeof a) != 0 || listen(fd, 4096) != 0) {
        perror("floor: cannot listen");
        exit(1);
    }
    return fd;
}

static void make_reply(long bytes) {
    if (bytes < 0 || bytes > (long)sizeof reply - 64) {
        fprintf(stderr, "floor: a reply of %ld bytes is not possible\n", bytes);
        exit(1);
    }
    size_t header = (size_t)sprintf(reply, "$%ld\r\n", bytes);
    memset(reply + header, 'x', (size_t)bytes);
    memcpy(reply + header + bytes, "\r\n", 2);
    reply_bytes = header + (size_t)bytes + 2;
}

int main(int argc, char **argv) {
    if (argc < 2) {
        fprintf(stderr, "usage: floor PORT [BYTES]\n");
        return 2;
    }
    make_reply(argc > 2 ? atol(argv[2]) : 32);
    int listener = listen_on(atoi(argv[1])), ep = epoll_create1(0);
    struct epoll_event events[MAX_EVENTS];
    watch(ep, listener);
    for (;;) {
        int n = epoll_wait(ep, events, MAX_EVENTS, -1);
        for (int i = 0; i < n; i++) {
            if (events[i].data.fd == listener)
                welcome(ep, listener);
            else
                serve(events[i].data.fd);
        }
    }
}
