//! The key of the run, for links that know no cryptography.

use sheaf_key::RunKey;
use sheaf_recovery::{Prover, Purpose};
use sheaf_wire::datagram::Secret;

/// The key of the run, as links ask it.
#[derive(Debug)]
pub(super) struct KeyProver(pub(super) RunKey);

/// Returns the purpose as the key has it.
const fn purpose(of: Purpose) -> sheaf_key::Purpose {
    match of {
        Purpose::Greeting => sheaf_key::Purpose::DatagramGreeting,
        Purpose::Link => sheaf_key::Purpose::DatagramLink,
        Purpose::Nonce => sheaf_key::Purpose::DatagramNonce,
    }
}

impl Prover for KeyProver {
    fn prove(&self, of: Purpose, parts: &[&[u8]]) -> Secret {
        self.0.prove(purpose(of), parts)
    }

    fn is_proof(&self, parts: &[&[u8]], proof: &Secret) -> bool {
        self.0.is_proof(purpose(Purpose::Greeting), parts, proof)
    }
}
