// Package authorization is a table of calls and of the verdicts of access policies on them,
// evaluated twice:
// by package explain on generated configuration, and by a real Envoy with the same configuration,
// over real mutual TLS with SPIFFE identities. Both must agree with the table, which follows
// Istio's documentation and not their output, and name the same rule as the reason.
//
//	testdata/*.txtar   scenes: a mesh, its workloads and policies, and calls; testdata/README.md says how to add one
//	case_test.go       the types of a scene
//	scene_test.go      its configuration, and its calls in the form of package explain
//	envoy_test.go      one Envoy for all workloads of all scenes; secrets_test.go, backend_test.go and authorizer_test.go
//	                   are the servers around it
//	call_test.go       a real call
//	judge_test.go      the comparison
//
// Start reading at testdata/README.md and policies_test.go.
package authorization
