//! A directory that goes with the test.

use std::path::{Path, PathBuf};

pub(super) struct Directory(PathBuf);

impl Directory {
    pub(super) fn new(name: &str) -> Self {
        let unique = format!("lars-durable-{name}-{}-{}", std::process::id(), fastrand::u64(..));
        let path = std::env::temp_dir().join(unique);
        std::fs::create_dir_all(&path).unwrap();
        Self(path)
    }

    pub(super) fn path(&self) -> &Path {
        &self.0
    }

    pub(super) fn file(&self) -> PathBuf {
        self.0.join("timers.db")
    }
}

impl Drop for Directory {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}
