/* The kernel's own cost: messages that were encoded beforehand are sent, and answers received, and nothing else is
 * done. Usage: netlink_baseline send FILE, or netlink_baseline dump. Prints the seconds that it took. */
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

/* Sends all messages of the file; the last of each batch has an answer. */
static void install(int fd, char *data, size_t length) {
    for (size_t begin = 0; begin < length;) {
        size_t end = begin, last = begin;
        for (int count = 0; end < length && count < AT_A_TIME; count++) {
            last = end;
            end += NLMSG_ALIGN(((struct nlmsghdr *)(data + end))->nlmsg_len);
        }
        ((struct nlmsghdr *)(data + last))->nlmsg_flags |= NLM_F_ACK;
        if (send(fd, data + begin, end - begin, 0) < 0)
            fail("send");
        if (recv(fd, answers, sizeof answers, 0) <= 0)
            fail("recv");
        int error = ((struct nlmsgerr *)NLMSG_DATA((struct nlmsghdr *)answers))->error;
        if (error) {
            fprintf(stderr, "refused: %s\n", strerror(-error));
            exit(1);
        }
        begin = end;
    }
}

/* Receives all IPv4 routes. */
static void dump(int fd) {
    struct {
        struct nlmsghdr header;
        struct rtmsg route;
    } request = {.header = {.nlmsg_len = sizeof request, .nlmsg_type = RTM_GETROUTE,
                            .nlmsg_flags = NLM_F_REQUEST | NLM_F_DUMP, .nlmsg_seq = 1},
                 .route = {.rtm_family = AF_INET}};
    if (send(fd, &request, sizeof request, 0) < 0)
        fail("send");
    for (;;) {
        ssize_t length = recv(fd, answers, sizeof answers, 0);
        if (length <= 0)
            fail("recv");
        unsigned left = length;
        for (struct nlmsghdr *header = (struct nlmsghdr *)answers; NLMSG_OK(header, left);
             header = NLMSG_NEXT(header, left))
            if (header->nlmsg_type == NLMSG_DONE)
                return;
    }
}

int main(int argc, char **argv) {
    size_t length = 0;
    int fd = open_netlink(), sending = argc == 3 && !strcmp(argv[1], "send");
    if (!sending && (argc != 2 || strcmp(argv[1], "dump")))
        return 2;
    char *data = sending ? contents(argv[2], &length) : NULL;
    double begun = now();
    if (sending)
        install(fd, data, length);
    else
        dump(fd);
    printf("%.9f\n", now() - begun);
    return 0;
}
