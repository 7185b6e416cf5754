//! One connection, without its socket.

use std::io::{self, Read, Write};

use openssl::ssl::{self, ErrorCode, Ssl, SslContext, SslStream};
use openssl::x509::X509VerifyResult;

use super::files::{TlsError, names_of, reason};
use super::keys::holder;

/// What came from the network and what goes there.
#[derive(Debug, Default)]
struct Wire {
    received: Vec<u8>,
    read: usize,
    to_send: Vec<u8>,
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let left = &self.received[self.read..];
        if left.is_empty() {
            return Err(io::ErrorKind::WouldBlock.into());
        }
        let count = left.len().min(into.len());
        into[..count].copy_from_slice(&left[..count]);
        self.read += count;
        Ok(count)
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.to_send.extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// The server's side of a connection. The driver hands over what the network [brought](Self::handle_bytes), and sends what is
/// [for it](Self::poll_bytes) after each call.
#[derive(Debug)]
pub struct TlsStream {
    stream: SslStream<Wire>,
    is_up: bool,
}

impl TlsStream {
    pub(super) fn new(context: &SslContext) -> Result<Self, TlsError> {
        let stream = Ssl::new(context).and_then(|ssl| SslStream::new(ssl, Wire::default()));
        Ok(Self { stream: stream.map_err(|error| TlsError(reason(&error)))?, is_up: false })
    }

    /// These came from the network.
    pub fn handle_bytes(&mut self, bytes: &[u8]) {
        let wire = self.stream.get_mut();
        wire.received.drain(..wire.read);
        wire.read = 0;
        wire.received.extend_from_slice(bytes);
    }

    /// Adds what is for the network to `into`.
    pub fn poll_bytes(&mut self, into: &mut Vec<u8>) {
        into.append(&mut self.stream.get_mut().to_send);
    }

    /// Whether the handshake is over.
    #[must_use]
    pub fn is_up(&self) -> bool {
        self.is_up
    }

    /// Goes on with the handshake until it is over.
    ///
    /// # Errors
    /// If there is nothing that both sides want. What is for the network tells the client.
    pub fn shake_hands(&mut self) -> Result<(), TlsError> {
        match self.stream.accept() {
            Ok(()) => self.is_up = true,
            Err(error) if error.code() == ErrorCode::WANT_READ => {}
            Err(error) => return Err(self.explain(&error)),
        }
        Ok(())
    }

    /// Who the client has shown to be: the holder of a shared key, or whom its certificate is about. Empty: nobody was asked for.
    #[must_use]
    pub fn names(&self) -> Vec<String> {
        let ssl = self.stream.ssl();
        holder(ssl).map_or_else(|| ssl.peer_certificate().map_or(Vec::new(), |it| names_of(&it)), |name| vec![name])
    }

    /// Reads what the client has written. `Some(0)` is its end; `None`: more has to come from the network first.
    ///
    /// # Errors
    /// If that is not what the client has sent.
    pub fn read(&mut self, into: &mut [u8]) -> Result<Option<usize>, TlsError> {
        let mut read = 0;
        while read < into.len() {
            match self.stream.ssl_read(&mut into[read..]) {
                Ok(count) => read += count,
                Err(error) if error.code() == ErrorCode::WANT_READ => break,
                Err(error) if error.code() == ErrorCode::ZERO_RETURN => return Ok(Some(read)),
                Err(error) => return Err(self.explain(&error)),
            }
        }
        Ok((read > 0).then_some(read))
    }

    /// Writes `bytes` to the client.
    ///
    /// # Errors
    /// If the connection is broken.
    pub fn write(&mut self, bytes: &[u8]) -> Result<(), TlsError> {
        self.stream.write_all(bytes).map_err(|error| TlsError(error.to_string()))
    }

    /// Says that nothing more is written.
    pub fn close(&mut self) {
        // Whether the client says the same does not matter any more.
        let _ = self.stream.shutdown();
    }

    fn explain(&self, error: &ssl::Error) -> TlsError {
        let verified = self.stream.ssl().verify_result();
        if verified != X509VerifyResult::OK {
            return TlsError(format!("the client's certificate is refused: {}", verified.error_string()));
        }
        let why = error.ssl_error().map_or_else(|| error.to_string(), reason);
        let means = match why.as_str() {
            "wrong version number" | "http request" | "record layer failure" => ": the client does not speak TLS",
            _ => "",
        };
        TlsError(format!("{why}{means}"))
    }
}
