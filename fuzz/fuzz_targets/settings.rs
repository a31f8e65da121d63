//! Settings: any value is accepted or refused by an error that names it, and what is accepted
//! works.
#![no_main]

use std::time::Duration;

use lars_scheduler::{ConfigError, LightArrayRevolverScheduler};
use lars_scheduler_fuzz::count;
use libfuzzer_sys::fuzz_target;

const HOUR: Duration = Duration::from_secs(3600);

fuzz_target!(|bytes: &[u8]| {
    let mut bytes = bytes.iter().copied();
    let mut number = |most: u32| {
        let shift = u32::from(bytes.next().unwrap_or(0)) % most;
        let value = [(); 3].map(|()| bytes.next().unwrap_or(0));
        u64::from_be_bytes([0, 0, 0, 0, 1, value[0], value[1], value[2]]) << shift >> 24
    };
    let (tick, coalesce) = (Duration::from_nanos(number(63)), Duration::from_nanos(number(63)));
    let wheel = number(30) as usize;
    let (limit, pool) = (number(40) as usize, number(30) as usize);
    let name: String = (0..number(6) % 20).map(|_| (number(20) % 128) as u8 as char).collect();
    let built = LightArrayRevolverScheduler::builder()
        .tick_duration(tick)
        .coalesce(coalesce)
        .ticks_per_wheel(wheel)
        .max_pending(limit)
        .pool(|options| options.threads(pool))
        .thread_name(name.as_str())
        .build_virtual();
    count(1);
    match built {
        Ok(time) => {
            assert!(tick >= Duration::from_nanos(1) && tick <= HOUR && coalesce <= HOUR);
            assert!(wheel.is_power_of_two() && (2..=65_536).contains(&wheel));
            assert!(limit > 0 && pool > 0 && !name.contains('\0'));
            let timer = time.schedule_once(tick / 2 + Duration::from_nanos(1), || ());
            let _ = timer.expect("there is room for one");
            assert_eq!(time.advance(tick * 2), 1);
        }
        Err(error) => {
            let text = error.to_string();
            let named = match error {
                ConfigError::TickDuration { given, .. } => {
                    given == tick && (tick.is_zero() || tick > HOUR)
                }
                ConfigError::Coalesce { given, .. } => given == coalesce && coalesce > HOUR,
                ConfigError::TicksPerWheel { given, min, max } => {
                    given == wheel && (!wheel.is_power_of_two() || wheel < min || wheel > max)
                }
                ConfigError::MaxPending { given } => given == limit && limit == 0,
                ConfigError::PoolThreads { given, max } => {
                    given == pool && (pool == 0 || pool > max)
                }
                ConfigError::ThreadName { given } => given == name && name.contains('\0'),
                _ => false,
            };
            assert!(named, "{text}");
        }
    }
});
