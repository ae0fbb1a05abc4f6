// Package identity is two workloads behind real sidecars with real agents and a control plane that
// is their certificate authority: the bytes between them, which callers are admitted, and that
// nothing is lost while policies, modes and roots change.
//
//	client ── sidecar ══ mutual TLS ══> sidecar ── server, at 10.66.1.30
//	                                      ^
//	stranger (no sidecar) ────────────────|──────> and spy, which is called with mutual TLS and reports it
//
// `make test` runs everything once, `go test` leaves out the rotations; `make identity`
// rotates roots and stops the authority many times, under more requests. That changes of
// policies and modes lose nothing at 1,000 requests a second is shown by test/resilience/zeroloss.
//
// Start reading at identity_test.go, the list of scenes; mesh_test.go is where they play.
package identity
