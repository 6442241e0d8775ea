//! The figures, each with the scenario that simulates it.

/// A figure of theory or of a document.
#[derive(Clone, Copy, Debug)]
pub(super) struct Case {
    pub(super) name: &'static str,
    pub(super) document: &'static str,
    pub(super) expected: f64,
    pub(super) tolerance: f64,
    pub(super) measure: Measure,
    pub(super) note: &'static str,
    /// A scenario file.
    pub(super) text: &'static str,
}

/// Quantity that is compared.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Measure {
    /// Mean efficiency of all runs.
    Efficiency,
    /// Lost over offered messages.
    Loss,
    /// Whether the efficiencies of all runs include the figure.
    Range,
    /// Efficiency of the senders' best, with the one idle gap that fits both demonstrators; for these stages.
    Gap(&'static str),
}

/// Transmission time of a message of 16384 bytes on a link of 160 MB/s, in nanoseconds.
pub(super) const MESSAGE_NS: f64 = 102_400.0;

/// Efficiencies measured with the demonstrators: 4x4, and 16x16 of 4x4.
pub(super) const MEASURED: (f64, f64) = (0.69, 0.51);

const KAROL: &str = "Karol, Hluchyj, Morgan 1987";
const PATEL: &str = "Patel 1981";
const CMS: &str = "CMS 2000";
const LAWRIE: &str = "Lawrie 1975; CMS 2000";
const PROTOTYPE: &str = "independent prototype";

macro_rules! crossbar {
    ($ports:literal, $messages:literal) => {
        concat!(
            "seed = [1, 2]\n[topology]\nkind = \"crossbar\"\nports = ",
            $ports,
            "\n[switching]\nkind = \"input_queued\"\n[run]\nmessages_per_sender = ",
            $messages,
            "\n"
        )
    };
}

/// Wormhole switches and messages much longer than their buffers, all sources always busy.
macro_rules! wormhole {
    ($topology:literal, $rest:literal) => {
        concat!("[topology]\n", $topology, "\n[link]\nrate_gbps = 1.28\n", $rest)
    };
}

macro_rules! slotted {
    ($switching:literal, $radix:literal, $stages:literal, $messages:literal) => {
        concat!(
            "seed = [1, 2]\n[topology]\nkind = \"delta\"\nradix = ",
            $radix,
            "\nstages = ",
            $stages,
            "\n[switching]\nkind = \"",
            $switching,
            "\"\n[run]\nmessages_per_sender = ",
            $messages,
            "\n"
        )
    };
}

/// The idle gaps in which the fit searches: 0, 2, ... 12 % of a message.
const GAPS: &str = wormhole!(
    "kind = \"delta\"\nradix = 4\nstages = [1, 2]",
    "[traffic]\nbytes = 16384\n[endpoint]\noverhead_ns = [0, 2048, 4096, 6144, 8192, 10240, 12288]\n[run]\nmessages_per_sender = 40000\n"
);

const fn case(
    (name, document): (&'static str, &'static str),
    (expected, tolerance): (f64, f64),
    measure: Measure,
    text: &'static str,
) -> Case {
    Case { name, document, expected, tolerance, measure, note: "", text }
}

const fn noted(case: Case, note: &'static str) -> Case {
    Case { note, ..case }
}

use Measure::{Efficiency, Gap, Loss, Range};

/// All figures. Long runs come first, so that processors end together.
pub(super) const CASES: &[Case] = &[
    noted(
        case(("512 ports, 3 layers, event building", CMS), (0.15, 0.0), Range, EVENTS_3),
        "assignment, events in flight, arbiter, spread of sizes and numbering are not told in the document",
    ),
    noted(
        case(("512 ports, 4 layers, event building", CMS), (0.30, 0.0), Range, EVENTS_4),
        "assignment, events in flight, arbiter, routes and spread of sizes are not told in the document",
    ),
    case(
        ("512 ports, 3 layers, builders in turn, one event each", PROTOTYPE),
        (0.18, 0.03),
        Efficiency,
        wormhole!(
            "kind = \"delta\"\nradix = 8\nstages = 3",
            "[traffic]\nkind = \"push\"\n[run]\nmessages_per_sender = 8000\n"
        ),
    ),
    case(
        ("512 ports, 4 layers, builders in turn, cyclic routes", PROTOTYPE),
        (0.325, 0.055),
        Efficiency,
        wormhole!(
            "kind = \"layered\"\nradix = 8\nstages = 3\nspreading = 1",
            "[switching]\nroutes = \"cyclic\"\n[traffic]\nkind = \"push\"\n[run]\nmessages_per_sender = 8000\n"
        ),
    ),
    case(("512-port switch, random", KAROL), (0.586, 0.002), Efficiency, crossbar!(512, 4000)),
    case(("1-port switch, random", KAROL), (1.0, 0.002), Efficiency, crossbar!(1, 10000)),
    case(("2-port switch, random", KAROL), (0.7500, 0.002), Efficiency, crossbar!(2, 200000)),
    case(("3-port switch, random", KAROL), (0.6825, 0.002), Efficiency, crossbar!(3, 200000)),
    case(("4-port switch, random", KAROL), (0.6553, 0.002), Efficiency, crossbar!(4, 200000)),
    case(("5-port switch, random", KAROL), (0.6399, 0.002), Efficiency, crossbar!(5, 200000)),
    case(("6-port switch, random", KAROL), (0.6302, 0.002), Efficiency, crossbar!(6, 200000)),
    case(("7-port switch, random", KAROL), (0.6234, 0.002), Efficiency, crossbar!(7, 200000)),
    case(("8-port switch, random", KAROL), (0.6184, 0.002), Efficiency, crossbar!(8, 200000)),
    case(
        ("4x4, random, expected", CMS),
        (0.655, 0.004),
        Efficiency,
        wormhole!("kind = \"crossbar\"\nports = 4", "[run]\nmessages_per_sender = 100000\n"),
    ),
    case(
        ("16x16 of 4x4, random, expected", CMS),
        (0.485, 0.005),
        Efficiency,
        wormhole!("kind = \"delta\"\nradix = 4\nstages = 2", "[run]\nmessages_per_sender = 50000\n"),
    ),
    case(("4x4, random, measured", CMS), (MEASURED.0, 0.01), Gap("1"), GAPS),
    case(("16x16 of 4x4, random, measured", CMS), (MEASURED.1, 0.01), Gap("2"), GAPS),
    case(
        ("512 ports, 3 layers, random", CMS),
        (0.3485, 0.0065),
        Efficiency,
        wormhole!("kind = \"delta\"\nradix = 8\nstages = 3", "[run]\nmessages_per_sender = 3000\n"),
    ),
    case(
        ("512 ports, 4 layers, random, random routes", PROTOTYPE),
        (0.2835, 0.0035),
        Efficiency,
        wormhole!(
            "kind = \"layered\"\nradix = 8\nstages = 3\nspreading = 1",
            "[switching]\nroutes = \"random\"\n[run]\nmessages_per_sender = 3000\n"
        ),
    ),
    case(
        ("512 ports, 6 layers, random, random routes", PROTOTYPE),
        (0.2095, 0.0045),
        Efficiency,
        wormhole!(
            "kind = \"layered\"\nradix = 8\nstages = 3\nspreading = 3",
            "[switching]\nroutes = \"random\"\n[run]\nmessages_per_sender = 3000\n"
        ),
    ),
    case(("512 ports, 3 layers, barrel shifter", LAWRIE), (1.0, 0.001), Efficiency, BARREL_3),
    case(("512 ports, 4 layers, barrel shifter", CMS), (1.0, 0.001), Efficiency, BARREL_4),
    case(("512 ports, 6 layers, barrel shifter", CMS), (1.0, 0.001), Efficiency, BARREL_6),
    noted(
        case(
            ("512 ports, 3 layers, free-running barrel, sizes +-10 %, 1000 messages each", PROTOTYPE),
            (0.345, 0.015),
            Efficiency,
            wormhole!(
                "kind = \"delta\"\nradix = 8\nstages = 3",
                "[traffic]\nkind = \"barrel\"\nsize = \"normal\"\nbytes = 4096\nrms_bytes = 409.6\n[run]\nmessages_per_sender = 1000\n"
            ),
        ),
        "not yet steady: sources fall further out of step with time, and runs of 3000 and 10,000 messages give 0.319 and \
         0.318, outside of the tolerance",
    ),
    case(
        ("16 ports of 4x4, blocked messages dropped", PATEL),
        (0.528, 0.003),
        Efficiency,
        slotted!("unbuffered", 4, 2, 20000),
    ),
    case(
        ("512 ports of 8x8, blocked messages dropped", PATEL),
        (0.401, 0.003),
        Efficiency,
        slotted!("unbuffered", 8, 3, 2000),
    ),
    case(
        ("16 ports of 4x4, one message a buffer", PROTOTYPE),
        (0.499, 0.003),
        Efficiency,
        slotted!("slotted_buffered", 4, 2, 50000),
    ),
    case(
        ("512 ports of 8x8, one message a buffer", PROTOTYPE),
        (0.377, 0.003),
        Efficiency,
        slotted!("slotted_buffered", 8, 3, 3000),
    ),
    case(("500x500 lossy Ethernet, push at half load: lost", PROTOTYPE), (0.85, 0.15), Loss, LOSSY_PUSH),
    case(("500x500 lossy Ethernet, credit of 20 frames: lost", PROTOTYPE), (0.0, 0.0), Loss, LOSSY_CREDIT),
];

const BARREL_3: &str = wormhole!(
    "kind = \"delta\"\nradix = 8\nstages = 3",
    "[traffic]\nkind = \"barrel\"\nbytes = 4096\n[run]\nmessages_per_sender = 2000\n"
);

const BARREL_4: &str = wormhole!(
    "kind = \"layered\"\nradix = 8\nstages = 3\nspreading = 1",
    "[switching]\nroutes = [\"source_digit\", \"destination_digit\"]\n[traffic]\nkind = \"barrel\"\nbytes = 4096\n[run]\nmessages_per_sender = 2000\n"
);

const BARREL_6: &str = wormhole!(
    "kind = \"layered\"\nradix = 8\nstages = 3\nspreading = 3",
    "[switching]\nroutes = [\"source_digit\", \"destination_digit\"]\n[traffic]\nkind = \"barrel\"\nbytes = 4096\n[run]\nmessages_per_sender = 2000\n"
);

/// Parameters that the document omits, with three layers.
const EVENTS_3: &str = wormhole!(
    "kind = \"delta\"\nradix = 8\nstages = 3",
    "[numbering]\nkind = [\"identity\", \"digit_reversed\"]\n\
     [switching]\narbiter = [\"random\", \"round_robin\", \"first_come\"]\n\
     [traffic]\nkind = \"push\"\nsize = [\"fixed\", \"exponential\"]\nassignment = [\"round_robin\", \"random\"]\n\
     window_events = [256, 512, 1024]\n[run]\nmessages_per_sender = 3000\n"
);

/// The same with four layers, where there is a choice of routes.
const EVENTS_4: &str = wormhole!(
    "kind = \"layered\"\nradix = 8\nstages = 3\nspreading = 1",
    "[switching]\narbiter = [\"random\", \"round_robin\", \"first_come\"]\nroutes = [\"cyclic\", \"destination_digit\", \"random\"]\n\
     [traffic]\nkind = \"push\"\nsize = [\"fixed\", \"exponential\"]\nassignment = [\"round_robin\", \"random\"]\n\
     window_events = [256, 512]\n[run]\nmessages_per_sender = 3000\n"
);

/// 25 leaves of 20 sources, 20 builders and 20 uplinks; 20 spines of 25 ports; 100 frames an output.
macro_rules! lossy {
    ($traffic:literal) => {
        concat!(
            "[topology]\nkind = \"folded_clos\"\nleaves = 25\nports = 40\nspines = 20\n[link]\nrate_gbps = 1\n",
            "[switching]\nkind = \"output_queued\"\nbuffer_bytes = 150000\n",
            "[placement]\nkind = \"grouped\"\ngroup = 40\nreadouts = 20\nbuilders = 20\n",
            "[traffic]\nbytes = 1500\n",
            $traffic
        )
    };
}

/// A builder's link carries 83,333 fragments of 1500 bytes a second; 500 sources and 500 builders at half of that.
const LOSSY_PUSH: &str = lossy!(
    "kind = \"push\"\nevent_rate_hz = 41667\nwindow_events = 100000\n[run]\nmessages_per_sender = 3000\n"
);

const LOSSY_CREDIT: &str = lossy!(
    "kind = \"pull\"\ncredit_bytes = 30000\noutstanding_events = 1\n[run]\nmessages_per_sender = 1000\n"
);
