//! A side without the key proves nothing, whatever it has recorded.

use super::super::proving::{ANSWER_BYTES, CALL_BYTES, CalledWords, CallerWords, ProofBuffer};
use proptest::prelude::*;
use sheaf_key::{Nonce, PROOF_BYTES, RunKey};
use sheaf_transport::Refusal;

fn key() -> RunKey {
    RunKey::new(&[9; 32])
}

/// All messages between two sides that have the key: the call, the answer, the caller's proof.
fn exchange(caller: &[u8], called: &[u8], nonces: [Nonce; 2]) -> (CallerWords, CalledWords, [Vec<u8>; 3]) {
    let calling = CallerWords::new(key(), caller, &nonces[0]);
    let answering = CalledWords::new(key(), calling.bytes(), called, &nonces[1]);
    let (call, answer) = (calling.bytes().to_vec(), answering.bytes());
    let proof = calling.verify(&answer).expect("it has the key").to_vec();
    (calling, answering, [call, answer, proof])
}

#[test]
fn two_that_have_the_key_prove_it_to_each_other() {
    let (_, answering, [call, answer, proof]) = exchange(b"caller", b"called", [[1; 32], [2; 32]]);
    assert_eq!(answering.verify(&proof), Ok(()));
    assert_eq!(call.len(), b"caller".len() + CALL_BYTES);
    assert_eq!(answer.len(), b"called".len() + ANSWER_BYTES);
}

#[test]
fn who_has_another_key_proves_nothing_to_either_side() {
    let stranger = RunKey::new(&[8; 32]);
    let (calling, answering, [call, ..]) = exchange(b"caller", b"called", [[1; 32], [2; 32]]);
    let impostor = CalledWords::new(stranger.clone(), &call, b"called", &[2; 32]);
    assert_eq!(calling.verify(&impostor.bytes()), Err(Refusal::WrongKey));
    let impostor = CallerWords::new(stranger, b"caller", &[1; 32]);
    assert_eq!(impostor.verify(&answering.bytes()), Err(Refusal::WrongKey));
    assert_eq!(answering.verify(&[0; PROOF_BYTES]), Err(Refusal::WrongKey));
    assert_eq!(answering.verify(&[]), Err(Refusal::WrongKey));
    assert_eq!(calling.verify(&[0; PROOF_BYTES - 1]), Err(Refusal::Malformed));
}

#[test]
fn a_proof_may_come_byte_by_byte() {
    let mut buffer = ProofBuffer::default();
    for byte in 0..PROOF_BYTES {
        assert_eq!(buffer.room().len(), PROOF_BYTES - byte);
        buffer.room()[0] = byte as u8;
        let whole = buffer.filled(1).copied();
        assert_eq!(whole.is_some(), byte + 1 == PROOF_BYTES);
    }
}

/// Message of an attacker in the middle without the key: parts of recorded messages, changed or not.
fn forgery(recorded: &[Vec<u8>], pick: &prop::sample::Index, at: &prop::sample::Index, flip: u8) -> Vec<u8> {
    let mut said = recorded[pick.index(recorded.len())].clone();
    let place = at.index(said.len());
    said[place] ^= flip;
    said
}

proptest! {
    /// An eavesdropper has recorded exchanges of the same nodes, in both directions, and the present one so far.
    /// Whatever it sends instead of a proof, recorded or changed, is refused.
    #[test]
    fn nothing_that_was_heard_proves_anything_again(
        names in proptest::array::uniform2(proptest::collection::vec(any::<u8>(), 1..80)),
        nonces in proptest::collection::vec(any::<[Nonce; 2]>(), 1..6),
        present in any::<[Nonce; 2]>(),
        pick in any::<prop::sample::Index>(),
        at in any::<prop::sample::Index>(),
        flip in any::<u8>(),
    ) {
        prop_assume!(nonces.iter().flatten().all(|old| !present.contains(old)) && present[0] != present[1]);
        let [caller, called] = &names;
        let mut recorded = Vec::new();
        for old in &nonces {
            recorded.extend(exchange(caller, called, *old).2);
            recorded.extend(exchange(called, caller, *old).2);
        }
        let (calling, answering, [call, answer, proof]) = exchange(caller, called, present);
        recorded.push(call);
        // The caller receives a forged answer; it only accepts the one that was made for it.
        let said = forgery(&recorded, &pick, &at, flip);
        prop_assert!(calling.verify(&said).is_err());
        // The called side receives a forged proof, possibly made of its own messages.
        recorded.push(answer.clone());
        let said = forgery(&recorded, &pick, &at, flip);
        let tail = &said[said.len().saturating_sub(PROOF_BYTES)..];
        prop_assert!(answering.verify(tail).is_err());
        let mut changed = answer;
        let place = at.index(changed.len());
        changed[place] ^= flip;
        prop_assert_eq!(calling.verify(&changed).is_ok(), flip == 0);
        prop_assert_eq!(answering.verify(&proof), Ok(()));
    }
}
