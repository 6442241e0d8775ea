//! One switch with a queue at each input, always full: head-of-line blocking.
//!
//! The model is Karol, Hluchyj and Morgan's (IEEE Trans. Commun. 35(12), 1987): fixed-size messages, every queue is
//! always full, every destination is equally likely. Then only the first messages matter, and only by the number of
//! them for each output: a Markov chain over the partitions of the number of inputs. The chain is solved exactly, so
//! that the values of small switches are exact; the limit of large ones is a discrete queue with Poisson arrivals whose
//! mean content is one message.

use std::collections::BTreeMap;

/// Switches up to this size are solved exactly; the number of partitions grows fast (627 for 20).
pub const EXACT_PORTS: u32 = 20;

/// Returns the fraction of the slots in which an output of a `ports` x `ports` switch with one first-in-first-out queue
/// at each input sends a message, if one output takes up to `speed_up` messages in a slot (the others wait in its own
/// queue). `None` for no ports, no speed-up and more than [`EXACT_PORTS`].
///
/// `saturation(2, 1)` is 3/4, `saturation(8, 1)` 0.6184.
#[must_use]
pub fn saturation(ports: u32, speed_up: u32) -> Option<f64> {
    if ports == 0 || ports > EXACT_PORTS || speed_up == 0 {
        return None;
    }
    Some(Chain::new(ports as usize, speed_up as usize).throughput())
}

/// The same without slots and with exponential message sizes: N / (2 N - 1).
///
/// The first messages in the queues are then a closed network of N equal stations (the outputs) and N customers (the
/// inputs) whose states are all equally likely (Gordon and Newell, Oper. Res. 15(2), 1967): a station is busy for
/// customers / (stations + customers - 1) of the time.
#[must_use]
pub fn saturation_exponential(ports: u32) -> f64 {
    let ports = f64::from(ports.max(1));
    ports / (2.0 * ports - 1.0)
}

/// The limit of [`saturation`] for a switch of many ports: 2 - sqrt(2) without speed-up.
///
/// The first messages that want one output are then a queue to which a Poisson number of new ones comes in every slot
/// and of which `speed_up` leave. There is one first message for each output on average; the arrival rate at which the
/// queue's mean content is one is the throughput.
///
/// # Panics
/// If `speed_up` is zero.
#[must_use]
pub fn saturation_limit(speed_up: u32) -> f64 {
    assert!(speed_up > 0, "an output that takes nothing has no throughput");
    if speed_up == 1 {
        return 2.0 - std::f64::consts::SQRT_2;
    }
    let (mut low, mut high) = (0.5_f64, 1.0_f64);
    for _ in 0..45 {
        let middle = 0.5 * (low + high);
        if mean_queue(middle, speed_up as usize) < 1.0 { low = middle } else { high = middle }
    }
    0.5 * (low + high)
}

/// Mean content, before service, of a queue with Poisson arrivals of mean `rate` per slot, of which `served` leave.
fn mean_queue(rate: f64, served: usize) -> f64 {
    // Means near one message: contents beyond this have a probability below 1e-20.
    const CONTENTS: usize = 48;
    let mut poisson = [0.0; CONTENTS];
    poisson[0] = libm::exp(-rate);
    for count in 1..CONTENTS {
        poisson[count] = poisson[count - 1] * rate / count as f64;
    }
    let mut content = [0.0; CONTENTS];
    content[0] = 1.0;
    loop {
        let mut next = [0.0; CONTENTS];
        for (before, probability) in content.iter().enumerate() {
            let left = before.saturating_sub(served);
            for arrivals in 0..CONTENTS {
                next[(left + arrivals).min(CONTENTS - 1)] += probability * poisson[arrivals];
            }
        }
        let moved: f64 = content.iter().zip(&next).map(|(old, new)| (old - new).abs()).sum();
        content = next;
        if moved < 1e-13 {
            return content.iter().enumerate().map(|(count, probability)| count as f64 * probability).sum();
        }
    }
}

/// Number of first messages for each output, in descending order and without outputs that have none.
type Partition = Vec<u8>;

/// The Markov chain of one slot: outputs take messages, and each input that lost its first one draws a new destination.
struct Chain {
    ports: usize,
    /// For each number of first messages 0 ..= ports, the partitions.
    levels: Vec<Level>,
    /// For each partition of `ports`: how many messages are taken, and the partition that is left.
    service: Vec<(usize, usize)>,
}

/// The partitions of one number, and where one more message takes each of them.
struct Level {
    len: usize,
    /// For each partition: (partition of the next level, probability).
    growth: Vec<Vec<(usize, f64)>>,
}

impl Chain {
    fn new(ports: usize, speed_up: usize) -> Self {
        let numbered: Vec<BTreeMap<Partition, usize>> = (0..=ports).map(partitions).collect();
        let mut levels = Vec::with_capacity(ports + 1);
        for (count, level) in numbered.iter().enumerate() {
            let growth = match numbered.get(count + 1) {
                Some(next) => level.keys().map(|partition| growth(partition, ports, next)).collect(),
                None => Vec::new(),
            };
            levels.push(Level { len: level.len(), growth });
        }
        let service =
            numbered[ports].keys().map(|partition| served(partition, speed_up, &numbered)).collect();
        Self { ports, levels, service }
    }

    /// Messages per slot and output in the steady state.
    fn throughput(&self) -> f64 {
        let full = self.levels[self.ports].len;
        let mut state = vec![1.0 / full as f64; full];
        loop {
            let next = self.slot(&state);
            let moved: f64 = state.iter().zip(&next).map(|(old, new)| (old - new).abs()).sum();
            state = next;
            if moved < 1e-13 {
                break;
            }
        }
        let taken: f64 = state
            .iter()
            .zip(&self.service)
            .map(|(probability, &(taken, _))| probability * taken as f64)
            .sum();
        taken / self.ports as f64
    }

    /// The distribution over the partitions of `ports` one slot later.
    fn slot(&self, state: &[f64]) -> Vec<f64> {
        let mut mass: Vec<Vec<f64>> = self.levels.iter().map(|level| vec![0.0; level.len]).collect();
        for (probability, &(taken, left)) in state.iter().zip(&self.service) {
            mass[self.ports - taken][left] += probability;
        }
        for count in 0..self.ports {
            let (now, later) = mass.split_at_mut(count + 1);
            for (probability, ways) in now[count].iter().zip(&self.levels[count].growth) {
                for &(next, share) in ways {
                    later[0][next] += probability * share;
                }
            }
        }
        mass.swap_remove(self.ports)
    }
}

/// Returns the messages of `partition` that the outputs take, and the number of the remaining partition.
fn served(partition: &Partition, speed_up: usize, numbered: &[BTreeMap<Partition, usize>]) -> (usize, usize) {
    let mut left: Partition = partition
        .iter()
        .map(|&count| count.saturating_sub(u8::try_from(speed_up).unwrap_or(u8::MAX)))
        .collect();
    left.sort_unstable_by(|a, b| b.cmp(a));
    left.retain(|&count| count > 0);
    let sum = |parts: &Partition| parts.iter().map(|&count| usize::from(count)).sum::<usize>();
    (sum(partition) - sum(&left), numbered[sum(&left)][&left])
}

/// Returns the partitions, with probabilities, that result from one more message with a random destination.
fn growth(partition: &Partition, ports: usize, next: &BTreeMap<Partition, usize>) -> Vec<(usize, f64)> {
    let mut ways = Vec::new();
    let unwanted = ports - partition.len();
    if unwanted > 0 {
        let mut grown = partition.clone();
        grown.push(1);
        ways.push((next[&grown], unwanted as f64 / ports as f64));
    }
    let mut first = 0;
    while first < partition.len() {
        let same = partition[first..].iter().take_while(|&&count| count == partition[first]).count();
        let mut grown = partition.clone();
        // The first of equals: the order stays descending.
        grown[first] += 1;
        ways.push((next[&grown], same as f64 / ports as f64));
        first += same;
    }
    ways
}

/// All partitions of `total`, numbered.
fn partitions(total: usize) -> BTreeMap<Partition, usize> {
    fn extend(prefix: &mut Partition, left: usize, largest: usize, all: &mut Vec<Partition>) {
        if left == 0 {
            all.push(prefix.clone());
        }
        for part in (1..=left.min(largest)).rev() {
            prefix.push(u8::try_from(part).expect("no switch that is solved exactly has 256 ports"));
            extend(prefix, left - part, part, all);
            prefix.pop();
        }
    }
    let mut all = Vec::new();
    extend(&mut Vec::new(), total, total, &mut all);
    all.sort();
    all.into_iter().enumerate().map(|(number, partition)| (partition, number)).collect()
}

#[cfg(test)]
mod tests;
