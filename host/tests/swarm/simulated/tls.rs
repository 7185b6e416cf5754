//! A client's side of TLS, with a key that it shares with the server.

use std::collections::VecDeque;
use std::fs;
use std::io::{self, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::sync::{Arc, LazyLock};

use openssl::ssl::{ErrorCode, Ssl, SslContext, SslMethod, SslStream};
use shingle_host::tls::{TlsFiles, TlsServer};

const NAME: &str = "client";
const KEY: [u8; 16] = [7; 16];

/// The server of all worlds that have TLS.
pub static SERVER: LazyLock<Arc<TlsServer>> = LazyLock::new(|| {
    let path = std::env::temp_dir().join(format!("shingle-swarm-{}.psk", std::process::id()));
    fs::write(&path, format!("{NAME}:{}\n", "07".repeat(KEY.len()))).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o600)).unwrap();
    let server = TlsServer::open(TlsFiles { shared_keys: Some(path.clone()), ..TlsFiles::default() }, Vec::new());
    fs::remove_file(path).unwrap();
    server.unwrap()
});

static CLIENTS: LazyLock<SslContext> = LazyLock::new(|| {
    let mut context = SslContext::builder(SslMethod::tls_client()).unwrap();
    context.set_psk_client_callback(|_, _, name, key| {
        name[..NAME.len()].copy_from_slice(NAME.as_bytes());
        name[NAME.len()] = 0;
        key[..KEY.len()].copy_from_slice(&KEY);
        Ok(KEY.len())
    });
    context.build()
});

#[derive(Default)]
struct Wire {
    inbound: VecDeque<u8>,
    outbound: Vec<u8>,
}

impl Read for Wire {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        if self.inbound.is_empty() { Err(io::ErrorKind::WouldBlock.into()) } else { self.inbound.read(into) }
    }
}

impl Write for Wire {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.outbound.write(bytes)
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// A client's TLS.
pub struct TlsClient {
    stream: SslStream<Wire>,
    pub is_up: bool,
}

impl TlsClient {
    pub fn new() -> Self {
        Self { stream: SslStream::new(Ssl::new(&CLIENTS).unwrap(), Wire::default()).unwrap(), is_up: false }
    }

    pub fn say(&mut self, bytes: &[u8]) {
        self.stream.write_all(bytes).expect("there is room in memory");
    }

    /// Takes what came from the network; adds what the server has said to `heard`, and what is to be sent to `outbound`.
    pub fn turn(&mut self, came: &[u8], heard: &mut Vec<u8>, outbound: &mut VecDeque<u8>) -> Result<(), String> {
        self.stream.get_mut().inbound.extend(came);
        let broken = |error: openssl::ssl::Error| match error.code() {
            ErrorCode::WANT_READ | ErrorCode::ZERO_RETURN => Ok(()),
            _ => Err(format!("TLS is torn: {error}")),
        };
        if !self.is_up {
            self.is_up = self.stream.connect().map_or_else(|error| broken(error).map(|()| false), |()| Ok(true))?;
        }
        while self.is_up {
            let mut some = [0; 4096];
            match self.stream.ssl_read(&mut some) {
                Ok(count) => heard.extend(&some[..count]),
                Err(error) => {
                    broken(error)?;
                    break;
                }
            }
        }
        self.flush(outbound);
        Ok(())
    }

    pub fn flush(&mut self, outbound: &mut VecDeque<u8>) {
        outbound.extend(self.stream.get_mut().outbound.drain(..));
    }
}
