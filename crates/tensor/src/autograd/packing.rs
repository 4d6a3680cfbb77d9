//! Hooks on saved tensors: what they make of a tensor is kept in its place, and turned back when backward needs it.

use crate::{Error, Result, Tensor};
use std::cell::{Cell, RefCell};
use std::sync::Arc;

/// A pair of hooks, as seen when a tensor is saved.
pub trait SavedTensorHooks: Send + Sync {
    /// What to keep instead of the tensor. Runs without recording.
    ///
    /// # Errors
    /// The hook's own.
    fn pack(&self, tensor: &Tensor) -> Result<Box<dyn PackedTensor>>;
}

/// What a hook made of a tensor.
pub trait PackedTensor: Send + Sync {
    /// The tensor again.
    ///
    /// # Errors
    /// The hook's own.
    fn unpack(&self) -> Result<Tensor>;
}

thread_local! {
    /// Whether the stack holds anything: all that saving reads while nobody uses hooks.
    static ACTIVE: Cell<bool> = const { Cell::new(false) };
    static STACK: RefCell<Vec<Arc<dyn SavedTensorHooks>>> = const { RefCell::new(Vec::new()) };
    static DISABLED: RefCell<Option<String>> = const { RefCell::new(None) };
}

/// Whether hooks are in force on this thread.
#[inline(always)]
pub(crate) fn is_active() -> bool {
    ACTIVE.get()
}

/// The hooks in force.
pub(crate) fn current() -> Option<Arc<dyn SavedTensorHooks>> {
    STACK.with_borrow(|s| s.last().cloned())
}

/// Tensors that this thread saves pass through `hooks` from now on, until [`pop_saved_tensor_hooks`].
///
/// # Errors
/// When hooks are disabled.
pub fn push_saved_tensor_hooks(hooks: Arc<dyn SavedTensorHooks>) -> Result<()> {
    if let Some(why) = saved_tensor_hooks_disabled() {
        return Err(Error::runtime(why));
    }
    STACK.with_borrow_mut(|s| s.push(hooks));
    ACTIVE.set(true);
    Ok(())
}

/// Takes the hooks pushed last off, if there are any.
pub fn pop_saved_tensor_hooks() {
    let last = STACK.with_borrow_mut(|s| {
        let last = s.pop();
        ACTIVE.set(!s.is_empty());
        last
    });
    drop(last);
}

/// Makes pushing hooks on this thread an error that says why, or allows it again.
///
/// # Errors
/// When hooks are in force that would be disabled.
pub fn disable_saved_tensor_hooks(why: Option<String>) -> Result<()> {
    match why {
        Some(why) if is_active() => Err(Error::runtime(why)),
        why => {
            DISABLED.set(why);
            Ok(())
        }
    }
}

/// Why hooks are disabled on this thread.
pub fn saved_tensor_hooks_disabled() -> Option<String> {
    DISABLED.with_borrow(Clone::clone)
}
