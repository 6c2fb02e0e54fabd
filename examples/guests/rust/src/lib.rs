//! Works before its first request: `wizer-initialize` makes a table of prices. Each call of
//! `handle` answers a request, whose body names an item.
//!
//! # Safety
//!
//! Owns the names of two exports, which no other symbol has.
#![allow(unsafe_code, reason = "an export has a name that must be unique")]

use std::collections::BTreeMap;
use std::io::Read;
use std::sync::Mutex;

struct State {
    price_cents: BTreeMap<String, u64>,
    requests: u32,
}

static STATE: Mutex<State> = Mutex::new(State {
    price_cents: BTreeMap::new(),
    requests: 0,
});

#[unsafe(export_name = "wizer-initialize")]
pub extern "C" fn initialise() {
    let mut state = STATE.lock().expect("no other thread");
    let prices = (0..1000).map(|i| (format!("item-{i}"), 100 + i * i % 9973));
    state.price_cents.extend(prices);
}

#[unsafe(no_mangle)]
pub extern "C" fn handle() -> i32 {
    let mut state = STATE.lock().expect("no other thread");
    state.requests += 1;
    let mut item = String::new();
    if std::io::stdin().read_to_string(&mut item).is_err() {
        return 1;
    }
    let (status, cents) = match state.price_cents.get(&item) {
        Some(cents) => (200, cents.to_string()),
        None => (404, "null".to_owned()),
    };
    println!("Status: {status}\nContent-Type: application/json\n");
    let requests = state.requests;
    println!("{{\"item\":\"{item}\",\"cents\":{cents},\"requests\":{requests}}}");
    0
}
