//! Shuttles: systems on a whole scheduler, with its threads, in many random schedules. Run with
//! `ci/shuttle.sh`.

use std::time::Duration;

use lars_base::sync::{Arc, Mutex, advance, check, thread};
use lars_scheduler::{ClosePolicy, LightArrayRevolverScheduler};

use crate::debounce::Throttle;

const TICK: Duration = Duration::from_millis(1);

#[test]
fn a_call_next_to_the_trailing_edge_of_a_throttle_does_not_run_in_the_same_interval() {
    check(6_000, || {
        let scheduler = LightArrayRevolverScheduler::builder()
            .ticks_per_wheel(2)
            .pool(|pool| pool.threads(2))
            .close_policy(ClosePolicy::RunNone)
            .build()
            .unwrap();
        let ran = Arc::new(Mutex::new(Vec::new()));
        let record = Arc::clone(&ran);
        let action = move |value: u32| record.lock().push(value);
        let throttle = Throttle::new(&scheduler, TICK, action).unwrap();
        throttle.call(1).unwrap();
        throttle.call(2).unwrap();
        advance(TICK);
        // Time stands still from here on.
        (3..30).for_each(|value| throttle.call(value).unwrap());
        (0..100).for_each(|_| thread::yield_now());
        scheduler.close().unwrap();
        drop((scheduler, throttle));
        let ran = ran.lock();
        assert!(ran.iter().filter(|&&value| value > 1).count() <= 1, "{ran:?}");
    });
}
