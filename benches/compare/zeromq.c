/* Event building over ZeroMQ, as plain as it can be: N senders push fragments, M receivers pull them.
 *
 * usage: zeromq TRANSPORT READOUTS BUILDERS BYTES SECONDS      (TRANSPORT: tcp or ipc)
 *
 * Every sender and receiver is a process. Event e goes to receiver e mod M; every sender writes each payload byte once,
 * the receiver reads each once and counts an event when all N fragments of it are there. Prints one line of JSON. */
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>
#include <zmq.h>

enum { MOST = 64, RING = 1 << 20, NAME = 256 };
static const double WARM_UP = 0.5;

struct shared {
    char endpoint[MOST][NAME];
    atomic_int bound, stop;
    atomic_ullong fragments[MOST], events[MOST];
};

static double now(void) {
    struct timespec time;
    clock_gettime(CLOCK_MONOTONIC, &time);
    return (double)time.tv_sec + 1e-9 * (double)time.tv_nsec;
}

static void need(int holds, const char *what) {
    if (!holds) {
        fprintf(stderr, "zeromq: %s: %s\n", what, zmq_strerror(zmq_errno()));
        _exit(1);
    }
}

static uint64_t sum(const unsigned char *bytes, size_t length) {
    uint64_t total = 0, word;
    size_t at = 0;
    for (; at + sizeof word <= length; at += sizeof word) {
        memcpy(&word, bytes + at, sizeof word);
        total += word;
    }
    for (; at < length; at++) total += bytes[at];
    return total;
}

static void receive(struct shared *shared, int me, const char *transport, int readouts) {
    void *context = zmq_ctx_new(), *socket = zmq_socket(context, ZMQ_PULL);
    int patience = 200;
    size_t length = NAME;
    need(zmq_setsockopt(socket, ZMQ_RCVTIMEO, &patience, sizeof patience) == 0, "timeout");
    need(zmq_bind(socket, strcmp(transport, "ipc") == 0 ? "ipc://*" : "tcp://127.0.0.1:*") == 0, "bind");
    need(zmq_getsockopt(socket, ZMQ_LAST_ENDPOINT, shared->endpoint[me], &length) == 0, "endpoint");
    atomic_fetch_add(&shared->bound, 1);
    uint16_t *there = calloc(RING, sizeof *there);
    volatile uint64_t sink = 0;
    zmq_msg_t message;
    zmq_msg_init(&message);
    while (!atomic_load(&shared->stop)) {
        if (zmq_msg_recv(&message, socket, 0) < 0) continue;
        uint64_t event;
        unsigned char *bytes = zmq_msg_data(&message);
        memcpy(&event, bytes, sizeof event);
        sink += sum(bytes + sizeof event, zmq_msg_size(&message) - sizeof event);
        atomic_fetch_add_explicit(&shared->fragments[me], 1, memory_order_relaxed);
        if (++there[event % RING] == readouts) {
            there[event % RING] = 0;
            atomic_fetch_add_explicit(&shared->events[me], 1, memory_order_relaxed);
        }
    }
    _exit(0);
}

static void emit(struct shared *shared, int builders, size_t bytes) {
    void *context = zmq_ctx_new(), *sockets[MOST];
    int no_linger = 0, patience = 200;
    while (atomic_load(&shared->bound) < builders) usleep(1000);
    for (int to = 0; to < builders; to++) {
        sockets[to] = zmq_socket(context, ZMQ_PUSH);
        zmq_setsockopt(sockets[to], ZMQ_LINGER, &no_linger, sizeof no_linger);
        zmq_setsockopt(sockets[to], ZMQ_SNDTIMEO, &patience, sizeof patience);
        need(zmq_connect(sockets[to], shared->endpoint[to]) == 0, "connect");
    }
    /* The ring of a receiver counts its own events: 0, 1, 2, ... */
    for (uint64_t event = 0; !atomic_load(&shared->stop); event++) {
        zmq_msg_t message;
        uint64_t number = event / (uint64_t)builders;
        need(zmq_msg_init_size(&message, sizeof number + bytes) == 0, "memory");
        memcpy(zmq_msg_data(&message), &number, sizeof number);
        memset((char *)zmq_msg_data(&message) + sizeof number, (int)event, bytes);
        while (zmq_msg_send(&message, sockets[event % (uint64_t)builders], 0) < 0)
            if (atomic_load(&shared->stop)) _exit(0);
    }
    _exit(0);
}

static unsigned long long total(atomic_ullong *counts, int length) {
    unsigned long long all = 0;
    for (int at = 0; at < length; at++) all += atomic_load(&counts[at]);
    return all;
}

int main(int count, char **words) {
    if (count != 6 || atoi(words[2]) < 1 || atoi(words[3]) < 1 || atoi(words[2]) > MOST || atoi(words[3]) > MOST) {
        fprintf(stderr, "usage: zeromq tcp|ipc READOUTS BUILDERS BYTES SECONDS\n");
        return 2;
    }
    int readouts = atoi(words[2]), builders = atoi(words[3]);
    size_t bytes = strtoull(words[4], NULL, 10);
    struct shared *shared =
        mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (shared == MAP_FAILED) return 1;
    for (int me = 0; me < builders; me++)
        if (fork() == 0) receive(shared, me, words[1], readouts);
    for (int me = 0; me < readouts; me++)
        if (fork() == 0) emit(shared, builders, bytes);
    usleep((useconds_t)(WARM_UP * 1e6));
    double start = now();
    unsigned long long fragments = total(shared->fragments, builders), events = total(shared->events, builders);
    usleep((useconds_t)(atof(words[5]) * 1e6));
    fragments = total(shared->fragments, builders) - fragments;
    events = total(shared->events, builders) - events;
    double seconds = now() - start;
    atomic_store(&shared->stop, 1);
    int status, failed = 0;
    while (wait(&status) > 0) failed |= status != 0;
    printf("{\"fragments_per_second\": %.0f, \"events_per_second\": %.0f}\n", (double)(events * (unsigned)readouts) / seconds,
           (double)events / seconds);
    return failed || events == 0;
}
