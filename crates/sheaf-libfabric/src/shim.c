/*
 * What Sheaf asks of libfabric, as plain functions.
 *
 * Nearly all of libfabric's interface is `static inline`, through tables of pointers, so that a foreign language cannot
 * call it. Here is the little that a transport of messages over reliable datagrams needs: one domain, one endpoint, one
 * queue of completions for both directions, one registered region. No function blocks, none keeps a pointer that it is
 * given longer than until the completion of the operation, none is safe to call from two threads at once.
 *
 * Results are 0 or a count; an error is libfabric's code, negative.
 *
 * The library is loaded when the first port is opened, because loading it is slow: it brings the libraries of all its
 * providers, and one of them calibrates a clock for 0.2 s. The inline functions call through tables of the library's own
 * objects; the six functions that are symbols are looked up here.
 */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <rdma/fabric.h>
#include <rdma/fi_cm.h>
#include <rdma/fi_domain.h>
#include <rdma/fi_endpoint.h>
#include <rdma/fi_errno.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/uio.h>

/* The interface of this version is asked for; later libraries offer it too. */
#define SHEAF_FI_VERSION FI_VERSION(1, 14)

struct sheaf_port {
    struct fi_info *info;
    struct fid_fabric *fabric;
    struct fid_domain *domain;
    struct fid_av *av;
    struct fid_cq *cq;
    struct fid_ep *ep;
    struct fid_mr *mr;
};

/* What the provider that was found is like. */
struct sheaf_facts {
    uint64_t max_message_bytes;
    uint64_t receives;       /* how many receives may be posted */
    uint64_t sends;          /* how many sends may be under way */
    uint64_t pieces;         /* how many pieces a send may have */
    int32_t registers;       /* whether local memory must be registered (FI_MR_LOCAL) */
    int32_t wait_descriptor; /* becomes readable with the queue of completions; -1 where the provider has none */
};

/* One finished operation. */
struct sheaf_done {
    void *context;
    uint64_t bytes;
    int32_t error; /* 0, or libfabric's code, positive */
    int32_t reserved;
};

/* The interface of the headers. An older library has smaller structs than this file was compiled with. */
#define HEADERS FI_VERSION(FI_MAJOR_VERSION, FI_MINOR_VERSION)

/* The functions of libfabric that are symbols. Written once by `sheaf_port_load`. */
static struct library {
    __typeof__(&fi_version) version;
    __typeof__(&fi_getinfo) getinfo;
    __typeof__(&fi_dupinfo) dupinfo;
    __typeof__(&fi_freeinfo) freeinfo;
    __typeof__(&fi_fabric) fabric;
    __typeof__(&fi_strerror) strerror;
} libfabric;

/* Looks a symbol up. Through a pointer to the pointer: C has no conversion from an object to a function. */
static int look_up(void *library, const char *name, void *function) {
    *(void **)function = dlsym(library, name);
    return *(void **)function != NULL;
}

/* Closes a library that cannot be used, and keeps the reason. */
static int refuse(void *library, char *reason, size_t room, const char *text) {
    snprintf(reason, room, "%s", text ? text : "the dynamic linker gives no reason");
    if (library) dlclose(library);
    return -1;
}

/*
 * Opens the library. One that it brings (libinfinipath) replaces the handlers of SIGINT, SIGTERM and others when it is loaded:
 * the process would end at Ctrl-C without closing its files. What the process does with signals stays as it was.
 */
static void *open_library(const char *name) {
    struct sigaction before[NSIG], after;
    int is_known[NSIG] = {0};
    for (int number = 1; number < NSIG; number++) is_known[number] = sigaction(number, NULL, &before[number]) == 0;
    void *library = dlopen(name, RTLD_NOW | RTLD_LOCAL);
    for (int number = 1; number < NSIG; number++) {
        if (is_known[number] && sigaction(number, NULL, &after) == 0 && after.sa_handler != before[number].sa_handler)
            sigaction(number, &before[number], NULL);
    }
    return library;
}

/*
 * Loads the library, which stays for the life of the process. Called once, before any other function. Returns 0, or -1 with
 * the reason in `reason`, which has room for `room` bytes.
 */
int sheaf_port_load(const char *name, char *reason, size_t room) {
    void *library = open_library(name);
    if (!library) return refuse(NULL, reason, room, dlerror());
    struct library found;
    int is_complete = look_up(library, "fi_version", &found.version) && look_up(library, "fi_getinfo", &found.getinfo) &&
                      look_up(library, "fi_dupinfo", &found.dupinfo) && look_up(library, "fi_freeinfo", &found.freeinfo) &&
                      look_up(library, "fi_fabric", &found.fabric) && look_up(library, "fi_strerror", &found.strerror);
    if (!is_complete) return refuse(library, reason, room, dlerror());
    uint32_t version = found.version();
    if (FI_VERSION_LT(version, HEADERS)) {
        char text[128];
        snprintf(text, sizeof text, "%s is version %u.%u, and this program was built for %u.%u or later", name,
                 FI_MAJOR(version), FI_MINOR(version), FI_MAJOR(HEADERS), FI_MINOR(HEADERS));
        return refuse(library, reason, room, text);
    }
    libfabric = found;
    return 0;
}

const char *sheaf_port_error(int code) { return libfabric.strerror(code < 0 ? -code : code); }

void sheaf_port_close(struct sheaf_port *port) {
    /* The endpoint first: afterwards the provider touches no memory of ours. */
    if (port->ep) fi_close(&port->ep->fid);
    if (port->mr) fi_close(&port->mr->fid);
    if (port->cq) fi_close(&port->cq->fid);
    if (port->av) fi_close(&port->av->fid);
    if (port->domain) fi_close(&port->domain->fid);
    if (port->fabric) fi_close(&port->fabric->fid);
    if (port->info) libfabric.freeinfo(port->info);
    free(port);
}

static int find(const char *provider, const char *source, struct fi_info **found) {
    /* fi_allocinfo(), which is inline and calls this symbol. */
    struct fi_info *hints = libfabric.dupinfo(NULL);
    if (!hints) return -FI_ENOMEM;
    hints->ep_attr->type = FI_EP_RDM;
    hints->caps = FI_MSG;
    /* Every operation has room for what a provider keeps with it. */
    hints->mode = FI_CONTEXT | FI_CONTEXT2;
    hints->domain_attr->mr_mode = FI_MR_LOCAL | FI_MR_VIRT_ADDR | FI_MR_ALLOCATED | FI_MR_PROV_KEY;
    hints->domain_attr->threading = FI_THREAD_DOMAIN;
    hints->domain_attr->resource_mgmt = FI_RM_ENABLED;
    hints->fabric_attr->prov_name = strdup(provider); /* freed with the hints */
    int result = libfabric.getinfo(SHEAF_FI_VERSION, source, NULL, source ? FI_SOURCE : 0, hints, found);
    libfabric.freeinfo(hints);
    return result;
}

static int open_queue(struct sheaf_port *port, size_t operations, int32_t *descriptor) {
    struct fi_cq_attr attr = {.size = operations, .format = FI_CQ_FORMAT_MSG, .wait_obj = FI_WAIT_FD};
    *descriptor = -1;
    int result = fi_cq_open(port->domain, &attr, &port->cq, NULL);
    if (result == 0) {
        int fd = -1;
        if (fi_control(&port->cq->fid, FI_GETWAIT, &fd) == 0) *descriptor = fd;
        return 0;
    }
    attr.wait_obj = FI_WAIT_NONE;
    return fi_cq_open(port->domain, &attr, &port->cq, NULL);
}

static int bring_up(struct sheaf_port *port, struct sheaf_facts *facts) {
    struct fi_info *info = port->info;
    struct fi_av_attr av = {.type = info->domain_attr->av_type};
    int result;
    if ((result = libfabric.fabric(info->fabric_attr, &port->fabric, NULL))) return result;
    if ((result = fi_domain(port->fabric, info, &port->domain, NULL))) return result;
    if ((result = fi_av_open(port->domain, &av, &port->av, NULL))) return result;
    size_t operations = info->rx_attr->size + info->tx_attr->size;
    if ((result = open_queue(port, operations, &facts->wait_descriptor))) return result;
    if ((result = fi_endpoint(port->domain, info, &port->ep, NULL))) return result;
    if ((result = fi_ep_bind(port->ep, &port->av->fid, 0))) return result;
    if ((result = fi_ep_bind(port->ep, &port->cq->fid, FI_TRANSMIT | FI_RECV))) return result;
    return fi_enable(port->ep);
}

/* Opens the first domain of `provider` that sends reliable datagrams, at the address `source` where that is not null. */
int sheaf_port_open(const char *provider, const char *source, struct sheaf_facts *facts, struct sheaf_port **opened) {
    struct sheaf_port *port = calloc(1, sizeof *port);
    if (!port) return -FI_ENOMEM;
    int result = find(provider, source, &port->info);
    if (result == 0) result = bring_up(port, facts);
    if (result) {
        sheaf_port_close(port);
        return result;
    }
    facts->max_message_bytes = port->info->ep_attr->max_msg_size;
    facts->receives = port->info->rx_attr->size;
    facts->sends = port->info->tx_attr->size;
    facts->pieces = port->info->tx_attr->iov_limit;
    facts->registers = (port->info->domain_attr->mr_mode & FI_MR_LOCAL) != 0;
    *opened = port;
    return 0;
}

/* The endpoint's name: what a peer gives to `sheaf_port_insert`. `bytes` is room, then length. */
int sheaf_port_name(struct sheaf_port *port, void *name, size_t *bytes) { return fi_getname(&port->ep->fid, name, bytes); }

int sheaf_port_insert(struct sheaf_port *port, const void *name, uint64_t *address) {
    fi_addr_t inserted = FI_ADDR_UNSPEC;
    int result = fi_av_insert(port->av, name, 1, &inserted, 0, NULL);
    *address = inserted;
    return result == 1 ? 0 : result < 0 ? result : -FI_EINVAL;
}

int sheaf_port_remove(struct sheaf_port *port, uint64_t address) {
    fi_addr_t gone = address;
    return fi_av_remove(port->av, &gone, 1, 0);
}

/* Registers the memory that all messages are received into and sent from; `descriptor` goes with each operation. */
int sheaf_port_register(struct sheaf_port *port, const void *memory, size_t bytes, void **descriptor) {
    int result = fi_mr_reg(port->domain, memory, bytes, FI_SEND | FI_RECV, 0, 1, 0, &port->mr, NULL);
    if (result == 0) *descriptor = fi_mr_desc(port->mr);
    return result;
}

int sheaf_port_receive(struct sheaf_port *port, void *memory, size_t bytes, void *descriptor, void *context) {
    return (int)fi_recv(port->ep, memory, bytes, descriptor, FI_ADDR_UNSPEC, context);
}

int sheaf_port_send(struct sheaf_port *port, const struct iovec *pieces, void **descriptors, size_t count,
                    uint64_t address, void *context) {
    return (int)fi_sendv(port->ep, pieces, descriptors, count, address, context);
}

/* Makes progress, and takes up to `most` finished operations. */
int sheaf_port_done(struct sheaf_port *port, struct sheaf_done *done, size_t most) {
    struct fi_cq_msg_entry entries[64];
    ssize_t count = fi_cq_read(port->cq, entries, most < 64 ? most : 64);
    if (count == -FI_EAVAIL) {
        struct fi_cq_err_entry error = {0};
        ssize_t result = fi_cq_readerr(port->cq, &error, 0);
        if (result != 1) return result == -FI_EAGAIN ? 0 : (int)result;
        done->context = error.op_context;
        done->bytes = error.len;
        done->error = error.err ? error.err : FI_EOTHER;
        return 1;
    }
    if (count == -FI_EAGAIN) return 0;
    for (ssize_t place = 0; place < count; place++) {
        done[place].context = entries[place].op_context;
        done[place].bytes = entries[place].len;
        done[place].error = 0;
    }
    return (int)count;
}

/* 0: the wait descriptor may be slept on. -FI_EAGAIN: there is something to be taken first. */
int sheaf_port_may_sleep(struct sheaf_port *port) {
    struct fid *queue = &port->cq->fid;
    return fi_trywait(port->fabric, &queue, 1);
}
