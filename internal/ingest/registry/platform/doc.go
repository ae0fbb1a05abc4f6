// Package platform runs an adapter.Platform, such as the client of a service registry, as a
// registry within the control plane (ADR 44).
//
// The input is a Platform, which reports services. The outputs are events about ServiceEntries,
// which the converter registry/serviceentry turns into services and endpoints with the platform as
// their provider, and Problems of services that cannot be read or converted.
//
//	Platform.Watch ─> adapter.Follower ─ changes ─> Registry ─ ServiceEntries, Problems ─> pipeline
//
// Invariants: an error removes nothing, and many instances are not removed because a server that
// was reconnected lists none (adapter.Follower). A service that cannot be converted keeps its last
// valid ServiceEntry.
//
// Start reading with [Registry.Run]. To add a platform, see the checklist in CONTRIBUTING.md.
package platform
