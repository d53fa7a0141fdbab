//! What a hub may answer, what may be wrong before it is asked, and encryption.

use std::os::unix::fs::PermissionsExt as _;
use std::sync::Arc;

use minimal_runner::contract::Sandbox as _;
use minimal_testkit::TestEnv;
use rustix::process::Signal;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio_rustls::TlsAcceptor;
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::pki_types::pem::PemObject as _;
use tokio_rustls::rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::hub::{self, Hub, block_on, connect, token};
use super::wait_for;

/// A certificate of its own authority for 127.0.0.1 and `localhost`, good until 2126, and its key.
const CERTIFICATE: &str = include_str!("certificate.pem");
const KEY: &str = include_str!("key.pem");

/// Answers the next connection with a status and a body.
async fn answer(hub: &Hub, status: &str, body: &str) {
    let mut stream = hub.tcp().await;
    let mut asked = Vec::new();
    while !asked.ends_with(b"\r\n\r\n") {
        asked.push(stream.read_u8().await.unwrap());
    }
    let length = body.len();
    let answer = format!("HTTP/1.1 {status}\r\ncontent-length: {length}\r\n\r\n{body}");
    stream.write_all(answer.as_bytes()).await.unwrap();
}

#[test]
fn a_hub_that_refuses_is_told_as_what_it_says() {
    let env = &TestEnv::new();
    block_on(async {
        for (status, body, code, told) in [
            (
                "401 Unauthorized",
                r#"{"error":"unauthorized","reason":"api_key_revoked"}"#,
                5,
                "401 Unauthorized: unauthorized, api_key_revoked",
            ),
            ("403 Forbidden", r#"{"error":"runner_name_mismatch"}"#, 5, "runner_name_mismatch"),
            ("404 Not Found", "<html>nothing here", 4, "an HTML page"),
            ("400 Bad Request", r#"{"error":"validation_failed"}"#, 2, "validation_failed"),
        ] {
            let hub = Hub::listen().await;
            let runner = connect(env, &hub.url(), "one");
            answer(&hub, status, body).await;
            let output = runner.wait();
            output.assert_code(code).assert_stderr_has(told).assert_stderr_has("runner `one`");
            let record = super::status(env, "one");
            assert!(record["unit"].is_null(), "{record}");
            assert_eq!(record["state"], "stopped");
            assert!(record["error"].as_str().unwrap().contains(told), "{record}");
        }
        // These may pass.
        let hub = Hub::listen().await;
        let runner = connect(env, &hub.url(), "one");
        answer(&hub, "409 Conflict", r#"{"error":"runner_already_connected"}"#).await;
        runner.wait_for_stderr("runner_already_connected; trying again in ");
        let record = wait_for(env, "one", "waiting");
        assert_eq!(record["attempts"], 1);
        assert!(record["next_attempt_at"].is_string(), "{record}");
        let connected = hub.runner().await;
        assert_eq!(wait_for(env, "one", "connected")["attempts"], 0);
        connected.cut();
        wait_for(env, "one", "waiting");
        runner.signal(Signal::TERM);
        runner.wait().assert_code(0);
    });
}

#[test]
fn what_is_wrong_from_the_start_is_told_before_anybody_is_dialled() {
    let env = &TestEnv::new();
    let token = token(env);
    let run = |url: &str, name: &str, token: &str| {
        env.min(["runner", "connect", url, "--name", name, "--token-file", token]).run()
    };
    let hub = "http://127.0.0.1:9";
    run(hub, "../x", &token).assert_code(2).assert_stderr_has("bad runner name");
    run(hub, &"n".repeat(300), &token).assert_code(2).assert_stderr_has("longer than 63");
    run("ftp://x", "one", &token).assert_code(2).assert_stderr_has("https://");
    let words = run("https://u:secret@x", "one", &token);
    words.assert_code(2).assert_stderr_has("a token is read from a file");
    run(hub, "one", "/nowhere/token").assert_code(3).assert_stderr_has("read the token file");
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o644)).unwrap();
    let open = run(hub, "one", &token);
    open.assert_code(3).assert_stderr_has("is open to others").assert_stderr_has("chmod 600");
    assert!(!open.stderr.contains("ar_"), "the token is not told");
    assert!(env.daemon().is_none(), "nothing was begun");
}

/// A hub behind TLS is served if this machine trusts it, and not if it does not.
#[test]
fn encryption_is_with_whom_this_machine_trusts() {
    let env = &TestEnv::new();
    let trusted = env.file("roots.pem", CERTIFICATE);
    block_on(async {
        let hub = Hub::listen().await;
        let url = format!("https://localhost:{}", hub.address.port());
        let token = token(env);
        let words = ["runner", "connect", &url, "--name", "one", "--token-file", &token];
        let chain = CertificateDer::pem_slice_iter(CERTIFICATE.as_bytes());
        let chain = chain.collect::<Result<Vec<_>, _>>().unwrap();
        let key = PrivateKeyDer::from_pem_slice(KEY.as_bytes()).unwrap();
        let config = ServerConfig::builder().with_no_client_auth().with_single_cert(chain, key);
        let acceptor = TlsAcceptor::from(Arc::new(config.unwrap()));

        let runner = env.min(words).env("SSL_CERT_FILE", &trusted).spawn();
        let stream = acceptor.accept(hub.tcp().await).await.unwrap();
        let connected = hub::serve(stream).await.unwrap();
        assert_eq!(connected.sandbox.list_all_names().await.unwrap().len(), 0);
        runner.signal(Signal::TERM);
        runner.wait().assert_code(0);

        let runner =
            env.min(words).env("SSL_CERT_FILE", "/etc/ssl/certs/ca-certificates.crt").spawn();
        assert!(acceptor.accept(hub.tcp().await).await.is_err());
        runner.wait_for_stderr("the TLS handshake failed");
        runner.signal(Signal::TERM);
        runner.wait().assert_code(0);
    });
}

/// A service is a file that is printed or written, never over one of somebody else's.
#[test]
fn a_unit_is_written_and_nothing_foreign_is_overwritten() {
    let env = &TestEnv::new();
    let token = token(env);
    let install = |more: &[&str]| {
        let hub = "https://hub.example";
        let words = ["runner", "install", hub, "--name", "one", "--token-file", &token];
        env.min(words.iter().chain(more)).run()
    };
    let printed = install(&["--user", "--print"]);
    printed.assert_code(0);
    let line =
        format!("runner connect \"https://hub.example\" --name one --token-file \"{token}\"");
    assert!(printed.text().contains(&line), "{}", printed.text());
    let state = format!("Environment=\"MINIMAL_STATE_DIR={}\"", env.state_dir().display());
    assert!(printed.text().contains(&state) && printed.text().contains("KillMode=process"));
    let system = install(&["--system", "--print"]);
    assert!(system.text().contains("WantedBy=multi-user.target"));
    let unit = env.home().join(".config/systemd/user/minimal-runner-one.service");
    assert!(!unit.exists(), "it was only printed");
    for _ in 0..2 {
        let written = install(&["--user"]);
        written.assert_code(0).assert_stderr_has("systemctl --user enable --now");
        assert_eq!(std::fs::read(&unit).unwrap(), printed.stdout);
    }
    std::fs::write(&unit, "[Service]\nExecStart=/own\n").unwrap();
    install(&["--user"]).assert_code(5).assert_stderr_has("was not written by");
    assert_eq!(std::fs::read(&unit).unwrap(), b"[Service]\nExecStart=/own\n");
    std::fs::remove_file(&unit).unwrap();
    std::os::unix::fs::symlink("/dev/null", &unit).unwrap();
    install(&["--user"]).assert_code(5);
    std::fs::set_permissions(&token, std::fs::Permissions::from_mode(0o604)).unwrap();
    install(&["--print"]).assert_code(3).assert_stderr_has("is open to others");
    std::fs::remove_dir_all(env.home().join(".config")).unwrap();
}
