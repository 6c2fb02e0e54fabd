//! `wasi:io/poll`: pollables, and the wait for them.

use crate::limits::RESOURCES_MAX;
use crate::table::{Resource, Table, resource_type};
use crate::wasi::{View, Wasi};
use pirn_component::{Borrow, HostFuture, LinkError, Linker, Own, ResourceType, State};
use pirn_runtime::HostError;
use std::future::{Future, poll_fn};
use std::pin::Pin;
use std::task::{Context, Poll, Waker};
use std::time::Instant;
use tokio::time::{Sleep, sleep_until};

const POLL: &str = "wasi:io/poll@0.2.12";

/// An event that a guest can wait for: the resource type `pollable`.
pub(crate) enum Pollable {
    /// The event has happened.
    Ready,
    /// Ready when the parent resource is ready.
    OfParent,
    /// Ready from a point in time.
    Until {
        when: Instant,
        timer: Option<Pin<Box<Sleep>>>,
    },
}

impl Pollable {
    /// A pollable that is ready from a point in time.
    pub(crate) fn until(when: Instant) -> Self {
        Self::Until { when, timer: None }
    }
}

resource_type!(Pollable, POLL, "pollable");

impl Resource for Pollable {
    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<()> {
        match self {
            Self::Ready | Self::OfParent => Poll::Ready(()),
            Self::Until { when, .. } if Instant::now() >= *when => Poll::Ready(()),
            Self::Until { when, timer } => {
                let made = || Box::pin(sleep_until((*when).into()));
                timer.get_or_insert_with(made).as_mut().poll(context)
            }
        }
    }
}

/// Whether a pollable is ready. If not, wakes the task of the context when it becomes ready.
fn poll_one(
    table: &mut Table,
    number: u32,
    context: &mut Context<'_>,
) -> Result<Poll<()>, HostError> {
    if matches!(table.get::<Pollable>(number)?, Pollable::OfParent)
        && let Some(parent) = table.parent(number)?
    {
        return table.poll(parent, context);
    }
    table.poll(number, context)
}

/// Waits until a resource is ready.
pub(crate) async fn ready(wasi: &mut Wasi, number: u32) -> Result<(), HostError> {
    poll_fn(|context| match wasi.table.poll(number, context) {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(())) => Poll::Ready(Ok(())),
        Err(error) => Poll::Ready(Err(error)),
    })
    .await
}

/// Makes a pollable that is ready when the resource `parent` is ready.
pub(crate) fn subscribe(table: &mut Table, parent: u32) -> Result<Own<Pollable>, HostError> {
    table.own_child(parent, Pollable::OfParent)
}

fn poll_all(
    table: &mut Table,
    all: &[u32],
    context: &mut Context<'_>,
) -> Result<Vec<u32>, HostError> {
    let mut ready = vec![];
    for (at, number) in (0..).zip(all) {
        if poll_one(table, *number, context)?.is_ready() {
            ready.push(at);
        }
    }
    Ok(ready)
}

fn wait<T: View>(state: &mut State<T>, all: Vec<u32>) -> HostFuture<'_, Vec<u32>> {
    Box::pin(async move {
        if all.is_empty() {
            return Err(HostError::message(
                "poll of no pollables would wait forever",
            ));
        }
        // Each wake-up polls the whole list, so bound its length. A guest cannot have more
        // resources than this, so a longer list contains a pollable twice.
        if all.len() > RESOURCES_MAX {
            let found = all.len();
            return Err(HostError::message(format!(
                "poll of {found} pollables, at most {RESOURCES_MAX} are allowed"
            )));
        }
        let table = &mut state.data_mut().wasi().table;
        poll_fn(|context| match poll_all(table, &all, context) {
            Ok(ready) if ready.is_empty() => Poll::Pending,
            result => Poll::Ready(result),
        })
        .await
    })
}

pub(crate) fn link<T: View>(linker: &mut Linker<T>) -> Result<(), LinkError> {
    type This = Borrow<Pollable>;
    linker.resource(POLL, Pollable::NAME, |state, pollable| {
        state
            .data_mut()
            .wasi()
            .table
            .remove(pollable.rep())
            .map(drop)
    })?;
    linker.func(POLL, "[method]pollable.ready", |state, (this,): (This,)| {
        let table = &mut state.data_mut().wasi().table;
        let mut context = Context::from_waker(Waker::noop());
        Ok(poll_one(table, this.rep(), &mut context)?.is_ready())
    })?;
    linker.func_async(POLL, "[method]pollable.block", |state, (this,): (This,)| {
        Box::pin(async move { wait(state, vec![this.rep()]).await.map(drop) })
    })?;
    linker.func_async(POLL, "poll", |state, (all,): (Vec<This>,)| {
        wait(state, all.iter().map(Borrow::rep).collect())
    })?;
    Ok(())
}
