mod arena;
mod broken;
mod ring;
mod world;

/// Runs `work` on a thread of another user. `None`, with the reason, where this process may not become one.
pub(crate) fn as_another_user<T: Send + 'static>(work: impl FnOnce() -> T + Send + 'static) -> Option<T> {
    let nobody = rustix::process::Uid::from_raw(65_534);
    let thread = std::thread::spawn(move || {
        // Of this thread alone, as the kernel sees it.
        rustix::thread::set_thread_uid(nobody).map(|()| work())
    });
    match thread.join().expect("the thread does not panic") {
        Ok(result) => Some(result),
        Err(error) => {
            println!("skipped: this process cannot become another user: {error}");
            None
        }
    }
}
