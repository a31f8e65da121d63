//! A VFS that hands everything to the system's own, and watches, or fails, on the way.

use std::collections::BTreeMap;
use std::ffi::{CStr, CString, c_char, c_int, c_void};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use rusqlite::ffi;

use crate::proof::tempdir::Directory;

/// The system's methods of a file.
type Methods = &'static ffi::sqlite3_io_methods;

/// For each table of the system's methods, by address, a copy with some of ours.
static TABLES: Mutex<BTreeMap<usize, Methods>> = Mutex::new(BTreeMap::new());

/// The disks, by the names of their file systems.
static DISKS: Mutex<BTreeMap<String, Arc<Disk>>> = Mutex::new(BTreeMap::new());

/// The open files, by address.
static FILES: Mutex<BTreeMap<usize, OpenFile>> = Mutex::new(BTreeMap::new());

#[derive(Clone)]
struct OpenFile {
    disk: Arc<Disk>,
    path: PathBuf,
    methods: Methods,
}

/// What happens below one directory.
#[derive(Debug, Default)]
pub(super) struct Disk {
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    watching: bool,
    full: bool,
    syncs_fail: bool,
    /// Each file as it was at its last sync.
    synced: BTreeMap<PathBuf, Vec<u8>>,
    /// What was certainly there after a sync, and the file that it was of, before and after.
    points: Vec<Point>,
}

#[derive(Debug)]
struct Point {
    files: BTreeMap<PathBuf, Vec<u8>>,
    path: PathBuf,
    before: Vec<u8>,
}

/// The files as they may be after a power cut.
#[derive(Debug)]
pub(super) struct Image {
    files: BTreeMap<PathBuf, Vec<u8>>,
    path: PathBuf,
}

impl Image {
    pub(super) fn is_of_the_database(&self) -> bool {
        self.path.extension().is_some_and(|extension| extension == "db")
    }

    pub(super) fn sizes(&self) -> Vec<(&Path, usize)> {
        self.files.iter().map(|(path, bytes)| (path.as_path(), bytes.len())).collect()
    }

    pub(super) fn write_to(&self, directory: &Directory) {
        for (path, bytes) in &self.files {
            let name = path.file_name().expect("a file has a name");
            std::fs::write(directory.path().join(name), bytes).unwrap();
        }
    }
}

impl Disk {
    /// Registers a file system of this name, whose files are watched.
    pub(super) fn named(name: &str) -> Arc<Self> {
        let disk = Arc::new(Self::default());
        DISKS.lock().unwrap().insert(name.to_owned(), Arc::clone(&disk));
        let c_name = CString::new(name).unwrap();
        // SAFETY: the default file system is registered as long as the process lives. Ours is a
        // copy of it, with which the system's own methods work as with the original, because they
        // read nothing but `pAppData` and `szOsFile` from it; it and its name are leaked, so that
        // they outlive every connection.
        unsafe {
            let system = ffi::sqlite3_vfs_find(std::ptr::null());
            let mut ours = *system;
            ours.zName = c_name.into_raw();
            ours.pNext = std::ptr::null_mut();
            ours.xOpen = Some(open);
            ours.xDelete = Some(delete);
            let result = ffi::sqlite3_vfs_register(Box::into_raw(Box::new(ours)), 0);
            assert_eq!(result, ffi::SQLITE_OK);
        }
        disk
    }

    /// From here on images are made.
    pub(super) fn watch(&self) {
        self.state.lock().unwrap().watching = true;
    }

    pub(super) fn fill(&self, full: bool) {
        self.state.lock().unwrap().full = full;
    }

    pub(super) fn fail_syncs(&self, fail: bool) {
        self.state.lock().unwrap().syncs_fail = fail;
    }

    /// What the disk may have held at the syncs since the last time: whole, and torn in the middle
    /// of what was written before the sync.
    pub(super) fn take_images(&self, rng: &mut fastrand::Rng) -> Vec<Image> {
        let points = std::mem::take(&mut self.state.lock().unwrap().points);
        let mut images = Vec::new();
        for Point { files, path, before } in points {
            let mut torn = files.clone();
            let after = &files[&path];
            torn.insert(path.clone(), tear(&before, after, rng));
            images.push(Image { files: torn, path: path.clone() });
            images.push(Image { files, path });
        }
        images
    }

    fn synced(&self, path: &Path) {
        let mut state = self.state.lock().unwrap();
        let after = std::fs::read(path).unwrap_or_default();
        let before = state.synced.insert(path.to_owned(), after).unwrap_or_default();
        if state.watching {
            let (files, path) = (state.synced.clone(), path.to_owned());
            state.points.push(Point { files, path, before });
        }
    }
}

/// Some of the pages that differ were written, and one of them in part.
fn tear(before: &[u8], after: &[u8], rng: &mut fastrand::Rng) -> Vec<u8> {
    let mut torn = before.to_vec();
    let length = rng.usize(before.len().min(after.len())..=after.len().max(before.len()));
    torn.resize(length.max(before.len()), 0);
    for (number, page) in after.chunks(512).enumerate() {
        let start = number * 512;
        let end = (start + page.len()).min(torn.len());
        if start < end && rng.bool() {
            torn[start..end].copy_from_slice(&page[..end - start]);
        }
    }
    torn
}

/// # Safety
///
/// SQLite's, for `xOpen` of a file system that [`Disk::named`] made.
unsafe extern "C" fn open(
    vfs: *mut ffi::sqlite3_vfs,
    name: *const c_char,
    file: *mut ffi::sqlite3_file,
    flags: c_int,
    out_flags: *mut c_int,
) -> c_int {
    // SAFETY: the arguments go on as they came; the default file system opens with our copy of
    // itself, see `named`. After a success `file` has one of the system's tables of methods, which
    // are constants.
    unsafe {
        let system = ffi::sqlite3_vfs_find(std::ptr::null());
        let result = (*system).xOpen.expect("it has one")(vfs, name, file, flags, out_flags);
        if result != ffi::SQLITE_OK || name.is_null() {
            return result;
        }
        let methods: Methods = &*(*file).pMethods;
        let mut tables = TABLES.lock().unwrap();
        let ours = *tables.entry(std::ptr::from_ref(methods).addr()).or_insert_with(|| {
            Box::leak(Box::new(ffi::sqlite3_io_methods {
                xClose: Some(close),
                xWrite: Some(write),
                xSync: Some(sync),
                ..*methods
            }))
        });
        let path = PathBuf::from(CStr::from_ptr(name).to_str().expect("our paths are UTF-8"));
        let of = CStr::from_ptr((*vfs).zName).to_str().expect("our names are UTF-8");
        let disk = Arc::clone(&DISKS.lock().unwrap()[of]);
        FILES.lock().unwrap().insert(file.addr(), OpenFile { disk, path, methods });
        (*file).pMethods = ours;
        result
    }
}

/// # Safety
///
/// SQLite's, for `xDelete` of a file system that [`Disk::named`] made.
unsafe extern "C" fn delete(vfs: *mut ffi::sqlite3_vfs, name: *const c_char, sync: c_int) -> c_int {
    // SAFETY: the arguments go on as they came; the names end with a NUL, as SQLite's do.
    unsafe {
        let system = ffi::sqlite3_vfs_find(std::ptr::null());
        let result = (*system).xDelete.expect("it has one")(vfs, name, sync);
        let of = CStr::from_ptr((*vfs).zName).to_str().expect("our names are UTF-8");
        let path = PathBuf::from(CStr::from_ptr(name).to_str().expect("our paths are UTF-8"));
        DISKS.lock().unwrap()[of].state.lock().unwrap().synced.remove(&path);
        result
    }
}

fn open_file(file: *mut ffi::sqlite3_file) -> OpenFile {
    FILES.lock().unwrap()[&file.addr()].clone()
}

/// # Safety
///
/// SQLite's, for `xClose` of a file that [`open`] opened.
unsafe extern "C" fn close(file: *mut ffi::sqlite3_file) -> c_int {
    let of = FILES.lock().unwrap().remove(&file.addr()).expect("it is open");
    // SAFETY: the file is the system's, with these methods, but for the table that it names.
    unsafe { of.methods.xClose.expect("it has one")(file) }
}

/// # Safety
///
/// SQLite's, for `xWrite` of a file that [`open`] opened.
unsafe extern "C" fn write(
    file: *mut ffi::sqlite3_file,
    bytes: *const c_void,
    count: c_int,
    at: ffi::sqlite3_int64,
) -> c_int {
    let of = open_file(file);
    if of.disk.state.lock().unwrap().full {
        return ffi::SQLITE_FULL;
    }
    // SAFETY: the file is the system's, with these methods, but for the table that it names.
    unsafe { of.methods.xWrite.expect("it has one")(file, bytes, count, at) }
}

/// # Safety
///
/// SQLite's, for `xSync` of a file that [`open`] opened.
unsafe extern "C" fn sync(file: *mut ffi::sqlite3_file, flags: c_int) -> c_int {
    let of = open_file(file);
    if of.disk.state.lock().unwrap().syncs_fail {
        return ffi::SQLITE_IOERR_FSYNC;
    }
    // SAFETY: the file is the system's, with these methods, but for the table that it names.
    let result = unsafe { of.methods.xSync.expect("it has one")(file, flags) };
    of.disk.synced(&of.path);
    result
}
