// Package retired contains the table of flags, kinds, fields and annotations that Istio has removed,
// including fields of MeshConfig, each with its successor.
//
// It provides the table, lookups in it ([KindOf], [FieldOf], [AnnotationOf]) and a page of
// documentation ([Page]). It is pure data and imports no other package of this module. A field in
// the table is not in today's API, and every field name that the API reserves is in the table; the
// tests check both.
//
// The readers are the command lines (internal/base/command, internal/agent/command), the decoder of
// objects (internal/model/config/decode), the validation of metadata (internal/model/config) and of the mesh
// configuration (internal/model/mesh). Whatever a user still has is thereby reported with its successor:
// in a Problem, by the validation webhook, or in a warning at start. Stored objects of retired kinds,
// which the control plane does not watch, are found by pilotctl (internal/diagnostics/cli).
// docs/RETIRED.md is this table as a page.
//
// Start with flag.go and object.go.
package retired
