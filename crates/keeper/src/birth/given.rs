//! What is handed to a box as mounts besides its own directories: made by the keeper, who may look
//! where the box's users may not.

use minimal_proto::api::FileId;
use minimal_proto::keeper::Missing;
use minimal_proto::spec::Workspace;
use minimal_store::BoxDir;

use super::own_files;
use super::workspace::{self, Meanwhile, Wish};
use super::{BirthError, at};
use crate::assemble::GivenMounts;
use crate::plan::{Given, Plan, Step};
use crate::users::Users;

/// What is given to a box.
#[derive(Debug)]
pub(super) struct Prepared {
    /// One for each step of the plan that gives something.
    pub(super) mounts: GivenMounts,
    /// What its workspace is.
    pub(super) workspace: Workspace,
    /// What is not as one would expect of it.
    pub(super) missing: Vec<Missing>,
}

/// Makes the mounts for every step of a plan that gives something. `meant` is the project that
/// whoever made the box means.
pub(super) fn prepare(
    (plan, meant): (&Plan, Option<FileId>),
    box_dir: &BoxDir,
    users: Users,
    meanwhile: &mut Meanwhile<'_>,
) -> Result<Prepared, BirthError> {
    let mut prepared =
        Prepared { mounts: Vec::new(), workspace: Workspace::None, missing: Vec::new() };
    for step in &plan.steps {
        let (Step::Give(given, _) | Step::GiveAt(given, _)) = step else { continue };
        let (kind, source, meant, place) = match given {
            Given::Project(kind) => (*kind, &plan.project, meant, workspace::PROJECT),
            Given::Repository(kind) => (*kind, &plan.repository, None, workspace::REPOSITORY),
            Given::RootHome => {
                let home = own_files::root_home(box_dir, users)
                    .map_err(at("make the home of the box's root"))?;
                prepared.mounts.push((*given, home));
                continue;
            }
            // What every box has is made with it (`own_files`), and layers over the system elsewhere
            // (`system_layers`, `rootfs`).
            Given::Workbench | Given::Home | Given::Tmp | Given::System(_) | Given::Root => {
                continue;
            }
        };
        let Some(source) = source else { continue };
        let wish = Wish { source, meant, kind, required: plan.workspace_required, place };
        let made = workspace::make(&wish, box_dir, users, meanwhile)?;
        prepared.missing.extend(made.missing);
        if let Given::Project(_) = given {
            prepared.workspace = made.kind;
        }
        prepared.mounts.push((*given, made.mount));
    }
    Ok(prepared)
}
