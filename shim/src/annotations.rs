//! [`Wishes`]: the annotations of a container that narrow the policy.

use crate::policy::{Command, Server};
use crate::units::{Count, Size, Time};
use anyhow::{Context as _, Result, bail, ensure};
use std::collections::HashMap;
use std::fmt::Debug;
use std::num::NonZero;
use std::time::Duration;

/// The prefix of all annotations of the shim.
pub const PREFIX: &str = "io.pirn.";

/// The port of a server, unless an annotation or the variable `PORT` names another port.
const PORT: u16 = 8080;

/// The limits and ports that the annotations of a container ask for.
#[derive(Debug, Default, Clone, PartialEq, Eq)]
pub struct Wishes {
    memory_max: Option<usize>,
    deadline: Option<Duration>,
    slots: Option<u32>,
    port: Option<u16>,
    /// The port for health pages and metrics.
    pub admin_port: Option<u16>,
}

impl Wishes {
    /// Reads the annotations of a container.
    ///
    /// # Errors
    ///
    /// If one of the shim's annotations is unknown or has a wrong value.
    pub fn of(annotations: Option<&HashMap<String, String>>) -> Result<Self> {
        let mut wishes = Self::default();
        let all = annotations.into_iter().flatten();
        for (name, value) in all.filter(|(name, _)| name.starts_with(PREFIX)) {
            let wished = wishes.set(&name[PREFIX.len()..], value);
            wished.with_context(|| format!("annotation {name}"))?;
        }
        Ok(wishes)
    }

    fn set(&mut self, name: &str, value: &str) -> Result<()> {
        match name {
            "memory-max" => self.memory_max = Some(value.parse::<Size>()?.0),
            "deadline" => self.deadline = Some(value.parse::<Time>()?.0),
            "slots" => self.slots = Some(value.parse::<Count>()?.0),
            "port" => self.port = Some(port(value)?),
            "admin-port" => self.admin_port = Some(port(value)?),
            _ => bail!(
                "it is unknown; known are memory-max, deadline, slots, port and admin-port, each \
                 after {PREFIX}"
            ),
        }
        Ok(())
    }

    /// The limits of a command.
    ///
    /// # Errors
    ///
    /// If an annotation asks for more than the policy allows, or is for servers.
    pub fn narrow_command(&self, policy: &Command) -> Result<Command> {
        let of_servers = [
            ("slots", self.slots.is_some()),
            ("port", self.port.is_some()),
            ("admin-port", self.admin_port.is_some()),
        ];
        if let Some((name, _)) = of_servers.iter().find(|(_, is_given)| *is_given) {
            bail!("annotation {PREFIX}{name} is for servers, and this is a command; remove it");
        }
        let deadline = match (self.deadline, policy.deadline) {
            (Some(wished), Some(limit)) => Some(narrowed("deadline", Some(wished), limit)?),
            (wished, limit) => wished.or(limit),
        };
        Ok(Command {
            memory_max: narrowed("memory-max", self.memory_max, policy.memory_max)?,
            deadline,
            ..*policy
        })
    }

    /// The limits of a server.
    ///
    /// # Errors
    ///
    /// If an annotation asks for more than the policy allows.
    pub fn narrow_server(&self, policy: &Server) -> Result<Server> {
        Ok(Server {
            memory_max: narrowed("memory-max", self.memory_max, policy.memory_max)?,
            deadline: narrowed("deadline", self.deadline, policy.deadline)?,
            slots: narrowed("slots", self.slots, policy.slots)?,
            ..*policy
        })
    }

    /// The port of a server: the annotation, else the variable `PORT`, else 8080.
    ///
    /// # Errors
    ///
    /// If the variable is no port.
    pub fn port(&self, env: &[(String, String)]) -> Result<u16> {
        let variable = env.iter().rev().find(|(name, _)| name == "PORT");
        match (self.port, variable) {
            (Some(port), _) => Ok(port),
            (None, Some((_, value))) => port(value).context("variable PORT"),
            (None, None) => Ok(PORT),
        }
    }
}

fn narrowed<T: Copy + PartialOrd + Debug>(name: &str, wished: Option<T>, limit: T) -> Result<T> {
    let Some(wished) = wished else {
        return Ok(limit);
    };
    ensure!(
        wished <= limit,
        "annotation {PREFIX}{name} is {wished:?}, the policy of the node allows {limit:?}; ask for \
         less"
    );
    Ok(wished)
}

fn port(text: &str) -> Result<u16> {
    let port = text.parse::<NonZero<u16>>().ok();
    let port = port.with_context(|| format!("{text:?} is no port; write a number from 1 to 65535"));
    Ok(port?.get())
}
