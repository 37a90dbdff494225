//! Leases, and the opaque ids that stand for them outside of the process.
//!
//! A lease names its message's row in the store, so settling needs no search. An id is the lease and a signature over
//! it: nobody can make one up, none is stored, and one of long ago is still known for what it was, so a late ack
//! counts.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use hmac::{Hmac, KeyInit, Mac};
use sha2::Sha256;

/// The right to settle one message, until a time.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct Lease {
    pub(super) queue: i64,
    pub(super) until_ms: i64,
    pub(super) seq: i64,
    pub(super) attempt: u32,
    pub(super) bytes: u32,
}

/// A message's place, to be named later: where looking went on, or which message is to be removed. It stays the
/// message's own wherever that stands in its queue.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub struct MessageRef {
    pub(super) queue: i64,
    pub(super) due_at_ms: i64,
    pub(super) seq: i64,
}

/// What lease ids are signed with. It lives as long as the store.
#[derive(Clone)]
pub struct LeaseKey(Hmac<Sha256>);

/// Bytes of a lease, of a reference, and of their signatures. The two differ in length, so neither stands for the
/// other.
const LEASE_BYTES: usize = 32;
const REF_BYTES: usize = 24;
const TAG_BYTES: usize = 16;
/// 32 characters.
const SECRET_BYTES: usize = 24;

impl LeaseKey {
    /// `None` if there are no bytes to make a key of.
    pub(crate) fn new(key: &[u8]) -> Option<Self> {
        if key.len() < TAG_BYTES {
            return None;
        }
        Hmac::new_from_slice(key).ok().map(Self)
    }

    /// The id that stands for a lease: 64 characters of letters, digits, `-` and `_`.
    #[must_use]
    pub fn seal(&self, lease: &Lease) -> String {
        self.sign(&pack(lease))
    }

    /// The lease that an id stands for; `None` if this store never gave it.
    #[must_use]
    pub fn open(&self, id: &str) -> Option<Lease> {
        unpack(&self.signed::<LEASE_BYTES>(id)?)
    }

    /// The text that stands for a message's place: 54 characters of letters, digits, `-` and `_`.
    #[must_use]
    pub fn seal_ref(&self, reference: &MessageRef) -> String {
        let MessageRef { queue, due_at_ms, seq } = reference;
        let parts = [queue, due_at_ms, seq].map(|part| part.to_be_bytes());
        self.sign(parts.as_flattened())
    }

    /// The place that a text stands for; `None` if this store never gave it.
    #[must_use]
    pub fn open_ref(&self, text: &str) -> Option<MessageRef> {
        let bytes = self.signed::<REF_BYTES>(text)?;
        let (queue, rest) = bytes.split_first_chunk()?;
        let (due_at_ms, rest) = rest.split_first_chunk()?;
        let (seq, _) = rest.split_first_chunk()?;
        let [queue, due_at_ms, seq] = [queue, due_at_ms, seq].map(|part| i64::from_be_bytes(*part));
        Some(MessageRef { queue, due_at_ms, seq })
    }

    /// A text that nobody can guess, made of bits that somebody might: those of a message's id come from the same.
    pub(super) fn secret(&self, name: &str, random: u128) -> String {
        let mac = self.0.clone().chain_update(random.to_be_bytes()).chain_update(name);
        let bytes = mac.finalize().into_bytes();
        URL_SAFE_NO_PAD.encode(bytes.get(..SECRET_BYTES).unwrap_or_default())
    }

    fn sign(&self, packed: &[u8]) -> String {
        let signature = self.0.clone().chain_update(packed).finalize().into_bytes();
        let mut bytes = packed.to_vec();
        bytes.extend(signature.iter().take(TAG_BYTES));
        URL_SAFE_NO_PAD.encode(bytes)
    }

    fn signed<const BYTES: usize>(&self, text: &str) -> Option<[u8; BYTES]> {
        // Not decoded at all if it is none: a text may be of any length.
        if text.len() != (BYTES + TAG_BYTES) * 4 / 3 + usize::from(!(BYTES + TAG_BYTES).is_multiple_of(3)) {
            return None;
        }
        let bytes = URL_SAFE_NO_PAD.decode(text).ok()?;
        let (packed, tag) = bytes.split_first_chunk::<BYTES>()?;
        if tag.len() != TAG_BYTES {
            return None;
        }
        self.0.clone().chain_update(packed).verify_truncated_left(tag).ok()?;
        Some(*packed)
    }
}

impl std::fmt::Debug for LeaseKey {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("LeaseKey")
    }
}

fn pack(lease: &Lease) -> [u8; LEASE_BYTES] {
    let mut packed = [0; LEASE_BYTES];
    let parts = lease.queue.to_be_bytes().into_iter().chain(lease.until_ms.to_be_bytes());
    let parts = parts.chain(lease.seq.to_be_bytes());
    let parts = parts.chain(lease.attempt.to_be_bytes()).chain(lease.bytes.to_be_bytes());
    packed.iter_mut().zip(parts).for_each(|(to, from)| *to = from);
    packed
}

fn unpack(packed: &[u8]) -> Option<Lease> {
    let (queue, rest) = packed.split_first_chunk()?;
    let (until_ms, rest) = rest.split_first_chunk()?;
    let (seq, rest) = rest.split_first_chunk()?;
    let (attempt, rest) = rest.split_first_chunk()?;
    let (bytes, _) = rest.split_first_chunk()?;
    Some(Lease {
        queue: i64::from_be_bytes(*queue),
        until_ms: i64::from_be_bytes(*until_ms),
        seq: i64::from_be_bytes(*seq),
        attempt: u32::from_be_bytes(*attempt),
        bytes: u32::from_be_bytes(*bytes),
    })
}

#[cfg(test)]
impl Lease {
    /// One of a message that nothing else is said of.
    pub(crate) fn of(seq: i64, attempt: u32) -> Self {
        Self { queue: 1, until_ms: i64::MAX, seq, attempt, bytes: 0 }
    }

    /// Its message's number.
    pub(crate) fn seq(&self) -> i64 {
        self.seq
    }
}
