//! Tags and their names.

use super::*;
use proptest::prelude::*;

#[test]
fn tags_have_the_names_of_the_configuration_and_one_of_their_own() {
    let names = ["muon", "laser"];
    let all: Vec<String> =
        (Tags(0b111) | Tags::QUARANTINED).names(&names).map(|name| name.to_string()).collect();
    assert_eq!(all, ["muon", "laser", "bit2", "quarantined"]);
    assert_eq!(Tags::by_name("laser", &names), Some(Tags(2)));
    assert_eq!(Tags::by_name("quarantined", &names), Some(Tags::QUARANTINED));
    assert_eq!(Tags::by_name("electron", &names), None);
    assert_eq!(Tags::named(62), Some(Tags(1 << 62)));
    assert_eq!(Tags::named(63), None, "the last bit is not the configuration's");
}

proptest! {
    #[test]
    fn a_set_contains_what_it_was_made_of_and_names_each_tag_once(a: u64, b: u64) {
        let both = Tags(a) | Tags(b);
        prop_assert!(both.contains(Tags(a)) && both.contains(Tags(b)));
        prop_assert_eq!(both.contains(Tags(a)) && Tags(a).contains(both), a | b == a);
        prop_assert_eq!(Tags(a).intersects(Tags(b)), a & b != 0);
        prop_assert_eq!(both.names::<&str>(&[]).count() as u32, (a | b).count_ones());
    }
}
