//! The time of the platform: std's, or in a browser the page's.
//!
//! [`Instant`] is std's everywhere except on `wasm32-unknown-unknown`, where std's cannot be made.

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
pub use self::system::*;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
pub use self::page::*;

#[cfg(all(target_family = "wasm", target_os = "unknown"))]
mod page;

#[cfg(not(all(target_family = "wasm", target_os = "unknown")))]
mod system {
    pub use std::time::Instant;
    use std::time::SystemTime;

    /// The system's time of day.
    pub fn time_of_day() -> SystemTime {
        SystemTime::now()
    }
}
