//! What the box gets at `/workbench`.

use std::path::Path;

use minimal_proto::spec::{self, Workspace};
use minimal_proto::{ByteString, ErrorCode, Spec};

use crate::context::Context;
use crate::error::Failure;
use crate::project::Project;
use crate::repository::{self, Repository};

/// What is wanted.
#[derive(Debug)]
pub(super) struct Wish {
    /// What is to be at `/workbench`.
    pub(super) workspace: Workspace,
    /// Whether nothing else will do.
    pub(super) insists: bool,
    /// Whether the command starts where the caller is, below the project.
    pub(super) begins_here: bool,
}

/// Decides it, and says so where it is not what one would expect: none, where the project is not one to
/// give away and nothing insists.
///
/// # Errors
/// What was asked for is refused.
pub(super) fn choose(
    context: &Context,
    wish: &Wish,
    project: Option<&Project>,
    home: Option<&Path>,
    spec: &mut Spec,
) -> Result<(), Failure> {
    let workspace = wish.workspace;
    if workspace == Workspace::None {
        return Ok(());
    }
    let Some(project) = project else {
        return match wish.insists {
            false => Ok(()),
            true => Err(Failure::new(
                ErrorCode::Refused,
                format!(
                    "--workspace {}: there is no project, since the working directory is gone",
                    workspace.as_str()
                ),
            )),
        };
    };
    let state_dir = &context.paths()?.state_dir;
    // The real tree is never given by half.
    if wish.insists || workspace == Workspace::Bind {
        project.check_given(home, state_dir)?;
    } else if let Some(why) = project.why_not_given(home, state_dir) {
        let root = project.root.display();
        context.printer.note(&format!(
            "The box's /workbench is empty: `{root}` is not given to a box, since {why}."
        ));
        return Ok(());
    }
    spec.files.workspace = workspace;
    spec.files.workspace_required = wish.insists;
    spec.files.repository = repository(context, &project.root, home, state_dir);
    if wish.begins_here && spec.execution.cwd.is_none() {
        spec.execution.cwd = project.below_root().map(Path::as_os_str).map(ByteString::from);
    }
    Ok(())
}

/// The repository that comes with the project, where it lies outside.
fn repository(
    context: &Context,
    project: &Path,
    home: Option<&Path>,
    state_dir: &Path,
) -> Option<spec::Repository> {
    let (path, why) = match repository::find(project) {
        Repository::Inside => return None,
        Repository::Outside { directory, git_dir } => {
            let itself = Project { root: directory.clone(), directory: directory.clone() };
            match itself.why_not_given(home, state_dir) {
                None => {
                    return Some(spec::Repository {
                        directory: directory.into_os_string().into(),
                        git_dir: git_dir.into_os_string().into(),
                    });
                }
                Some(why) => (directory, why),
            }
        }
        Repository::Unknown(path, why) => (path, why),
    };
    let path = path.display();
    context.printer.note(&format!(
        "Git does not work in the box: the project's repository `{path}` is not shown, since {why}."
    ));
    None
}
