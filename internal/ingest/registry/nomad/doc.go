// Package nomad reads the services that Nomad's own service discovery has (provider = "nomad"), by
// its documented HTTP interface.
//
// The inputs are the answers to GET /v1/services and GET /v1/service/NAME, which list all
// registrations, and the events of topic Service of GET /v1/event/stream, which name the services
// to read again. The outputs are adapter.Services: [Platform] is an adapter.Platform.
//
//	Nomad ── lists ───> client.go ──> parse.go ──> scope.go: known ───> platform.go ──> Sink
//	      ── events ──>                            services                 |
//	                                                                  service.go: conversion
//
// Invariants: an error removes nothing. A registration is removed if a later answer of the same
// servers lacks it. Servers whose index is lower than before, or that list none of the known
// registrations, may have lost their data: then what they do not list is held (scope.go).
//
// Start reading with [Platform.Watch] in platform.go.
package nomad
