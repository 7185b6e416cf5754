//! Certificates and keys, from files to what OpenSSL wants.

use std::fmt::Display;
use std::fs;
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};

use openssl::asn1::Asn1Time;
use openssl::error::ErrorStack;
use openssl::ssl::{
    SslContext, SslContextBuilder, SslFiletype, SslMethod, SslOptions, SslSessionCacheMode, SslVerifyMode, SslVersion,
};
use openssl::x509::store::X509Lookup;
use openssl::x509::verify::X509VerifyFlags;
use openssl::x509::{X509, X509NameRef};
use shingle_core::impl_error;

use super::keys::SharedKeys;

const CERTIFICATE: &str = "server-cert.pem";
const KEY: &str = "server-key.pem";
const AUTHORITIES: &str = "ca-cert.pem";
const REVOKED: &str = "ca-crl.pem";
/// How long before the end of a certificate its owner is told.
const SOON_DAYS: u32 = 14;

/// Where a server has its certificates and keys, and what it wants of clients.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct TlsFiles {
    /// A directory: `server-cert.pem` and `server-key.pem`; `ca-cert.pem` and, if there is one, `ca-crl.pem` for those of clients.
    pub certificates: Option<PathBuf>,
    /// Whether clients need a certificate, too.
    pub verify_clients: bool,
    /// Keys that server and client share, as lines of `NAME:HEXADECIMAL`.
    pub shared_keys: Option<PathBuf>,
}

/// What is wrong with TLS: of the server's files, or of a client.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsError(pub(super) String);

impl_error!(TlsError, |self, f| f.write_str(&self.0));

/// What tells a file from the one that was there before.
pub(super) type Stamp = Vec<Option<(u64, u64, i64, i64)>>;

impl TlsFiles {
    fn paths(&self) -> impl Iterator<Item = PathBuf> {
        let inside = |directory: &PathBuf| [CERTIFICATE, KEY, AUTHORITIES, REVOKED].map(|name| directory.join(name));
        self.certificates.iter().flat_map(inside).chain(self.shared_keys.clone())
    }

    /// Which files these are now.
    pub(super) fn stamp(&self) -> Stamp {
        let stamp =
            |path| fs::metadata(path).ok().map(|file| (file.ino(), file.len(), file.mtime(), file.mtime_nsec()));
        self.paths().map(stamp).collect()
    }

    /// Path of the list of revoked certificates if it was there `before` and is gone `now`.
    pub(super) fn lost_revocations(&self, before: &Stamp, now: &Stamp) -> Option<PathBuf> {
        let directory = self.certificates.as_ref().filter(|_| self.verify_clients)?;
        let path = directory.join(REVOKED);
        let place = self.paths().position(|other| other == path)?;
        (before[place].is_some() && now[place].is_none()).then_some(path)
    }

    /// What OpenSSL makes of them.
    ///
    /// # Errors
    /// If a file is missing, is not what it should be, or lets others see a key.
    pub(super) fn load(&self) -> Result<SslContext, TlsError> {
        let mut context = plain_context().map_err(|error| TlsError(reason(&error)))?;
        if let Some(directory) = &self.certificates {
            load_own(&mut context, directory)?;
            if self.verify_clients {
                load_authorities(&mut context, directory)?;
            }
        }
        if let Some(path) = &self.shared_keys {
            SharedKeys::read(path)?.install(&mut context);
        }
        Ok(context.build())
    }
}

/// TLS 1.2 and 1.3 with forward secrecy, each connection for itself: who comes again is looked at again, by the certificates of then.
fn plain_context() -> Result<SslContextBuilder, ErrorStack> {
    let mut context = SslContextBuilder::new(SslMethod::tls_server())?;
    context.set_min_proto_version(Some(SslVersion::TLS1_2))?;
    // Who records a connection of TLS 1.2 must not be able to read it with a key that the server loses later.
    context.set_cipher_list("DEFAULT:!kRSA:!kPSK:!kRSAPSK")?;
    // With a shared key only ciphers with SHA-256 can be had: ChaCha20, at a tenth of the rate, would come before this one. A client that wants that
    // most gets it: its processor has no AES.
    context.set_ciphersuites("TLS_AES_128_GCM_SHA256:TLS_AES_256_GCM_SHA384:TLS_CHACHA20_POLY1305_SHA256")?;
    let order = SslOptions::CIPHER_SERVER_PREFERENCE | SslOptions::PRIORITIZE_CHACHA;
    context.set_options(order | SslOptions::NO_TICKET | SslOptions::NO_RENEGOTIATION);
    context.set_session_cache_mode(SslSessionCacheMode::OFF);
    context.set_num_tickets(0)?;
    context.set_session_id_context(b"shingle")?;
    Ok(context)
}

fn load_own(context: &mut SslContextBuilder, directory: &Path) -> Result<(), TlsError> {
    let (certificate, key) = (directory.join(CERTIFICATE), directory.join(KEY));
    keep_private(&key)?;
    about(&certificate, context.set_certificate_chain_file(&certificate))?;
    about(&key, context.set_private_key_file(&key, SslFiletype::PEM))?;
    about(&key, context.check_private_key())?;
    let pem = about(&certificate, fs::read(&certificate))?;
    warn_of_end(&certificate, &about(&certificate, X509::from_pem(&pem))?);
    Ok(())
}

fn load_authorities(context: &mut SslContextBuilder, directory: &Path) -> Result<(), TlsError> {
    let (authorities, revoked) = (directory.join(AUTHORITIES), directory.join(REVOKED));
    about(&authorities, context.set_ca_file(&authorities))?;
    let pem = about(&authorities, fs::read(&authorities))?;
    for authority in about(&authorities, X509::stack_from_pem(&pem))? {
        about(&authorities, context.add_client_ca(&authority))?;
    }
    if revoked.exists() {
        let store = context.cert_store_mut();
        let lookup = about(&revoked, store.add_lookup(X509Lookup::file()))?;
        about(&revoked, lookup.load_crl_file(&revoked, SslFiletype::PEM))?;
        about(&revoked, store.set_flags(X509VerifyFlags::CRL_CHECK))?;
    }
    context.set_verify(SslVerifyMode::PEER | SslVerifyMode::FAIL_IF_NO_PEER_CERT);
    Ok(())
}

fn warn_of_end(path: &Path, certificate: &X509) {
    let ends = certificate.not_after();
    if Asn1Time::days_from_now(SOON_DAYS).is_ok_and(|soon| *ends < *soon) {
        tracing::warn!("{}: the certificate ends at {ends}: replace it, which takes no restart", path.display());
    }
}

/// Who may read a key is who the server says it is.
pub(super) fn keep_private(path: &Path) -> Result<(), TlsError> {
    let mode = about(path, fs::metadata(path))?.permissions().mode();
    if mode & 0o007 == 0 {
        return Ok(());
    }
    Err(TlsError(format!("{}: everybody on this machine may use this key: chmod 600", path.display())))
}

pub(super) fn about<T, E: Display>(path: &Path, result: Result<T, E>) -> Result<T, TlsError> {
    result.map_err(|error| TlsError(format!("{}: {}", path.display(), error.to_string().trim_end())))
}

/// The cause that a list of errors ends with.
pub(super) fn reason(errors: &ErrorStack) -> String {
    let last = errors.errors().last();
    last.and_then(openssl::error::Error::reason).map_or_else(|| errors.to_string(), str::to_owned)
}

/// Whom a certificate is about: the names of machines, and the common name.
pub(super) fn names_of(certificate: &X509) -> Vec<String> {
    let machines = certificate.subject_alt_names().into_iter().flatten();
    let machines: Vec<String> = machines.filter_map(|name| Some(name.dnsname()?.to_owned())).collect();
    common_name(certificate.subject_name()).into_iter().chain(machines).collect()
}

fn common_name(subject: &X509NameRef) -> Option<String> {
    let name = subject.entries_by_nid(openssl::nid::Nid::COMMONNAME).last()?;
    name.data().to_string().ok()
}
