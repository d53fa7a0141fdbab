//! A program that the caller has in their home, where a box does not look.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

/// The hint for a program that a box has not found: where the caller has it, if that is in a
/// directory of `PATH` below their home, as what rustup, nvm and pyenv install is. Nowhere else is
/// looked.
#[must_use]
pub fn hint(program: &OsStr, path: Option<&OsStr>, home: &Path) -> Option<String> {
    if program.is_empty() || program.as_bytes().contains(&b'/') || home.parent().is_none() {
        return None;
    }
    let is_executable = |directory: &PathBuf| {
        let found = std::fs::metadata(directory.join(program));
        found.is_ok_and(|found| found.is_file() && found.permissions().mode() & 0o111 != 0)
    };
    let below = |directory: &PathBuf| directory.starts_with(home);
    let directory = std::env::split_paths(path?).filter(below).find(is_executable)?;
    let below = directory.strip_prefix(home).ok()?;
    let (name, directory) = (program.to_string_lossy(), Path::new("~").join(below));
    let mut sources = vec![whole(below)];
    // What is in there only looks for the programs in the other.
    if below.starts_with(".cargo") && home.join(".rustup").is_dir() {
        sources.push(PathBuf::from(".rustup"));
    }
    let list = |each: fn(String) -> String| -> Vec<String> {
        let shown = |source: &PathBuf| Path::new("~").join(source).display().to_string();
        sources.iter().map(shown).map(each).collect()
    };
    let mounts = list(|source| format!("{{ source = \"{source}\" }}")).join(", ");
    let options = list(|source| format!("--mount {source}")).join(" ");
    Some(format!(
        "{name} is in {directory} on the host; a box does not see your home. `mounts = [{mounts}]` in \
         minimal.toml or `{options}` shows it, and /home/box/{below}/{name} is its path then",
        directory = directory.display(),
        below = below.display(),
    ))
}

/// What has to come along for a directory of programs: most often all that is installed beside it. Of a
/// place that many share only the directory itself.
pub(crate) fn whole(below: &Path) -> PathBuf {
    let mut parts = below.components();
    match parts.next() {
        Some(first) if first.as_os_str() != ".local" && first.as_os_str() != ".config" => {
            PathBuf::from(first.as_os_str())
        }
        Some(_) | None => below.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_programs_in_the_path_below_the_home_are_told_of() {
        let root = tempfile::tempdir().unwrap();
        let home = root.path().join("home");
        let bin = home.join(".tool/bin");
        let other = root.path().join("bin");
        for directory in [&bin, &other] {
            std::fs::create_dir_all(directory).unwrap();
            for (name, mode) in [("tool", 0o755), ("data", 0o644)] {
                let file = directory.join(name);
                std::fs::write(&file, "").unwrap();
                std::fs::set_permissions(&file, std::fs::Permissions::from_mode(mode)).unwrap();
            }
        }
        let of = |program: &str, path: &[&PathBuf]| {
            let path = std::env::join_paths(path).unwrap();
            hint(OsStr::new(program), Some(&path), &home)
        };
        let told = "tool is in ~/.tool/bin on the host; a box does not see your home. \
                    `mounts = [{ source = \"~/.tool\" }]` in minimal.toml or `--mount ~/.tool` shows it, and \
                    /home/box/.tool/bin/tool is its path then";
        assert_eq!(of("tool", &[&other, &bin]).as_deref(), Some(told));
        assert_eq!(of("tool", &[&other]), None, "not in the home");
        assert_eq!(of("data", &[&bin]), None, "no program");
        assert_eq!(of("./tool", &[&bin]), None, "a path is not searched");
        assert_eq!(hint(OsStr::new("tool"), None, &home), None);
    }
}
