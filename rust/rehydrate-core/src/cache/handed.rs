//! A thread's cache that is handed on. A helper's thread ends with the call that it helps; the next one begins with what it
//! leaves.
use std::cell::RefCell;
use std::sync::Mutex;
use std::thread::LocalKey;

/// A thread's cache, and the one that the last helper left. Nobody waits for it, as a fork may happen while another thread
/// has it.
pub(crate) struct Handed<T: 'static> {
    own: &'static LocalKey<RefCell<T>>,
    left: Mutex<Option<T>>,
}

impl<T: Default> Handed<T> {
    pub const fn new(own: &'static LocalKey<RefCell<T>>) -> Self {
        Self { own, left: Mutex::new(None) }
    }

    /// Begin with what the last helper left.
    pub fn take_over(&self) {
        if let Some(left) = self.left.try_lock().ok().and_then(|mut left| left.take()) {
            self.own.set(left);
        }
    }

    /// Forget this thread's, and what the last helper left.
    pub fn forget(&self) {
        self.own.take();
        if let Ok(mut left) = self.left.try_lock() {
            *left = None;
        }
    }

    /// Leave it to the next helper.
    pub fn leave(&self) {
        if let Ok(mut left) = self.left.try_lock() {
            *left = Some(self.own.take());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    thread_local!(static OWN: RefCell<Vec<u32>> = const { RefCell::new(Vec::new()) });
    static HANDED_TO: Handed<Vec<u32>> = Handed::new(&OWN);

    #[test]
    fn a_helper_goes_on_with_what_the_last_one_left_unless_it_is_forgotten() {
        let help = |word: u32| {
            std::thread::scope(|scope| {
                let helper = scope.spawn(move || {
                    HANDED_TO.take_over();
                    OWN.with_borrow_mut(|words| words.push(word));
                    let known = OWN.with_borrow(Vec::clone);
                    HANDED_TO.leave();
                    known
                });
                helper.join().unwrap()
            })
        };
        assert_eq!((help(1), help(2)), (vec![1], vec![1, 2]));
        HANDED_TO.forget();
        assert_eq!(help(2), [2]);
        let _busy = HANDED_TO.left.lock().unwrap();
        assert_eq!(help(3), [3], "nobody waits");
    }
}
