//! The prompt loop: what `assize optimise` does with the decisions of the crate `assize-optimise`.
