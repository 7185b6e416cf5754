//! Stack files: nothing panics, every mistake is shown with its place, keys are not shown, and what has no mistake says what it
//! has.

use shingle_host::config::{Plan, Source};

use crate::words::spell;

/// What a control character of the input stands for.
const WORDS: [&str; 33] = [
    "[disk.a]\ntype = \"null\"\n",
    "[disk.b]\ntype = \"zoned-dir\"\npath = \"d\"\n",
    "[disk.z]\ntype = \"zoned-blk\"\npath = \"z\"\n[disk.c]\ntype = \"file\"\npath = \"f\"\n[disk.p]\ntype = \"profile\"\nprofile = \"zns-1tb\"\nzones = 4\nmax-active = 2\nmemory = 4096\nseed = 7\nkeep-data = true\n",
    "size = \"",
    "zone-size = \"",
    "\nmemory-backed = true\n",
    "\nshard = ",
    "\npolicy = \"elevator\"\n",
    // A line and a tab, as in any text.
    "\t",
    "\n",
    "\nmax-wait = \"",
    "\nmax-open = ",
    "\r",
    "[device.d]\ntable = \"\"\"\n",
    "[device.e]\ntable = \"0 ",
    " linear a ",
    " striped 2 64 a 0 b ",
    " zoned a\"\n",
    " zoned c b\"\nknobs = { ",
    " crypt aes-xts-plain64 000102030405060708090a0b0c0d0e0f 0 a ",
    "start_percent = ",
    "[export.a]\ndevice = \"",
    "\nread-only = true\ndescription = \"",
    "\nublk = true\nublk-depth = ",
    "\nublk-queues = ",
    "[listen]\nunix = \"s\"\n",
    "tcp = \"127.0.0.1:0\"\n",
    "memory = \"",
    "connections = ",
    "[control]\nsocket = \"c\"\n",
    "MiB\"\n",
    "\"\n",
    "1024",
];
const KEY: &str = "000102030405060708090a0b0c0d0e0f";

/// Runs one input.
pub fn run(bytes: &[u8]) {
    let Ok(text) = std::str::from_utf8(bytes) else { return };
    let text = spell(text, &WORDS, "");
    match Plan::parse(Source { path: "stack.toml".into(), text }) {
        Ok(plan) => {
            let on_shards = plan.disks.iter().all(|disk| disk.shard < plan.shards);
            let served = plan.exports.iter().all(|export| plan.shard_of(&export.device).is_some());
            assert!(on_shards && served, "{plan:?}");
        }
        Err(error) => {
            assert!(!error.diagnostics.is_empty());
            for colour in [false, true] {
                let shown = error.render(colour);
                assert!(!shown.is_empty() && !shown.contains(KEY), "{shown}");
            }
        }
    }
}
