//! How much a message takes: the bytes of its body, and those of its metadata. Both are in one number, which rows and
//! leases hold: the lower 17 bits are the body's bytes, the rest the metadata's in units of four, rounded up.

use super::limits::{MESSAGE_BYTES_MAX, META_BYTES_MAX};
use super::types::NewMessage;

/// Bits of the body's length.
const BODY_BITS: u32 = 17;
/// Bytes of metadata in one of its units.
const META_UNIT: u32 = 4;
const BODY_MASK: u32 = (1 << BODY_BITS) - 1;

const _: () = assert!(MESSAGE_BYTES_MAX <= BODY_MASK as usize, "a body's length has room");
const _: () =
    assert!(META_BYTES_MAX.div_ceil(META_UNIT as usize) < 1 << (u32::BITS - BODY_BITS), "and so have metadata");

/// The number of a message that was checked.
pub(super) fn packed(message: &NewMessage) -> u32 {
    let body = u32::try_from(message.body.len()).unwrap_or(BODY_MASK).min(BODY_MASK);
    let meta = message.meta.as_ref().map_or(0, |meta| u32::try_from(meta.len()).unwrap_or(u32::MAX));
    body | meta.div_ceil(META_UNIT) << BODY_BITS
}

/// Bytes of the body.
pub(super) fn body(packed: u32) -> u64 {
    (packed & BODY_MASK).into()
}

/// Bytes of the metadata, rounded up.
pub(super) fn meta(packed: u32) -> u64 {
    u64::from(packed >> BODY_BITS) * u64::from(META_UNIT)
}
