//! The executable under test, at a place that every account can read.

use std::fs;
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

/// Names the executable to test; without it, the one beside the test's own build.
pub const MIN_BIN: &str = "MIN_BIN";

/// The directory, below the temporary one, that copies of executables are kept in.
pub const COPIES: &str = "minimal-test-bin";

/// The path of `min`, readable by every account. A checkout may lie where an ordinary user cannot
/// go, so each build is copied once to the temporary directory.
///
/// # Panics
/// If there is no built executable, or it cannot be copied.
#[must_use]
pub fn min() -> PathBuf {
    publish(&built(), "min")
}

/// The executable of another build: the same program under another build id.
///
/// # Panics
/// If it has no build id that can be changed.
#[must_use]
pub fn other_build() -> PathBuf {
    let built = built();
    let mut program = fs::read(&built).unwrap();
    let at = build_id_at(&program).expect("the executable has a GNU build id");
    for byte in &mut program[at..at + 8] {
        *byte = !*byte;
    }
    let staged = std::env::temp_dir().join(format!("minimal-test-other-{}", std::process::id()));
    fs::write(&staged, program).unwrap();
    fs::set_permissions(&staged, fs::Permissions::from_mode(0o755)).unwrap();
    let published = publish(&staged, "min");
    fs::remove_file(&staged).unwrap();
    published
}

/// Where a GNU build id note's bytes begin: after its name `GNU\0`, whose header says length of the
/// name 4, length of the id, type 3 (`NT_GNU_BUILD_ID`).
fn build_id_at(program: &[u8]) -> Option<usize> {
    program
        .windows(16)
        .position(|note| {
            note[..4] == 4u32.to_le_bytes()
                && (8..=64).contains(&note[4])
                && note[5..8] == [0; 3]
                && note[8..12] == 3u32.to_le_bytes()
                && note[12..] == *b"GNU\0"
        })
        .map(|at| at + 16)
}

fn built() -> PathBuf {
    if let Some(path) = std::env::var_os(MIN_BIN) {
        return PathBuf::from(path);
    }
    let test = std::env::current_exe().unwrap();
    // target/<profile>/deps/<test>
    let profile =
        test.parent().and_then(Path::parent).expect("a test lies in target/<profile>/deps");
    let path = profile.join("min");
    assert!(
        path.exists(),
        "there is no executable at {}: run `cargo xtask test e2e`, which builds it, or set {MIN_BIN}",
        path.display(),
    );
    path
}

fn publish(built: &Path, name: &str) -> PathBuf {
    let meta = fs::metadata(built)
        .unwrap_or_else(|error| panic!("the executable {}: {error}", built.display()));
    let id = build_id(built);
    let key = format!("{id}-{}-{}", meta.len(), meta.mtime_nsec());
    let directory = std::env::temp_dir().join(COPIES).join(key);
    let target = directory.join(name);
    if target.exists() {
        return target;
    }
    fs::create_dir_all(&directory).unwrap();
    for made in [directory.as_path(), directory.parent().unwrap()] {
        // Another test may have made it, and as another user: then it is as it must be already.
        if let Err(error) = fs::set_permissions(made, fs::Permissions::from_mode(0o755)) {
            assert_eq!(error.kind(), ErrorKind::PermissionDenied, "{error}");
        }
    }
    // Copied beside and renamed, so that no test runs half a file.
    let staged = directory.join(format!(".{name}-{}", std::process::id()));
    fs::copy(built, &staged).unwrap();
    fs::set_permissions(&staged, fs::Permissions::from_mode(0o755)).unwrap();
    fs::rename(&staged, &target).unwrap();
    target
}

fn build_id(path: &Path) -> String {
    let program = fs::read(path).unwrap();
    match build_id_at(&program) {
        Some(at) => program[at..at + 8].iter().map(|byte| format!("{byte:02x}")).collect(),
        None => "none".to_owned(),
    }
}
