//! Rings of records.

/// Heads and extents of all kinds, by the real writer.
pub(super) fn seeds() -> Vec<(String, Vec<u8>)> {
    let shapes: [(&str, &[(usize, u64)]); 5] = [
        ("empty", &[]),
        ("heads", &[(1, 0), (31, 0), (32, 0), (200, 0)]),
        ("payload", &[(20, 1), (20, 3), (7, 12)]),
        ("head-in-extent", &[(0, 1), (0, 4), (5, 1)]),
        ("full", &[(40, 2); 20]),
    ];
    let seed =
        |(name, records): (&str, &[(usize, u64)])| (name.to_owned(), sheaf_shm::fuzz_shm_ring_seed(records));
    shapes.into_iter().map(seed).collect()
}
