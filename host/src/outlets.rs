//! What tells others of a daemon: the control socket, metrics over HTTP and in a file, and the page. Each can be elsewhere while the daemon runs.

use std::io;
use std::path::Path;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use shingle_core::impl_error;

use crate::config::{MetricsPlan, Plan, WebPlan};
use crate::control::{ControlError, ControlServer};
use crate::daemon_state::{DaemonState, Outlet, Outlets, Places};
use crate::http::HttpServer;
use crate::metrics::{MetricsFile, serve_metrics};
use crate::serve::Sockets;
use crate::serve::listen::{Address, Listener};
use crate::web::{Token, WatchedStack, serve_page};

/// Those of a daemon.
pub struct Opened {
    /// `None`: the daemon is about to end. Who stops a server waits for those whom it serves, who must not need this.
    open: Mutex<Option<Open>>,
    places: Mutex<Places>,
}

struct Open {
    daemon: Arc<DaemonState>,
    control: Option<ControlServer>,
    metrics: HttpOutlet,
    file: Option<MetricsFile>,
    page: HttpOutlet,
    token: Token,
    /// The one that is good where the stack file has none.
    made: Option<Token>,
}

/// A server, and what it listens on. The server ends before that.
#[derive(Default)]
struct HttpOutlet {
    server: Option<HttpServer>,
    listeners: Vec<Listener>,
}

impl HttpOutlet {
    /// Listens there, with what `start` starts. The server that was there ends before.
    fn serve(
        &mut self,
        (wanted, sockets): (&[Address], &Sockets),
        start: impl FnOnce(&[Listener]) -> io::Result<HttpServer>,
    ) -> Result<(), String> {
        let gone = sockets.change(&mut self.listeners, wanted).map_err(|error| error.to_string())?;
        self.server = None;
        gone.into_iter().for_each(Listener::retire);
        if !self.listeners.is_empty() {
            match start(&self.listeners) {
                Ok(server) => self.server = Some(server),
                Err(error) => {
                    // Nobody is to wait for an answer there.
                    self.listeners.drain(..).for_each(Listener::retire);
                    return Err(format!("there can be no server: {error}"));
                }
            }
        }
        Ok(())
    }
}

impl Open {
    fn move_control(&mut self, wanted: Option<&Path>, sockets: &Sockets) -> Result<(), String> {
        let (Some(wanted), Some(control)) = (wanted, &mut self.control) else {
            return Err("without a control socket nobody could change anything any more".into());
        };
        control.move_to(wanted, sockets).map_err(|error| error.message)
    }

    fn tell_metrics(&mut self, wanted: &MetricsPlan, sockets: &Sockets) -> Result<(), String> {
        let daemon = &self.daemon;
        self.metrics.serve((&wanted.addresses, sockets), |listeners| serve_metrics(listeners, daemon.clone()))?;
        // The old one goes first: it takes its file with it, which may be that of the new one.
        self.file = None;
        if let Some((path, interval)) = &wanted.file {
            let file = MetricsFile::start(path.clone(), *interval, daemon.clone());
            self.file = Some(file.map_err(|error| format!("{}: {error}", path.display()))?);
        }
        Ok(())
    }

    fn show_page(&mut self, wanted: &WebPlan, sockets: &Sockets) -> Result<(), String> {
        self.token = match (&wanted.token, &self.made) {
            (Some(token), _) => Token::of(token.clone()),
            (None, Some(made)) => made.clone(),
            (None, None) => {
                let made = Token::new().map_err(|error| format!("cannot make a token: {error}"))?;
                self.made.insert(made).clone()
            }
        };
        let (daemon, token) = (&self.daemon, &self.token);
        let start =
            |listeners: &[Listener]| serve_page(listeners, token.clone(), Arc::new(WatchedStack(daemon.clone())));
        self.page.serve((&wanted.addresses, sockets), start)
    }

    fn places(&self) -> Places {
        let address = |listener: &Listener| listener.address().clone();
        Places {
            metrics: self.metrics.listeners.iter().map(address).collect(),
            web: self.page.listeners.iter().map(|listener| self.token.url(listener.address())).collect(),
        }
    }
}

impl Opened {
    /// Tells of `daemon` what and where its plan says.
    ///
    /// # Errors
    /// If it cannot.
    pub fn new(daemon: &Arc<DaemonState>, sockets: &Sockets) -> Result<Self, OutletError> {
        let plan = daemon.plan();
        let control = plan.control.as_ref().map(|path| ControlServer::start(path, sockets, daemon.clone()));
        let mut open = Open {
            daemon: daemon.clone(),
            control: control.transpose()?,
            metrics: HttpOutlet::default(),
            file: None,
            page: HttpOutlet::default(),
            token: Token::of(String::new()),
            made: None,
        };
        open.tell_metrics(&plan.metrics, sockets).map_err(OutletError::Metrics)?;
        open.show_page(&plan.web, sockets).map_err(OutletError::Page)?;
        Ok(Self { places: Mutex::new(open.places()), open: Mutex::new(Some(open)) })
    }

    fn lock(&self) -> MutexGuard<'_, Option<Open>> {
        self.open.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Outlets for Opened {
    fn places(&self) -> Places {
        self.places.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change(&self, outlet: Outlet, wanted: &Plan) -> Result<(), String> {
        let mut open = self.lock();
        let open = open.as_mut().ok_or("the daemon is about to end")?;
        let sockets = Sockets::default();
        let changed = match outlet {
            Outlet::Control => open.move_control(wanted.control.as_deref(), &sockets),
            Outlet::Metrics => open.tell_metrics(&wanted.metrics, &sockets),
            Outlet::Page => open.show_page(&wanted.web, &sockets),
        };
        *self.places.lock().unwrap_or_else(PoisonError::into_inner) = open.places();
        changed
    }

    fn close(&self) {
        let open = self.lock().take();
        drop(open);
    }
}

/// Error of telling others of a daemon.
#[derive(Debug)]
pub enum OutletError {
    /// There is no control socket.
    Control(ControlError),
    /// Metrics cannot be told as the stack file wants it.
    Metrics(String),
    /// The page cannot be shown as the stack file wants it.
    Page(String),
}

impl_error!(OutletError, Control(ControlError), |self, f| match self {
    Self::Control(error) => error.fmt(f),
    Self::Metrics(why) => write!(f, "the metrics: {why}"),
    Self::Page(why) => write!(f, "the web page: {why}"),
});
