//! What is made ahead of its box: keepers, and directories.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// How many are kept ready: with one, each start that follows another at once would wait.
const LEAST: usize = 2;
/// The most that are kept ready after a rush: a keeper holds about 0.4 MB with its blank box.
const MOST: usize = 6;

/// Things of one kind that wait for a box.
#[derive(Debug)]
pub(crate) struct Stock<T> {
    held: Mutex<Held<T>>,
    /// Held by whoever makes more: two would not see each other's, and make too many.
    making: Mutex<()>,
}

#[derive(Debug)]
struct Held<T> {
    /// The longest waiting first: a keeper that was just forked is still at work.
    ready: VecDeque<T>,
    wanted: usize,
}

impl<T> Stock<T> {
    pub(crate) fn new() -> Self {
        let held = Held { ready: VecDeque::new(), wanted: LEAST };
        Self { held: Mutex::new(held), making: Mutex::new(()) }
    }

    fn held(&self) -> MutexGuard<'_, Held<T>> {
        self.held.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The first that is still good; others before it are let go. Without any, more are wanted from
    /// now on.
    pub(crate) fn take(&self, is_good: impl Fn(&T) -> bool) -> Option<T> {
        let mut held = self.held();
        while let Some(one) = held.ready.pop_front() {
            if is_good(&one) {
                return Some(one);
            }
        }
        held.wanted = (held.wanted + 1).min(MOST);
        None
    }

    /// Whether none is ready.
    pub(crate) fn is_empty(&self) -> bool {
        self.held().ready.is_empty()
    }

    /// Makes as many as are wanted, unless somebody is at it. The first failure ends it: a box that
    /// then makes its own fails in the same way, and tells.
    ///
    /// # Errors
    /// That of `make`.
    pub(crate) fn fill<E>(&self, make: impl Fn() -> Result<T, E>) -> Result<(), E> {
        let Ok(_making) = self.making.try_lock() else { return Ok(()) };
        loop {
            {
                let held = self.held();
                if held.ready.len() >= held.wanted {
                    return Ok(());
                }
            }
            // Without the lock: nobody who only takes one waits for this.
            let one = make()?;
            self.held().ready.push_back(one);
        }
    }

    /// Lets go of those that are more than is usual.
    pub(crate) fn calm_down(&self) {
        let surplus = {
            let mut held = self.held();
            held.wanted = LEAST;
            let keep = held.ready.len().min(LEAST);
            held.ready.split_off(keep)
        };
        drop(surplus);
    }

    /// Lets go of all: they have become out of date.
    pub(crate) fn clear(&self) {
        let all = std::mem::take(&mut self.held().ready);
        drop(all);
    }
}

#[cfg(test)]
mod tests {
    use std::convert::Infallible;
    use std::sync::Arc;
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::sync::mpsc;

    use super::*;

    fn count(stock: &Stock<usize>) -> usize {
        stock.held().ready.len()
    }

    fn fill(stock: &Stock<usize>) {
        let number = AtomicUsize::new(0);
        let Ok(()) = stock.fill(|| Ok::<_, Infallible>(number.fetch_add(1, Ordering::Relaxed)));
    }

    #[test]
    fn what_is_no_good_is_passed_over_and_a_rush_wants_more() {
        let stock = Stock::new();
        fill(&stock);
        assert_eq!(count(&stock), LEAST);
        assert_eq!(stock.take(|one| *one > 0), Some(1));
        assert!(stock.is_empty());
        for _ in 0..10 {
            assert_eq!(stock.take(|_| true), None);
        }
        fill(&stock);
        assert_eq!(count(&stock), MOST);
        stock.calm_down();
        assert_eq!(count(&stock), LEAST);
        assert_eq!(stock.take(|_| true), Some(0), "the longest waiting stay");
        stock.clear();
        assert!(stock.is_empty());
    }

    #[test]
    fn only_one_makes_more_at_a_time() {
        let stock = Arc::new(Stock::new());
        let (begun, has_begun) = mpsc::channel();
        let (go, may_go) = mpsc::channel::<()>();
        let slow = Arc::clone(&stock);
        let maker = std::thread::spawn(move || {
            let may_go = Mutex::new(may_go);
            slow.fill(|| {
                begun.send(()).unwrap();
                // Ends with the test, too.
                may_go.lock().unwrap().recv().ok();
                Ok::<_, Infallible>(7)
            })
        });
        has_begun.recv().unwrap();
        // As each of a hundred births that end at once would.
        for _ in 0..100 {
            fill(&stock);
        }
        assert!(stock.is_empty(), "the others leave it to who is at it");
        drop(go);
        let Ok(()) = maker.join().unwrap();
        assert_eq!(count(&stock), LEAST);
    }

    #[test]
    fn a_failure_ends_it() {
        let stock = Stock::<usize>::new();
        assert_eq!(stock.fill(|| Err("no")), Err("no"));
        fill(&stock);
        assert_eq!(count(&stock), LEAST, "and the next goes on");
    }
}
