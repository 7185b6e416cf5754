//! Everything unsafe is here.
