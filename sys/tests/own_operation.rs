//! A kind of request that the crate does not know, by somebody else.

use std::any::Any;
use std::ffi::CString;
use std::io::Read as _;
use std::os::fd::{FromRawFd, OwnedFd};

use shingle_sys::io_uring::{opcode, squeue, types};
use shingle_sys::{Completion, Operation, Request, Ring, Token};

/// `openat`, which nothing in the crate needs.
#[derive(Debug)]
struct Open {
    path: CString,
    opened: Option<OwnedFd>,
}

// SAFETY: The path is on the heap, and nobody changes it.
unsafe impl Operation for Open {
    fn entry(&mut self) -> squeue::Entry {
        opcode::OpenAt::new(types::Fd(libc::AT_FDCWD), self.path.as_ptr()).flags(libc::O_CLOEXEC).build()
    }

    fn complete(&mut self, result: i32) {
        // SAFETY: The kernel has just opened it for this request.
        self.opened = (result >= 0).then(|| unsafe { OwnedFd::from_raw_fd(result) });
    }
}

/// How opening ends.
fn open(path: &str) -> (i32, Option<OwnedFd>) {
    let mut ring = Ring::new().unwrap();
    let operation = Open { path: CString::new(path).unwrap(), opened: None };
    ring.submit(Token { owner: 0, word: 3 }, Request::Other(Box::new(operation))).unwrap();
    loop {
        ring.wait(None).unwrap();
        if let Some(Completion { token, result, request: Request::Other(operation) }) = ring.pop() {
            assert_eq!(token.word, 3);
            let operation: Box<dyn Any> = operation;
            return (result, operation.downcast::<Open>().unwrap().opened);
        }
    }
}

#[test]
fn a_kind_of_request_that_the_ring_does_not_know_goes_there_and_comes_back() {
    let (_, file) = open(concat!(env!("CARGO_MANIFEST_DIR"), "/Cargo.toml"));
    let mut text = String::new();
    std::fs::File::from(file.unwrap()).read_to_string(&mut text).unwrap();
    assert!(text.starts_with("[package]\nname = \"shingle-sys\""), "{text}");
    let (result, nothing) = open("/nowhere");
    assert_eq!((result, nothing.is_none()), (-libc::ENOENT, true));
}
