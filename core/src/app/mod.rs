//! The app file.
