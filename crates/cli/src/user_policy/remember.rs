//! Writing an answer down in the policy, with everything else in it as it was.

use std::fs::{self, OpenOptions};
use std::io::{self, Write as _};
use std::os::unix::fs::{DirBuilderExt as _, OpenOptionsExt as _, PermissionsExt as _};
use std::path::{Path, PathBuf};

use toml_edit::{Array, DocumentMut, Item, Table, Value};

/// A list of the policy: its table and key.
pub(super) type List = (&'static str, &'static str);

/// Adds lines to a list, and returns where the file as it was is kept, if there was one.
///
/// # Errors
/// It cannot be read or written, or is not what it should be.
pub(super) fn add(
    file: &Path,
    (table, key): List,
    lines: &[String],
) -> io::Result<Option<PathBuf>> {
    // A link to it stays one.
    let file = file.canonicalize().unwrap_or_else(|_| file.to_owned());
    let text = match fs::read_to_string(&file) {
        Ok(text) => Some(text),
        Err(error) if error.kind() == io::ErrorKind::NotFound => None,
        Err(error) => return Err(error),
    };
    let new = edited(text.as_deref().unwrap_or_default(), (table, key), lines)?;
    let directory = file.parent().ok_or(io::ErrorKind::InvalidInput)?;
    fs::DirBuilder::new().recursive(true).mode(0o700).create(directory)?;
    let mode = file.metadata().map_or(0o600, |it| it.permissions().mode() & 0o777);
    let backup = match &text {
        None => None,
        Some(text) => {
            let backup = beside(&file, "bak");
            replace(&backup, text, mode)?;
            Some(backup)
        }
    };
    replace(&file, &new, mode)?;
    Ok(backup)
}

fn beside(file: &Path, ending: &str) -> PathBuf {
    let mut name = file.file_name().unwrap_or_default().to_owned();
    name.push(".");
    name.push(ending);
    file.with_file_name(name)
}

/// The text with the lines in a list of it, and all else, comments too, as it was.
fn edited(text: &str, (table, key): List, lines: &[String]) -> io::Result<String> {
    let mut document: DocumentMut = text.parse().map_err(io::Error::other)?;
    let wrong = |what: &str| io::Error::other(format!("{what} in it is not what it should be"));
    let table = document
        .entry(table)
        .or_insert_with(|| Item::Table(Table::new()))
        .as_table_like_mut()
        .ok_or_else(|| wrong(&format!("[{table}]")))?;
    let list = table.entry(key).or_insert_with(|| Item::Value(Value::Array(Array::new())));
    let list = list.as_array_mut().ok_or_else(|| wrong(&format!("`{key}`")))?;
    for line in lines {
        if !list.iter().any(|known| known.as_str() == Some(line)) {
            list.push(line.as_str());
        }
    }
    Ok(document.to_string())
}

/// The whole new text or the whole old one, whenever somebody looks.
fn replace(file: &Path, text: &str, mode: u32) -> io::Result<()> {
    let new = beside(file, &format!("new-{}", std::process::id()));
    let written = OpenOptions::new().write(true).create_new(true).mode(mode).open(&new);
    let written = written.and_then(|mut opened| {
        opened.write_all(text.as_bytes())?;
        opened.sync_all()?;
        fs::rename(&new, file)
    });
    if written.is_err() {
        fs::remove_file(&new).ok();
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn all_else_stays_as_it_was() {
        let text = "# mine\n[paths]\nallow = [\n  \"~/a\", # first\n]\n\n[vars] # of the shell\ndeny = [\"X\"]\n";
        let lines = ["~/b".to_owned(), "~/a".to_owned()];
        insta::assert_snapshot!(edited(text, ("paths", "allow"), &lines).unwrap());
        let added = edited(text, ("vars", "allow"), &["A".to_owned()]).unwrap();
        assert!(added.contains("deny = [\"X\"]\nallow = [\"A\"]\n"), "{added}");
        assert!(edited("", ("paths", "deny"), &lines).unwrap().starts_with("[paths]\ndeny = ["));
        edited("paths = 1", ("paths", "deny"), &lines).unwrap_err();
        edited("[paths]\ndeny = 1", ("paths", "deny"), &lines).unwrap_err();
        edited("[", ("paths", "deny"), &lines).unwrap_err();
    }

    #[test]
    fn a_file_is_made_and_the_one_before_is_kept() {
        let root = tempfile::tempdir().unwrap();
        let file = root.path().join("deep/policy.toml");
        let add = |line: &str| add(&file, ("paths", "allow"), &[line.to_owned()]).unwrap();
        assert_eq!(add("/a"), None);
        let first = fs::read_to_string(&file).unwrap();
        assert_eq!(file.metadata().unwrap().permissions().mode() & 0o777, 0o600);
        let backup = add("/b").unwrap();
        assert_eq!(fs::read_to_string(backup).unwrap(), first);
        assert!(fs::read_to_string(&file).unwrap().contains("/b"));
        // By a link: it stays one.
        let link = root.path().join("link");
        std::os::unix::fs::symlink(&file, &link).unwrap();
        super::add(&link, ("paths", "allow"), &["/c".to_owned()]).unwrap();
        assert!(link.is_symlink() && fs::read_to_string(&file).unwrap().contains("/c"));
        assert_eq!(fs::read_dir(file.parent().unwrap()).unwrap().count(), 2);
    }
}
