//! What commands believe: sockets that others have put where they look, and names with control characters.

use std::fs::Permissions;
use std::io::Read;
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};

use crate::program::Scratch;

/// Listens on a control socket, says so, and answers each line with an empty object.
const LISTENER: &str = "
import socket, sys
s = socket.socket(socket.AF_UNIX)
s.bind('control.sock')
s.listen()
sys.stdout.write('x')
sys.stdout.flush()
while True:
    c, _ = s.accept()
    while c.recv(65536):
        c.sendall(b'{}\\n')
";

#[test]
fn a_socket_of_another_user_is_asked_only_if_it_is_named() {
    if !rustix::process::geteuid().is_root() {
        return println!("skipped: only root can start a process of another user");
    }
    let scratch = Scratch::new();
    std::fs::set_permissions(&scratch.0, Permissions::from_mode(0o777)).unwrap();
    let mut listener = Command::new("python3");
    listener.args(["-c", LISTENER]).uid(65_534).current_dir(&scratch.0).stdout(Stdio::piped());
    let mut listener = listener.spawn().unwrap();
    listener.stdout.take().unwrap().read_exact(&mut [0]).unwrap();
    // It asks nothing: the listener would have answered, wrongly.
    for command in ["status", "dm create v --table 0_8_crypt_aes_00_0_d_0", "zones reset d", "top --once"] {
        scratch.fails(command, 1, &["a process of user 65534 listens there", "--control control.sock"]);
    }
    let (code, _, said) = scratch.run("status --control control.sock");
    assert!(code == 1 && said.starts_with("note: a process of user 65534 listens on control.sock"), "{said}");
    listener.kill().unwrap();
    listener.wait().unwrap();
}

#[test]
fn control_characters_of_names_are_escaped_wherever_they_are_shown() {
    let scratch = Scratch::new();
    scratch.ok("create disk --size 64MiB --zone-size 1MiB --conventional 16");
    let format = ["dmz", "format", "disk", "--label", "a\u{1b}[31m\u{7}b"];
    let done = scratch.shingle().args(format).output().unwrap();
    assert!(done.status.success(), "{}", String::from_utf8_lossy(&done.stderr));
    let (_, said, error) = scratch.run("dmz dump disk");
    assert!(!said.contains('\u{1b}') && said.contains("\\u{1b}[31m"), "{said}{error}");
    scratch.fails("stl format disk", 1, &["the dm-zoned set `a\\u{1b}[31m\\u{7}b`"]);
    assert_eq!(scratch.json("dmz dump disk --json")["primary"]["label"], "a\u{1b}[31m\u{7}b");
    scratch.fails("status --control no\u{1b}[2Jsuch", 1, &["no\\u{1b}[2Jsuch"]);
}

#[test]
fn an_option_after_the_words_of_a_message_is_an_option() {
    let scratch = Scratch::with_stack(
        "[disk.n]\ntype = \"null\"\nsize = \"8MiB\"\n[device.v]\ntable = \"0 8 linear n 0\"\n[listen]\nunix = \"nbd.sock\"\n\
         [export.v]\ndevice = \"v\"\n[control]\nsocket = \"c.sock\"\n",
    );
    let daemon = scratch.up();
    // The target has no messages, and says so: it was reached.
    scratch.fails("dm message v 0 words of it --control c.sock", 1, &["v"]);
    let (_, _, said) = scratch.run("dm message v 0 words of it --control c.sock");
    assert!(said.contains("takes no messages") || said.contains("message"), "{said}");
    scratch.fails("dm message v 0 words of it --control nowhere.sock", 1, &["nowhere.sock"]);
    daemon.stop();
}
