//! The app file: `app.jadpo` read and checked into a [`Program`](crate::program::Program).
