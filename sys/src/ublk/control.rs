//! Devices come and go: `/dev/ublk-control`.

use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::time::{Duration, Instant};

use io_uring::{opcode, squeue};

use super::wire::{ControlPayload, DeviceInfo, Features, NewDevice, Parameters, control_command};
use crate::request::{Fd, Operation, Request, Submission};
use crate::ring::{Ring, Token};

/// How long a command may take that waits for nobody.
const PATIENCE: Duration = Duration::from_secs(10);
const CONTROL: &str = "/dev/ublk-control";

/// The way to ask the driver for devices. Its calls wait for the driver, so it is not for the thread that serves the requests
/// of a device.
pub struct Control {
    ring: Ring<squeue::Entry128>,
    file: Fd,
    /// Commands so far: what was given up earlier may still come back.
    commands: u64,
}

/// What a command carries besides its number.
#[derive(Debug, Default)]
struct Words {
    /// Memory that the driver reads or writes.
    memory: Option<Box<Memory>>,
    word: u64,
}

#[derive(Debug)]
enum Memory {
    Info(DeviceInfo),
    Parameters(Parameters),
    Number(u64),
}

impl Memory {
    fn place(&mut self) -> (u64, u16) {
        fn of<T>(value: &mut T) -> (u64, u16) {
            (std::ptr::from_mut(value) as u64, size_of::<T>() as u16)
        }
        match self {
            Memory::Info(info) => of(info),
            Memory::Parameters(parameters) => of(parameters),
            Memory::Number(number) => of(number),
        }
    }
}

#[derive(Debug)]
struct ControlCommand {
    file: Fd,
    command: u32,
    device: u32,
    words: Words,
}

// SAFETY: the memory is boxed, so that it stays where it is, and nobody touches it until the completion; the descriptor is kept
// open by `file`.
unsafe impl Operation for ControlCommand {
    fn entry(&mut self) -> Submission {
        let (address, bytes) = self.words.memory.as_mut().map_or((0, 0), |memory| memory.place());
        let payload = ControlPayload { number: self.device, queue: u16::MAX, bytes, address, word: self.words.word };
        let entry = opcode::UringCmd80::new(self.file.target(), self.command).cmd(payload.bytes()).build();
        Submission::Long(Box::new(entry))
    }
}

impl Control {
    /// Opens the driver.
    ///
    /// # Errors
    /// If it is not loaded, or not for us.
    pub fn open() -> io::Result<Self> {
        let file = File::options().read(true).write(true).open(CONTROL)?;
        let ring = Ring::new().map_err(io::Error::other)?;
        Ok(Self { ring, file: OwnedFd::from(file).into(), commands: 0 })
    }

    /// What the driver can do.
    pub fn features(&mut self) -> io::Result<Features> {
        let words = Words { memory: Some(Box::new(Memory::Number(0))), word: 0 };
        match self.call(control_command::GET_FEATURES, u32::MAX, words, PATIENCE)? {
            Some(Memory::Number(features)) => Ok(Features(features)),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Makes a device. What it got is in the answer.
    pub fn add(&mut self, new: &NewDevice) -> io::Result<DeviceInfo> {
        let wanted = DeviceInfo::wanted(new);
        let words = Words { memory: Some(Box::new(Memory::Info(wanted))), word: 0 };
        let added = self.call(control_command::ADD, wanted.number, words, PATIENCE)?;
        info_in(added)
    }

    /// What device `number` is.
    pub fn info(&mut self, number: u32) -> io::Result<DeviceInfo> {
        let words = Words { memory: Some(Box::new(Memory::Info(DeviceInfo::default()))), word: 0 };
        let info = self.call(control_command::GET_INFO, number, words, PATIENCE)?;
        info_in(info)
    }

    /// Says what a new device accepts.
    pub fn set_parameters(&mut self, number: u32, parameters: &Parameters) -> io::Result<()> {
        let words = Words { memory: Some(Box::new(Memory::Parameters(*parameters))), word: 0 };
        self.call(control_command::SET_PARAMETERS, number, words, PATIENCE).map(drop)
    }

    /// What a device accepts.
    pub fn parameters(&mut self, number: u32) -> io::Result<Parameters> {
        let words = Words { memory: Some(Box::new(Memory::Parameters(Parameters::blank()))), word: 0 };
        match self.call(control_command::GET_PARAMETERS, number, words, PATIENCE)? {
            Some(Memory::Parameters(parameters)) => Ok(parameters),
            _ => Err(io::ErrorKind::InvalidData.into()),
        }
    }

    /// Makes the block device appear, once all its tags have asked for requests. The driver reads its zones and its
    /// partitions meanwhile, so it has to be served.
    pub fn start(&mut self, number: u32, patience: Duration) -> io::Result<()> {
        let words = Words { memory: None, word: std::process::id().into() };
        self.call(control_command::START, number, words, patience).map(drop)
    }

    /// Takes the block device away. It waits for requests under way, so these have to be served until it returns; then all tags
    /// are told that there will be none.
    pub fn stop(&mut self, number: u32, patience: Duration) -> io::Result<()> {
        self.call(control_command::STOP, number, Words::default(), patience).map(drop)
    }

    /// Removes a device; waits until nobody has it open.
    pub fn delete(&mut self, number: u32, patience: Duration) -> io::Result<()> {
        self.call(control_command::DELETE, number, Words::default(), patience).map(drop)
    }

    /// Begins to serve a device whose server is gone.
    ///
    /// # Errors
    /// `EBUSY` as long as the old one is not quite gone.
    pub fn start_recovery(&mut self, number: u32) -> io::Result<()> {
        self.call(control_command::START_RECOVERY, number, Words::default(), PATIENCE).map(drop)
    }

    /// Lets its requests go on, once all its tags have asked for them.
    pub fn end_recovery(&mut self, number: u32, patience: Duration) -> io::Result<()> {
        let words = Words { memory: None, word: std::process::id().into() };
        self.call(control_command::END_RECOVERY, number, words, patience).map(drop)
    }

    /// Sets the capacity of a running device, in sectors.
    pub fn update_size(&mut self, number: u32, sectors: u64) -> io::Result<()> {
        let words = Words { memory: None, word: sectors };
        self.call(control_command::UPDATE_SIZE, number, words, PATIENCE).map(drop)
    }

    fn call(&mut self, command: u32, device: u32, words: Words, patience: Duration) -> io::Result<Option<Memory>> {
        let request = ControlCommand { file: self.file.clone(), command, device, words };
        self.commands += 1;
        let token = Token { owner: 0, word: self.commands };
        let full = |_| io::Error::from(io::ErrorKind::ResourceBusy);
        self.ring.submit(token, Request::Other(Box::new(request))).map_err(full)?;
        let give_up = Instant::now() + patience;
        loop {
            if let Some(done) = self.ring.pop().filter(|done| done.token == token) {
                if done.result < 0 {
                    return Err(io::Error::from_raw_os_error(-done.result));
                }
                let Request::Other(operation) = done.request else { return Ok(None) };
                let operation: Box<dyn std::any::Any> = operation;
                let command = operation.downcast::<ControlCommand>().ok();
                return Ok(command.and_then(|command| command.words.memory).map(|memory| *memory));
            }
            let left = give_up.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.ring.wait(Some(left))?;
        }
    }
}

fn info_in(memory: Option<Memory>) -> io::Result<DeviceInfo> {
    match memory {
        Some(Memory::Info(info)) => Ok(info),
        _ => Err(io::ErrorKind::InvalidData.into()),
    }
}
