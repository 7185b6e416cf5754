//! TLS between the socket of a connection and its session.

use std::mem;

use shingle_core::frontend::nbd::{Segment, Transmit};

use crate::tls::{TlsError, TlsStream};

/// Most bytes of replies that are encrypted at once.
const PIECE: usize = 256 << 10;
/// Bytes that are copied at once: those of one record.
const RECORD: usize = 16 << 10;

/// A connection's TLS, with the batch that it encrypts.
pub(super) struct Secured {
    pub stream: TlsStream,
    is_closed: bool,
    /// What the ring receives into.
    pub received: Vec<u8>,
    /// The batch that is sent, and how much of it is encrypted: segments, and bytes of the next one.
    batch: Option<(Transmit, usize, usize)>,
    /// What the ring sends, if it does not at the moment.
    bytes: Vec<u8>,
    pub is_sending: bool,
    record: Vec<u8>,
}

impl Secured {
    pub fn new(stream: TlsStream) -> Self {
        Self {
            stream,
            is_closed: false,
            received: Vec::new(),
            batch: None,
            bytes: Vec::new(),
            is_sending: false,
            record: Vec::new(),
        }
    }

    /// Whether it has no batch to send.
    pub fn is_free(&self) -> bool {
        self.batch.is_none()
    }

    pub fn put(&mut self, batch: Transmit) {
        self.batch = Some((batch, 0, 0));
    }

    /// Says goodbye, once.
    pub fn close(&mut self) {
        if self.stream.is_up() && !mem::replace(&mut self.is_closed, true) {
            self.stream.close();
        }
    }

    /// What is to be sent next, if anything is.
    pub fn next_bytes(&mut self) -> Result<Option<Vec<u8>>, TlsError> {
        self.encrypt()?;
        let mut bytes = mem::take(&mut self.bytes);
        self.stream.poll_bytes(&mut bytes);
        self.is_sending = !bytes.is_empty();
        if self.is_sending {
            return Ok(Some(bytes));
        }
        self.bytes = bytes;
        Ok(None)
    }

    /// Encrypts the next piece of the batch.
    fn encrypt(&mut self) -> Result<(), TlsError> {
        let Some((batch, segment, at)) = &mut self.batch else { return Ok(()) };
        let mut room = PIECE;
        while let Some(next) = batch.segments.get(*segment).filter(|_| room > 0) {
            let (done, left) = match next {
                Segment::Bytes(bytes) => {
                    self.stream.write(bytes)?;
                    (bytes.len(), 0)
                }
                Segment::Data(data) => {
                    let left = data.len() - *at;
                    self.record.resize(RECORD.min(left), 0);
                    data.read(*at, &mut self.record);
                    self.stream.write(&self.record)?;
                    (self.record.len(), left - self.record.len())
                }
            };
            room = room.saturating_sub(done);
            (*segment, *at) = if left == 0 { (*segment + 1, 0) } else { (*segment, *at + done) };
        }
        Ok(())
    }

    /// The ring is done with the bytes that it sent. The batch, if that was the end of it or nothing is sent any more.
    pub fn sent(&mut self, mut bytes: Vec<u8>, is_last: bool) -> Option<Transmit> {
        bytes.clear();
        (self.bytes, self.is_sending) = (bytes, false);
        self.batch.take_if(|(batch, segment, _)| is_last || *segment == batch.segments.len()).map(|(batch, ..)| batch)
    }

    /// The batch, as nothing is sent any more; `None` while the ring still sends.
    pub fn give_up(&mut self) -> Option<Transmit> {
        if self.is_sending { None } else { self.batch.take().map(|(batch, ..)| batch) }
    }
}
