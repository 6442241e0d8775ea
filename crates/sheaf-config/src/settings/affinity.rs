//! Where threads run, how urgently, and which memory they take.

use crate::choice::choice;
use crate::codec::{id_list, pick, switch, whole, zero_is_none};
use crate::knob::section;

choice! {
    /// NUMA policy of a thread.
    MemoryPolicy {
        /// the default of the system: usually the NUMA node of the processor that touches the memory first
        System = "system",
        /// of the processor that touches it first, whatever the process was started with
        Local = "local",
        /// only of the NUMA nodes of the thread's processors: rather none than far memory
        Bind = "bind",
        /// of all NUMA nodes in turn: for memory that threads on several nodes read
        Interleave = "interleave",
    }
}

section! {
    /// Placement of threads: processors, real-time priority and NUMA policy for each role. A thread applies its
    /// settings before it begins to work. `sheaf doctor --config FILE` reports what this host allows, and which
    /// processors serve the interrupts of the network.
    Affinity "affinity" {
        /// The processors of the event manager. Empty: all. The `cpu` of a `[[node]]` goes before.
        manager_cpu: Vec<usize> = Vec::new(), "manager_cpu", id_list(1_023);
        /// The processors of the readout units. Empty: all. The `cpu` of a `[[node]]` goes before.
        readout_cpu: Vec<usize> = Vec::new(), "readout_cpu", id_list(1_023);
        /// The processors of the builder units. Empty: all. The `cpu` of a `[[node]]` goes before.
        builder_cpu: Vec<usize> = Vec::new(), "builder_cpu", id_list(1_023);
        /// The processors of the output nodes. Empty: all. The `cpu` of a `[[node]]` goes before.
        output_cpu: Vec<usize> = Vec::new(), "output_cpu", id_list(1_023);
        /// The real-time priority (`SCHED_FIFO`) of the event manager. 0: an ordinary thread. A priority above that of
        /// the kernel's own threads, 50, starves the network if they share a processor.
        manager_priority: Option<u8> = None, "manager_priority", zero_is_none(whole(1, 99));
        /// The real-time priority of the readout units. 0: ordinary threads.
        readout_priority: Option<u8> = None, "readout_priority", zero_is_none(whole(1, 99));
        /// The real-time priority of the builder units. 0: ordinary threads.
        builder_priority: Option<u8> = None, "builder_priority", zero_is_none(whole(1, 99));
        /// The real-time priority of the output nodes. 0: ordinary threads.
        output_priority: Option<u8> = None, "output_priority", zero_is_none(whole(1, 99));
        /// The memory of the event manager's thread.
        manager_memory: MemoryPolicy = MemoryPolicy::System, "manager_memory", pick();
        /// Memory of the readout units' threads: fragments and received messages.
        readout_memory: MemoryPolicy = MemoryPolicy::System, "readout_memory", pick();
        /// Memory of the builder units' threads: events and received messages.
        builder_memory: MemoryPolicy = MemoryPolicy::System, "builder_memory", pick();
        /// Memory of the output nodes' threads: received messages.
        output_memory: MemoryPolicy = MemoryPolicy::System, "output_memory", pick();
        /// Whether a run fails if its threads cannot be placed as this table and the `cpu` of `[[node]]` say.
        /// Otherwise it prints a warning and continues.
        required: bool = false, "required", switch();
    }
}
