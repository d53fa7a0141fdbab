//! What is handed to a box as mounts besides its own directories, and what is copied into those: made
//! by the keeper, who may look where the box's users may not.

use minimal_proto::keeper::{Missing, Start};
use minimal_proto::spec::{MountMode, Workspace};
use minimal_store::BoxDir;

use super::identity::Identity;
use super::workspace::{self, Meanwhile, Wish};
use super::{BirthError, at};
use super::{mounts, own_files, params, patches};
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
    /// Whether it can write to something that is the host's.
    pub(super) writes: bool,
    /// What is not as one would expect of it.
    pub(super) missing: Vec<Missing>,
}

/// Makes the mounts for every step of a plan that gives something. The options of the start say which
/// files whoever made the box means.
pub(super) fn prepare(
    (plan, start): (&Plan, &Start),
    identity: &Identity,
    box_dir: &BoxDir,
    users: Users,
    meanwhile: &mut Meanwhile<'_>,
) -> Result<Prepared, BirthError> {
    let mut prepared = Prepared {
        mounts: Vec::new(),
        workspace: Workspace::None,
        writes: false,
        missing: Vec::new(),
    };
    let options = &start.options;
    for step in &plan.steps {
        if let Step::Mount(shown) = step {
            let meant = options.mounts.get(shown.index);
            let mount = mounts::make(shown, meant, box_dir, users)?;
            prepared.mounts.push((Given::Mount(shown.index), mount.mount));
            prepared.missing.extend(mount.missing);
            prepared.writes |= shown.mode == MountMode::Rw;
            continue;
        }
        let (Step::Give(given, _) | Step::GiveAt(given, _)) = step else { continue };
        let (kind, source, meant, place) = match given {
            Given::Project(kind) => (*kind, &plan.project, options.project, workspace::PROJECT),
            Given::Repository(kind) => (*kind, &plan.repository, None, workspace::REPOSITORY),
            Given::RootHome => {
                let home = own_files::root_home(box_dir, users)
                    .map_err(at("make the home of the box's root"))?;
                prepared.mounts.push((*given, home));
                continue;
            }
            Given::Params => {
                let text = plan.params.as_deref().unwrap_or("{}");
                let made = params::make(text, identity).map_err(at("write its params"))?;
                prepared.mounts.push((*given, made));
                continue;
            }
            // What every box has is made with it (`own_files`), and layers over the system elsewhere
            // (`system_layers`, `rootfs`).
            Given::Workbench
            | Given::Home
            | Given::Tmp
            | Given::System(_)
            | Given::Root
            | Given::Mount(_) => continue,
        };
        let Some(source) = source else { continue };
        let exclude = match given {
            Given::Project(_) => start.spec.files.workspace_exclude.as_slice(),
            _ => &[],
        };
        let required = plan.workspace_required;
        let wish = Wish { source, meant, kind, required, place, exclude };
        let made = workspace::make(&wish, box_dir, users, meanwhile)?;
        prepared.missing.extend(made.missing);
        prepared.writes |= made.kind == Workspace::Bind;
        if let Given::Project(_) = given {
            prepared.workspace = made.kind;
        }
        prepared.mounts.push((*given, made.mount));
    }
    let found = (plan.patches.as_slice(), options.patches.as_slice());
    let left_out = patches::copy_once(found, &prepared.mounts, box_dir, users, meanwhile)?;
    prepared.missing.extend(left_out);
    Ok(prepared)
}
