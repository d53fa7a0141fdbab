//! The bytes of a spec that are the same everywhere, and their digest.

use base64::Engine as _;
use base64::engine::general_purpose::URL_SAFE_NO_PAD;
use minimal_proto::Spec;
use sha2::{Digest as _, Sha256};

/// The spec as JSON in the form of RFC 8785 (JCS).
///
/// # Panics
/// Never: a spec has string keys only, and no number that JSON does not have.
#[must_use]
pub fn canonical_bytes(spec: &Spec) -> Vec<u8> {
    // Through a value: the serialiser sorts the keys of maps, and a struct's fields are then one.
    let value = serde_json::to_value(spec).expect("a spec has string keys only");
    serde_json_canonicalizer::to_vec(&value).expect("a value has no number that JSON does not have")
}

/// SHA-256 of the canonical bytes, base64url without padding (RFC 4648, 5).
#[must_use]
pub fn digest(spec: &Spec) -> String {
    URL_SAFE_NO_PAD.encode(Sha256::digest(canonical_bytes(spec)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn keys_are_sorted_and_nothing_is_between_them() {
        let spec = Spec::task(vec!["a".into()]);
        let bytes = String::from_utf8(canonical_bytes(&spec)).unwrap();
        assert!(bytes.starts_with(
            r#"{"box":{"entry":null,"lifetime":"until_complete","name":null,"root":"task""#
        ));
        assert!(!bytes.contains(": ") && !bytes.contains('\n'));
        assert_eq!(digest(&spec).len(), 43);
        let mut other = spec.clone();
        other.io.log_max += 1;
        assert_ne!(digest(&spec), digest(&other));
    }
}
