//! Empty: this package only locks its dependencies.
