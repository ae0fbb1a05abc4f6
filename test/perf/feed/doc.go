// Package feed brings a mesh and its changes to a control plane.
//
// In: edits of a workload.Mesh. Out: files renamed into a watched directory ([File]), or config
// over xDS ([XDS]): the protocol of meshConfig.configSources with an address xds://, in which this
// program is the server. Law: the clock of a change starts when it leaves this program.
//
// Start with [Feed].
package feed

import "github.com/meshpilot/meshpilot/test/perf/workload"

// Feed delivers edits that were made to a mesh.
type Feed interface {
	// Apply delivers one edit. It calls begin at the moment the edit leaves.
	Apply(e workload.Edit, begin func()) error
	Close()
}
