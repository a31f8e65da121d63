//! Tasks on a rayon pool.

use std::sync::{Arc, mpsc};

use lars_bridges::rayon::RayonExecutor;
use lars_scheduler::LightArrayRevolverScheduler;

use crate::common::{PATIENCE, ms};

#[test]
fn a_rayon_pool_runs_tasks() {
    let pool = Arc::new(rayon::ThreadPoolBuilder::new().num_threads(1).build().unwrap());
    let scheduler =
        LightArrayRevolverScheduler::builder().executor(RayonExecutor::new(pool)).build().unwrap();
    let (sender, receiver) = mpsc::channel();
    let run = move || sender.send(rayon::current_thread_index()).unwrap();
    let _ = scheduler.schedule_once(ms(1), run).unwrap();
    assert_eq!(receiver.recv_timeout(PATIENCE).unwrap(), Some(0));
}
