//! The exports as NBD shows them.

use std::sync::Arc;

use shingle_core::frontend::nbd;

use super::Nbd;
use super::keys::most_connections;
use crate::serve::{ClaimError, Directory, Export, User};
use crate::tls::TlsServer;

/// What the clients of a listener choose from, and the homes that they may end up in: one of each shard.
#[derive(Clone)]
pub(super) struct Offer {
    pub directory: Directory,
    pub homes: Arc<[Nbd]>,
    pub tls: Option<Arc<TlsServer>>,
}

impl Offer {
    /// What there is, for a session.
    pub fn exports(&self) -> Arc<nbd::Exports> {
        // They went together when they were added, and do so with some of them less.
        Arc::new(show(&self.directory.exports()).unwrap_or_default())
    }

    /// The home of an export that the client of this name has chosen, and a place among its users.
    pub fn claim(&self, chosen: &nbd::Export, client: &str) -> Result<(Nbd, User), ClaimError> {
        let key = |name: &str, device, read_only| (name.to_owned(), device, read_only);
        let wanted = key(&chosen.name, chosen.device, chosen.read_only);
        let is_it = |export: &Export| key(&export.name, export.device, export.is_read_only()) == wanted;
        let most = |export: &Export| most_connections(export).unwrap_or(usize::MAX);
        let (export, user) = self.directory.claim(is_it, most, client)?;
        Ok((self.homes.get(export.shard).ok_or(ClaimError::Gone)?.clone(), user))
    }
}

/// What clients see of exports.
///
/// # Errors
/// If they do not go together.
pub(super) fn show<'a>(exports: impl IntoIterator<Item = &'a Export>) -> Result<nbd::Exports, nbd::ExportsError> {
    nbd::Exports::new(exports.into_iter().map(|export| {
        let Export { name, description, device, limits, asked_read_only, .. } = export;
        let most = most_connections(export);
        // Several connections of one client may change the order of their writes, which zones do not forgive.
        let several = limits.zoned.is_none() && most != Some(1);
        nbd::Export::new(name.as_str(), *device, limits)
            .with_description(description.as_str())
            .with_read_only(*asked_read_only)
            .with_multi_conn(several)
            .with_admission(most.is_some())
    }))
}

#[cfg(test)]
mod tests {
    use shingle_core::block::{DeviceId, Limits};

    use super::*;

    fn offer(exports: Vec<Export>) -> Offer {
        let directory = Directory::default();
        exports.into_iter().for_each(|export| directory.add(export).unwrap());
        Offer { directory, homes: Arc::new([]), tls: None }
    }

    #[test]
    fn an_export_of_a_device_that_changed_keeps_what_was_asked_for_and_takes_the_rest_from_the_device() {
        let (device, small) = (DeviceId(3), Limits { read_only: true, ..Limits::new(2048) });
        let new = |name: &str| Export::new(name, device, &small);
        let asked = Export { description: "words".into(), asked_read_only: true, ..new("a") };
        let elsewhere = Export { shard: 1, ..new("c") };
        let offer = offer(vec![asked, new("b"), elsewhere]);
        offer.directory.refresh(0, device, &Limits::new(4096));
        let shown = offer.exports();
        let [a, b, c] = shown.list() else { panic!("{shown:?}") };
        let grown = |name: &str| nbd::Export::new(name, device, &Limits::new(4096)).with_multi_conn(true);
        assert_eq!(**a, grown("a").with_description("words").with_read_only(true));
        assert_eq!(**b, grown("b"));
        assert_eq!(**c, nbd::Export::new("c", device, &small).with_multi_conn(true), "it is of another shard");
    }

    #[test]
    fn export_for_one_connection_offers_no_second_one_and_names_its_client() {
        let keys = serde_json::json!({"max-connections": 1});
        let front_ends: [std::sync::Arc<dyn crate::serve::FrontEnd>; 1] = [(crate::serve::nbd::TYPE.read_listen)(
            &mut crate::fields::Fields::new("[listen]".into(), 0..0, &toml::de::DeTable::new(), &mut Vec::new()),
        )];
        let keys = crate::serve::ExportKeys::of_values(&front_ends, keys.as_object().unwrap()).unwrap();
        let limited = Export { keys, ..Export::new("a", DeviceId(3), &Limits::new(2048)) };
        let directory = Directory::default();
        directory.add(limited).unwrap();
        let offer = Offer { directory, homes: Arc::new([]), tls: None };
        let shown = offer.exports().list()[0].clone();
        assert_eq!((shown.multi_conn, shown.by_admission), (false, true));
        let claim = |name| offer.directory.claim(|_| true, |export| most_connections(export).unwrap(), name);
        let (_, holder) = claim("the first").unwrap();
        let why = offer.claim(&shown, "the second").err().unwrap().to_string();
        assert_eq!(why, "export `a` takes one connection at a time, and the first has it: end that first");
        drop(holder);
        assert!(claim("the second").is_ok());
    }

    #[test]
    fn who_chose_an_export_that_is_another_one_now_gets_none() {
        let (device, limits) = (DeviceId(3), Limits::new(2048));
        let offer = offer(vec![Export::new("a", device, &limits)]);
        let chosen = offer.exports().list()[0].clone();
        offer.directory.remove("a").unwrap();
        offer.directory.add(Export { asked_read_only: true, ..Export::new("a", device, &limits) }).unwrap();
        assert_eq!(offer.claim(&chosen, "c").err(), Some(ClaimError::Gone));
    }
}
