//! Small files: past a few hundred lines a file holds a second idea.

use super::sources::Sources;

/// Lines of code, without comments, blank lines and the tests at the end.
const MOST: usize = 600;

/// Files that are longer, each with its reason.
const LONGER: &[(&str, &str)] = &[];

/// Files that are too long.
pub(crate) fn faults(sources: &Sources) -> Vec<String> {
    let mut faults = Vec::new();
    for (path, text) in sources.rust() {
        let path = path.display().to_string();
        let lines = code_lines(text);
        let listed = LONGER.iter().any(|(known, _)| *known == path);
        if lines > MOST && !listed {
            faults.push(format!("{path} has {lines} lines of code, more than {MOST}"));
        }
        if lines <= MOST && listed {
            faults.push(format!("{path} is short again: take it off the list of long files"));
        }
    }
    faults
}

fn code_lines(text: &str) -> usize {
    text.lines()
        .take_while(|line| *line != "#[cfg(test)]")
        .map(str::trim)
        .filter(|line| !line.is_empty() && !line.starts_with("//"))
        .count()
}
