//! Guards of data that tests take away, to show that they notice.
//!
//! Without the feature `sabotage`, which only tests turn on, all of them stand, and the compiler knows that.

#[cfg(not(feature = "sabotage"))]
use core::marker::PhantomData;

/// The guards of one device. `S` says which are gone; its default is that none is.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Guards<S> {
    #[cfg(feature = "sabotage")]
    gone: S,
    #[cfg(not(feature = "sabotage"))]
    gone: PhantomData<S>,
}

impl<S: Copy + Default> Guards<S> {
    /// All but those.
    #[cfg(feature = "sabotage")]
    pub fn without(gone: S) -> Self {
        Self { gone }
    }

    /// Those that are gone.
    #[cfg(feature = "sabotage")]
    pub fn gone(self) -> S {
        self.gone
    }

    /// None is gone.
    #[cfg(not(feature = "sabotage"))]
    pub fn gone(self) -> S {
        let Self { gone: PhantomData } = self;
        S::default()
    }
}
