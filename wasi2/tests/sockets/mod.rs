//! `wasi:sockets`, as a guest uses it: `tests/guests/sockets`.

pub(crate) mod guest;
mod policy;
mod tcp;
mod udp;

use pirn_wasi2::{Access, Network};

/// Everything on the loopback addresses, and names.
fn loopback() -> Network {
    let all = [
        Access::TcpConnect,
        Access::TcpListen,
        Access::UdpSend,
        Access::UdpBind,
    ];
    let network = Network::none().allow_lookups();
    all.iter().fold(network, |network, access| {
        network.allow_loopback(*access, ..)
    })
}
