/* The kernel's own cost: messages that were encoded beforehand are sent, and answers received, and nothing else is
 * done. Usage: netlink_baseline send|ask|replay FILE, or netlink_baseline dump 4|6. Prints the seconds that it took, and how
 * many messages were answered. The file of `replay` has requests of any kind, in the parts in which they are sent: the
 * length of each part, four bytes, and its messages. */
#include <linux/netlink.h>
#include <linux/rtnetlink.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <time.h>
#include <unistd.h>

enum { AT_A_TIME = 128, ROOM = 1 << 16, BUFFER = 1 << 22 };

static char answers[ROOM];

static void fail(const char *what) {
    perror(what);
    exit(1);
}

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec + t.tv_nsec / 1e9;
}

static int open_netlink(void) {
    int fd = socket(AF_NETLINK, SOCK_RAW | SOCK_CLOEXEC, NETLINK_ROUTE), size = BUFFER, one = 1;
    struct sockaddr_nl local = {.nl_family = AF_NETLINK};
    if (fd < 0 || bind(fd, (struct sockaddr *)&local, sizeof local))
        fail("socket");
    setsockopt(fd, SOL_SOCKET, SO_RCVBUFFORCE, &size, sizeof size);
    setsockopt(fd, SOL_NETLINK, NETLINK_CAP_ACK, &one, sizeof one);
    setsockopt(fd, SOL_NETLINK, NETLINK_GET_STRICT_CHK, &one, sizeof one);
    return fd;
}

static char *contents(const char *path, size_t *length) {
    FILE *file = fopen(path, "rb");
    if (!file)
        fail(path);
    fseek(file, 0, SEEK_END);
    *length = ftell(file);
    rewind(file);
    char *data = malloc(*length);
    if (!data || fread(data, 1, *length, file) != *length)
        fail(path);
    fclose(file);
    return data;
}

/* Sends all messages of the file; with `ask` each has an answer, else the last of each batch. */
static long exchange(int fd, char *data, size_t length, int ask) {
    long answered = 0;
    for (size_t begin = 0; begin < length;) {
        size_t end = begin, last = begin;
        int count = 0;
        for (; end < length && count < AT_A_TIME; count++) {
            last = end;
            end += NLMSG_ALIGN(((struct nlmsghdr *)(data + end))->nlmsg_len);
        }
        if (!ask)
            ((struct nlmsghdr *)(data + last))->nlmsg_flags |= NLM_F_ACK;
        if (send(fd, data + begin, end - begin, 0) < 0)
            fail("send");
        for (int wanting = ask ? count : 1; wanting; wanting--) {
            if (recv(fd, answers, sizeof answers, 0) <= 0)
                fail("recv");
            struct nlmsghdr *header = (struct nlmsghdr *)answers;
            if (!ask && ((struct nlmsgerr *)NLMSG_DATA(header))->error) {
                fprintf(stderr, "refused: %s\n", strerror(-((struct nlmsgerr *)NLMSG_DATA(header))->error));
                exit(1);
            }
            answered++;
        }
        begin = end;
    }
    return answered;
}

static long dump(int fd, int family) {
    struct {
        struct nlmsghdr header;
        struct rtmsg route;
    } request = {.header = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETROUTE,
                            .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP, .nlmsg_seq = 1},
                 .route = {.rtm_family = family}};
    if (send(fd, &request, sizeof request, 0) < 0)
        fail("send");
    for (long messages = 0;;) {
        ssize_t length = recv(fd, answers, sizeof answers, 0);
        if (length <= 0)
            fail("recv");
        unsigned left = length;
        for (struct nlmsghdr *header = (struct nlmsghdr *)answers; NLMSG_OK(header, left);
             header = NLMSG_NEXT(header, left)) {
            if (header->nlmsg_type == NLMSG_DONE)
                return messages;
            messages++;
        }
    }
}

/* Sends each part of the file, and receives until each of its messages has its answer or the end of its list. */
static long replay(int fd, char *data, size_t length) {
    long answered = 0;
    for (size_t at = 0; at < length;) {
        unsigned size, wanting = 0;
        memcpy(&size, data + at, sizeof size);
        char *part = data + at + sizeof size;
        for (unsigned i = 0; i < size; wanting++)
            i += NLMSG_ALIGN(((struct nlmsghdr *)(part + i))->nlmsg_len);
        if (send(fd, part, size, 0) < 0)
            fail("send");
        while (wanting) {
            ssize_t received = recv(fd, answers, sizeof answers, 0);
            if (received <= 0)
                fail("recv");
            unsigned left = received;
            for (struct nlmsghdr *header = (struct nlmsghdr *)answers; NLMSG_OK(header, left);
                 header = NLMSG_NEXT(header, left)) {
                answered++;
                if (header->nlmsg_type == NLMSG_DONE || header->nlmsg_type == NLMSG_ERROR ||
                    !(header->nlmsg_flags & NLM_F_MULTI))
                    wanting--;
            }
        }
        at += sizeof size + size;
    }
    return answered;
}

int main(int argc, char **argv) {
    size_t length = 0;
    int fd = open_netlink();
    if (argc != 3)
        return 2;
    int dumping = !strcmp(argv[1], "dump"), family = atoi(argv[2]) == 6 ? AF_INET6 : AF_INET;
    char *data = dumping ? NULL : contents(argv[2], &length);
    double begun = now();
    long answered = dumping                      ? dump(fd, family)
                    : !strcmp(argv[1], "replay") ? replay(fd, data, length)
                                                 : exchange(fd, data, length, !strcmp(argv[1], "ask"));
    printf("%.9f %ld\n", now() - begun, answered);
    return 0;
}
