//! A link that misbehaves: a TCP proxy of the loopback that splits what it passes on, holds it back,
//! goes deaf in one direction, and cuts.

use std::io::{ErrorKind, Read as _, Write as _};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, Weak};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::Dice;

/// How long bytes may be held back. No test waits for it: it only shifts what meets what.
const HOLD: Duration = Duration::from_millis(3);

/// A proxy. Dropping it cuts every connection.
#[derive(Debug)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<Shared>,
    accepting: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    upstream: SocketAddr,
    seed: u64,
    /// A connection is cut after at most twice as many bytes; 0: never.
    bytes: AtomicU64,
    cuts: AtomicU64,
    is_over: AtomicBool,
    /// Both ends of every connection that lives.
    open: Mutex<Vec<Weak<TcpStream>>>,
}

impl Proxy {
    /// A proxy to `upstream`. Faults are drawn from the seed; on average a connection carries `bytes`
    /// bytes before it is cut, and none is cut with 0.
    ///
    /// # Panics
    /// If no port is free.
    #[must_use]
    pub fn new(upstream: SocketAddr, seed: u64, bytes: u64) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared {
            upstream,
            seed,
            bytes: bytes.into(),
            cuts: AtomicU64::new(0),
            is_over: AtomicBool::new(false),
            open: Mutex::default(),
        });
        let of_thread = Arc::clone(&shared);
        let accepting = std::thread::spawn(move || accept(&listener, &of_thread));
        Self { address, shared, accepting: Some(accepting) }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// How often it has cut a connection.
    #[must_use]
    pub fn cuts(&self) -> u64 {
        self.shared.cuts.load(Ordering::Relaxed)
    }

    /// From now on it cuts none by itself.
    pub fn calm_down(&self) {
        self.shared.bytes.store(0, Ordering::Relaxed);
    }

    /// Cuts every connection.
    ///
    /// # Panics
    /// If one of its threads has panicked.
    pub fn cut(&self) {
        for stream in self.shared.open.lock().unwrap().drain(..).filter_map(|it| it.upgrade()) {
            drop(stream.shutdown(Shutdown::Both));
        }
    }
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Relaxed);
        // Wakes the thread that accepts.
        drop(TcpStream::connect(self.address));
        if let Some(thread) = self.accepting.take() {
            drop(thread.join());
        }
        self.cut();
    }
}

fn accept(listener: &TcpListener, shared: &Arc<Shared>) {
    for n in 0.. {
        let Ok((near, _)) = listener.accept() else { return };
        if shared.is_over.load(Ordering::Relaxed) {
            return;
        }
        let Ok(far) = TcpStream::connect(shared.upstream) else { continue };
        let (near, far) = (Arc::new(near), Arc::new(far));
        let mut open = shared.open.lock().unwrap();
        open.retain(|stream| stream.strong_count() > 0);
        open.extend([Arc::downgrade(&near), Arc::downgrade(&far)]);
        drop(open);
        let mut dice = Dice::new(shared.seed ^ (n << 32));
        let budget = match shared.bytes.load(Ordering::Relaxed) {
            0 => u64::MAX,
            bytes => 1 + dice.below(2 * bytes),
        };
        // One in thirty-two is deaf in one direction before it is cut; it may have to be found out by
        // the silence.
        let deaf = [dice.below(32) == 0, dice.below(2) == 0];
        let link =
            Arc::new(Link { left: AtomicU64::new(budget), deaf, shared: Arc::clone(shared) });
        for (direction, from, to) in [(0, &near, &far), (1, &far, &near)] {
            let (from, to) = (Arc::clone(from), Arc::clone(to));
            let (link, dice) = (Arc::clone(&link), Dice::new(dice.below(u64::MAX) + direction));
            drop(std::thread::spawn(move || link.pass(direction, &from, &to, dice)));
        }
    }
}

/// One connection.
struct Link {
    /// How many bytes it may still carry, both ways.
    left: AtomicU64,
    /// Whether it goes deaf first, and in which direction.
    deaf: [bool; 2],
    shared: Arc<Shared>,
}

impl Link {
    fn pass(&self, direction: u64, mut from: &TcpStream, mut to: &TcpStream, mut dice: Dice) {
        let mut buffer = vec![0; 16 << 10];
        drop(to.set_nodelay(true));
        loop {
            let wanted = 1 + usize::try_from(dice.below(buffer.len() as u64)).unwrap();
            let mut have = match from.read(&mut buffer[..wanted]) {
                Ok(0) | Err(_) => break,
                Ok(have) => have,
            };
            if dice.below(8) == 0 && have < wanted {
                drop(from.set_read_timeout(Some(HOLD)));
                have += match from.read(&mut buffer[have..wanted]) {
                    Ok(more) => more,
                    Err(error) if error.kind() == ErrorKind::WouldBlock => 0,
                    Err(_) => break,
                };
                drop(from.set_read_timeout(None));
            }
            let left = self.left.fetch_update(Ordering::AcqRel, Ordering::Acquire, |left| {
                Some(if left == u64::MAX { left } else { left.saturating_sub(have as u64) })
            });
            let left = left.unwrap_or_default();
            let [goes_deaf, which] = self.deaf;
            if goes_deaf && left < 20_000 && u64::from(which) == direction {
                // Nothing of this direction arrives any more, while the other one goes on.
                if left == 0 {
                    self.cut(from, to);
                    return;
                }
                continue;
            }
            let have = usize::try_from(left.min(have as u64)).unwrap();
            let mut pieces = &buffer[..have];
            while !pieces.is_empty() {
                let piece = 1 + usize::try_from(dice.below(pieces.len() as u64)).unwrap();
                if to.write_all(&pieces[..piece]).is_err() {
                    break;
                }
                pieces = &pieces[piece..];
            }
            if left <= have as u64 {
                self.cut(from, to);
                return;
            }
        }
        drop(from.shutdown(Shutdown::Both));
        drop(to.shutdown(Shutdown::Both));
    }

    fn cut(&self, from: &TcpStream, to: &TcpStream) {
        self.shared.cuts.fetch_add(1, Ordering::Relaxed);
        drop(from.shutdown(Shutdown::Both));
        drop(to.shutdown(Shutdown::Both));
    }
}
