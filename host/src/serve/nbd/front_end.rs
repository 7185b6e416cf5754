//! NBD as the stack file wants it. `unix` and `tcp` of `[listen]` are its.

use std::any::Any;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use shingle_core::frontend::nbd::PAYLOAD_MAX_BYTES;
use shingle_core::time::Duration;

use super::keys;
use super::offer::show;
use super::tls_keys::TlsKeys;
use super::{Nbd, NbdOptions};
use crate::fields::{At, Diagnostic, Fields};
use crate::serve::listen::{Address, Listener, Listening};
use crate::serve::{
    Directory, Export, ExportKeys, FrontEnd, FrontEndType, Log, ServeError, Service, Sockets, rate_limited,
};
use crate::shard::Shard;
use crate::tls::TlsServer;

/// NBD.
pub const TYPE: FrontEndType =
    FrontEndType { name: "NBD", read_listen: |fields| Arc::new(Listen::read(fields)), read_export: Some(keys::read) };

/// Most clients of one socket that can be asked for.
pub(super) const MOST_CONNECTIONS: u64 = 100_000;
/// Most memory for requests that can be asked for.
const MOST_MEMORY: u64 = 1 << 40;

/// Its keys of `[listen]`.
#[derive(Debug)]
struct Listen {
    unix: Option<At<PathBuf>>,
    tcp: Option<At<String>>,
    allow_remote: bool,
    connections: Option<At<u64>>,
    memory: Option<At<u64>>,
    client_memory: Option<At<u64>>,
    idle_timeout_ms: Option<At<u64>>,
    tls: TlsKeys,
}

impl Listen {
    fn read(fields: &mut Fields<'_>) -> Self {
        Self {
            unix: fields.path("unix"),
            tcp: fields.string("tcp"),
            allow_remote: fields.flag("allow-remote").is_some_and(|at| at.value),
            connections: fields.count("connections").map(|at| at.map(u64::from)),
            memory: fields.size("memory"),
            client_memory: fields.size("client-memory"),
            idle_timeout_ms: fields.duration("idle-timeout").map(|at| at.map(|time| time.as_millis() as u64)),
            tls: TlsKeys::read(fields),
        }
    }

    fn tcp_mistake(&self) -> Option<Diagnostic> {
        let At { value, span } = self.tcp.clone()?;
        let Ok(address) = value.parse::<SocketAddr>() else {
            let error = Diagnostic::at(span, "`tcp` is not an address").label("write it as \"127.0.0.1:10809\"");
            return Some(error.help("NBD's port is 10809; an IPv6 address is written as \"[::1]:10809\""));
        };
        if address.ip().is_loopback() || self.allow_remote || self.tls.knows_clients() {
            return None;
        }
        let title = format!("{address} can be reached from other machines");
        let help = "use 127.0.0.1; or let nobody in without a certificate or a shared key (tls-verify-clients, tls-psk); or add \
                    allow-remote = true if the network is trusted";
        Some(Diagnostic::at(span, title).label("not a loopback address").help(help))
    }

    /// Where clients come.
    fn addresses(&self) -> Vec<Address> {
        let unix = self.unix.as_ref().map(|at| Address::Unix(at.value.clone()));
        let tcp = self.tcp.as_ref().and_then(|at| at.value.parse().ok()).map(Address::Tcp);
        unix.into_iter().chain(tcp).collect()
    }

    /// How clients are treated.
    fn options(&self) -> NbdOptions {
        let mut options = NbdOptions::default();
        let number = |at: &Option<At<u64>>, default| at.as_ref().map_or(default, |at| at.value as usize);
        options.connections = number(&self.connections, options.connections);
        options.memory_bytes = number(&self.memory, options.memory_bytes);
        options.keep_bytes = options.memory_bytes / 4;
        options.session.bytes = number(&self.client_memory, options.session.bytes);
        options.idle_timeout = self.idle_timeout_ms.as_ref().map(|at| Duration::from_millis(at.value));
        options
    }
}

impl FrontEnd for Listen {
    fn kind(&self) -> &'static FrontEndType {
        &TYPE
    }

    fn mistakes(&self) -> Vec<Diagnostic> {
        let longest = u64::from(PAYLOAD_MAX_BYTES);
        let numbers = [
            ("connections", &self.connections, 1..=MOST_CONNECTIONS, "clients"),
            ("memory", &self.memory, longest..=MOST_MEMORY, "bytes: one request has up to 32 MiB"),
            ("client-memory", &self.client_memory, 4096..=MOST_MEMORY, "bytes"),
            ("idle-timeout", &self.idle_timeout_ms, 1..=86_400_000, "ms"),
        ];
        let outside = numbers.into_iter().filter_map(|(key, at, range, unit)| at.as_ref()?.outside(key, range, unit));
        let tls = self.tls.mistake(self.unix.is_some(), self.tcp.is_some());
        self.tcp_mistake().into_iter().chain(tls).chain(outside).collect()
    }

    fn offers(&self, _: &ExportKeys) -> bool {
        self.unix.is_some() || self.tcp.is_some()
    }

    fn check(&self, exports: &[&Export]) -> Result<(), String> {
        show(exports.iter().copied()).map(drop).map_err(|error| error.to_string())
    }

    fn service(&self, _: &Path) -> Box<dyn Service> {
        Box::new(Server { options: self.options(), homes: Vec::new(), listeners: Mutex::default() })
    }
}

/// NBD of a daemon.
struct Server {
    /// Those that it began with.
    options: NbdOptions,
    /// One of each shard.
    homes: Vec<Nbd>,
    /// Where clients come now.
    listeners: Mutex<Vec<Listener>>,
}

impl Server {
    /// Has clients of `listener` come as `wanted` says. The first shard accepts; a connection moves to the shard of its export.
    fn open(&self, listener: &Listener, offer: (&Directory, Option<Arc<TlsServer>>)) -> Result<Listening, ServeError> {
        let (directory, tls) = offer;
        let mut place = Listening::plain(listener.address().clone());
        match (&tls, &place.address) {
            (Some(tls), _) => place.protection = tls.protection(),
            (None, Address::Tcp(address)) if !address.ip().is_loopback() => {
                tracing::warn!("{place}: whoever reaches it reads and writes all exports (allow-remote)");
            }
            _ => {}
        }
        self.homes[0].listen(listener.share()?, directory, &self.homes, tls)?;
        Ok(place)
    }
}

impl Service for Server {
    fn overhear(&mut self, listener: Log) {
        let log = self.options.log.clone();
        let listener = rate_limited(listener);
        self.options.log = Arc::new(move |complaint| {
            log(complaint);
            listener(complaint);
        });
    }

    fn install(&mut self, shard: &mut Shard) {
        self.homes.push(Nbd::install(shard, self.options.clone()));
    }

    fn listen(
        &self,
        wanted: &dyn FrontEnd,
        directory: &Directory,
        sockets: &Sockets,
    ) -> Result<Vec<Listening>, ServeError> {
        let wanted: &Listen = (wanted as &dyn Any).downcast_ref().expect("a front end of this kind");
        let tls = wanted.tls.server().map_err(ServeError::Tls)?;
        let mut listeners = self.listeners.lock().unwrap_or_else(PoisonError::into_inner);
        let gone = sockets.change(&mut listeners, &wanted.addresses())?;
        let options = NbdOptions { log: self.options.log.clone(), ..wanted.options() };
        self.homes.iter().try_for_each(|home| home.treat(options.clone()))?;
        for listener in gone {
            self.homes[0].leave(listener.address())?;
            listener.retire();
        }
        let tls_of = |listener: &Listener| tls.clone().filter(|_| wanted.tls.covers(listener.address()));
        let places = listeners.iter().map(|listener| self.open(listener, (directory, tls_of(listener))));
        let places = places.collect::<Result<_, _>>()?;
        // Whoever comes from now on finds it so.
        self.homes.iter().try_for_each(Nbd::settle)?;
        Ok(places)
    }

    fn stop(&self, _: bool) {
        // Who comes from now on finds nobody, or waits for the next server.
        self.listeners.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }

    fn connections(&self, shard: usize) -> usize {
        self.homes[shard].connections()
    }
}

#[cfg(test)]
mod tests {
    use toml::de::DeTable;

    use super::*;

    fn read(text: &str) -> (Listen, Vec<Diagnostic>) {
        let (table, mut errors) = (DeTable::parse(text).unwrap(), Vec::new());
        let mut fields = Fields::new("[listen]".into(), 0..0, table.get_ref(), &mut errors);
        let listen = Listen::read(&mut fields);
        fields.finish();
        (listen, errors)
    }

    #[test]
    fn clients_are_treated_as_the_stack_file_wants_it() {
        let limits = "connections = 9\nmemory = \"32MiB\"\nclient-memory = \"1MiB\"\nidle-timeout = \"10m\"";
        let (listen, errors) = read(limits);
        assert_eq!((errors, listen.mistakes()), (vec![], vec![]));
        let NbdOptions { connections, memory_bytes, keep_bytes, session, idle_timeout, .. } = listen.options();
        assert_eq!((connections, memory_bytes, keep_bytes, session.bytes), (9, 32 << 20, 8 << 20, 1 << 20));
        assert_eq!(idle_timeout, Some(Duration::from_millis(600_000)));
        let (default, options) = (NbdOptions::default(), read("").0.options());
        assert_eq!((options.connections, options.memory_bytes), (default.connections, default.memory_bytes));
        assert_eq!((options.keep_bytes, options.session), (default.keep_bytes, default.session));
    }

    #[test]
    fn exports_can_be_reached_by_a_socket_alone() {
        let offers = |text| read(text).0.offers(&ExportKeys::default());
        assert_eq!(
            (offers("unix = \"s\""), offers("tcp = \"[::1]:1\""), offers("memory = \"1GiB\"")),
            (true, true, false)
        );
    }
}
