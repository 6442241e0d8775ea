//! Numbers in place of values.

use rustc_hash::FxHashMap;
use std::hash::Hash;
use std::rc::Rc;

pub(crate) struct Interner<T> {
    values: Vec<Rc<T>>,
    numbers: FxHashMap<Rc<T>, u32>,
}

impl<T: Eq + Hash> Interner<T> {
    pub(crate) fn new() -> Self {
        Self { values: Vec::new(), numbers: FxHashMap::default() }
    }

    /// Returns the number of a value, which is a new one if the value has not occurred before.
    pub(crate) fn number(&mut self, value: T) -> u32 {
        if let Some(number) = self.numbers.get(&value) {
            return *number;
        }
        let number = u32::try_from(self.values.len()).expect("a test has fewer values");
        let value = Rc::new(value);
        self.values.push(Rc::clone(&value));
        self.numbers.insert(value, number);
        number
    }

    pub(crate) fn get(&self, number: u32) -> &T {
        &self.values[number as usize]
    }
}
