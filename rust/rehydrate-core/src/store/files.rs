//! The files of a store: the truth, SQLite's log, and the folder of indexes.
use std::fs::{DirBuilder, File, OpenOptions};
use std::hash::BuildHasher;
use std::io;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

/// The file that a name means.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Identity {
    #[cfg(unix)]
    node: (u64, u64),
    /// Numbers of files that are gone are given to new ones.
    made: Option<SystemTime>,
}

impl Identity {
    pub fn of(path: &Path) -> io::Result<Self> {
        let data = path.metadata()?;
        Ok(Self {
            #[cfg(unix)]
            node: (std::os::unix::fs::MetadataExt::dev(&data), std::os::unix::fs::MetadataExt::ino(&data)),
            made: data.created().ok(),
        })
    }
}

/// Make a folder, and those above it, for its owner alone.
pub(super) fn make_folder(folder: &Path) -> io::Result<()> {
    let mut builder = DirBuilder::new();
    builder.recursive(true);
    #[cfg(unix)]
    std::os::unix::fs::DirBuilderExt::mode(&mut builder, 0o700);
    builder.create(folder)
}

/// Whether something other than a file is there: opening a pipe waits for somebody at its other end.
pub(super) fn is_special(path: &Path) -> bool {
    path.metadata().is_ok_and(|data| !data.is_file())
}

/// Let the owner use what the owner may not, and no one else. A link's target is not ours.
pub(super) fn allow_owner(path: &Path) {
    #[cfg(unix)]
    if !path.is_symlink() {
        let mode = std::os::unix::fs::PermissionsExt::from_mode(0o700);
        let _ = std::fs::set_permissions(path, mode);
    }
    #[cfg(not(unix))]
    let _ = path;
}

/// Options for a file that only its owner may read.
pub(super) fn private(options: &mut OpenOptions) -> &mut OpenOptions {
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(options, 0o600);
    options
}

/// Have the disk know of new and renamed files.
pub(super) fn sync_folder(folder: &Path) -> io::Result<()> {
    #[cfg(unix)]
    File::open(folder)?.sync_all()?;
    Ok(())
}

/// The file whose name ends in `ending`, next to the one that `path` names or, if it is a link, leads to: as for SQLite,
/// there is one such file whatever link leads to a store.
pub(super) fn sibling(path: &Path, ending: &str) -> PathBuf {
    let mut name = path.canonicalize().unwrap_or_else(|_| path.to_path_buf()).into_os_string();
    name.push(ending);
    name.into()
}

/// Whether SQLite's log holds anything.
pub(super) fn has_log(path: &Path) -> bool {
    sibling(path, "-wal").metadata().is_ok_and(|data| data.len() > 0)
}

/// SQLite's name for a file that does not change.
pub(super) fn immutable_uri(path: &Path) -> String {
    let mut uri = String::from("file:");
    for byte in path.to_string_lossy().bytes() {
        match byte {
            b'/' | b'-' | b'_' | b'.' | b'~' => uri.push(char::from(byte)),
            _ if byte.is_ascii_alphanumeric() => uri.push(char::from(byte)),
            _ => uri.push_str(&format!("%{byte:02X}")),
        }
    }
    uri + "?mode=ro&immutable=1"
}

/// 64 bits that no other thread, call or process has.
pub(super) fn random() -> u64 {
    static CALLS: AtomicU64 = AtomicU64::new(0);
    let call = CALLS.fetch_add(1, Ordering::Relaxed);
    // A forked process has its parent's keys and count.
    std::hash::RandomState::new().hash_one((call, std::process::id(), SystemTime::now()))
}
