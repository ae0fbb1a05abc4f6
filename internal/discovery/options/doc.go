// Package options has the settings of a control plane that flags and environment variables select.
//
// Output: [Options], whose sub-structs belong to the packages that use them. [Defaults] returns the
// settings of a control plane without flags, and [Options.Validate] an error that names every
// invalid flag or variable.
//
// Start with [Options] in options.go. validate.go checks them; kubernetes.go derives from them
// which kinds are read from which API server.
package options
