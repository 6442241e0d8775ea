//! The object store of a run.

use super::RunObjects;
use anyhow::{Context, bail};
use sheaf_config::{Config, ObjectCheck};
use sheaf_s3::transfer::upload;
use sheaf_s3::{Client, ObjectError, Secrets, Settings, Uploader, Verification};
use sheaf_store::event_file::ClosedFile;
use sheaf_store::run::MANIFEST_NAME;
use sheaf_store::upload::Uploads;
use sheaf_telemetry::log_as;
use std::path::Path;
use std::thread::sleep;
use std::time::Duration;

/// The end of a run tries each request so often, with a pause that doubles from the second on.
const ATTEMPTS: u32 = 5;
const FIRST_PAUSE: Duration = Duration::from_millis(500);

/// The object store of a run, and which one that is.
pub(super) struct Store {
    settings: Settings,
    secrets: Secrets,
    client: Client,
    /// Prefix of the names of its objects, after the common prefix: the name of the run directory.
    run: String,
}

impl Store {
    pub(super) fn open(config: &Config) -> anyhow::Result<Self> {
        let store = &config.object_store;
        let settings = Settings {
            endpoint: store.endpoint.clone().context("`object_store.endpoint` is not set")?,
            bucket: store.bucket.clone().context("`object_store.bucket` is not set")?,
            prefix: store.prefix.clone().unwrap_or_default(),
            region: store.region.clone(),
            path_style: store.path_style,
            part: store.part,
            connections: store.connections as usize,
            timeout: store.timeout,
            verification: match store.verify {
                ObjectCheck::Checksum => Verification::Checksum,
                ObjectCheck::Read => Verification::Read,
            },
            authorities: store.authorities.clone(),
        };
        let secrets = Secrets::from_environment()?;
        let client = Client::new(settings.clone(), secrets.clone())?;
        Ok(Self { settings, secrets, client, run: crate::run_paths::name_of(config) })
    }

    fn key(&self, file: &str) -> String {
        self.client.key(&format!("{}/{file}", self.run))
    }
}

impl RunObjects for Store {
    fn begin(&self, directory: &Path, may_replace: bool) -> anyhow::Result<()> {
        let key = self.key(MANIFEST_NAME);
        if !may_replace && self.client.head(&key)?.is_some() {
            bail!(
                "the object store already has {}; choose another run.number or object_store.prefix, or set run.overwrite",
                self.client.address(&key)
            );
        }
        // The first upload shows whether the bucket exists, is writable, and keeps checksums.
        let sent = upload(&self.client, &directory.join(MANIFEST_NAME), &key, None, &|| false);
        if sent.is_err()
            && let Err(error) = self.client.delete(&key)
        {
            log::debug!("a run that does not begin may have left {}: {error}", self.client.address(&key));
        }
        sent?;
        Ok(())
    }

    fn uploads(&self, directory: &Path) -> anyhow::Result<Box<dyn Uploads>> {
        let client = Client::new(self.settings.clone(), self.secrets.clone())?;
        let uploader =
            Uploader::start(client, directory, &self.run).context("cannot start a thread that uploads")?;
        Ok(Box::new(uploader))
    }

    fn settle(&self, directory: &Path, files: &mut [ClosedFile], removed: &[String]) -> anyhow::Result<()> {
        for file in files.iter_mut().filter(|file| file.object.is_none()) {
            let key = self.key(&file.file);
            let path = directory.join(&file.file);
            patiently(|| upload(&self.client, &path, &key, file.crc32c, &|| false))?;
            file.object = Some(self.client.address(&key));
        }
        for file in removed {
            patiently(|| self.client.delete(&self.key(file)))?;
        }
        Ok(())
    }

    fn put_manifest(&self, directory: &Path) -> anyhow::Result<()> {
        let key = self.key(MANIFEST_NAME);
        patiently(|| upload(&self.client, &directory.join(MANIFEST_NAME), &key, None, &|| false))?;
        Ok(())
    }
}

/// Retries errors that may be temporary, up to a limit: a run must end.
fn patiently<T>(mut attempt: impl FnMut() -> Result<T, ObjectError>) -> Result<T, ObjectError> {
    let mut pause = FIRST_PAUSE;
    for _ in 1..ATTEMPTS {
        match attempt() {
            Err(error) if error.is_passing() => log_as!(OBJECT_STORE_FAILING; "{error}; it is retried"),
            done => return done,
        }
        sleep(pause);
        pause *= 2;
    }
    attempt()
}
