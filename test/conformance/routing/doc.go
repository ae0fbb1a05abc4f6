// Package routing is a table of calls, evaluated twice: by package explain on generated
// configuration, and by real requests through real Envoys in one shared mesh. Both must agree with
// the table, and with each other.
//
//	testdata/*.txtar        topics: what users write, and calls with their results;
//	                        testdata/README.md says how to add one
//	testdata/mesh/          callers, and the mesh's own settings
//	table                   parses topics
//	backend                 the called servers, which answer with the request that it received
//	explained_test.go       the cases, evaluated on configuration; needs nothing
//	real_test.go            the cases, with real calls; needs namespaces and Envoy
//	judge_test.go           the comparison
//
// Start reading at testdata/README.md and explained_test.go.
package routing
