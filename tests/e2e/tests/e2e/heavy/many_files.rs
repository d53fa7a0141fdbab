//! A box that leaves a hundred thousand files.

use std::fs;
use std::time::Duration;

use minimal_testkit::{for_each_user, wait_until};

/// A slow disk takes its time for so many.
const LIMIT: Duration = Duration::from_secs(200);

for_each_user! {
    /// They are deleted, while the daemon answers and boxes run.
    fn deleted(env) {
        let script = "chdir '/tmp'; for my $d (1..100) { mkdir $d; for my $f (1..1000) { open(my $h, '>', \"$d/$f\") or die } }";
        env.min(["run", "--name", "many", "--", "perl", "-e", script]).limit(LIMIT).run().assert_code(0);
        let remove = env.min(["rm", "many"]).limit(LIMIT).spawn();
        env.run_sh("exit 5").run().assert_code(5);
        remove.wait().assert_code(0);
        env.min(["show", "many"]).run().assert_code(4);
        wait_until("its files are gone", LIMIT, || {
            let left = fs::read_dir(env.state_dir().join("reaping")).unwrap().count();
            if left == 0 { Ok(()) } else { Err(left) }
        });
    }
}
