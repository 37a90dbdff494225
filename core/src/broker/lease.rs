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

/// What lease ids are signed with. It lives as long as the store.
#[derive(Clone)]
pub struct LeaseKey(Hmac<Sha256>);

/// Bytes of a lease, and of its signature.
const LEASE_BYTES: usize = 32;
const TAG_BYTES: usize = 16;

impl LeaseKey {
    /// `None` if there are no bytes to make a key of.
    pub(super) fn new(key: &[u8]) -> Option<Self> {
        if key.len() < TAG_BYTES {
            return None;
        }
        Hmac::new_from_slice(key).ok().map(Self)
    }

    /// The id that stands for a lease: 64 characters of letters, digits, `-` and `_`.
    #[must_use]
    pub fn seal(&self, lease: &Lease) -> String {
        let mut bytes = [0; LEASE_BYTES + TAG_BYTES];
        let (packed, tag) = bytes.split_at_mut(LEASE_BYTES);
        packed.copy_from_slice(&pack(lease));
        let signature = self.0.clone().chain_update(&*packed).finalize().into_bytes();
        tag.iter_mut().zip(signature).for_each(|(to, from)| *to = from);
        URL_SAFE_NO_PAD.encode(bytes)
    }

    /// The lease that an id stands for; `None` if this store never gave it.
    #[must_use]
    pub fn open(&self, id: &str) -> Option<Lease> {
        let bytes = URL_SAFE_NO_PAD.decode(id).ok()?;
        let (packed, tag) = bytes.split_at_checked(LEASE_BYTES)?;
        if tag.len() != TAG_BYTES {
            return None;
        }
        self.0.clone().chain_update(packed).verify_truncated_left(tag).ok()?;
        unpack(packed)
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
