//! Proofs that a peer has the key of the run, and has it now.
//!
//! Each end has a nonce for each of its sessions. A greeting has the sender's nonce, the last known nonce of the
//! receiver, and a proof over the whole greeting. One with the receiver's present nonce was made in this session of the
//! receiver, and its number distinguishes it from a repetition. One without it may be a recording: it changes nothing,
//! and is answered with the nonce for the next question. The receiver keeps no state for that answer.

use sheaf_wire::datagram::{Credentials, Greeting, Kind, Life, Secret, Unproven, View};
use sheaf_wire::{NodeId, RunNumber};

/// Purpose of a proof.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// A greeting is of a node that has the key.
    Greeting,
    /// The secret key of a link.
    Link,
    /// A nonce for a life, out of a seed.
    Nonce,
}

/// Knows the key of the run. The machine itself knows no cryptography.
pub trait Prover: std::fmt::Debug + Send + Sync {
    /// Returns the proof of these parts, each of which is covered with its length.
    fn prove(&self, purpose: Purpose, parts: &[&[u8]]) -> Secret;

    /// Returns whether this is the proof of a greeting with these parts. Takes the same time whatever is wrong.
    fn is_proof(&self, parts: &[&[u8]], proof: &Secret) -> bool;
}

/// One end of the key's link: its own proofs, and those of the peer.
#[derive(Debug)]
pub(super) struct Proving {
    prover: Box<dyn Prover>,
    seed: Secret,
    nonce: Secret,
    /// The peer's nonce, of its last greeting that was fresh.
    peer_nonce: Option<Secret>,
    /// By rail: the number of the last question that was fresh, and the nonce it came with.
    asked: Vec<(Secret, u32)>,
    /// By rail: the number of the last answer.
    answered: Vec<u32>,
}

/// Worth of a greeting.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Worth {
    /// Its sender has the key, and made it now.
    Fresh,
    /// Its sender has the key, or it is a recording of a node that has it.
    Unproven,
    /// It arrived before.
    Repeated,
    /// It proves nothing.
    None,
}

/// One whole link: the ends in the order of their node codes.
pub(super) struct Ends {
    pub(super) run: RunNumber,
    pub(super) ends: [(NodeId, Life, Secret); 2],
}

impl Proving {
    /// Makes it with an unpredictable seed.
    pub(super) fn new(prover: Box<dyn Prover>, seed: Secret, rails: usize, life: u32) -> Self {
        let mut proving = Self {
            prover,
            seed,
            nonce: seed,
            peer_nonce: None,
            asked: vec![(Secret::default(), 0); rails],
            answered: vec![0; rails],
        };
        proving.begin(life);
        proving
    }

    /// Begins a session: nothing from the last one is fresh any more.
    pub(super) fn begin(&mut self, life: u32) {
        self.nonce = self.prover.prove(Purpose::Nonce, &[&self.seed, &life.to_le_bytes()]);
    }

    pub(super) fn nonce(&self) -> Secret {
        self.nonce
    }

    /// Returns the nonces of a question.
    pub(super) fn nonces(&self) -> Unproven {
        Unproven { nonce: self.nonce, echo: self.peer_nonce }
    }

    /// Takes note of the peer's nonce. Returns whether it is another than the one before.
    pub(super) fn note(&mut self, nonce: Secret) -> bool {
        self.peer_nonce.replace(nonce) != Some(nonce)
    }

    /// Returns the worth of a greeting to `me`, whose own last question by this rail had the number `asking`.
    pub(super) fn judge(
        &mut self,
        me: NodeId,
        rail: usize,
        asking: u32,
        view: &View<'_>,
        said: &Credentials<'_>,
    ) -> Worth {
        if !self.prover.is_proof(&with(&me.to_code().to_le_bytes(), said.covered()), said.proof) {
            return Worth::None;
        }
        let is_fresh = said.nonces.echo == Some(self.nonce);
        let head = view.head();
        if head.kind == Kind::Answer {
            let last = &mut self.answered[rail];
            if !is_fresh || head.number <= *last || head.number > asking {
                return Worth::Repeated;
            }
            *last = head.number;
            return Worth::Fresh;
        }
        if !is_fresh {
            return Worth::Unproven;
        }
        let (nonce, last) = &mut self.asked[rail];
        if *nonce == said.nonces.nonce && head.number <= *last {
            return Worth::Repeated;
        }
        (*nonce, *last) = (said.nonces.nonce, head.number);
        Worth::Fresh
    }

    /// Writes a greeting for `to`, with its proof.
    pub(super) fn encode(
        &self,
        greeting: &Greeting,
        to: NodeId,
        number: u32,
        nonces: &Unproven,
        buffer: &mut Vec<u8>,
    ) {
        greeting.encode_proven(buffer, number, nonces, |said| {
            self.prover.prove(Purpose::Greeting, &with(&to.to_code().to_le_bytes(), said))
        });
    }

    /// Returns the key of a link: 8 bytes that cannot be computed without the run's key.
    pub(super) fn link_key(&self, of: &Ends) -> u64 {
        let mut said = of.run.0.to_le_bytes().to_vec();
        for (node, life, nonce) in &of.ends {
            said.extend_from_slice(&node.to_code().to_le_bytes());
            said.extend_from_slice(&life.session.0.to_le_bytes());
            said.extend_from_slice(&life.count.to_le_bytes());
            said.extend_from_slice(nonce);
        }
        let proof = self.prover.prove(Purpose::Link, &[&said]);
        proof.first_chunk().map_or(0, |key| u64::from_le_bytes(*key))
    }
}

/// Returns the parts of a greeting's proof: its receiver, and its content.
fn with<'a>(receiver: &'a [u8], said: &[&'a [u8]]) -> Vec<&'a [u8]> {
    std::iter::once(receiver).chain(said.iter().copied()).collect()
}
