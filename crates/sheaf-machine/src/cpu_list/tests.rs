use super::*;
use proptest::prelude::*;

proptest! {
    #[test]
    fn what_is_written_reads_as_the_same(numbers in prop::collection::btree_set(0..MOST, 1..200)) {
        let list: CpuList = numbers.iter().copied().collect();
        prop_assert_eq!(list.to_string().parse::<CpuList>(), Ok(list));
    }

    #[test]
    fn entries_may_overlap_and_come_in_any_order(ranges in prop::collection::vec((0..500_usize, 0..20_usize), 1..20)) {
        let text: Vec<String> =
            ranges.iter().map(|(first, more)| format!("{first}-{}", first + more)).collect();
        let expected: CpuList = ranges.iter().flat_map(|(first, more)| *first..=first + more).collect();
        prop_assert_eq!(text.join(" , ").parse::<CpuList>(), Ok(expected));
    }

    #[test]
    fn no_text_makes_the_reader_panic_or_hold_more_than_a_machine_has(text in "[0-9,:/ -]{0,40}") {
        if let Ok(list) = text.parse::<CpuList>() {
            prop_assert!(list.len() <= MOST);
        }
    }
}

#[test]
fn what_is_no_list_is_refused() {
    for text in
        ["a", "1-", "-1", "3-1", "1,,2", "1,", "+1", "0-65536", "99999999999999999999", "0-7:0/2", "0-7:3/2"]
    {
        assert!(text.parse::<CpuList>().is_err(), "{text}");
    }
    assert_eq!("\n".parse(), Ok(CpuList::default()));
    assert_eq!("0-7:1/4\n".parse(), Ok([0, 4].into_iter().collect::<CpuList>()));
}
