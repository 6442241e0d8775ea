/* Event building over MPI: ranks 0 ... N-1 send fragments, ranks N ... N+M-1 receive them.
 *
 * usage: mpirun -np N+M mpi MODE READOUTS BUILDERS BYTES SECONDS      (MODE: isend or alltoallv)
 *
 * Event e goes to receiver e mod M. Senders write each payload byte once, receivers read each once and count an event when
 * all N fragments of it are there.
 *   isend      every sender keeps WINDOW messages under way, every receiver as many posted for each sender
 *   alltoallv  all ranks exchange a batch of events at a time
 * Prints one line of JSON. */
#include <mpi.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { WINDOW = 64, BATCH_BYTES = 64 << 10, ROUNDS_A_LOOK = 16, FRAGMENT = 1 };
static const double WARM_UP = 0.5;

static int rank, readouts, builders, bytes;
static double span;
static volatile uint64_t sink;

static void *memory(size_t length) {
    void *made = calloc(1, length ? length : 1);
    if (made == NULL) MPI_Abort(MPI_COMM_WORLD, 1);
    return made;
}

static uint64_t sum(const char *from, size_t length) {
    uint64_t total = 0, word;
    size_t at = 0;
    for (; at + sizeof word <= length; at += sizeof word) {
        memcpy(&word, from + at, sizeof word);
        total += word;
    }
    for (; at < length; at++) total += (unsigned char)from[at];
    return total;
}

static int over(double start) { return MPI_Wtime() - start > WARM_UP + span; }

/* Counts an event that is whole, if it is in the measured time. */
static void tell(uint64_t *count, double start) {
    double time = MPI_Wtime() - start;
    *count += time >= WARM_UP && time <= WARM_UP + span;
}

static void isend(double start) {
    MPI_Request requests[WINDOW];
    char *buffers = memory((size_t)WINDOW * bytes);
    for (int slot = 0; slot < WINDOW; slot++) requests[slot] = MPI_REQUEST_NULL;
    /* Every receiver gets as many fragments as the others from this sender. */
    for (uint64_t event = 0; !over(start) || event % (uint64_t)builders; event++) {
        int slot = (int)(event % WINDOW);
        MPI_Wait(&requests[slot], MPI_STATUS_IGNORE);
        char *buffer = buffers + (size_t)slot * bytes;
        memset(buffer, (int)event, bytes);
        MPI_Isend(buffer, bytes, MPI_BYTE, readouts + (int)(event % (uint64_t)builders), FRAGMENT, MPI_COMM_WORLD,
                  &requests[slot]);
    }
    MPI_Waitall(WINDOW, requests, MPI_STATUSES_IGNORE);
    /* A message that is one byte longer ends the stream. */
    char *end = memory((size_t)bytes + 1);
    for (int to = 0; to < builders; to++)
        MPI_Send(end, bytes + 1, MPI_BYTE, readouts + to, FRAGMENT, MPI_COMM_WORLD);
}

static void irecv(double start, uint64_t *count) {
    size_t room = (size_t)bytes + 1;
    char *buffers = memory(room * WINDOW * readouts);
    MPI_Request *requests = memory(sizeof *requests * WINDOW * readouts);
    for (int at = 0; at < WINDOW * readouts; at++)
        MPI_Irecv(buffers + room * at, (int)room, MPI_BYTE, at / WINDOW, FRAGMENT, MPI_COMM_WORLD, &requests[at]);
    int *ended = memory(sizeof *ended * readouts), left = readouts;
    for (uint64_t event = 0; left > 0; event++) {
        int whole = 1;
        for (int from = 0; from < readouts; from++) {
            if (ended[from]) continue;
            int at = from * WINDOW + (int)(event % WINDOW), length;
            MPI_Status status;
            MPI_Wait(&requests[at], &status);
            MPI_Get_count(&status, MPI_BYTE, &length);
            if (length > bytes) {
                ended[from] = 1;
                left--;
                continue;
            }
            sink += sum(buffers + room * at, bytes);
            MPI_Irecv(buffers + room * at, (int)room, MPI_BYTE, from, FRAGMENT, MPI_COMM_WORLD, &requests[at]);
        }
        for (int from = 0; from < readouts; from++) whole &= !ended[from];
        if (whole) tell(count, start);
    }
    for (int at = 0; at < WINDOW * readouts; at++)
        if (requests[at] != MPI_REQUEST_NULL) {
            MPI_Cancel(&requests[at]);
            MPI_Wait(&requests[at], MPI_STATUS_IGNORE);
        }
}

static void alltoallv(double start, uint64_t *count) {
    int ranks = readouts + builders, batch = bytes < BATCH_BYTES ? BATCH_BYTES / (bytes ? bytes : 1) : 1;
    int sends = rank < readouts, part = batch * bytes, stop = 0;
    int *out = memory(sizeof *out * ranks), *in = memory(sizeof *in * ranks);
    int *out_at = memory(sizeof *out * ranks), *in_at = memory(sizeof *in * ranks);
    for (int other = 0; other < ranks; other++) {
        out[other] = sends && other >= readouts ? part : 0;
        in[other] = !sends && other < readouts ? part : 0;
        out_at[other] = out[other] ? (other - readouts) * part : 0;
        in_at[other] = in[other] ? other * part : 0;
    }
    char *to = memory((size_t)part * builders), *from = memory((size_t)part * readouts);
    for (int round = 0; !stop; round++) {
        if (sends) memset(to, round, (size_t)part * builders);
        MPI_Alltoallv(to, out, out_at, MPI_BYTE, from, in, in_at, MPI_BYTE, MPI_COMM_WORLD);
        if (!sends) {
            sink += sum(from, (size_t)part * readouts);
            for (int event = 0; event < batch; event++) tell(count, start);
        }
        if (round % ROUNDS_A_LOOK == 0) {
            stop = over(start);
            MPI_Bcast(&stop, 1, MPI_INT, 0, MPI_COMM_WORLD);
        }
    }
}

int main(int words, char **word) {
    int ranks;
    MPI_Init(&words, &word);
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    if (words == 6) {
        readouts = atoi(word[2]);
        builders = atoi(word[3]);
        bytes = atoi(word[4]);
        span = atof(word[5]);
    }
    if (words != 6 || readouts < 1 || builders < 1 || readouts + builders != ranks) {
        if (rank == 0) fprintf(stderr, "usage: mpirun -np N+M mpi isend|alltoallv N M BYTES SECONDS\n");
        MPI_Finalize();
        return 2;
    }
    uint64_t count = 0;
    MPI_Barrier(MPI_COMM_WORLD);
    double start = MPI_Wtime();
    if (strcmp(word[1], "alltoallv") == 0) alltoallv(start, &count);
    else if (rank < readouts) isend(start);
    else irecv(start, &count);
    double mine = (double)count / span, events = 0;
    MPI_Reduce(&mine, &events, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0)
        printf("{\"fragments_per_second\": %.0f, \"events_per_second\": %.0f}\n", events * readouts, events);
    MPI_Finalize();
    return 0;
}
