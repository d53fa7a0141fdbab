//! What a box reaches.

use std::io::Write as _;
use std::net::TcpListener;
use std::os::linux::net::SocketAddrExt as _;
use std::os::unix::net::{SocketAddr, UnixListener};
use std::path::Path;

use minimal_testkit::{TestEnv, for_each_user};

/// Whether the kernel can guard abstract sockets, as the record says.
fn guards_sockets(env: &TestEnv) -> bool {
    let record = env.newest();
    let missing = record["enforcement"]["missing"].as_array().unwrap();
    missing.iter().all(|missing| missing["what"] != "abstract_sockets")
}

/// Arguments for a perl, which every Debian has, that connects to an abstract socket: 3 when it may
/// not.
fn connect_to(name: &str) -> [String; 4] {
    let script = format!(
        "socket(S, AF_UNIX, SOCK_STREAM, 0) or die; \
         connect(S, pack_sockaddr_un(\"\\0{name}\")) or exit($!{{EPERM}} ? 3 : 4); print \"in\\n\""
    );
    ["-MSocket".to_owned(), "-MErrno".to_owned(), "-e".to_owned(), script]
}

for_each_user! {
    /// Without being asked, nothing: a loopback of its own, and no way off it.
    fn none(env) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}");
        let output = env.min(["run", "--", "bash", "-c", &script]).run();
        output.assert_code(1).assert_stderr_has("refused");
        let output = env.min(["run", "--", "bash", "-c", "exec 3<>/dev/tcp/192.0.2.1/80"]).run();
        output.assert_code(1).assert_stderr_has("unreachable");
        let output = env.run_sh("grep -c : /proc/net/dev; cat /etc/resolv.conf").run();
        output.assert_code(0).assert_stdout("1\n");
        let enforcement = &env.newest()["enforcement"];
        assert_eq!(enforcement["network"], "none");
        assert!(enforcement["namespaces"].as_array().unwrap().contains(&"net".into()));
    }

    /// The host's on request: what it listens on, who resolves names for it.
    fn host_ip(env) {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let port = listener.local_addr().unwrap().port();
        let host = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"from the host\n").unwrap();
        });
        let script = format!("exec 3<>/dev/tcp/127.0.0.1/{port}; cat <&3; hostname; cat /etc/hostname; exit 5");
        let output = env.min(["run", "--name", "web", "--network", "host_ip", "--", "bash", "-c", &script]).run();
        output.assert_code(5).assert_stdout("from the host\nweb\nweb\n");
        host.join().unwrap();
        let record = env.newest();
        assert_eq!(record["enforcement"]["network"], "host_ip");
        let namespaces = record["enforcement"]["namespaces"].as_array().unwrap();
        assert!(!namespaces.contains(&"net".into()) && namespaces.contains(&"pid".into()));
        let resolver = std::fs::read("/etc/resolv.conf").unwrap_or_default();
        let output = env.min(["run", "--network", "host_ip", "--", "cat", "/etc/resolv.conf"]).run();
        output.assert_code(0).assert_stdout(resolver);
    }

    /// On the host's network abstract sockets are in reach, and no permission guards them: Landlock
    /// does. Its twin without a box gets in.
    fn abstract_sockets(env) {
        let name = format!("minimal-test-{}", std::process::id());
        let address = SocketAddr::from_abstract_name(&name).unwrap();
        let _listener = UnixListener::bind_addr(&address).unwrap();
        let arguments = connect_to(&name);
        let outside = env.command(Path::new("/usr/bin/perl"), &arguments).run();
        outside.assert_code(0).assert_stdout("in\n");
        let on_hosts = env.min(["run", "--network", "host_ip", "--", "perl"]);
        let inside = arguments.iter().fold(on_hosts, |min, word| min.arg(word)).run();
        if guards_sockets(env) {
            inside.assert_code(3).assert_stdout("");
        }
        let alone = arguments.iter().fold(env.run(["perl"]), |min, word| min.arg(word)).run();
        alone.assert_code(4).assert_stdout("");
    }

    /// The plan says so.
    fn explained(env) {
        let output = env.min(["run", "--explain", "--network", "host_ip", "--", "true"]).run();
        let text = output.assert_code(0).text();
        assert!(text.contains("user, mnt, pid, uts, ipc, cgroup\n"), "{text}");
        assert!(text.contains("/etc/resolv.conf holds"), "{text}");
        env.min(["run", "--network", "own_ip", "--", "true"]).run().assert_code(2).assert_stderr_has("host_ip");
    }
}
