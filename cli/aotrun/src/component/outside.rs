//! [`Outside`]: the servers and addresses that the options allow a component to use.

use crate::args::Args;
use anyhow::{Context, Result, bail};
use pirn_wasi2::http::{Allowed, Client};
use pirn_wasi2::{Network, WasiBuilder};

/// The servers and addresses that a component may use.
pub(crate) struct Outside {
    /// `None` if no server is allowed.
    servers: Option<Allowed>,
    network: Network,
}

impl Outside {
    /// Checks the options.
    pub(crate) fn of(args: &Args) -> Result<Self> {
        let mut servers = None;
        for text in &args.http_allow {
            let allowed = servers.get_or_insert_with(Allowed::default);
            allowed.add(text).context("--http-allow")?;
        }
        let mut rules = args.net_allow.iter();
        let network = rules.try_fold(Network::none(), |all, text| all.allow_text(text));
        let network = network.context("--net-allow")?;
        Ok(Self { servers, network })
    }

    /// Refuses the options for a core module, which would ignore them.
    pub(crate) fn refuse(args: &Args) -> Result<()> {
        let program = args.program.display();
        let given = [
            ("--http-allow", &args.http_allow),
            ("--net-allow", &args.net_allow),
        ];
        match given.into_iter().find(|(_, values)| !values.is_empty()) {
            Some((option, _)) => {
                bail!("{program} is a core module, and {option} is for components; remove it")
            }
            None => Ok(()),
        }
    }

    /// Adds the servers and addresses to a WASI context.
    pub(crate) fn add_to(self, wasi: WasiBuilder) -> WasiBuilder {
        let wasi = wasi.network(self.network);
        match self.servers {
            Some(servers) => wasi.outgoing(Client::new(servers)),
            None => wasi,
        }
    }
}
