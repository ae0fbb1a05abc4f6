// Package static builds snapshots from objects alone, without sources and without a network.
//
// The inputs are events about objects and settings. The outputs are the snapshots that a control
// plane with default settings would have: a [Mesh] has the filters, the converters and the Builder
// of internal/discovery. Comparisons of manifests, the analysis of files and tests use it.
//
// Start reading with [New].
package static
