//! TLS of the NBD server, to the clients that there are: libnbd's and QEMU's, by certificates and by shared keys.

use std::fs;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::os::unix::fs::PermissionsExt;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use crate::program::nbd::client::{option, request};
use crate::program::{Daemon, Scratch};

const STACK: &str = "
[disk.a]
type = \"file\"
path = \"a\"
[disk.b]
type = \"file\"
path = \"b\"
shard = 1
[export.a]
device = \"a\"
[export.b]
device = \"b\"
[listen]
tcp = \"127.0.0.1:0\"
TLS
[control]
socket = \"control.sock\"
";
const BYTES: usize = 8 << 20;

/// A daemon that talks TLS, and an authority of its own.
struct Secure {
    scratch: Scratch,
    /// Port that the system chose for the daemon; 0 before it is up.
    port: u16,
}

impl Secure {
    fn new(tls: &str) -> Self {
        let scratch = Scratch::with_stack(&STACK.replace("TLS", tls));
        for (name, step) in [("a", 7_usize), ("b", 11)] {
            let bytes: Vec<u8> = (0..BYTES).map(|at| ((at * step) >> 7) as u8).collect();
            fs::write(scratch.0.join(name), bytes).unwrap();
        }
        let new = Self { scratch, port: 0 };
        for name in ["pki", "alice", "eve", "other"] {
            fs::create_dir(new.scratch.0.join(name)).unwrap();
        }
        new.authority("pki");
        new.certify("pki", "pki", "server", "localhost", 30);
        new.certify("pki", "alice", "client", "alice", 30);
        new.authority("other");
        new.certify("other", "eve", "client", "eve", 30);
        // She trusts the server, but it does not trust her.
        fs::copy(new.scratch.0.join("pki/ca-cert.pem"), new.scratch.0.join("eve/ca-cert.pem")).unwrap();
        fs::copy(new.scratch.0.join("pki/ca-cert.pem"), new.scratch.0.join("alice/ca-cert.pem")).unwrap();
        new
    }

    fn openssl(&self, words: &str) {
        let output = Command::new("openssl").args(words.split(' ')).current_dir(&self.scratch.0).output().unwrap();
        assert!(output.status.success(), "openssl {words}: {}", String::from_utf8_lossy(&output.stderr));
    }

    /// All have one name, so that it does not tell which of them has signed.
    fn authority(&self, place: &str) {
        self.openssl(&format!(
            "req -x509 -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN=authority -days 30 -keyout {place}/ca-key.pem -out {place}/ca-cert.pem"
        ));
    }

    /// A certificate of the authority `by`: `into/what-cert.pem`.
    fn certify(&self, by: &str, into: &str, what: &str, name: &str, days: i32) {
        self.scratch.file("extensions", &format!("subjectAltName=DNS:{name},IP:127.0.0.1\n"));
        self.openssl(&format!(
            "req -newkey ec -pkeyopt ec_paramgen_curve:P-256 -nodes -subj /CN={name} -keyout {into}/{what}-key.pem -out request.pem"
        ));
        self.openssl(&format!(
            "x509 -req -in request.pem -CA {by}/ca-cert.pem -CAkey {by}/ca-key.pem -CAcreateserial -days {days} -extfile extensions -out {into}/new.pem"
        ));
        // At once, as who renews a certificate does it.
        fs::rename(
            self.scratch.0.join(format!("{into}/new.pem")),
            self.scratch.0.join(format!("{into}/{what}-cert.pem")),
        )
        .unwrap();
    }

    fn keys(&self, name: &str, text: &str) {
        let path = self.scratch.0.join(name);
        fs::write(&path, text).unwrap();
        fs::set_permissions(path, fs::Permissions::from_mode(0o600)).unwrap();
    }

    fn uri(&self, export: &str, who: &str) -> String {
        format!("nbds://127.0.0.1:{}/{export}?tls-certificates={who}", self.port)
    }

    /// Runs a client: whether it succeeded, and what it said.
    fn client(&self, program: &str, words: &[&str]) -> (bool, String) {
        let mut command = Command::new(program);
        let output = command.args(words).current_dir(&self.scratch.0).stdin(Stdio::null()).output();
        let output = output.unwrap_or_else(|error| panic!("cannot run {program}: {error}; scripts/install-tools.sh"));
        let said = [output.stdout, output.stderr].concat();
        (output.status.success(), String::from_utf8_lossy(&said).into_owned())
    }

    #[track_caller]
    fn lets_in(&self, uri: &str) {
        let (well, said) = self.client("nbdinfo", &["--size", uri]);
        assert!(well && said.trim() == BYTES.to_string(), "{uri}: {said}\n{}", self.scratch.stderr());
    }

    /// The client fails with `client` among its words, and the daemon says `server`.
    #[track_caller]
    fn keeps_out(&self, uri: &str, client: &str, server: &str) {
        let (well, said) = self.client("nbdinfo", &["--size", uri]);
        assert!(!well && said.contains(client), "{uri}: {said}");
        self.scratch.stderr_with(server);
    }

    #[track_caller]
    fn same(&self, name: &str, copy: &str) {
        assert!(fs::read(self.scratch.0.join(name)).unwrap() == fs::read(self.scratch.0.join(copy)).unwrap());
    }

    fn up(&mut self) -> Daemon {
        let daemon = self.scratch.up();
        self.port = self.scratch.tcp_address().port();
        daemon
    }
}

const BY_CERTIFICATE: &str = "tls-certificates = \"pki\"\ntls-verify-clients = true";
const KEY: &str = "00112233445566778899aabbccddeeff00112233445566778899aabbccddeeff";

#[test]
fn exports_of_all_shards_are_read_and_written_by_libnbd_and_qemu_with_certificates() {
    let mut secure = Secure::new(BY_CERTIFICATE);
    let daemon = secure.up();
    for name in ["a", "b"] {
        let (well, said) = secure.client("nbdcopy", &[&secure.uri(name, "alice"), "copy"]);
        assert!(well, "{said}");
        secure.same(name, "copy");
    }
    let (well, said) = secure.client("nbdcopy", &["--flush", "a", &secure.uri("b", "alice")]);
    assert!(well, "{said}");
    secure.same("a", "b");
    let image = format!(
        "driver=nbd,server.type=inet,server.host=127.0.0.1,server.port={},export=b,tls-creds=tls0",
        secure.port
    );
    let credentials = "tls-creds-x509,id=tls0,endpoint=client,dir=alice";
    let words = ["convert", "--object", credentials, "--image-opts", &image, "-O", "raw", "from-qemu"];
    let (well, said) = secure.client("qemu-img", &words);
    assert!(well, "{said}");
    secure.same("a", "from-qemu");
    let said = secure.scratch.ok("status");
    assert!(said.contains("(TLS, for clients with a certificate)"), "{said}");
    daemon.stop();
    assert!(!secure.scratch.stderr().contains("TLS failed"), "{}", secure.scratch.stderr());
}

#[test]
fn who_has_no_certificate_or_a_wrong_one_is_kept_out_and_both_sides_know_why() {
    let mut secure = Secure::new(BY_CERTIFICATE);
    let expired = secure.scratch.0.join("late");
    fs::create_dir(&expired).unwrap();
    secure.certify("pki", "late", "client", "late", -1);
    fs::copy(secure.scratch.0.join("pki/ca-cert.pem"), expired.join("ca-cert.pem")).unwrap();
    fs::create_dir(secure.scratch.0.join("none")).unwrap();
    fs::copy(secure.scratch.0.join("pki/ca-cert.pem"), secure.scratch.0.join("none/ca-cert.pem")).unwrap();
    let daemon = secure.up();
    secure.lets_in(&secure.uri("a", "alice"));
    secure.keeps_out(&secure.uri("a", "none"), "TLS fatal alert", "peer did not return a certificate");
    secure.keeps_out(
        &secure.uri("a", "late"),
        "TLS fatal alert",
        "the client's certificate is refused: certificate has expired",
    );
    secure.keeps_out(&secure.uri("a", "eve"), "", "client 4 from 127.0.0.1:");
    secure.keeps_out(&secure.uri("a", "eve"), "", "certificate is refused: unable to get local issuer certificate");
    let plain = format!("nbd://127.0.0.1:{}/a", secure.port);
    let (well, said) = secure.client("nbdinfo", &["--size", &plain]);
    assert!(!well && said.contains("TLS"), "{said}");
    secure.lets_in(&secure.uri("a", "alice"));
    daemon.stop();
}

#[test]
fn a_certificate_that_was_revoked_is_refused_without_a_restart() {
    let mut secure = Secure::new(BY_CERTIFICATE);
    let daemon = secure.up();
    secure.lets_in(&secure.uri("a", "alice"));
    let serial = Command::new("openssl")
        .args(["x509", "-in", "alice/client-cert.pem", "-noout", "-serial"])
        .current_dir(&secure.scratch.0)
        .output()
        .unwrap();
    let serial = String::from_utf8(serial.stdout).unwrap();
    let serial = serial.trim().trim_start_matches("serial=");
    secure.scratch.file("index.txt", &format!("R\t391231235959Z\t260101000000Z\t{serial}\tunknown\t/CN=alice\n"));
    secure.scratch.file(
        "ca.conf",
        "[ca]\ndefault_ca = c\n[c]\ndatabase = index.txt\ndefault_md = sha256\ndefault_crl_days = 30\n",
    );
    secure.openssl("ca -gencrl -config ca.conf -keyfile pki/ca-key.pem -cert pki/ca-cert.pem -out crl.pem");
    fs::rename(secure.scratch.0.join("crl.pem"), secure.scratch.0.join("pki/ca-crl.pem")).unwrap();
    let end = Instant::now() + Duration::from_secs(20);
    while secure.client("nbdinfo", &["--size", &secure.uri("a", "alice")]).0 {
        assert!(Instant::now() < end, "it still lets her in");
    }
    secure.keeps_out(&secure.uri("a", "alice"), "", "the client's certificate is refused: certificate revoked");
    // A list that disappears revokes as before.
    fs::remove_file(secure.scratch.0.join("pki/ca-crl.pem")).unwrap();
    secure.scratch.stderr_with("ca-crl.pem is gone: put it back");
    secure.keeps_out(&secure.uri("a", "alice"), "", "the client's certificate is refused: certificate revoked");
    daemon.stop();
}

/// Begins TLS 1.2 over NBD at a port of this machine, with these ciphers alone.
const OLD_CLIENT: &str = "
import socket, ssl, struct, sys
s = socket.create_connection(('127.0.0.1', int(sys.argv[1])))
s.recv(18, socket.MSG_WAITALL)
s.sendall(struct.pack('>I', 3) + b'IHAVEOPT' + struct.pack('>II', 5, 0))
s.recv(20, socket.MSG_WAITALL)
c = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
c.check_hostname, c.verify_mode, c.maximum_version = False, ssl.CERT_NONE, ssl.TLSVersion.TLSv1_2
c.set_ciphers(sys.argv[2])
c.wrap_socket(s)
";

#[test]
fn tls_without_forward_secrecy_is_refused() {
    let mut secure = Secure::new("tls-certificates = \"pki\"");
    // Ciphers whose keys are exchanged by RSA alone need a certificate of RSA.
    secure.openssl("req -newkey rsa:2048 -nodes -subj /CN=localhost -keyout pki/server-key.pem -out request.pem");
    secure.openssl("x509 -req -in request.pem -CA pki/ca-cert.pem -CAkey pki/ca-key.pem -CAcreateserial -days 30 -out pki/server-cert.pem");
    let daemon = secure.up();
    let ciphers = |ciphers: &str| {
        let words = [OLD_CLIENT, &secure.port.to_string(), ciphers];
        Command::new("python3").arg("-c").args(words).status().unwrap().success()
    };
    assert!(ciphers("ECDHE-RSA-AES128-GCM-SHA256"));
    assert!(!ciphers("AES128-GCM-SHA256"), "keys exchanged by RSA alone");
    daemon.stop();
}

#[test]
fn certificates_are_renewed_without_a_restart_and_bad_ones_change_nothing() {
    let mut secure = Secure::new("tls-certificates = \"pki\"");
    secure.certify("pki", "pki", "server", "localhost", 3);
    let daemon = secure.up();
    secure.lets_in(&secure.uri("a", "alice"));
    secure.scratch.stderr_with("the certificate ends at");
    // Another authority: who trusts the old one has to see that.
    secure.certify("other", "pki", "server", "localhost", 30);
    let end = Instant::now() + Duration::from_secs(20);
    while secure.client("nbdinfo", &["--size", &secure.uri("a", "alice")]).0 {
        assert!(Instant::now() < end, "it still has the old one");
    }
    secure.lets_in(&secure.uri("a", "other"));
    secure.scratch.file("pki/server-cert.pem", "nonsense");
    secure.scratch.stderr_with("TLS keeps the certificates and keys in use");
    secure.lets_in(&secure.uri("a", "other"));
    daemon.stop();
}

#[test]
fn a_reload_begins_and_ends_tls_for_who_comes_next_and_leaves_who_is_there_alone() {
    let mut secure = Secure::new("");
    let daemon = secure.up();
    let plain = format!("nbd://127.0.0.1:{}/a", secure.port);
    secure.lets_in(&plain);
    let mut there = plain_client(secure.port);
    let stack = fs::read_to_string(secure.scratch.0.join("stack.toml")).unwrap();
    let place = "tcp = \"127.0.0.1:0\"\n";
    secure.scratch.file("stack.toml", &stack.replace(place, &format!("{place}{BY_CERTIFICATE}\n")));
    secure.scratch.ok("reload");
    secure.keeps_out(&plain, "TLS", "");
    secure.lets_in(&secure.uri("a", "alice"));
    secure.keeps_out(&secure.uri("a", "eve"), "", "TLS failed");
    assert!(secure.scratch.ok("status").contains("(TLS"), "{}", secure.scratch.ok("status"));
    there.write_all(&request(0, 0, 1, 0, 4096)).unwrap();
    there.read_exact(&mut [0; 16 + 4096]).unwrap();
    // A certificate that is not there: what is in force stays.
    secure.scratch.file("stack.toml", &stack.replace(place, &format!("{place}tls-certificates = \"nosuch\"\n")));
    let (code, out, _) = secure.scratch.run("reload");
    assert!(code == 1 && out.contains("change section listen: failed: TLS of [listen]"), "{out}");
    secure.lets_in(&secure.uri("a", "alice"));
    secure.scratch.file("stack.toml", &stack);
    secure.scratch.ok("reload");
    secure.lets_in(&plain);
    daemon.stop();
}

/// A client without TLS that has chosen `a`.
fn plain_client(port: u16) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(&[&3_u32.to_be_bytes()[..], &option(1, b"a")].concat()).unwrap();
    stream.read_exact(&mut [0; 10]).unwrap();
    stream
}

#[test]
fn clients_with_a_shared_key_are_let_in_by_name() {
    let mut secure = Secure::new("tls-psk = \"keys\"\ntls-clients = [\"alice\"]\ntls-unix = true\nunix = \"nbd.sock\"");
    let other = KEY.replace("00", "99");
    secure.keys("keys", &format!("alice:{KEY}\nbob:{KEY}\n"));
    secure.keys("wrong", &format!("alice:{other}\ncarol:{KEY}\n"));
    let daemon = secure.up();
    let uri = |name: &str, keys: &str| format!("nbds://{name}@127.0.0.1:{}/b?tls-psk-file={keys}", secure.port);
    secure.lets_in(&uri("alice", "keys"));
    secure.lets_in("nbds+unix://alice@/b?socket=nbd.sock&tls-psk-file=keys");
    let (well, said) = secure.client("nbdcopy", &[&uri("alice", "keys"), "copy"]);
    assert!(well, "{said}");
    secure.same("b", "copy");
    secure.keeps_out(
        &uri("bob", "keys"),
        "server policy prevents",
        "(bob): `bob` is not among the clients that may connect",
    );
    secure.keeps_out(&uri("alice", "wrong"), "", "TLS failed");
    secure.keeps_out(&uri("carol", "wrong"), "", "TLS failed");
    let (well, said) = secure.client("nbdinfo", &["--size", "nbd+unix:///b?socket=nbd.sock"]);
    assert!(!well && said.contains("TLS"), "{said}");
    let said = secure.scratch.ok("status");
    assert!(said.contains("(TLS, for 1 clients with a shared key)"), "{said}");
    daemon.stop();
}

#[test]
fn a_key_that_everybody_may_read_a_missing_file_and_a_foreign_key_keep_the_daemon_from_starting() {
    let secure = Secure::new("tls-psk = \"keys\"");
    secure.scratch.fails("up stack.toml", 1, &["TLS of [listen]", "keys: No such file"]);
    secure.keys("keys", &format!("alice:{KEY}\n"));
    fs::set_permissions(secure.scratch.0.join("keys"), fs::Permissions::from_mode(0o644)).unwrap();
    secure.scratch.fails("up stack.toml", 1, &["everybody on this machine may use this key: chmod 600"]);
    let secure = Secure::new(BY_CERTIFICATE);
    fs::copy(secure.scratch.0.join("alice/client-key.pem"), secure.scratch.0.join("pki/server-key.pem")).unwrap();
    secure.scratch.fails("up stack.toml", 1, &["server-key.pem", "key values mismatch"]);
    fs::remove_file(secure.scratch.0.join("pki/ca-cert.pem")).unwrap();
}

/// A client that begins TLS, without one.
fn begin(port: u16, behind: &[u8]) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.read_exact(&mut [0; 18]).unwrap();
    stream.write_all(&[&3_u32.to_be_bytes()[..], &option(5, b""), behind].concat()).unwrap();
    let mut answer = [0; 20];
    stream.read_exact(&mut answer).unwrap();
    assert_eq!(&answer[12..16], &1_u32.to_be_bytes(), "an acknowledgement");
    stream
}

#[test]
fn what_is_sent_with_the_request_for_tls_is_never_taken_for_protected() {
    let mut secure = Secure::new("tls-certificates = \"pki\"");
    let daemon = secure.up();
    // The list of exports, asked for as somebody on the way could.
    let mut stream = begin(secure.port, &option(3, b""));
    let mut answer = Vec::new();
    let _ = stream.read_to_end(&mut answer);
    assert!(answer.first().is_none_or(|kind| *kind == 0x15), "an alert of TLS at most: {answer:?}");
    secure.lets_in(&secure.uri("a", "alice"));
    secure.scratch.stderr_with("the client does not speak TLS");
    daemon.stop();
}

#[test]
fn garbage_and_clients_that_stop_in_the_handshake_harm_nobody() {
    let mut secure = Secure::new("tls-certificates = \"pki\"");
    let daemon = secure.up();
    let silent: Vec<TcpStream> = (0..50).map(|_| begin(secure.port, b"")).collect();
    for seed in 0..50_u32 {
        let garbage: Vec<u8> = (0..997_u32).map(|at| (at.wrapping_mul(seed * 2 + 1) >> 3) as u8).collect();
        // A record of TLS that is none.
        begin(secure.port, &[&[0x16, 3, 1, 2, 0][..], &garbage].concat());
    }
    secure.lets_in(&secure.uri("a", "alice"));
    drop(silent);
    daemon.stop();
}

#[test]
fn the_stack_file_says_what_does_not_go_together() {
    for (tls, says) in [
        ("tls-verify-clients = true", "`tls-verify-clients` is for certificates"),
        ("tls-certificates = \"pki\"\ntls-clients = [\"alice\"]", "clients have no names"),
        ("tls-psk = \"keys\"\ntls-clients = []", "`tls-clients` lets nobody in"),
        ("tls-psk = \"keys\"\ntls-unix = true", "`tls-unix` has TLS on `unix`, too"),
    ] {
        let scratch = Scratch::with_stack(&STACK.replace("TLS", tls));
        scratch.fails("up --check stack.toml", 1, &[says]);
    }
    let remote = STACK.replace("127.0.0.1:0", "0.0.0.0:1");
    let open = Scratch::with_stack(&remote.replace("TLS", "tls-certificates = \"pki\""));
    open.fails("up --check stack.toml", 1, &["can be reached from other machines", "tls-verify-clients"]);
}
