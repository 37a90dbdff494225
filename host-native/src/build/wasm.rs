//! Just enough of the Wasm format to see what a module exports.

/// The first bytes of every Wasm module.
pub(super) const MAGIC: &[u8] = b"\0asm";
/// The id of the section that lists exports (WebAssembly core specification, 5.5.2).
const EXPORT_SECTION: u8 = 7;

/// Whether the module exports something of this name. A module that cannot be read exports nothing.
pub(super) fn exports(module: &[u8], name: &str) -> bool {
    find(module, name.as_bytes()).unwrap_or(false)
}

fn find(module: &[u8], name: &[u8]) -> Option<bool> {
    let mut rest = Reader(module.strip_prefix(MAGIC)?);
    rest.take(4)?; // the version
    loop {
        let Some(id) = rest.byte() else { return Some(false) };
        let len = rest.number()?;
        let mut section = Reader(rest.take(len)?);
        if id != EXPORT_SECTION {
            continue;
        }
        for _ in 0..section.number()? {
            let len = section.number()?;
            if section.take(len)? == name {
                return Some(true);
            }
            section.byte()?; // what kind of thing it is
            section.number()?; // and which one
        }
    }
}

struct Reader<'a>(&'a [u8]);

impl<'a> Reader<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn byte(&mut self) -> Option<u8> {
        self.take(1).and_then(|taken| taken.first().copied())
    }

    /// An unsigned LEB128 number of at most 32 bits.
    fn number(&mut self) -> Option<usize> {
        let mut number: u64 = 0;
        for shift in (0..35).step_by(7) {
            let byte = self.byte()?;
            number |= u64::from(byte & 0x7f) << shift;
            if byte & 0x80 == 0 {
                return usize::try_from(number).ok();
            }
        }
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// `(module (func) (export "queue" (func 0)) (export "fetch" (func 0)))`, assembled by hand.
    const MODULE: &[u8] = b"\0asm\x01\0\0\0\x01\x04\x01\x60\0\0\x03\x02\x01\0\x07\x11\x02\x05queue\0\0\x05fetch\0\0\x0a\x04\x01\x02\0\x0b";

    #[test]
    fn an_export_is_found_by_its_whole_name() {
        assert!(exports(MODULE, "queue") && exports(MODULE, "fetch"));
        assert!(!exports(MODULE, "que") && !exports(MODULE, "scheduled"));
    }

    #[test]
    fn a_module_cut_anywhere_is_read_without_a_panic() {
        for end in 0..MODULE.len() {
            let _ = exports(&MODULE[..end], "scheduled");
        }
        assert!(!exports(b"\0asm\x01\0\0\0\x07\xff\xff\xff\xff\xff\xff", "queue"));
    }
}
