// Package base groups what every program of this repository needs and what no other project would
// recognize as part of a service mesh: logs and build information (obs), recovery from panics
// (recovery), an HTTP server with bounds (httpserver), fetching of documents from addresses that
// users write (fetch), watching of files (watch), bounded texts (truncate) and the conventions of
// the command lines (command).
//
// It has no code of its own. Its packages know nothing of the model; they import only each other
// and, for the warnings about removed flags, model/retired.
package base
