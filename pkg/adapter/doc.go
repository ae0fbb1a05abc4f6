// Package adapter connects a platform that has services, such as a service registry or a scheduler,
// to the mesh.
//
// A [Platform] is the part that is specific to the platform: it lists and watches services and
// reports them to a [Sink]. The same Platform runs inside pilot-discovery, or in a process of its
// own that serves ServiceEntries as configuration over xDS.
//
//	platform's API ──> Platform.Watch ── Service ──> Sink ──> NewEntries ── ServiceEntry ──> mesh
//
// The model is [Service], with its [Port]s and [Instance]s. [NewEntries] converts a Service to a
// ServiceEntry. It is a pure function: equal Services have equal entries.
//
// An error of a platform never removes a service: the last known state stays in use until the
// platform reports another one. A deregistration is applied at once.
//
// The package does not depend on the control plane, so adapters outside of this repository can
// import it. Start reading with [Platform] in platform.go and [Service] in service.go.
package adapter
