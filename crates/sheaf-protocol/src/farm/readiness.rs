//! Whether the workers that a farm starts have loaded their filter.

use sheaf_wire::message::Readiness;

/// Number of workers that may end in a place before one has loaded its filter, until the filter is known to be one that cannot be
/// loaded. A run then does not begin. The worker of a run in progress is started again without limit.
const ATTEMPTS: u32 = 3;

/// See the [module](self). One place for each worker; once a worker in a place has loaded its filter, those that follow it are not awaited.
#[derive(Clone, Debug)]
pub struct FarmReadiness {
    /// For each place the number of workers that have ended before one loaded its filter. `None` once one has.
    places: Vec<Option<u32>>,
    readiness: Readiness,
}

impl FarmReadiness {
    /// Creates the state of a farm that starts this number of workers.
    #[must_use]
    pub fn new(places: usize) -> Self {
        let mut farm = Self { places: vec![Some(0); places], readiness: Readiness::Ready };
        farm.update();
        farm
    }

    /// Returns whether a worker in each place has loaded its filter.
    #[must_use]
    pub fn readiness(&self) -> Readiness {
        self.readiness
    }

    /// Records that the worker in a place has loaded its filter.
    pub fn note_loaded(&mut self, place: usize) {
        self.places[place] = None;
        self.update();
    }

    /// Records that the worker in a place has ended, or could not be started.
    pub fn note_ended(&mut self, place: usize) {
        if let Some(ended) = &mut self.places[place] {
            *ended = ended.saturating_add(1);
            self.update();
        }
    }

    fn update(&mut self) {
        let most = self.places.iter().flatten().max();
        self.readiness = match most {
            None => Readiness::Ready,
            Some(&ended) if ended >= ATTEMPTS => Readiness::Failed,
            Some(_) => Readiness::Loading,
        };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_farm_is_ready_when_a_worker_in_each_place_has_loaded_its_filter() {
        assert_eq!(FarmReadiness::new(0).readiness(), Readiness::Ready);
        let mut farm = FarmReadiness::new(2);
        assert_eq!(farm.readiness(), Readiness::Loading);
        farm.note_loaded(0);
        farm.note_ended(1);
        assert_eq!(farm.readiness(), Readiness::Loading);
        farm.note_loaded(1);
        assert_eq!(farm.readiness(), Readiness::Ready);
        (0..10).for_each(|_| farm.note_ended(0));
        assert_eq!(farm.readiness(), Readiness::Ready, "the next one is not awaited");
    }

    #[test]
    fn a_filter_fails_when_three_workers_in_one_place_have_ended_before_it_was_loaded() {
        let mut farm = FarmReadiness::new(2);
        for place in [0, 1, 0, 1] {
            farm.note_ended(place);
            assert_eq!(farm.readiness(), Readiness::Loading);
        }
        farm.note_ended(1);
        assert_eq!(farm.readiness(), Readiness::Failed);
        farm.note_loaded(1);
        assert_eq!(farm.readiness(), Readiness::Loading, "the fourth has loaded it");
    }
}
