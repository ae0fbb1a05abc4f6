// Package base groups general-purpose packages that every program of this repository uses: logs,
// metrics and build information (obs), recovery from panics (recovery), an HTTP server with limits
// (httpserver), fetching of documents from user-supplied URLs (fetch), watching of files (watch),
// truncation of texts (truncate) and conventions of the command lines (command).
//
// It has no code of its own. Its packages do not depend on the model; they import only each other
// and, for the warnings about removed flags, model/retired.
package base
