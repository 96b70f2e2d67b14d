// Threads, a map, a caught panic, a child process.
use std::collections::HashMap;
use std::process::Command;
use std::thread;

fn main() {
    let handles: Vec<_> = (0..4u64)
        .map(|t| {
            thread::spawn(move || {
                let mut map = HashMap::new();
                for i in 0..20_000u64 {
                    map.insert(i, vec![t; (i % 50) as usize]);
                }
                map.values().map(|v| v.len() as u64).sum::<u64>()
            })
        })
        .collect();
    let total: u64 = handles.into_iter().map(|h| h.join().unwrap()).sum();
    std::panic::set_hook(Box::new(|_| {}));
    let caught = std::panic::catch_unwind(|| panic!("on purpose")).is_err();
    let child = Command::new("/bin/echo").arg("child").output().unwrap();
    println!("{} {} {}", total, caught, String::from_utf8_lossy(&child.stdout).trim());
    std::process::exit(std::env::args().count() as i32 - 1);
}
