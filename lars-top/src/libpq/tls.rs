//! Which connections are encrypted, and which certificates count: `sslmode`, and the files beside
//! it, as libpq reads them.

use std::path::{Path, PathBuf};

use rustls::client::WebPkiServerVerifier;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls12_signature, verify_tls13_signature};
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, Error, RootCertStore, SignatureScheme,
};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::{Parameters, Surroundings, get, take as take_one};
use crate::sync::Arc;

const MODES: [&str; 5] = ["disable", "prefer", "require", "verify-ca", "verify-full"];

/// What the parameters say of TLS, which the driver knows less of: it stays with them whether
/// connections are encrypted.
pub(super) fn take(
    parameters: &mut Parameters,
    around: &Surroundings,
) -> Result<MakeRustlsConnect, String> {
    let mode = take_one(parameters, "sslmode").unwrap_or_else(|| "prefer".to_owned());
    if !MODES.contains(&&*mode) {
        return Err(format!("sslmode is {mode:?}, but it must be one of {}", MODES.join(", ")));
    }
    let mut file = |name: &str, at_home: &str| {
        let default = || around.at_home(at_home).filter(|file| file.exists());
        take_one(parameters, name).map(PathBuf::from).or_else(default)
    };
    let roots = file("sslrootcert", ".postgresql/root.crt");
    let certificate = file("sslcert", ".postgresql/postgresql.crt");
    let key = file("sslkey", ".postgresql/postgresql.key");
    // The driver wants to know whose certificate it has to be.
    if get(parameters, "host").is_none()
        && let Some(address) = get(parameters, "hostaddr").map(str::to_owned)
    {
        parameters.push(("host".to_owned(), address));
    }
    // Nothing is encrypted on a socket of this machine, and nothing has to be.
    let hosts = get(parameters, "host").unwrap_or("");
    let sockets = hosts.split(',').all(|host| host.starts_with('/'));
    let known = match &*mode {
        "disable" | "prefer" if !sockets => &*mode,
        _ if sockets => "disable",
        _ => "require",
    };
    parameters.push(("sslmode".to_owned(), known.to_owned()));

    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let chain = match &*mode {
        "verify-ca" | "verify-full" | "require" if !sockets => match &roots {
            Some(roots) => Some(trusted(roots, &provider)?),
            None if mode == "require" => None,
            None => return Err(format!("sslmode is {mode}, but sslrootcert names no file")),
        },
        _ => None,
    };
    let checks = Checks { chain, name: mode == "verify-full", provider: Arc::clone(&provider) };
    let config = ClientConfig::builder_with_provider(provider);
    let config = config.with_safe_default_protocol_versions().map_err(|error| error.to_string())?;
    let config = config.dangerous().with_custom_certificate_verifier(Arc::new(checks));
    let Some(certificate) = certificate.filter(|_| known != "disable") else {
        return Ok(MakeRustlsConnect::new(config.with_no_client_auth()));
    };
    let key = key.ok_or_else(|| "sslcert is given, but sslkey names no file".to_owned())?;
    let of_key = PrivateKeyDer::from_pem_file(&key).map_err(|error| wrong(&key, &error))?;
    let config = config.with_client_auth_cert(certificates(&certificate)?, of_key);
    Ok(MakeRustlsConnect::new(config.map_err(|error| wrong(&certificate, &error))?))
}

fn wrong(file: &Path, error: &dyn std::fmt::Display) -> String {
    format!("{}: {error}", file.display())
}

fn certificates(file: &Path) -> Result<Vec<CertificateDer<'static>>, String> {
    let read = CertificateDer::pem_file_iter(file).and_then(Iterator::collect::<Result<Vec<_>, _>>);
    match read {
        Ok(none) if none.is_empty() => Err(format!("{}: it has no certificate", file.display())),
        read => read.map_err(|error| wrong(file, &error)),
    }
}

/// Knows what one of these has signed.
fn trusted(
    roots: &Path,
    provider: &Arc<CryptoProvider>,
) -> Result<Arc<WebPkiServerVerifier>, String> {
    if roots == Path::new("system") {
        return Err("sslrootcert is \"system\", but it must name a file".to_owned());
    }
    let mut store = RootCertStore::empty();
    for root in certificates(roots)? {
        store.add(root).map_err(|error| wrong(roots, &error))?;
    }
    let known = WebPkiServerVerifier::builder_with_provider(Arc::new(store), Arc::clone(provider));
    known.build().map_err(|error| wrong(roots, &error))
}

/// How a server shows who it is.
#[derive(Debug)]
struct Checks {
    /// Whoever these know; anybody, if it is `None`.
    chain: Option<Arc<WebPkiServerVerifier>>,
    /// Its certificate has to be for the host that was asked for.
    name: bool,
    provider: Arc<CryptoProvider>,
}

impl ServerCertVerifier for Checks {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        let Some(chain) = &self.chain else { return Ok(ServerCertVerified::assertion()) };
        let (names, ocsp) = (server_name, ocsp_response);
        match chain.verify_server_cert(end_entity, intermediates, names, ocsp, now) {
            // The name is what is looked at last.
            Err(Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            )) if !self.name => Ok(ServerCertVerified::assertion()),
            verified => verified,
        }
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls12_signature(message, certificate, signature, known)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let known = &self.provider.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signature, known)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.provider.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
mod tests {
    use super::super::{complete, joined};
    use super::*;

    fn taken(given: &str) -> Result<String, String> {
        let around = Surroundings { variable: Box::new(|_| None) };
        let mut parameters = complete(given, "test", &around).unwrap();
        take(&mut parameters, &around)?;
        Ok(joined(&parameters))
    }

    #[test]
    fn what_the_driver_does_not_know_is_taken_from_it() {
        for (given, known) in [
            ("", "prefer"),
            ("sslmode=prefer", "prefer"),
            ("sslmode=disable", "disable"),
            ("sslmode=require", "require"),
        ] {
            let taken = taken(&format!("host=db {given}")).unwrap();
            assert!(taken.ends_with(&format!(" sslmode='{known}'")), "{given}: {taken}");
        }
        let taken_there = taken("hostaddr=10.0.0.1").unwrap();
        assert!(taken_there.ends_with(" host='10.0.0.1' sslmode='prefer'"), "{taken_there}");
        // libpq ignores it on sockets, files and all.
        let sockets = "host=/a,/b sslmode=verify-full sslrootcert=/none sslcert=/none";
        let taken = taken(sockets).unwrap();
        assert!(taken.ends_with("sslmode='disable'") && !taken.contains("none"), "{taken}");
    }

    #[test]
    fn what_is_wrong_with_tls_is_named() {
        for (given, says) in [
            ("sslmode=allow", "sslmode is \"allow\", but it must be one of disable, prefer,"),
            ("sslmode=verify-full", "sslmode is verify-full, but sslrootcert names no file"),
            ("sslmode=verify-ca sslrootcert=/nowhere/roots", "/nowhere/roots: "),
            ("sslmode=verify-full sslrootcert=system", "but it must name a file"),
            ("sslmode=verify-ca sslrootcert=/dev/null", "/dev/null: it has no certificate"),
            ("sslcert=/nowhere/own", "sslkey names no file"),
            ("sslcert=/nowhere/own sslkey=/nowhere/key", "/nowhere/key: "),
        ] {
            let error = taken(&format!("host=db {given}")).unwrap_err();
            assert!(error.contains(says), "{given}: {error}");
        }
    }
}
