//! A file system of its own that loses its power: ext4 in a file, shut down below whoever uses it, without its log.

use std::path::{Path, PathBuf};
use std::process::{Child, Command};

use super::Scratch;

/// An ext4, mounted. Its power can be cut, and it can be mounted again.
pub struct PowerCut {
    scratch: Scratch,
    mounted: bool,
}

/// `FS_IOC_GOINGDOWN` with `FS_GOING_FLAGS_NOLOGFLUSH` (`fs/ext4/ioctl.c:ext4_force_shutdown`): what was not written yet never
/// is, neither dirty pages nor the running transaction of the journal.
const SHUT_DOWN: &str = r#"
    my $flags = pack("L", 2);
    open(FS, "<", $ARGV[0]) && open(NOTICE, ">", $ARGV[1]) && ioctl(FS, 0x8004587d, $flags) or die "$!\n";"#;

impl PowerCut {
    /// A new file system of 64 MiB; the reason why there is none if this machine or user cannot mount one.
    pub fn new() -> Result<Self, String> {
        let new = Self { scratch: Scratch::new(), mounted: false };
        let image = new.scratch.path("image");
        std::fs::File::create(&image).and_then(|file| file.set_len(64 << 20)).map_err(|error| error.to_string())?;
        run(Command::new("mkfs.ext4").args(["-q", "-F"]).arg(&image))?;
        std::fs::create_dir(new.mount_point()).map_err(|error| error.to_string())?;
        new.mounted()
    }

    fn mount_point(&self) -> PathBuf {
        self.scratch.path("mnt")
    }

    fn mounted(mut self) -> Result<Self, String> {
        let image = self.scratch.path("image");
        run(Command::new("mount").args(["-t", "ext4", "-o", "loop"]).args([&image, &self.mount_point()]))?;
        self.mounted = true;
        Ok(self)
    }

    /// A path in it.
    pub fn path(&self, name: &str) -> PathBuf {
        self.mount_point().join(name)
    }

    /// Cuts the power in a while: in a process, since a test has no `ioctl`.
    pub fn cut(&self, after_us: u64) -> Child {
        let script = format!("select(undef, undef, undef, {after_us}e-6); {SHUT_DOWN}");
        let paths = [self.mount_point(), self.notice()];
        Command::new("perl").arg("-e").arg(script).args(paths).spawn().unwrap()
    }

    /// Whether the power may be gone. Only what was answered before counts: a sync that runs when the journal is aborted can
    /// end well (`fs/jbd2/journal.c:jbd2_complete_transaction` finds its transaction gone), which a machine without power
    /// tells nobody.
    pub fn is_cut(&self) -> bool {
        self.notice().exists()
    }

    /// A file, not in the file system, that is there from before the cut.
    fn notice(&self) -> PathBuf {
        self.scratch.path("cut")
    }

    /// Mounts it again after the cut: the journal is replayed.
    pub fn restart(mut self) -> Self {
        unmount(&self.mount_point()).unwrap_or_else(|error| panic!("{error}"));
        self.mounted = false;
        std::fs::remove_file(self.notice()).unwrap();
        self.mounted().unwrap_or_else(|error| panic!("{error}"))
    }
}

impl Drop for PowerCut {
    fn drop(&mut self) {
        if self.mounted {
            let _ = unmount(&self.mount_point());
        }
    }
}

/// The kernel gives up the files of a ring a moment after the ring is gone.
fn unmount(at: &Path) -> Result<(), String> {
    let mut result = Ok(());
    for _ in 0..200 {
        result = run(Command::new("umount").arg(at));
        if result.is_ok() {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
    }
    result
}

fn run(command: &mut Command) -> Result<(), String> {
    let output = command.output().map_err(|error| format!("{command:?}: {error}"))?;
    let said = String::from_utf8_lossy(&output.stderr);
    if output.status.success() { Ok(()) } else { Err(format!("{command:?}: {}", said.trim())) }
}
