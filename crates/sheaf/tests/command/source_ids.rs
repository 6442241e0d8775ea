//! Sources whose ids are not 0, 1, ...

use crate::child::ScratchDirectory;
use crate::output::{directory, number, verify};
use sheaf_store::run::RunReader;

#[test]
fn sparse_ids_of_32_bits_are_built_and_stored() {
    let place = ScratchDirectory::new();
    place.file(
        "run.toml",
        "[run]\noverwrite = true\nevents = 60\n[readout]\ncount = 2\n[source]\nids = \"3, 70000-70002, 4294967295, !70001\"\n\
         optional = \"70000-70002, !70001\"\n",
    );
    for flags in ["", "--processes"] {
        let summary = place.sheaf(&format!("run run.toml --json {flags}")).exits(0).json();
        assert_eq!(number(&summary, "ledger.stored"), 60);
        let run = directory(&place, &summary);
        for stored in RunReader::open(&run).unwrap() {
            let event = stored.unwrap().event;
            let sources: Vec<u32> = event.fragments.iter().map(|fragment| fragment.source.0).collect();
            assert_eq!(sources, [3, 70_000, 70_002, u32::MAX], "event {}", event.id);
        }
        verify(&run, 0);
    }
}
